package watch

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/drover-fleet/drover/store"
)

// stuckPast is a past whose disk takes for ever to read, until it is let go.
type stuckPast struct {
	*past
	letGo chan struct{}
}

func (p *stuckPast) History(ctx context.Context, r HistoryRequest) (Page, error) {
	select {
	case <-p.letGo:
	case <-ctx.Done():
		return Page{}, ctx.Err()
	}
	return p.past.History(ctx, r)
}

// TestF42ManyWatchersThatCatchUpHoldNoWriteUpAndNoMemory: hundreds of watchers read the past from a disk that does not answer. Writes
// are published meanwhile, a watcher that has caught up gets them, and nothing is kept for those that have not. Once the disk
// answers they all come to the same.
func TestF42ManyWatchersThatCatchUpHoldNoWriteUpAndNoMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := &stuckPast{past: &past{}, letGo: make(chan struct{})}
		f := &fixture{T: t, past: stuck.past}
		f.hub = NewHub(stuck, 0, Options{MaxEvents: 4})
		close(stuck.letGo)
		_, live := f.live(store.WatchRequest{Start: "k"})
		stuck.letGo = make(chan struct{})

		const watchers, before, after = 300, 20, 50
		for range before {
			f.write("k")
			<-live
		}
		var behind []*Watcher
		got := make([]int, watchers)
		var done sync.WaitGroup
		for i := range watchers {
			w := f.watch(store.WatchRequest{Start: "k", From: 1})
			behind = append(behind, w)
			done.Go(func() {
				for got[i] < before+after {
					b, err := w.Next(t.Context())
					if err != nil || b.Revision != store.Revision(got[i]+1) { //nolint:gosec // small
						t.Errorf("watcher %d: got revision %d, %v, want %d", i, b.Revision, err, got[i]+1)
						return
					}
					got[i]++
				}
			})
		}
		synctest.Wait()
		for range after { // would hang here if a write waited for any of them
			f.write("k")
			<-live
		}
		for _, w := range behind {
			if len(w.queue) > 0 {
				t.Errorf("got %d batches kept for a watcher that reads the past, want none", len(w.queue))
				break
			}
		}
		close(stuck.letGo)
		done.Wait()
	})
}
