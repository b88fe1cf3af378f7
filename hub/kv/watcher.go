package kv

import (
	"context"
	"errors"
	"sync"

	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/store"
)

// maxBuffered bounds what waits for one watcher here, in bytes; with more, it ends with store.ErrSlow: other requests of the
// connection must not wait for it.
const maxBuffered = 16 << 20

// Watcher is a store.Watcher over a connection. Next is for one goroutine.
type Watcher struct {
	c     *Client
	id    uint64
	ready chan struct{} // one slot: something below changed

	mu      sync.Mutex // guards below
	started bool
	frames  [][]byte // batches that wait
	bytes   int
	err     error // why there are no more
}

var _ store.Watcher = (*Watcher)(nil)

func (w *Watcher) signal() {
	select {
	case w.ready <- struct{}{}:
	default:
	}
}

// take is called by the connection's reader.
func (w *Watcher) take(f frame) {
	w.mu.Lock()
	switch {
	case w.err != nil:
	case f.kind == kindStarted:
		w.started = true
	case f.kind == kindFailed:
		w.err = readFailure(f.body)
	case w.bytes+len(f.body) > maxBuffered:
		w.err = store.ErrSlow
	default:
		w.frames = append(w.frames, f.body)
		w.bytes += len(f.body)
	}
	w.mu.Unlock()
	w.signal()
}

func (w *Watcher) fail(err error) {
	w.mu.Lock()
	if w.err == nil {
		w.err = err
	}
	w.mu.Unlock()
	w.signal()
}

func (w *Watcher) begun(ctx context.Context) error {
	for {
		w.mu.Lock()
		started, err := w.started, w.err
		w.mu.Unlock()
		if started {
			w.signal() // a batch may have come with it
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case <-w.ready:
		case <-ctx.Done():
			return fault.Unavailable.Errorf("no answer in time: %w", ctx.Err())
		}
	}
}

// Next returns the next batch. What came before the end is returned before the end.
func (w *Watcher) Next(ctx context.Context) (store.Batch, error) {
	for {
		w.mu.Lock()
		var body []byte
		if len(w.frames) > 0 {
			body, w.frames = w.frames[0], w.frames[1:]
			w.bytes -= len(body)
		}
		err := w.err
		w.mu.Unlock()
		if body != nil {
			var b batch
			if err := decode(body, &b); err != nil {
				return store.Batch{}, err
			}
			return b.batch(), nil
		}
		if err != nil {
			return store.Batch{}, err
		}
		select {
		case <-w.ready:
		case <-ctx.Done():
			return store.Batch{}, ctx.Err()
		}
	}
}

var errWatchClosed = errors.New("the watch was closed here")

// Close ends the watch here and at the member.
func (w *Watcher) Close() {
	w.fail(errWatchClosed)
	w.c.mu.Lock()
	_, under := w.c.calls[w.id]
	delete(w.c.calls, w.id)
	w.c.mu.Unlock()
	if under {
		w.c.out.put(frame{id: w.id, kind: kindCancel})
	}
}
