// Package tombstone removes the orders to stop that nobody is left to obey: those of devices that were deleted.
//
// It promises that a tombstone goes only when a linearizable read finds no device of its name. Tombstones that a device
// acknowledged are removed by the gateway, on the device's behalf; all others stay, however long the device is away.
package tombstone

import (
	"context"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/client/cache"
	"github.com/drover-fleet/drover/controllers/reconcile"
)

const byDevice = "device"

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
	var writes []client.TxItem
	for _, t := range orders {
		writes = append(writes, reconcile.Delete(t))
	}
	return reconcile.Result{}, l.WriteBatches(ctx, rq.Cause, writes)
}
