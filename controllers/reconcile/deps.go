package reconcile

import (
	"context"
	"log/slog"
	"time"

	"github.com/drover-fleet/drover/api/await"
	"github.com/drover-fleet/drover/api/retry"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/client/cache"
)

// batch is how many writes go into one transaction where a set need not be atomic: some 100 KB a log entry.
const batch = 200

// Deps are what every loop is given.
type Deps struct {
	// Client is fenced by the term of the leadership that the loops run under.
	Client client.Client
	// Informers are shared by all loops.
	Informers *cache.Set
	// Now is the hub's clock, with its monotonic reading.
	Now    func() time.Time
	Random retry.Random
	Logger *slog.Logger
	// Waiter is how loops wait; nil: by the runtime's clock.
	Waiter await.Waiter
}

// Write does all of the writes or none, then waits until the informers show them, so that the caller's next decision is
// made in their light.
func (d Deps) Write(ctx context.Context, cause string, items ...client.TxItem) ([]client.TxResult, error) {
	if len(items) == 0 {
		return nil, nil
	}
	return d.Informers.Transact(ctx, d.Client, client.Transaction{Items: items, Cause: cause})
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
