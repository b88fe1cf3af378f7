package watch

import (
	"context"
	"sync"

	"github.com/drover-fleet/drover/store"
)

// Watcher is one stream of batches. Next is called by one goroutine at a time; Close from any.
//
//	behind --caught up--> live --buffer full--> ended (ErrSlow)
//	   \____ctx, Close, other epoch, compacted____^
type Watcher struct {
	hub *Hub
	req store.WatchRequest
	id  uint64

	// Guarded by hub.mu.
	isLive  bool
	forming []store.Event // of the batch being published

	ready chan struct{} // one slot: something changed since Next looked

	mu     sync.Mutex // taken after hub.mu, never before
	live   bool
	next   store.Revision // all before is delivered or in queue
	queue  []store.Batch
	events int // in queue
	bytes  int // in queue
	err    error
	stop   func() bool // lets go of the context of Watch
}

// Next returns the next batch. What was queued before the watcher ended is still delivered, unless it ended as slow or
// was closed. After an error the watcher is dead.
func (w *Watcher) Next(ctx context.Context) (store.Batch, error) {
	for {
		b, ok, live, err := w.take()
		switch {
		case ok:
			return b, nil
		case err != nil:
			return store.Batch{}, err
		case !live:
			if err := w.catchUp(ctx); err != nil {
				w.fail(err, true)
			}
			continue
		}
		select {
		case <-w.ready:
		case <-ctx.Done():
			w.fail(ctx.Err(), true)
		}
	}
}

// Try is Next for a caller that must not wait: ok is false while there is nothing.
func (w *Watcher) Try(ctx context.Context) (b store.Batch, ok bool, err error) {
	for {
		b, ok, live, err := w.take()
		if ok || err != nil || live {
			return b, ok, err
		}
		if err := w.catchUp(ctx); err != nil {
			w.fail(err, true)
		}
	}
}

// Ready signals, with one slot, that a Try after one that had nothing may have something. Next takes the same signals.
func (w *Watcher) Ready() <-chan struct{} { return w.ready }

// Close ends the watcher and lets go of its buffer.
func (w *Watcher) Close() { w.fail(store.ErrClosed, true) }

func (w *Watcher) take() (b store.Batch, ok, live bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue) == 0 {
		return store.Batch{}, false, w.live, w.err
	}
	b = w.queue[0]
	w.queue[0] = store.Batch{}
	if w.queue = w.queue[1:]; len(w.queue) == 0 {
		w.queue = nil // and with it what lies before its start
	}
	events, bytes := weigh(&b)
	w.events -= events
	w.bytes -= bytes
	return b, true, w.live, nil
}

// catchUp reads one page of history into the queue, or goes live where there is none left.
func (w *Watcher) catchUp(ctx context.Context) error {
	w.mu.Lock()
	from := w.next
	w.mu.Unlock()
	page, err := w.hub.source.History(ctx, HistoryRequest{
		Start: w.req.Start, End: w.req.End, From: from,
		MaxEvents: w.hub.opts.MaxEvents, MaxBytes: w.hub.opts.MaxBytes, MaxScan: maxScan,
	})
	if err != nil {
		return err
	}
	caughtUp := page.Next == from && w.hub.goLive(w, from)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return nil // ended while we read: the page may be of another history
	}
	// A batch published since goLive has moved next on already.
	w.next = max(w.next, page.Next)
	for i := range page.Batches {
		w.push(page.Batches[i])
	}
	w.live = w.live || caughtUp
	return nil
}

// offer queues a published batch; false says that the watcher is ended and must not be fed any more. Called under hub.mu.
func (w *Watcher) offer(b store.Batch) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return false
	}
	if b.Revision < w.next {
		return true // read as history
	}
	events, bytes := weigh(&b)
	// A batch larger than the buffer passes when the buffer is empty: no batch is undeliverable.
	full := w.events+events > w.hub.opts.MaxEvents || w.bytes+bytes > w.hub.opts.MaxBytes
	if len(w.queue) > 0 && full {
		w.endLocked(store.ErrSlow, true)
		return false
	}
	w.push(b)
	w.next = b.Revision + 1
	w.signal()
	return true
}

// progress queues a mark for the newest revision if the watcher was told nothing about it. Called under hub.mu.
func (w *Watcher) progress(newest store.Revision) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil || len(w.queue) > 0 || newest < w.next {
		return
	}
	w.push(store.Batch{Revision: newest})
	w.next = newest + 1
	w.signal()
}

func (w *Watcher) push(b store.Batch) {
	events, bytes := weigh(&b)
	w.queue = append(w.queue, b)
	w.events += events
	w.bytes += bytes
}

// fail ends the watcher, forgetting what is queued if drop is set. Only the first error counts, but a later drop still does.
func (w *Watcher) fail(err error, drop bool) {
	w.hub.remove(w)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.endLocked(err, drop)
}

func (w *Watcher) endLocked(err error, drop bool) {
	if w.err == nil {
		w.err = err
		w.hub.count(err)
	}
	if drop {
		w.queue, w.events, w.bytes = nil, 0, 0
	}
	if w.stop != nil {
		w.stop()
		w.stop = nil
	}
	w.signal()
}

func (w *Watcher) signal() {
	select {
	case w.ready <- struct{}{}:
	default:
	}
}

// Size is what an event counts for in a buffer, in bytes. Buffers share their events, so this is an upper bound.
func Size(e *store.Event) int {
	n := len(e.KV.Key) + len(e.KV.Value)
	if e.Prev != nil {
		n += len(e.Prev.Value)
	}
	return n
}

// weigh is what a batch counts for; a mark counts as one event.
func weigh(b *store.Batch) (events, bytes int) {
	for i := range b.Events {
		bytes += Size(&b.Events[i])
	}
	return max(len(b.Events), 1), bytes
}
