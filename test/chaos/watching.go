package chaos

import (
	"context"
	"errors"
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/drover-fleet/drover/hub/kv"
	"github.com/drover-fleet/drover/store"
	"github.com/drover-fleet/drover/test/history"
)

// watching is a client's watch of a prefix: it lists, watches, and resumes at some member when its connection breaks or it is time.
type watching struct {
	id     int
	prefix string
	h      *house
	r      *record
	rng    *rand.Rand
	marks  bool          // it asks for them
	lasts  time.Duration // about, of one watch
	slow   time.Duration // between two batches that it takes

	resumes bool
	reached atomic.Uint64 // everything up to here has come; zero: it must list

	// Of the keeper of the ledger alone:
	seenAt  map[store.Revision]int // index in changes
	changes []history.Change       // as it saw them
	base    map[string]string      // what stood before the first of them
}

func newWatching(id int, prefix string, h *house, r *record, seed uint64) *watching {
	return &watching{
		id: id, prefix: prefix, h: h, r: r, rng: rand.New(rand.NewPCG(seed, 1000+uint64(id))), //nolint:gosec // small
		marks: id%2 == 0, lasts: 8 * time.Second,
	}
}

// run watches until ctx ends.
func (w *watching) run(ctx context.Context) {
	for ctx.Err() == nil {
		w.once(ctx, w.rng.IntN(members))
		wait(ctx, time.Duration(w.rng.Int64N(int64(100*time.Millisecond))))
	}
}

// once is one connection to one member.
func (w *watching) once(ctx context.Context, i int) {
	l := links{}
	defer l.close()
	dial, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	link, err := l.to(dial, w.h, i)
	if err != nil {
		return
	}
	end := store.PrefixEnd(w.prefix)
	if w.reached.Load() == 0 {
		rq := store.RangeRequest{Start: w.prefix, End: end, Limit: 1}
		if w.seenAt != nil {
			rq.Limit = 0
		}
		res, err := link.Range(dial, rq, false)
		if err != nil {
			return
		}
		for i := 0; i < len(res.KVs) && len(w.changes) == 0; i++ {
			if w.base != nil {
				w.base[res.KVs[i].Key] = shorten(res.KVs[i].Value)
			}
		}
		w.reached.Store(uint64(res.Revision))
		w.resumes = false
	}
	s := &history.Stream{Client: w.id, Prefix: w.prefix, From: store.Revision(w.reached.Load()) + 1, Resumes: w.resumes}
	in, err := link.Watch(dial, store.WatchRequest{Start: w.prefix, End: end, From: s.From, Progress: w.marks}, true)
	if err != nil {
		w.judgeEnd(err)
		return
	}
	defer in.Close()
	w.follow(ctx, i, in, s)
	w.r.stream(s)
}

func (w *watching) judgeEnd(err error) {
	switch {
	case errors.Is(err, store.ErrOtherEpoch):
		w.r.breach(history.NoErrors, "watcher %d was told of another epoch, though there was one all along", w.id)
		fallthrough
	case errors.Is(err, store.ErrCompacted):
		w.reached.Store(0)
	}
}

func (w *watching) follow(ctx context.Context, i int, in *kv.Watcher, s *history.Stream) {
	ctx, cancel := context.WithTimeout(ctx, w.lasts/2+time.Duration(w.rng.Int64N(int64(w.lasts))))
	defer cancel()
	for {
		b, err := in.Next(ctx)
		if err != nil {
			w.judgeEnd(err)
			return
		}
		w.take(i, &b, s)
		if w.slow > 0 && len(b.Events) > 0 {
			wait(ctx, time.Duration(w.rng.Int64N(int64(w.slow))))
		}
	}
}

// bulkPrefix begins keys whose values only fill the log.
const bulkPrefix = "bulk/"

// shorten keeps what is large as its hash: it must be equal, not be looked at.
func shorten(b []byte) string {
	if len(b) <= 64 {
		return string(b)
	}
	h := fnv.New64a()
	_, _ = h.Write(b)
	return "hash " + strconv.FormatUint(h.Sum64(), 16)
}

func (w *watching) take(i int, b *store.Batch, s *history.Stream) {
	out := history.Batch{Member: w.h.members[i].name, Revision: b.Revision}
	for n := range b.Events {
		e := &b.Events[n]
		seen := history.Seen{Revision: e.KV.ModRevision, Key: e.KV.Key, Value: shorten(e.KV.Value), Deleted: e.Type == store.OpDelete}
		if e.Prev != nil {
			seen.Prev, seen.HasPrev = shorten(e.Prev.Value), true
		}
		out.Events = append(out.Events, seen)
	}
	s.Batches = append(s.Batches, out)
	if w.seenAt != nil {
		w.keep(&out)
	}
	w.reached.Store(uint64(b.Revision))
	w.resumes = true
}

// keep writes the ledger from what a watcher of everything is given, once.
func (w *watching) keep(b *history.Batch) {
	at := w.r.now()
	for _, e := range b.Events {
		if _, again := w.seenAt[e.Revision]; again {
			continue
		}
		w.seenAt[e.Revision] = len(w.changes)
		w.changes = append(w.changes, history.Change{
			Revision: e.Revision, Set: b.Revision, Key: e.Key, Request: e.Value, Value: e.Value, Deleted: e.Deleted, At: at,
		})
	}
}
