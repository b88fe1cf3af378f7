package revision

import (
	"cmp"
	"context"
	"maps"
	"slices"

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
	l.rollouts.AddHandler(func(c cache.Change) {
		if phase(c.Old) != phase(c.New) {
			r.Add(reconcile.WorkloadOf(c.Object()), noCause)
		}
	})
	l.assignments.AddHandler(func(c cache.Change) {
		if l.frees(c) {
			r.Add(reconcile.WorkloadOf(c.Object()), noCause)
		}
	})
	return r
}

// noCause wakes a workload because one of its revisions may have come out of use: that may end a revision, but makes none.
const noCause = ""

func phase(o api.Object) string {
	if o == nil {
		return ""
	}
	return o.(*api.Rollout).Status.Phase
}

// frees reports whether a copy left a revision that its workload keeps only for the copies on it.
func (l *loop) frees(c cache.Change) bool {
	if c.Old == nil || c.Old == c.New {
		return false
	}
	was, is := c.Old.(*api.Assignment), &api.Assignment{}
	if c.New != nil {
		is = c.New.(*api.Assignment)
	}
	kept := []string{"", is.Spec.Revision, is.Status.Revision}
	key := reconcile.WorkloadOf(was)
	if w, ok := cache.Get[*api.Workload](l.workloads, key.Namespace, key.Name); ok {
		kept = append(kept, w.Status.CurrentRevision, w.Status.UpdatedRevision)
	}
	return !slices.Contains(kept, was.Spec.Revision) || !slices.Contains(kept, was.Status.Revision)
}

// matters tells what revisions are made from apart from counts, so that the cause of a revision is the change that made it.
func matters(c cache.Change) bool {
	if c.Old == nil || c.New == nil || c.Old == c.New {
		return true
	}
	a, b := c.Old.(*api.Workload), c.New.(*api.Workload)
	return a.Metadata.Generation != b.Metadata.Generation || !maps.Equal(a.Status.Images, b.Status.Images) ||
		a.Status.CurrentRevision != b.Status.CurrentRevision || a.Status.UpdatedRevision != b.Status.UpdatedRevision ||
		copies.ImagesSince(a) != copies.ImagesSince(b)
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
	return reconcile.Result{}, l.WriteBatches(ctx, cmp.Or(rq.Cause, w.Metadata.ResourceVersion), prune)
}
