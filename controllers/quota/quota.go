// Package quota sees to it that every ResourceQuota is counted, also one whose maker was cut off between making and counting it.
//
// It counts nothing itself: the registry does, in the command that any write of a quota's status becomes, and in each write that
// adds or removes. A quota that nobody counted yet holds all the same.
package quota

import (
	"context"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/client/cache"
	"github.com/drover-fleet/drover/controllers/reconcile"
)

// New makes the loop. Its keys are quotas.
func New(d reconcile.Deps) *reconcile.Loop {
	quotas := d.Informers.Of(api.KindResourceQuota)
	r := reconcile.NewLoop("quota", d, func(ctx context.Context, rq reconcile.Request) (reconcile.Result, error) {
		q, ok := cache.Get[*api.ResourceQuota](quotas, rq.Key.Namespace, rq.Key.Name)
		if !ok || counted(q) {
			return reconcile.Result{}, nil
		}
		_, err := d.Write(ctx, rq.Cause, reconcile.Status(api.Copy(q)))
		return reconcile.Result{}, err
	})
	quotas.AddHandler(func(c cache.Change) {
		if q, ok := c.New.(*api.ResourceQuota); ok && !counted(q) {
			r.Add(cache.KeyOf(q), c.Revision)
		}
	})
	return r
}

// counted reports whether every limit has its count.
func counted(q *api.ResourceQuota) bool {
	for name := range q.Spec.Hard {
		if _, ok := q.Status.Used[name]; !ok {
			return false
		}
	}
	return true
}
