package chaos

import (
	"fmt"
	"sync"
	"time"

	"github.com/drover-fleet/drover/store"
	"github.com/drover-fleet/drover/test/history"
)

// record is what everybody saw, on one clock.
type record struct {
	began time.Time

	mu          sync.Mutex // guards below
	ops         []history.Op
	sets        []history.SetRead
	streams     []history.Stream
	sightings   []history.Sighting
	broken      []history.Violation
	compacted   store.Revision // highest that a compaction asked for
	compactions int            // asked for
	counts      map[history.Outcome]int
	lastDone    time.Duration // newest acknowledged write
	longest     time.Duration // between two of them
}

func newRecord() *record {
	return &record{began: time.Now(), counts: map[history.Outcome]int{}}
}

func (r *record) now() time.Duration { return time.Since(r.began) }

func (r *record) op(all ...history.Op) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops = append(r.ops, all...)
	r.counts[all[0].Outcome]++
	if o := &all[0]; o.Outcome == history.Done && o.Kind != history.Read {
		r.longest = max(r.longest, o.Return-r.lastDone)
		r.lastDone = max(r.lastDone, o.Return)
	}
}

func (r *record) set(s history.SetRead) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sets = append(r.sets, s)
}

func (r *record) saw(s history.Sighting) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sightings = append(r.sightings, s)
}

// stream ends a watch's record.
func (r *record) stream(s *history.Stream) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.Compacted = r.compacted
	r.streams = append(r.streams, *s)
}

func (r *record) compacting(to store.Revision) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.compacted = max(r.compacted, to)
	r.compactions++
}

// breach records what no history shows.
func (r *record) breach(check, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.broken = append(r.broken, history.Violation{Check: check, What: fmt.Sprintf(format, args...)})
}

func (r *record) tally() (done, refused, unknown, failed int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts[history.Done], r.counts[history.Refused], r.counts[history.Unknown], r.counts[history.Failed]
}
