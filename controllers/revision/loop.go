package revision

import (
	"context"
	"maps"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/client/cache"
	"github.com/drover-fleet/drover/controllers/copies"
	"github.com/drover-fleet/drover/controllers/reconcile"
)

type loop struct {
	reconcile.Deps
	workloads, revisions, assignments, rollouts *cache.Informer
}

// New makes the loop. Its keys are workloads.
func New(d reconcile.Deps) *reconcile.Loop {
	l := &loop{Deps: d, workloads: d.Workloads(), revisions: d.Revisions(), assignments: d.Assignments(), rollouts: d.Rollouts()}
	r := reconcile.NewLoop("revision", d, l.reconcile)
	l.workloads.AddHandler(func(c cache.Change) {
		if matters(c) {
			r.Add(reconcile.WorkloadOf(c.Object()), c.Revision)
		}
	})
	l.revisions.AddHandler(reconcile.WakeWorkload(r))
	return r
}

// matters tells what revisions are made from apart from counts, so that the cause of a revision is the change that made it.
func matters(c cache.Change) bool {
	if c.Old == nil || c.New == nil || c.Old == c.New {
		return true
	}
	a, b := c.Old.(*api.Workload), c.New.(*api.Workload)
	return a.Metadata.Generation != b.Metadata.Generation || !maps.Equal(a.Status.Images, b.Status.Images) ||
		a.Status.CurrentRevision != b.Status.CurrentRevision || a.Status.UpdatedRevision != b.Status.UpdatedRevision ||
		imagesSince(a) != imagesSince(b)
}

// imagesSince is the generation whose images are resolved; 0 = none is.
func imagesSince(w *api.Workload) int64 {
	c := api.FindCondition(w.Status.Conditions, copies.CondImageResolved)
	if c == nil || c.Status != api.True {
		return 0
	}
	return c.ObservedGeneration
}

func (l *loop) reconcile(ctx context.Context, rq reconcile.Request) (reconcile.Result, error) {
	w, ok := cache.Get[*api.Workload](l.workloads, rq.Key.Namespace, rq.Key.Name)
	if !ok || w.Metadata.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	become, prune, err := makePlan(view{
		workload:    w,
		revisions:   reconcile.Of[*api.WorkloadRevision](l.revisions, rq.Key),
		assignments: reconcile.Of[*api.Assignment](l.assignments, rq.Key),
		rollouts:    reconcile.Of[*api.Rollout](l.rollouts, rq.Key),
	})
	if err != nil {
		return reconcile.Result{}, err
	}
	if _, err := l.Write(ctx, rq.Cause, become...); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, l.WriteBatches(ctx, rq.Cause, prune)
}
