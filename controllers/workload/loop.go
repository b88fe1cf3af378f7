package workload

import (
	"context"
	"maps"
	"reflect"
	"slices"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/client/cache"
	"github.com/drover-fleet/drover/controllers/copies"
	"github.com/drover-fleet/drover/controllers/reconcile"
)

type loop struct {
	reconcile.Deps
	workloads, devices, assignments, revisions, rollouts, pools *cache.Informer
}

// New makes the loop. Its keys are workloads.
func New(d reconcile.Deps) *reconcile.Loop {
	l := &loop{
		Deps: d, workloads: d.Workloads(), devices: d.Devices(), assignments: d.Assignments(),
		revisions: d.Revisions(), rollouts: d.Rollouts(), pools: d.Informers.Of(api.KindDevicePool),
	}
	r := reconcile.NewLoop("workload", d, l.reconcile)
	r.Workers = 2
	l.workloads.AddHandler(func(c cache.Change) {
		if matters(c) {
			r.Add(reconcile.WorkloadOf(c.Object()), c.Revision)
		}
	})
	l.assignments.AddHandler(reconcile.WakeWorkload(r))
	l.revisions.AddHandler(reconcile.WakeWorkload(r))
	l.rollouts.AddHandler(func(c cache.Change) {
		if held(c.Old) != held(c.New) {
			r.Add(reconcile.WorkloadOf(c.Object()), c.Revision)
		}
	})
	l.devices.AddHandler(func(c cache.Change) { l.wakeByDevice(r, c) })
	l.pools.AddHandler(func(c cache.Change) {
		if c.Old == nil || c.New == nil || c.Old.Meta().Generation != c.New.Meta().Generation {
			for _, o := range l.workloads.List() {
				r.Add(cache.KeyOf(o), c.Revision)
			}
		}
	})
	l.assignments.AddHandler(func(c cache.Change) {
		if was, ok := c.Old.(*api.Assignment); ok && was.Spec.Device != "" && (c.New == nil || c.New.(*api.Assignment).Spec.Device != was.Spec.Device) {
			l.wakeBlocked(r, reasonPort, "", c.Revision)
		}
	})
	d.Informers.Of(api.KindResourceQuota).AddHandler(func(c cache.Change) {
		if freed(c) {
			l.wakeBlocked(r, reasonQuota, c.Object().Meta().Namespace, c.Revision)
		}
	})
	return r
}

// matters tells what the loop decides from apart from its own writes and those of conditions.
func matters(c cache.Change) bool {
	if c.Old == nil || c.New == nil || c.Old == c.New {
		return true
	}
	a, b := c.Old.(*api.Workload), c.New.(*api.Workload)
	return a.Metadata.Generation != b.Metadata.Generation || a.Metadata.DeletionTimestamp != b.Metadata.DeletionTimestamp ||
		a.Status.UpdatedRevision != b.Status.UpdatedRevision || a.Status.CurrentRevision != b.Status.CurrentRevision ||
		copies.ImagesSince(a) != copies.ImagesSince(b)
}

// heldState is what of a rollout decides on which revision copies are born.
type heldState struct {
	paused, aborted bool
	phase           string
}

func held(o api.Object) heldState {
	if o == nil {
		return heldState{}
	}
	r := o.(*api.Rollout)
	return heldState{r.Spec.Paused, r.Spec.Aborted, r.Status.Phase}
}

// wakeByDevice wakes every workload when the device may be selected differently, and those with a copy on it when only its
// presence changed.
func (l *loop) wakeByDevice(r *reconcile.Loop, c cache.Change) {
	if selectable(c) {
		for _, o := range l.workloads.List() {
			r.Add(cache.KeyOf(o), c.Revision)
		}
		return
	}
	before, wasAway := copies.DarkSince(c.Old.(*api.Device))
	after, isAway := copies.DarkSince(c.New.(*api.Device))
	if wasAway == isAway && before.Equal(after) && c.Old != c.New {
		return
	}
	for _, a := range reconcile.On(l.assignments, c.New.Meta().Name) {
		r.Add(reconcile.WorkloadOf(a), c.Revision)
	}
}

// selectable tells whether what placements look at changed.
func selectable(c cache.Change) bool {
	if c.Old == nil || c.New == nil {
		return true
	}
	a, b := c.Old.(*api.Device), c.New.(*api.Device)
	return !maps.Equal(a.Metadata.Labels, b.Metadata.Labels) || !slices.Equal(a.Spec.Taints, b.Spec.Taints) ||
		a.Spec.Unschedulable != b.Spec.Unschedulable || a.Metadata.DeletionTimestamp != b.Metadata.DeletionTimestamp ||
		a.Metadata.UID != b.Metadata.UID
}

func (l *loop) reconcile(ctx context.Context, rq reconcile.Request) (reconcile.Result, error) {
	w, ok := cache.Get[*api.Workload](l.workloads, rq.Key.Namespace, rq.Key.Name)
	if !ok || w.Metadata.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	p, err := makePlan(l.view(w))
	if err != nil {
		return reconcile.Result{}, err
	}
	overQuota, err := l.write(ctx, rq.Cause, p.writes)
	if err != nil {
		return reconcile.Result{}, err
	}
	if overQuota != "" {
		if stands := api.FindCondition(w.Status.Conditions, copies.CondPlaced); stands != nil { // since when stays
			api.RemoveCondition(&p.status.Conditions, copies.CondPlaced)
			p.status.Conditions = append(p.status.Conditions, *stands)
		}
		api.SetCondition(&p.status.Conditions, api.Condition{Type: copies.CondPlaced, Status: api.False, Reason: reasonQuota, Message: overQuota,
			ObservedGeneration: w.Metadata.Generation}, api.TimeOf(l.Now()))
	}
	if !reflect.DeepEqual(p.status, w.Status) {
		next := api.Copy(w)
		next.Status = p.status
		if _, err := l.Write(ctx, rq.Cause, reconcile.Status(next)); err != nil {
			return reconcile.Result{}, err
		}
	}
	return reconcile.Result{After: p.after}, nil
}

func (l *loop) view(w *api.Workload) view {
	key := reconcile.WorkloadOf(w)
	v := view{
		workload: w, devices: cache.List[*api.Device](l.devices),
		assignments: reconcile.Of[*api.Assignment](l.assignments, key), now: l.Now(),
		pools: api.NewPools(cache.List[*api.DevicePool](l.pools)), holds: l.holdersOn,
	}
	born := copies.BornOn(w, copies.Newest(reconcile.Of[*api.Rollout](l.rollouts, key)))
	if rev, ok := cache.Get[*api.WorkloadRevision](l.revisions, w.Metadata.Namespace, born); ok && born != "" {
		v.birth = rev
	}
	return v
}
