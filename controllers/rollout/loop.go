package rollout

import (
	"context"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/client/cache"
	"github.com/drover-fleet/drover/controllers/copies"
	"github.com/drover-fleet/drover/controllers/reconcile"
)

type loop struct {
	reconcile.Deps
	workloads, revisions, assignments, rollouts, devices *cache.Informer
}

// New makes the loop. Its keys are workloads, since the budget is a workload's, over all its rollouts.
func New(d reconcile.Deps) *reconcile.Loop {
	l := &loop{
		Deps: d, workloads: d.Workloads(), revisions: d.Revisions(), assignments: d.Assignments(),
		rollouts: d.Rollouts(), devices: d.Devices(),
	}
	r := reconcile.NewLoop("rollout", d, l.reconcile)
	r.Workers = 2
	l.workloads.AddHandler(reconcile.WakeWorkload(r))
	l.revisions.AddHandler(reconcile.WakeWorkload(r))
	l.assignments.AddHandler(reconcile.WakeWorkload(r))
	l.rollouts.AddHandler(reconcile.WakeWorkload(r))
	l.devices.AddHandler(func(c cache.Change) {
		if presence(c.Old) != presence(c.New) || c.Old == c.New {
			for _, a := range reconcile.On(l.assignments, c.Object().Meta().Name) {
				r.Add(reconcile.WorkloadOf(a), c.Revision)
			}
		}
	})
	return r
}

// presence is what of a device a rollout looks at.
func presence(o api.Object) api.Condition {
	if o == nil {
		return api.Condition{}
	}
	if c := api.FindCondition(o.(*api.Device).Status.Conditions, copies.CondConnected); c != nil {
		return *c
	}
	return api.Condition{Status: api.Unknown}
}

func (l *loop) reconcile(ctx context.Context, rq reconcile.Request) (reconcile.Result, error) {
	w, ok := cache.Get[*api.Workload](l.workloads, rq.Key.Namespace, rq.Key.Name)
	if !ok || w.Metadata.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	v := l.view(w)
	p := makePlan(v)
	if p.cause == "" {
		p.cause = rq.Cause
	}
	_, err := l.Write(ctx, p.cause, p.writes...)
	if client.OverQuota(err) {
		return l.wait(ctx, rq, v, err)
	}
	return reconcile.Result{After: p.after}, err
}

// quotaWait is how long until a batch that a quota did not let through is tried again.
const quotaWait = 30 * time.Second

// wait says in the rollout that its next batch asks for more than a quota allows. The copies stay as they are; the progress deadline
// ends it like any other that gets no further.
func (l *loop) wait(ctx context.Context, rq reconcile.Request, v view, refused error) (reconcile.Result, error) {
	r := copies.Newest(v.rollouts)
	if r == nil {
		return reconcile.Result{}, refused
	}
	next := api.Copy(r)
	next.Status.Cause = "the next copies wait: " + refused.Error()
	if next.Status.Cause == r.Status.Cause {
		return reconcile.Result{After: quotaWait}, nil
	}
	_, err := l.Write(ctx, rq.Cause, reconcile.Status(next))
	return reconcile.Result{After: quotaWait}, err
}

func (l *loop) view(w *api.Workload) view {
	key := reconcile.WorkloadOf(w)
	v := view{
		workload: w, assignments: reconcile.Of[*api.Assignment](l.assignments, key),
		rollouts: reconcile.Of[*api.Rollout](l.rollouts, key), devices: map[string]*api.Device{}, now: l.Now(),
	}
	if rev, ok := cache.Get[*api.WorkloadRevision](l.revisions, w.Metadata.Namespace, w.Status.UpdatedRevision); ok {
		v.target = rev
	}
	for _, a := range v.assignments {
		if d, ok := cache.Get[*api.Device](l.devices, "", a.Spec.Device); ok {
			v.devices[a.Spec.Device] = d
		}
	}
	return v
}
