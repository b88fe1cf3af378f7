package sim

import (
	"context"
	"errors"
	"time"

	"github.com/drover-fleet/drover/store"
	"github.com/drover-fleet/drover/store/watch"
	"github.com/drover-fleet/drover/test/history"
)

const (
	watchLook = 150 * time.Millisecond // mean between two looks of a client at its watch
	progress  = 5 * time.Second
)

// watching is a client's watch of a prefix: it lists, watches, and resumes at some member when its connection breaks.
type watching struct {
	c      *user
	prefix string
	ended  []history.Stream

	stream  *history.Stream
	at      *member
	life    int
	in      *watch.Watcher
	from    store.Revision // to resume from; zero: list first
	resumes bool
	breakAt time.Duration
}

func newWatching(c *user) *watching {
	x := &watching{c: c, prefix: []string{"k/", "set/", ""}[c.id%3]}
	x.later()
	return x
}

func (x *watching) later() { x.c.w.after(x.c.w.about(watchLook), x.look) }

func (x *watching) all() []history.Stream {
	x.end()
	return x.ended
}

func (x *watching) look() {
	defer x.later()
	if x.in == nil {
		x.begin()
		return
	}
	m := x.at
	if !m.up || m.life != x.life || !x.reachable(m) || x.c.w.now >= x.breakAt {
		x.end()
		return
	}
	if m.stalled {
		return
	}
	for {
		b, ok, err := x.in.Try(context.Background())
		if err != nil {
			x.end()
			if errors.Is(err, store.ErrCompacted) || errors.Is(err, store.ErrOtherEpoch) {
				x.from = 0
			}
			return
		}
		if !ok {
			return
		}
		x.take(b)
	}
}

func (x *watching) reachable(m *member) bool {
	return x.c.w.net.open(m.name, x.c.name) && x.c.w.net.open(x.c.name, m.name)
}

func (x *watching) take(b store.Batch) {
	out := history.Batch{Member: x.at.name, Revision: b.Revision}
	for i := range b.Events {
		e := &b.Events[i]
		s := history.Seen{Revision: e.KV.ModRevision, Key: e.KV.Key, Value: brief(e.KV.Value), Deleted: e.Type == store.OpDelete}
		if e.Prev != nil {
			s.Prev, s.HasPrev = brief(e.Prev.Value), true
		}
		out.Events = append(out.Events, s)
	}
	x.stream.Batches = append(x.stream.Batches, out)
	x.from, x.resumes = b.Revision+1, true
}

// begin opens a watch at some member: from where the last one ended, or from a list.
func (x *watching) begin() {
	w := x.c.w
	m := w.members[w.rng.IntN(len(w.members))]
	if !m.up || m.stalled || !x.reachable(m) {
		return
	}
	end := store.PrefixEnd(x.prefix)
	if x.from == 0 {
		r, err := m.store.Range(context.Background(), store.RangeRequest{Start: x.prefix, End: end, Limit: 1})
		if err != nil || r.Revision == 0 {
			return
		}
		x.from, x.resumes = r.Revision+1, false
	}
	in, err := m.store.Watch(context.Background(), store.WatchRequest{Start: x.prefix, End: end, From: x.from, Progress: w.chance(0.5)})
	switch {
	case errors.Is(err, store.ErrCompacted), errors.Is(err, store.ErrOtherEpoch):
		x.from = 0
	case err == nil:
		x.in, x.at, x.life = in.(*watch.Watcher), m, m.life
		x.breakAt = w.now + w.about(20*time.Second)
		x.stream = &history.Stream{Client: x.c.id, Prefix: x.prefix, From: x.from, Resumes: x.resumes}
	}
}

func (x *watching) end() {
	if x.in == nil {
		return
	}
	x.in.Close()
	x.stream.Compacted = x.c.w.compacted
	x.ended = append(x.ended, *x.stream)
	x.in, x.stream = nil, nil
}
