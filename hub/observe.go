package hub

import (
	"slices"
	"sync"
	"time"

	"github.com/drover-fleet/drover/consensus"
)

// observer lets the member see what its part of the log does.
func (h *Hub) observer() *consensus.Observer {
	return &consensus.Observer{
		LogSynced: func(took time.Duration, _ int, _ int64) { h.syncs.note(took) },
	}
}

// syncWindow is how many of the last writes to the log the percentile is of.
const syncWindow = 1024

// syncTimes are the durations of the last writes to the log.
type syncTimes struct {
	mu   sync.Mutex
	ring [syncWindow]time.Duration // guarded by mu
	n    int                       // noted so far; guarded by mu
}

func (s *syncTimes) note(took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ring[s.n%syncWindow] = took
	s.n++
}

// p99 is 0 while there was none.
func (s *syncTimes) p99() time.Duration {
	s.mu.Lock()
	last := slices.Clone(s.ring[:min(s.n, syncWindow)])
	s.mu.Unlock()
	if len(last) == 0 {
		return 0
	}
	slices.Sort(last)
	return last[(len(last)-1)*99/100]
}
