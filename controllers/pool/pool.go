// Package pool tells of each DevicePool for how many devices it counts, and which other pools select the same ones.
//
// It only tells: what a pool allows is judged from the pools themselves by admission, the scheduler, the workload controller, the
// gateway and the device, which all find the same one for a device.
package pool

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/client/cache"
	"github.com/drover-fleet/drover/controllers/reconcile"
)

// CondOverlap is on a pool that shares devices with others.
const CondOverlap = "Overlap"

// fleet gives the one key: pools are told apart only together.
func fleet() cache.Key { return cache.Key{Name: "fleet"} }

type loop struct {
	reconcile.Deps
	pools, devices *cache.Informer
}

// New makes the loop.
func New(d reconcile.Deps) *reconcile.Loop {
	l := &loop{Deps: d, pools: d.Informers.Of(api.KindDevicePool), devices: d.Devices()}
	r := reconcile.NewLoop("pool", d, l.reconcile)
	l.pools.AddHandler(func(c cache.Change) {
		if c.Old == nil || c.New == nil || c.Old == c.New || c.Old.Meta().Generation != c.New.Meta().Generation {
			r.Add(fleet(), c.Revision)
		}
	})
	l.devices.AddHandler(func(c cache.Change) {
		if c.Old == nil || c.New == nil || !maps.Equal(c.Old.Meta().Labels, c.New.Meta().Labels) {
			r.Add(fleet(), c.Revision)
		}
	})
	return r
}

func (l *loop) reconcile(ctx context.Context, rq reconcile.Request) (reconcile.Result, error) {
	pools := cache.List[*api.DevicePool](l.pools)
	if len(pools) == 0 {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, l.WriteBatches(ctx, rq.Cause, plan(pools, cache.List[*api.Device](l.devices), l.Now()))
}

// plan lists the statuses that have to change.
func plan(pools []*api.DevicePool, devices []*api.Device, now time.Time) []client.TxItem {
	type tally struct {
		counts, selected int32
		with             map[string]int // other pools, with how many devices are shared
	}
	of := map[string]*tally{}
	for _, p := range pools {
		of[p.Metadata.Name] = &tally{with: map[string]int{}}
	}
	all := api.NewPools(pools)
	for _, d := range devices {
		selecting := all.Selecting(d.Metadata.Labels)
		for i, p := range selecting {
			t := of[p.Metadata.Name]
			t.selected++
			if i == 0 {
				t.counts++
			}
			for _, other := range selecting {
				if other != p {
					t.with[other.Metadata.Name]++
				}
			}
		}
	}
	var out []client.TxItem
	for _, p := range pools {
		t := of[p.Metadata.Name]
		next := api.Copy(p)
		s := &next.Status
		s.ObservedGeneration, s.Devices, s.Selected = p.Metadata.Generation, t.counts, t.selected
		changed := s.ObservedGeneration != p.Status.ObservedGeneration || s.Devices != p.Status.Devices || s.Selected != p.Status.Selected
		if len(t.with) == 0 {
			changed = api.RemoveCondition(&s.Conditions, CondOverlap) || changed
		} else {
			changed = api.SetCondition(&s.Conditions, overlap(p, t.with, t.selected-t.counts), api.TimeOf(now)) || changed
		}
		if changed {
			out = append(out, reconcile.Status(next))
		}
	}
	return out
}

// maxNamed bounds how many pools a condition names.
const maxNamed = 8

func overlap(p *api.DevicePool, with map[string]int, elsewhere int32) api.Condition {
	var parts []string
	for i, name := range slices.Sorted(maps.Keys(with)) {
		if i == maxNamed {
			parts = append(parts, fmt.Sprintf("and %d more pools", len(with)-i))
			break
		}
		parts = append(parts, fmt.Sprintf("%d with pool %s", with[name], name))
	}
	return api.Condition{Type: CondOverlap, Status: api.True, Reason: "SharesDevices", ObservedGeneration: p.Metadata.Generation,
		Message: fmt.Sprintf("shares devices: %s; for %d of those it selects another pool counts: the heaviest does, of equals the first by name",
			strings.Join(parts, ", "), elsewhere)}
}
