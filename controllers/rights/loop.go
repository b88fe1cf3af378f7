package rights

import (
	"context"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/client/cache"
	"github.com/drover-fleet/drover/controllers/reconcile"
)

const (
	gathers = "gathers"
	yes     = "yes"
)

type loop struct {
	reconcile.Deps
	roles, bindings *cache.Informer
}

func newLoop(d reconcile.Deps) *loop {
	l := &loop{Deps: d, roles: d.Informers.Of(api.KindClusterRole), bindings: d.Informers.Of(api.KindClusterRoleBinding)}
	l.roles.AddIndex(gathers, func(o api.Object) []string {
		if o.(*api.ClusterRole).AggregationRule == nil {
			return nil
		}
		return []string{yes}
	})
	return l
}

// NewRoles makes the loop over ClusterRoles. Its keys are their names.
func NewRoles(d reconcile.Deps) *reconcile.Loop {
	l := newLoop(d)
	r := reconcile.NewLoop("rights", d, l.role)
	l.roles.AddHandler(func(c cache.Change) {
		r.Add(cache.KeyOf(c.Object()), c.Revision)
		for _, o := range l.roles.By(gathers, yes) {
			r.Add(cache.KeyOf(o), c.Revision)
		}
	})
	for _, o := range Roles() {
		r.Add(cache.KeyOf(o), "")
	}
	return r
}

// NewBindings makes the loop over ClusterRoleBindings. Its keys are their names.
func NewBindings(d reconcile.Deps) *reconcile.Loop {
	l := newLoop(d)
	r := reconcile.NewLoop("bindings", d, l.binding)
	l.bindings.AddHandler(func(c cache.Change) { r.Add(cache.KeyOf(c.Object()), c.Revision) })
	for _, o := range Bindings() {
		r.Add(cache.KeyOf(o), "")
	}
	return r
}

func (l *loop) role(ctx context.Context, rq reconcile.Request) (reconcile.Result, error) {
	cur, _ := cache.Get[*api.ClusterRole](l.roles, "", rq.Key.Name)
	next := planRole(rq.Key.Name, cur, cache.List[*api.ClusterRole](l.roles))
	if next == nil {
		return reconcile.Result{}, nil
	}
	_, err := l.Write(ctx, rq.Cause, writeOf(cur == nil, next))
	return reconcile.Result{}, err
}

func (l *loop) binding(ctx context.Context, rq reconcile.Request) (reconcile.Result, error) {
	cur, _ := cache.Get[*api.ClusterRoleBinding](l.bindings, "", rq.Key.Name)
	next := planBinding(rq.Key.Name, cur)
	if next == nil {
		return reconcile.Result{}, nil
	}
	_, err := l.Write(ctx, rq.Cause, writeOf(cur == nil, next))
	return reconcile.Result{}, err
}

func writeOf(isNew bool, o api.Object) client.TxItem {
	if isNew {
		return reconcile.Create(o)
	}
	return reconcile.Update(o)
}
