package gc

import (
	"context"
	"fmt"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/controllers/reconcile"
)

// sweepEvery is how often everything is looked through for what no event tells of.
const sweepEvery = 10 * time.Minute

type sweepLoop struct{ reconcile.Deps }

// Sweep makes the loop that looks through all objects at an interval: for orphans of owners of any kind, and for events beyond
// their bounds. It has one key.
func Sweep(d reconcile.Deps) *reconcile.Loop {
	l := &sweepLoop{d}
	r := reconcile.NewLoop("gc-sweep", d, l.reconcile)
	r.AddAfter(reconcile.Key{Name: "all"}, "", time.Minute) // a new leader has better things to do first
	return r
}

func (l *sweepLoop) reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	if err := l.orphans(ctx); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{After: sweepEvery}, l.events(ctx)
}

func (l *sweepLoop) orphans(ctx context.Context) error {
	known := newOwners(l.Client)
	for _, k := range api.Kinds() {
		if k == api.KindEvent {
			continue
		}
		err := l.each(ctx, k, func(o api.Object) (bool, error) {
			if o.Meta().DeletionTimestamp != nil {
				return false, nil
			}
			return known.orphan(ctx, o)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *sweepLoop) events(ctx context.Context) error {
	var all []eventRef
	err := l.each(ctx, api.KindEvent, func(o api.Object) (bool, error) {
		all = append(all, refOf(o.(*api.Event)))
		return false, nil
	})
	if err != nil {
		return err
	}
	var writes []client.TxItem
	for _, e := range surplus(all, l.Now()) {
		writes = append(writes, reconcile.Delete(e.object()))
	}
	return l.WriteBatches(ctx, "", writes)
}

// each reads all objects of a kind, page by page, and deletes those that remove is true of.
func (l *sweepLoop) each(ctx context.Context, k *api.Kind, remove func(api.Object) (bool, error)) error {
	o := client.ListOptions{Limit: page}
	for {
		list, err := l.Client.List(ctx, k, o)
		if err != nil {
			return fmt.Errorf("list %s: %w", k.Plural, err)
		}
		var writes []client.TxItem
		for _, obj := range list.Items {
			gone, err := remove(obj)
			if err != nil {
				return err
			}
			if gone {
				writes = append(writes, reconcile.Delete(obj))
			}
		}
		if err := l.WriteBatches(ctx, "", writes); err != nil {
			return err
		}
		if o.Continue = list.Continue; o.Continue == "" {
			return nil
		}
	}
}
