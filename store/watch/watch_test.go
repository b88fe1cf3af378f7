package watch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-fleet/drover/store"
)

// past is a source that holds batches of one event each, at revisions 1, 2, 3, ...
type past struct {
	mu      sync.Mutex
	batches []store.Batch
	pages   int // read
}

func (p *past) Start(from store.Revision) (store.Revision, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	newest := store.Revision(len(p.batches))
	switch {
	case from == 0:
		return newest + 1, nil
	case from > newest+1:
		return 0, store.ErrAhead
	}
	return from, nil
}

// History gives two revisions a page, so that catching up takes many.
func (p *past) History(_ context.Context, r HistoryRequest) (Page, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pages++
	page := Page{Next: min(r.From+2, store.Revision(len(p.batches))+1)}
	for rev := r.From; rev < page.Next; rev++ {
		if b := p.batches[rev-1]; r.Contains(b.Events[0].KV.Key) {
			page.Batches = append(page.Batches, b)
		}
	}
	return page, nil
}

// commit makes the next batch part of the past, as a store does before it publishes.
func (p *past) commit(key, value string) store.Batch {
	p.mu.Lock()
	defer p.mu.Unlock()
	rev := store.Revision(len(p.batches) + 1)
	kv := store.KV{Key: key, Value: []byte(value), ModRevision: rev}
	b := store.Batch{Revision: rev, Events: []store.Event{{Type: store.OpPut, KV: kv}}}
	p.batches = append(p.batches, b)
	return b
}

type fixture struct {
	*testing.T
	past *past
	hub  *Hub
}

func newFixture(t *testing.T, opts Options) *fixture {
	f := &fixture{T: t, past: &past{}}
	f.hub = NewHub(f.past, 0, opts)
	return f
}

func (f *fixture) write(key string) { f.hub.Publish(f.past.commit(key, "v")) }

func (f *fixture) watch(r store.WatchRequest) *Watcher {
	f.Helper()
	w, err := f.hub.Watch(f.Context(), r)
	if err != nil {
		f.Fatal(err)
	}
	return w.(*Watcher)
}

// live makes a watcher and waits, inside a bubble, until it is fed by Publish. What it reads is sent to the channel.
func (f *fixture) live(r store.WatchRequest) (*Watcher, chan result) {
	w := f.watch(r)
	out := make(chan result)
	go func() {
		defer close(out)
		for {
			b, err := w.Next(f.Context())
			select {
			case out <- result{b, err}:
			case <-f.Context().Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	synctest.Wait()
	return w, out
}

type result struct {
	batch store.Batch
	err   error
}

func (f *fixture) next(w *Watcher) store.Batch {
	f.Helper()
	b, err := w.Next(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	return b
}

func (f *fixture) wantRevision(b store.Batch, want store.Revision) {
	f.Helper()
	if b.Revision != want {
		f.Errorf("got batch of revision %d, want %d", b.Revision, want)
	}
}

func (f *fixture) wantEnd(w *Watcher, want error) {
	f.Helper()
	if b, err := w.Next(f.Context()); !errors.Is(err, want) {
		f.Errorf("got %v, %v, want the end with %v", b, err, want)
	}
}

func TestCatchUpGoesOverToLiveWithoutGapOrRepeat(t *testing.T) {
	f := newFixture(t, Options{})
	const total = 3000
	for range 10 {
		f.write("k")
	}
	var readers sync.WaitGroup
	for range 8 {
		w := f.watch(store.WatchRequest{Start: "k", From: 1})
		readers.Go(func() {
			for want := store.Revision(1); want <= total; want++ {
				if b, err := w.Next(t.Context()); err != nil || b.Revision != want {
					t.Errorf("got revision %d, %v, want %d", b.Revision, err, want)
					return
				}
			}
		})
	}
	for range total - 10 {
		f.write("k")
	}
	readers.Wait()
}

func TestF42ASlowWatcherEndsAndCanResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Options{MaxEvents: 3})
		w, out := f.live(store.WatchRequest{Start: "k"})
		// One is in the reader's hand, three fill the buffer, the fifth is too many.
		for range 5 {
			f.write("k")
			synctest.Wait()
		}
		f.wantRevision((<-out).batch, 1)
		if r := <-out; !errors.Is(r.err, store.ErrSlow) {
			t.Errorf("got %v, want ErrSlow", r)
		}
		if len(f.hub.all) != 0 || len(f.hub.live.points) != 0 || w.queue != nil {
			t.Errorf("got %d watchers and %d batches kept, want none", len(f.hub.all), len(w.queue))
		}
		again := f.watch(store.WatchRequest{Start: "k", From: 2})
		for want := store.Revision(2); want <= 5; want++ {
			f.wantRevision(f.next(again), want)
		}
	})
}

func TestF42ABufferCountsBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Options{MaxBytes: 100})
		_, out := f.live(store.WatchRequest{Start: "k"})
		f.hub.Publish(f.past.commit("k", string(make([]byte, 1000)))) // larger than the buffer, which is empty
		synctest.Wait()
		f.hub.Publish(f.past.commit("k", string(make([]byte, 1000))))
		synctest.Wait()
		f.hub.Publish(f.past.commit("k", "one more"))
		f.wantRevision((<-out).batch, 1)
		if r := <-out; !errors.Is(r.err, store.ErrSlow) {
			t.Errorf("got %v, want ErrSlow", r)
		}
	})
}

func TestAWatcherOfNothingYetGetsOnlyWhatIsNew(t *testing.T) {
	f := newFixture(t, Options{})
	f.write("k")
	w := f.watch(store.WatchRequest{Start: "k"})
	f.write("k")
	f.wantRevision(f.next(w), 2)
}

// TestWhatWasReadAsHistoryIsNotRepeatedWhenPublished has the store show a batch that it has not published yet, as it does
// for a moment after each commit.
func TestWhatWasReadAsHistoryIsNotRepeatedWhenPublished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Options{})
		unpublished := f.past.commit("k", "v")
		_, out := f.live(store.WatchRequest{Start: "k", From: 1})
		f.wantRevision((<-out).batch, 1)
		synctest.Wait() // gone live
		f.hub.Publish(unpublished)
		f.write("k")
		f.wantRevision((<-out).batch, 2)
	})
}

func TestEachWatcherSeesItsKeysOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Options{})
		requests := []store.WatchRequest{
			{Start: "a/1"}, {Start: "a/", End: "a0"}, {Start: "a", End: "b"}, {Start: "", End: "\xff"}, {Start: "a/1", End: "b/2"}, {Start: "c"},
		}
		var outs []chan result
		for _, r := range requests {
			_, out := f.live(r)
			outs = append(outs, out)
		}
		keys := []string{"a/1", "a/2", "a", "b/1", "b/2", "c", "c/1"}
		b := store.Batch{Revision: store.Revision(len(keys))}
		for _, key := range keys {
			b.Events = append(b.Events, f.past.commit(key, "").Events...)
		}
		f.hub.Publish(b)
		want := [][]string{{"a/1"}, {"a/1", "a/2"}, {"a/1", "a/2", "a"}, keys, {"a/1", "a/2", "b/1"}, {"c"}}
		for i, out := range outs {
			var got []string
			for _, e := range (<-out).batch.Events {
				got = append(got, e.KV.Key)
			}
			if diff := cmp.Diff(want[i], got); diff != "" {
				t.Errorf("watcher of %q..%q (-want +got):\n%s", requests[i].Start, requests[i].End, diff)
			}
		}
	})
}

func TestF42AWriteLooksOnlyAtWatchersOfItsKey(t *testing.T) {
	x := newLiveIndex()
	var all []*Watcher
	for n := range 1000 {
		for _, r := range []store.WatchRequest{
			{Start: fmt.Sprintf("devices/%04d", n)},
			{Start: fmt.Sprintf("assignments/%04d/", n), End: fmt.Sprintf("assignments/%04d0", n)},
		} {
			w := &Watcher{id: uint64(len(all) + 1), req: r} //nolint:gosec // small
			x.add(w)
			all = append(all, w)
		}
	}
	for key, want := range map[string]int{"devices/0007": 1, "assignments/0007/a": 1, "assignments/0007": 0, "other": 0} {
		got := 0
		x.each(key, func(*Watcher) { got++ })
		if got != want {
			t.Errorf("%s: got %d watchers, want %d", key, got, want)
		}
	}
	if len(x.lengths) != 1 {
		t.Errorf("got %d lookups by prefix for a key, want 1", len(x.lengths))
	}
	for _, w := range all {
		x.remove(w)
	}
	if len(x.points)+len(x.prefixes)+len(x.lengths)+len(x.ranges) != 0 {
		t.Errorf("got %+v after all have gone, want nothing", x)
	}
}

func TestProgressMarksGoToTheIdleThatAskedForThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Options{})
		_, asked := f.live(store.WatchRequest{Start: "k", Progress: true})
		silent, _ := f.live(store.WatchRequest{Start: "k"})
		behind := f.watch(store.WatchRequest{Start: "k", From: 1, Progress: true})
		f.hub.Progress() // nothing has been written
		f.write("other")
		f.hub.Progress()
		f.hub.Progress() // told already
		r := <-asked
		if r.err != nil || r.batch.Revision != 1 || len(r.batch.Events) != 0 {
			t.Errorf("got %+v, want a mark of revision 1", r)
		}
		if len(silent.queue)+len(behind.queue) != 0 {
			t.Error("got marks for a watcher that did not ask or has not caught up")
		}
		f.write("k")
		f.hub.Progress() // the batch says it
		f.wantRevision((<-asked).batch, 2)
		f.write("k")
		f.wantRevision((<-asked).batch, 3)
	})
}

func TestAWatcherGoesWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Options{})
		ctx, cancel := context.WithCancel(t.Context())
		w, err := f.hub.Watch(ctx, store.WatchRequest{Start: "k"})
		if err != nil {
			t.Fatal(err)
		}
		other := f.watch(store.WatchRequest{Start: "k"})
		cancel()
		synctest.Wait()
		if len(f.hub.all) != 1 {
			t.Errorf("got %d watchers, want the one whose context lives", len(f.hub.all))
		}
		f.wantEnd(w.(*Watcher), context.Canceled)
		other.Close()
		f.wantEnd(other, store.ErrClosed)
		if len(f.hub.all) != 0 {
			t.Errorf("got %d watchers, want none", len(f.hub.all))
		}
	})
}

func TestNextThatGivesUpEndsTheWatcher(t *testing.T) {
	f := newFixture(t, Options{})
	w := f.watch(store.WatchRequest{Start: "k"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's end", err)
	}
	f.wantEnd(w, context.Canceled)
}

func TestResetDeliversWhatWasPublishedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Options{})
		_, out := f.live(store.WatchRequest{Start: "k"})
		f.write("k")
		f.write("k")
		f.hub.Reset(100, store.ErrOtherEpoch)
		f.wantRevision((<-out).batch, 1)
		f.wantRevision((<-out).batch, 2)
		if r := <-out; !errors.Is(r.err, store.ErrOtherEpoch) {
			t.Errorf("got %+v, want ErrOtherEpoch", r)
		}
	})
}

func TestAnEndedHubBeginsNoWatcher(t *testing.T) {
	f := newFixture(t, Options{})
	w := f.watch(store.WatchRequest{Start: "k"})
	f.hub.End(store.ErrClosed)
	f.wantEnd(w, store.ErrClosed)
	if _, err := f.hub.Watch(t.Context(), store.WatchRequest{Start: "k"}); !errors.Is(err, store.ErrClosed) {
		t.Errorf("got %v, want ErrClosed", err)
	}
}

// BenchmarkPublish writes one device's key with so many devices watching their own.
func BenchmarkPublish(b *testing.B) {
	for _, n := range []int{1, 10_000} {
		b.Run(fmt.Sprint(n, " watchers"), func(b *testing.B) {
			h := NewHub(&past{}, 0, Options{})
			for i := range n {
				w, err := h.Watch(b.Context(), store.WatchRequest{Start: fmt.Sprint("devices/", i)})
				if err != nil {
					b.Fatal(err)
				}
				if !h.goLive(w.(*Watcher), 1) {
					b.Fatal("not live")
				}
			}
			e := []store.Event{{Type: store.OpPut, KV: store.KV{Key: "devices/elsewhere"}}}
			for b.Loop() {
				h.Publish(store.Batch{Revision: 1, Events: e})
			}
		})
	}
}
