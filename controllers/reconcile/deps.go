package reconcile

import (
	"context"
	"log/slog"
	"time"

	"github.com/drover-fleet/drover/api/retry"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/client/cache"
)

const (
	// batch is how many writes go into one transaction where a set need not be atomic: some 100 KB a log entry.
	batch = 200
	// seeTimeout bounds the wait for the informers to show what was just written.
	seeTimeout = 20 * time.Second
)

// Deps are what every loop is given.
type Deps struct {
	// Client writes for the controllers, fenced by the term of the leadership that the loops run under.
	Client client.Client
	// Informers are shared by all loops.
	Informers *cache.Set
	// Now is the hub's clock, with its monotonic reading.
	Now    func() time.Time
	Random retry.Random
	Logger *slog.Logger
}

// Write does all of the writes or none, then waits until the informers show them, so that the caller's next decision is
// made in their light.
func (d Deps) Write(ctx context.Context, cause string, items ...client.TxItem) ([]client.TxResult, error) {
	if len(items) == 0 {
		return nil, nil
	}
	res, err := d.Client.Transact(ctx, client.Transaction{Items: items, Cause: cause})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, seeTimeout)
	defer cancel()
	for n, item := range items {
		if err := d.see(ctx, item, res[n]); err != nil {
			return res, err
		}
	}
	return res, nil
}

// WriteBatches does the writes in transactions of bounded size; an error leaves the later ones undone.
func (d Deps) WriteBatches(ctx context.Context, cause string, items []client.TxItem) error {
	for len(items) > 0 {
		n := min(batch, len(items))
		if _, err := d.Write(ctx, cause, items[:n]...); err != nil {
			return err
		}
		items = items[n:]
	}
	return nil
}

// see waits until the informer of the item's kind, if there is one, shows what the item came to.
func (d Deps) see(ctx context.Context, item client.TxItem, r client.TxResult) error {
	informer, ok := d.Informers.Find(Kind(item.Object))
	if !ok {
		return nil
	}
	key, uid := cache.KeyOf(item.Object), item.Object.Meta().UID
	if item.Verb == client.TxDelete {
		return informer.WaitFor(ctx, func() bool {
			o, ok := informer.Get(key)
			return !ok || uid != "" && o.Meta().UID != uid || o.Meta().DeletionTimestamp != nil
		})
	}
	if r.Object == nil {
		return nil
	}
	written := r.Object.Meta().ResourceVersion
	return informer.WaitFor(ctx, func() bool {
		if o, ok := informer.Get(key); ok && !cache.Newer(written, o.Meta().ResourceVersion) {
			return true
		}
		return !cache.Newer(written, informer.Revision())
	})
}
