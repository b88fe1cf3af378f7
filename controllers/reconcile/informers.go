package reconcile

import (
	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/client/cache"
)

// Indexes that the informers of [Deps] have.
const (
	// byWorkload finds what belongs to a workload by namespace/name.
	byWorkload = "workload"
	// byDevice finds assignments by the device that they are bound to.
	byDevice = "device"
)

// Workloads is the informer of workloads.
func (d Deps) Workloads() *cache.Informer { return d.Informers.Of(api.KindWorkload) }

// Devices is the informer of devices.
func (d Deps) Devices() *cache.Informer { return d.Informers.Of(api.KindDevice) }

// Assignments is the informer of assignments, found by workload and by device.
func (d Deps) Assignments() *cache.Informer {
	i := d.Informers.Of(api.KindAssignment)
	i.AddIndex(byWorkload, func(o api.Object) []string { return []string{WorkloadOf(o).String()} })
	i.AddIndex(byDevice, func(o api.Object) []string { return []string{o.(*api.Assignment).Spec.Device} })
	return i
}

// Revisions is the informer of workload revisions, found by workload.
func (d Deps) Revisions() *cache.Informer { return d.byWorkload(api.KindWorkloadRevision) }

// Rollouts is the informer of rollouts, found by workload.
func (d Deps) Rollouts() *cache.Informer { return d.byWorkload(api.KindRollout) }

func (d Deps) byWorkload(k *api.Kind) *cache.Informer {
	i := d.Informers.Of(k)
	i.AddIndex(byWorkload, func(o api.Object) []string { return []string{WorkloadOf(o).String()} })
	return i
}

// WorkloadOf is the key of the workload that an object belongs to; of a workload it is its own.
func WorkloadOf(o api.Object) Key {
	k := Key{Namespace: o.Meta().Namespace}
	switch o := o.(type) {
	case *api.Workload:
		k.Name = o.Metadata.Name
	case *api.Assignment:
		k.Name = o.Spec.Workload
	case *api.WorkloadRevision:
		k.Name = o.Spec.Workload
	case *api.Rollout:
		k.Name = o.Spec.Workload
	}
	return k
}

// Of returns the objects of a workload that the informer holds, by name.
func Of[T api.Object](i *cache.Informer, workload Key) []T {
	return cache.By[T](i, byWorkload, workload.String())
}

// On returns the assignments that are bound to a device, by namespace and name.
func On(i *cache.Informer, device string) []*api.Assignment {
	return cache.By[*api.Assignment](i, byDevice, device)
}

// WakeWorkload is a handler that wakes the workload that the changed object belongs to.
func WakeWorkload(l *Loop) cache.Handler {
	return func(c cache.Change) { l.Add(WorkloadOf(c.Object()), c.Revision) }
}
