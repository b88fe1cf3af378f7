package main

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/drover-fleet/drover/agent/state"
)

// sessions numbers the device's sessions: a number is on disk before it is used, so none is used twice.
type sessions struct {
	mu   sync.Mutex
	file *state.File
	last uint64
	read bool
}

func newSessions(dir string) *sessions { return &sessions{file: state.NewFile(dir, "session", 8)} }

// next gives a number above the last and above the given one, which is what a hub has seen when the file was lost.
func (s *sessions) next(above uint64) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.read {
		l, err := s.file.Load()
		if err != nil {
			return max(s.last, above) + 1, err
		}
		if len(l.Payload) == 8 {
			s.last = binary.BigEndian.Uint64(l.Payload)
		}
		if l.Origin == state.Previous {
			s.last++ // the lost copy had the next one
		}
		s.read = true
	}
	s.last = max(s.last, above) + 1
	if err := s.file.Save(binary.BigEndian.AppendUint64(nil, s.last)); err != nil {
		return s.last, fmt.Errorf("session number: %w", err)
	}
	return s.last, nil
}
