package gc

import (
	"context"
	"fmt"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/client/cache"
	"github.com/drover-fleet/drover/controllers/reconcile"
)

const (
	// page is how many objects one list call asks for.
	page = 200
	// heldRetry is when to look again at a namespace whose content is held by finalizers.
	heldRetry = 10 * time.Second
)

type namespacesLoop struct {
	reconcile.Deps
	namespaces *cache.Informer
}

// Namespaces makes the loop that empties and finishes namespaces that are being deleted. Its keys are namespaces.
func Namespaces(d reconcile.Deps) *reconcile.Loop {
	l := &namespacesLoop{Deps: d, namespaces: d.Informers.Of(api.KindNamespace)}
	r := reconcile.NewLoop("gc-namespaces", d, l.reconcile)
	l.namespaces.AddHandler(func(c cache.Change) {
		if c.New != nil && c.New.Meta().DeletionTimestamp != nil {
			r.Add(cache.KeyOf(c.New), c.Revision)
		}
	})
	return r
}

func (l *namespacesLoop) reconcile(ctx context.Context, rq reconcile.Request) (reconcile.Result, error) {
	ns, ok := cache.Get[*api.Namespace](l.namespaces, "", rq.Key.Name)
	if !ok || ns.Metadata.DeletionTimestamp == nil {
		return reconcile.Result{}, nil
	}
	held := 0
	for _, k := range api.Kinds() {
		if !k.Namespaced {
			continue
		}
		n, err := l.empty(ctx, k, ns.Metadata.Name, rq.Cause)
		if err != nil {
			return reconcile.Result{}, err
		}
		held += n
	}
	if held > 0 {
		return reconcile.Result{After: heldRetry}, nil
	}
	err := l.Client.Delete(ctx, api.Ref{Kind: api.KindNamespace, Name: ns.Metadata.Name}, client.DeleteOptions{UID: ns.Metadata.UID, Cause: rq.Cause})
	if fault.Is(err, fault.NotFound) {
		err = nil
	}
	return reconcile.Result{}, err
}

// empty deletes all objects of a kind in the namespace and returns how many finalizers hold back.
func (l *namespacesLoop) empty(ctx context.Context, k *api.Kind, namespace, cause string) (held int, err error) {
	o := client.ListOptions{Namespace: namespace, Limit: page}
	for {
		list, err := l.Client.List(ctx, k, o)
		if err != nil {
			return held, fmt.Errorf("list %s of namespace %s: %w", k.Plural, namespace, err)
		}
		var writes []client.TxItem
		for _, obj := range list.Items {
			if len(obj.Meta().Finalizers) > 0 {
				held++
			}
			if obj.Meta().DeletionTimestamp == nil {
				writes = append(writes, reconcile.Delete(obj))
			}
		}
		if err := l.WriteBatches(ctx, cause, writes); err != nil {
			return held, err
		}
		if o.Continue = list.Continue; o.Continue == "" {
			return held, nil
		}
	}
}
