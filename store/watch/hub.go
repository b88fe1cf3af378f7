package watch

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/drover-fleet/drover/store"
)

// Options bound what is held for one watcher. Zero values mean the defaults.
type Options struct {
	MaxEvents int // buffered for a live watcher, and read in one page of history; default 4096
	MaxBytes  int // the same in bytes of keys and values; default 8 MiB: one transaction as large as they come
}

const (
	defaultMaxEvents = 4096
	defaultMaxBytes  = 8 << 20
	// maxScan bounds the records looked at for one page, wanted or not, and so the life of a read transaction.
	maxScan = 16384
)

// HistoryRequest asks for a page of the past.
type HistoryRequest struct {
	Start, End string         // as in store.WatchRequest
	From       store.Revision // first revision wanted; its whole set is delivered
	// The page ends with the first set that reaches one of these.
	MaxEvents, MaxBytes, MaxScan int
}

// Contains tells whether the key is wanted.
func (r *HistoryRequest) Contains(key string) bool { return contains(r.Start, r.End, key) }

// Page is a piece of history: every wanted event of every set from that of From up to, not including, Next.
type Page struct {
	Batches []store.Batch
	Next    store.Revision // newest+1 when there is no more
}

// Source is the store's past, as of its newest revision at each call.
type Source interface {
	// Start checks a first revision, and turns zero into newest+1. Errors: ErrCompacted, ErrAhead, ErrOtherEpoch, ErrClosed.
	Start(from store.Revision) (store.Revision, error)
	// History reads a page; errors as Start.
	History(ctx context.Context, r HistoryRequest) (Page, error)
}

// Hub knows the watchers of one store. What it publishes has been shown by the Source before.
type Hub struct {
	source Source
	opts   Options

	mu     sync.Mutex
	newest store.Revision // published
	closed error          // why no watcher can begin any more
	all    map[*Watcher]struct{}
	live   liveIndex // those of all that Publish feeds
	lastID uint64

	ended [Reasons]atomic.Uint64 // watchers that ended unasked, by why
}

// NewHub makes the hub of a source whose newest revision is given.
func NewHub(source Source, newest store.Revision, opts Options) *Hub {
	if opts.MaxEvents <= 0 {
		opts.MaxEvents = defaultMaxEvents
	}
	if opts.MaxBytes <= 0 {
		opts.MaxBytes = defaultMaxBytes
	}
	return &Hub{source: source, newest: newest, opts: opts, all: map[*Watcher]struct{}{}, live: newLiveIndex()}
}

// Watch begins a watcher. It lives until it is closed, ctx ends or it fails, whichever is first.
func (h *Hub) Watch(ctx context.Context, r store.WatchRequest) (store.Watcher, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	next, err := h.source.Start(r.From)
	if err != nil {
		h.count(err)
		return nil, err
	}
	w := &Watcher{hub: h, req: r, next: next, ready: make(chan struct{}, 1)}
	if err := h.admit(w); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { w.fail(ctx.Err(), true) })
	w.mu.Lock()
	w.stop = stop
	w.mu.Unlock()
	return w, nil
}

func (h *Hub) admit(w *Watcher) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed != nil {
		return h.closed
	}
	h.lastID++
	w.id = h.lastID
	h.all[w] = struct{}{}
	return nil
}

// Publish hands a committed batch to the live watchers that want some of it. Batches come in revision order, from one
// goroutine. It never waits for a watcher.
func (h *Hub) Publish(b store.Batch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.newest = b.Revision
	var touched []*Watcher // in order of their first event
	for i := range b.Events {
		h.live.each(b.Events[i].KV.Key, func(w *Watcher) {
			if len(w.forming) == 0 {
				touched = append(touched, w)
			}
			w.forming = append(w.forming, b.Events[i])
		})
	}
	for _, w := range touched {
		mine := store.Batch{Revision: b.Revision, Events: w.forming}
		w.forming = nil
		if !w.offer(mine) {
			h.removeLocked(w)
		}
	}
}

// Progress sends a mark to each live watcher that asked for marks and has had nothing since others wrote.
func (h *Hub) Progress() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.all {
		if w.isLive && w.req.Progress {
			w.progress(h.newest)
		}
	}
}

// Reset ends all watchers with err, once they have read what was published before, and goes on at another revision.
func (h *Hub) Reset(newest store.Revision, err error) {
	for _, w := range h.endAll(newest, nil) {
		w.fail(err, false)
	}
}

// End ends all watchers with err for good: later ones do not begin.
func (h *Hub) End(err error) {
	for _, w := range h.endAll(0, err) {
		w.fail(err, true)
	}
}

func (h *Hub) endAll(newest store.Revision, closed error) []*Watcher {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.newest = newest
	if h.closed == nil {
		h.closed = closed
	}
	ended := make([]*Watcher, 0, len(h.all))
	for w := range h.all {
		ended = append(ended, w)
	}
	for _, w := range ended {
		h.removeLocked(w)
	}
	return ended
}

// goLive lets Publish feed a watcher that has read everything published. It refuses if there is more by now.
func (h *Hub) goLive(w *Watcher, next store.Revision) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, known := h.all[w]; !known {
		return true // ended meanwhile: there is nothing more to read
	}
	if next <= h.newest {
		return false
	}
	w.isLive = true
	h.live.add(w)
	return true
}

func (h *Hub) remove(w *Watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.removeLocked(w)
}

func (h *Hub) removeLocked(w *Watcher) {
	delete(h.all, w)
	if w.isLive {
		w.isLive = false
		h.live.remove(w)
	}
}
