// Package images resolves, again and again with back-off, the images that admission could not.
//
// It promises that a workload whose registry was unreachable when it was applied gets its digests once the registry answers,
// without being applied again; that a digest which admission found is never changed; and that a failure is written with its
// reason only when it changes. It never starts or stops anything: package revision acts on what is resolved.
package images

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/retry"
	"github.com/drover-fleet/drover/client/cache"
	"github.com/drover-fleet/drover/controllers/copies"
	"github.com/drover-fleet/drover/controllers/reconcile"
)

// missingRetry is how often to ask again for what the registry says does not exist: it may be pushed later.
const missingRetry = 5 * time.Minute

// Resolver finds the digest of an image: repository@sha256:HEX. fault.Invalid says that there is none.
type Resolver interface {
	Resolve(ctx context.Context, image string) (string, error)
}

type loop struct {
	reconcile.Deps
	resolver  Resolver
	workloads *cache.Informer
}

// New makes the loop. Its keys are workloads.
func New(d reconcile.Deps, r Resolver) *reconcile.Loop {
	l := &loop{Deps: d, resolver: r, workloads: d.Workloads()}
	out := reconcile.NewLoop("images", d, l.reconcile)
	out.Workers = 4
	out.Backoff = retry.Policy{Base: 2 * time.Second, Max: 5 * time.Minute}
	l.workloads.AddHandler(func(c cache.Change) {
		if w, ok := c.New.(*api.Workload); ok && !resolved(w) && !sameQuestion(c.Old, w) {
			out.Add(cache.KeyOf(w), c.Revision)
		}
	})
	return out
}

// resolved reports whether the present generation needs nothing from this loop.
func resolved(w *api.Workload) bool {
	c := api.FindCondition(w.Status.Conditions, copies.CondImageResolved)
	return c != nil && c.Status == api.True && c.ObservedGeneration == w.Metadata.Generation
}

// sameQuestion spares the back-off from status writes: what was asked of the registry did not change.
func sameQuestion(old api.Object, w *api.Workload) bool {
	o, ok := old.(*api.Workload)
	return ok && o != w && o.Metadata.Generation == w.Metadata.Generation && o.Metadata.UID == w.Metadata.UID
}

func (l *loop) reconcile(ctx context.Context, rq reconcile.Request) (reconcile.Result, error) {
	w, ok := cache.Get[*api.Workload](l.workloads, rq.Key.Namespace, rq.Key.Name)
	if !ok || w.Metadata.DeletionTimestamp != nil || resolved(w) {
		return reconcile.Result{}, nil
	}
	found, failure := l.resolve(ctx, w)
	if ctx.Err() != nil {
		return reconcile.Result{}, ctx.Err()
	}
	next := api.Copy(w)
	changed := !maps.Equal(found, w.Status.Images)
	next.Status.Images = found
	if api.SetCondition(&next.Status.Conditions, condition(w, failure), api.TimeOf(l.Now())) || changed {
		if _, err := l.Write(ctx, rq.Cause, reconcile.Status(next)); err != nil {
			return reconcile.Result{}, err
		}
	}
	if fault.Is(failure, fault.Invalid) {
		return reconcile.Result{After: missingRetry}, nil
	}
	return reconcile.Result{}, failure
}

// resolve asks for the images that are not known and keeps those that are. It returns the failure to report: that of an
// image which does not exist, if there is one.
func (l *loop) resolve(ctx context.Context, w *api.Workload) (map[string]string, error) {
	found := map[string]string{}
	var failure error
	for _, c := range w.Spec.Template.Spec.Containers {
		digest, ok := w.Status.Images[c.Image]
		if _, done := found[c.Image]; done {
			continue
		}
		if !ok {
			var err error
			if digest, err = l.resolver.Resolve(ctx, c.Image); err != nil {
				if failure == nil || fault.Is(err, fault.Invalid) {
					failure = fmt.Errorf("image %q: %w", c.Image, err)
				}
				continue
			}
		}
		found[c.Image] = digest
	}
	return found, failure
}

func condition(w *api.Workload, failure error) api.Condition {
	c := api.Condition{Type: copies.CondImageResolved, ObservedGeneration: w.Metadata.Generation}
	switch {
	case failure == nil:
		c.Status, c.Reason, c.Message = api.True, "Resolved", "every image is known by its digest"
	case fault.Is(failure, fault.Invalid):
		c.Status, c.Reason, c.Message = api.False, "ImageNotFound", failure.Error()
	default:
		c.Status, c.Reason, c.Message = api.False, "RegistryUnreachable", failure.Error()
	}
	return c
}
