// Package tombstone removes the orders to stop that nobody is left to obey: those of devices that were deleted long ago.
//
// A board whose Device was deleted may still run what it held, and may enroll again under its name; its tombstones wait for
// that for [Keep], so that the old copies stop rather than run beside the new ones. The package promises that a tombstone
// goes only when it is that old and a linearizable read finds no device of its name. Tombstones that a device acknowledged are
// removed by the gateway, on the device's behalf; all others stay, however long the device is away.
package tombstone

import (
	"context"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/client/cache"
	"github.com/drover-fleet/drover/controllers/reconcile"
)

const byDevice = "device"

// Keep is how long the tombstones of a deleted device wait for it to enroll again, by the hub's clock.
const Keep = 30 * 24 * time.Hour

type loop struct {
	reconcile.Deps
	tombstones, devices *cache.Informer
}

// New makes the loop. Its keys are devices.
func New(d reconcile.Deps) *reconcile.Loop {
	l := &loop{Deps: d, tombstones: d.Informers.Of(api.KindTombstone), devices: d.Devices()}
	l.tombstones.AddIndex(byDevice, func(o api.Object) []string { return []string{o.(*api.Tombstone).Spec.Device} })
	r := reconcile.NewLoop("tombstone", d, l.reconcile)
	l.devices.AddHandler(func(c cache.Change) {
		if c.New == nil {
			r.Add(cache.KeyOf(c.Old), c.Revision)
		}
	})
	l.tombstones.AddHandler(func(c cache.Change) {
		if c.New != nil {
			r.Add(reconcile.Key{Name: c.New.(*api.Tombstone).Spec.Device}, c.Revision)
		}
	})
	return r
}

func (l *loop) reconcile(ctx context.Context, rq reconcile.Request) (reconcile.Result, error) {
	orders := cache.By[*api.Tombstone](l.tombstones, byDevice, rq.Key.Name)
	if _, ok := l.devices.Get(rq.Key); ok || len(orders) == 0 {
		return reconcile.Result{}, nil
	}
	_, err := l.Client.Get(ctx, api.Ref{Kind: api.KindDevice, Name: rq.Key.Name}, client.GetOptions{})
	if err == nil || !fault.Is(err, fault.NotFound) {
		return reconcile.Result{}, err
	}
	over, next := expired(orders, l.Now())
	var writes []client.TxItem
	for _, t := range over {
		writes = append(writes, reconcile.Delete(t))
	}
	return reconcile.Result{After: next}, l.WriteBatches(ctx, rq.Cause, writes)
}

// expired returns the tombstones that have waited long enough, and how long until the next one has; 0 when none is left.
func expired(orders []*api.Tombstone, now time.Time) (over []*api.Tombstone, next time.Duration) {
	for _, t := range orders {
		left := t.Metadata.CreationTimestamp.Add(Keep).Sub(now)
		if left <= 0 {
			over = append(over, t)
		} else if next == 0 || left < next {
			next = left
		}
	}
	return over, next
}
