package revision

import (
	"context"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/client/cache"
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
	l.workloads.AddHandler(reconcile.WakeWorkload(r))
	l.revisions.AddHandler(reconcile.WakeWorkload(r))
	return r
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
	if _, err := l.Write(ctx, w.Metadata.ResourceVersion, become...); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, l.WriteBatches(ctx, rq.Cause, prune)
}
