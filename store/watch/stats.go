package watch

import (
	"context"
	"errors"

	"github.com/drover-fleet/drover/store"
)

// Kind is what a watcher watches.
type Kind int

// The kinds of watchers.
const (
	KindKey    Kind = iota // one key
	KindPrefix             // all keys with a prefix
	KindRange              // any other range
	Kinds      int  = iota // how many there are
)

func (k Kind) String() string { return [...]string{"key", "prefix", "range"}[k] }

// Reason is why a watcher ended, or did not begin, where its caller did not ask for that.
type Reason int

// The reasons.
const (
	ReasonSlow       Reason = iota // its buffer was full
	ReasonCompacted                // what it wanted next is gone
	ReasonOtherEpoch               // what it wanted next is of another history
	ReasonAhead                    // what it wanted next is not there yet
	ReasonFailed                   // history could not be read
	Reasons          int    = iota // how many there are
)

func (r Reason) String() string {
	return [...]string{"slow", "compacted", "other_epoch", "ahead", "failed"}[r]
}

// Load is what the watchers of one kind hold.
type Load struct {
	Live, Behind  int    // fed by Publish; reading history
	Events, Bytes int    // buffered by all of them
	Lag           uint64 // revisions that the one furthest back has yet to take
}

// Stats are of one moment, save Ended, which counts from the beginning.
type Stats struct {
	Load  [Kinds]Load
	Ended [Reasons]uint64
}

// Stats looks at every watcher. Publish waits only while they are listed.
func (h *Hub) Stats() Stats {
	h.mu.Lock()
	newest := h.newest
	all := make([]*Watcher, 0, len(h.all))
	for w := range h.all {
		all = append(all, w)
	}
	h.mu.Unlock()
	var s Stats
	for _, w := range all {
		w.addTo(&s.Load[kindOf(&w.req)], newest)
	}
	for i := range h.ended {
		s.Ended[i] = h.ended[i].Load()
	}
	return s
}

func kindOf(r *store.WatchRequest) Kind {
	switch {
	case r.End == "":
		return KindKey
	case isPrefix(r):
		return KindPrefix
	}
	return KindRange
}

func (w *Watcher) addTo(l *Load, newest store.Revision) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l.Events += w.events
	l.Bytes += w.bytes
	wants := newest + 1
	switch {
	case w.live:
		l.Live++
	default:
		l.Behind++
		wants = w.next
	}
	if len(w.queue) > 0 {
		wants = w.queue[0].Revision
	}
	if wants <= newest {
		l.Lag = max(l.Lag, uint64(newest-wants)+1)
	}
}

// count notes why a watcher ended; what its caller asked for is not counted.
func (h *Hub) count(err error) {
	switch {
	case errors.Is(err, store.ErrClosed), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
	case errors.Is(err, store.ErrSlow):
		h.ended[ReasonSlow].Add(1)
	case errors.Is(err, store.ErrCompacted):
		h.ended[ReasonCompacted].Add(1)
	case errors.Is(err, store.ErrOtherEpoch):
		h.ended[ReasonOtherEpoch].Add(1)
	case errors.Is(err, store.ErrAhead):
		h.ended[ReasonAhead].Add(1)
	default:
		h.ended[ReasonFailed].Add(1)
	}
}
