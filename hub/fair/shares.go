package fair

import (
	"sync"

	"github.com/drover-fleet/drover/api/fault"
)

// Shares divides a number of things that last. It is safe for concurrent use.
type Shares struct {
	what    string
	total   int
	each    int
	refused func(reason string)

	mu   sync.Mutex // guards below
	used int
	held map[string]int
}

// NewShares divides total things, called what in refusals, at most each to one identity. refused may be nil.
func NewShares(what string, total, each int, refused func(reason string)) *Shares {
	if refused == nil {
		refused = func(string) {}
	}
	return &Shares{what: what, total: total, each: each, refused: refused, held: map[string]int{}}
}

// Take takes one, or says fault.TooManyRequests. release gives it back, once.
func (s *Shares) Take(identity string) (release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.used >= s.total:
		err = fault.SlowDown(retryAfter(), "this member serves %d %s already", s.used, s.what)
	case s.held[identity] >= s.each:
		err = fault.SlowDown(retryAfter(), "you have %d %s open at this member already: close some, or share one", s.held[identity], s.what)
	default:
		s.used++
		s.held[identity]++
		return sync.OnceFunc(func() { s.release(identity) }), nil
	}
	s.refused(ReasonShare)
	return nil, err
}

func (s *Shares) release(identity string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used--
	if s.held[identity]--; s.held[identity] == 0 {
		delete(s.held, identity)
	}
}

// Used is how many are taken.
func (s *Shares) Used() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}
