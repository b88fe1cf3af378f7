package gc

import (
	"context"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/client/cache"
	"github.com/drover-fleet/drover/controllers/reconcile"
)

// owners judges whether owners exist, each at most once.
type owners struct {
	c    client.Client
	gone map[ownerKey]bool
}

type ownerKey struct {
	namespace, name, uid string
	kind                 *api.Kind
}

func newOwners(c client.Client) *owners { return &owners{c: c, gone: map[ownerKey]bool{}} }

// orphan reports whether the object names owners and none of them exists. Owners of kinds that the API does not have are
// taken to exist.
func (w *owners) orphan(ctx context.Context, o api.Object) (bool, error) {
	refs := o.Meta().OwnerReferences
	for _, r := range refs {
		gone, err := w.isGone(ctx, o.Meta().Namespace, r)
		if err != nil || !gone {
			return false, err
		}
	}
	return len(refs) > 0, nil
}

func (w *owners) isGone(ctx context.Context, namespace string, r api.OwnerReference) (bool, error) {
	kind, ok := api.KindOf(r.APIVersion, r.Kind)
	if !ok {
		return false, nil
	}
	if !kind.Namespaced {
		namespace = ""
	}
	key := ownerKey{namespace, r.Name, r.UID, kind}
	if gone, ok := w.gone[key]; ok {
		return gone, nil
	}
	owner, err := w.c.Get(ctx, api.Ref{Kind: kind, Namespace: namespace, Name: r.Name}, client.GetOptions{})
	if err != nil && !fault.Is(err, fault.NotFound) {
		return false, err
	}
	w.gone[key] = err != nil || owner.Meta().UID != r.UID
	return w.gone[key], nil
}

type ownersLoop struct {
	reconcile.Deps
	workloads, assignments, revisions, rollouts *cache.Informer
}

// Owners makes the loop that removes what belonged to deleted workloads. Its keys are workloads; what other owners leave
// behind is found by [Sweep].
func Owners(d reconcile.Deps) *reconcile.Loop {
	l := &ownersLoop{Deps: d, workloads: d.Workloads(), assignments: d.Assignments(), revisions: d.Revisions(), rollouts: d.Rollouts()}
	r := reconcile.NewLoop("gc-owners", d, l.reconcile)
	r.Workers = 2
	l.workloads.AddHandler(func(c cache.Change) {
		if c.New == nil || c.Old != nil && c.Old.Meta().UID != c.New.Meta().UID {
			r.Add(reconcile.WorkloadOf(c.Object()), c.Revision)
		}
	})
	for _, dependents := range []*cache.Informer{l.assignments, l.revisions, l.rollouts} {
		dependents.AddHandler(func(c cache.Change) {
			if c.New != nil && !l.ownerKnown(c.New) {
				r.Add(reconcile.WorkloadOf(c.New), c.Revision)
			}
		})
	}
	return r
}

// ownerKnown reports whether the cache holds the workload that owns the object. It only spares looks: what it denies is
// asked of the store.
func (l *ownersLoop) ownerKnown(o api.Object) bool {
	w, ok := l.workloads.Get(reconcile.WorkloadOf(o))
	return ok && reconcile.OwnedBy(o, w)
}

func (l *ownersLoop) reconcile(ctx context.Context, rq reconcile.Request) (reconcile.Result, error) {
	var dependents []api.Object
	for _, a := range reconcile.Of[*api.Assignment](l.assignments, rq.Key) {
		dependents = append(dependents, a)
	}
	for _, r := range reconcile.Of[*api.Rollout](l.rollouts, rq.Key) {
		dependents = append(dependents, r)
	}
	for _, r := range reconcile.Of[*api.WorkloadRevision](l.revisions, rq.Key) {
		dependents = append(dependents, r)
	}
	known := newOwners(l.Client)
	var writes []client.TxItem
	for _, o := range dependents {
		orphan, err := known.orphan(ctx, o)
		if err != nil {
			return reconcile.Result{}, err
		}
		if orphan && o.Meta().DeletionTimestamp == nil {
			writes = append(writes, reconcile.Delete(o))
		}
	}
	return reconcile.Result{}, l.WriteBatches(ctx, rq.Cause, writes)
}
