package sched

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/client/cache"
	"github.com/drover-fleet/drover/sched/place"
)

// snapshot is the fleet with what all bound copies ask for.
func (s *Scheduler) snapshot() *place.Snapshot {
	var devices []place.Device
	pools := s.poolsNow()
	for _, d := range cache.List[*api.Device](s.devices) {
		if d.Metadata.DeletionTimestamp == nil {
			dev := deviceOf(d)
			dev.Grant = pools.Grant(d.Metadata.Labels)
			devices = append(devices, dev)
		}
	}
	fleet := place.NewSnapshot(devices)
	type ask struct {
		cpu, memory int64
		ports       []string
	}
	asks := map[cache.Key]ask{}
	for _, o := range s.assignments.List() {
		a := o.(*api.Assignment)
		if a.Spec.Device == "" {
			continue
		}
		key := cache.Key{Namespace: a.Metadata.Namespace, Name: a.Spec.Revision}
		sum, ok := asks[key]
		if !ok {
			sum.cpu, sum.memory = s.requests(key)
			sum.ports = s.hostPorts(key)
			asks[key] = sum
		}
		fleet.Bind(a.Spec.Device, sum.cpu, sum.memory, sum.ports)
	}
	return fleet
}

func (s *Scheduler) poolsNow() api.Pools { return api.NewPools(cache.List[*api.DevicePool](s.pools)) }

func (s *Scheduler) hostPorts(revision cache.Key) []string {
	r, ok := cache.Get[*api.WorkloadRevision](s.revisions, revision.Namespace, revision.Name)
	if !ok {
		return nil
	}
	return r.Spec.Template.Spec.HostPorts()
}

func (s *Scheduler) requests(revision cache.Key) (cpu, memory int64) {
	r, ok := cache.Get[*api.WorkloadRevision](s.revisions, revision.Namespace, revision.Name)
	if !ok {
		return 0, 0
	}
	return place.Requests(r.Spec.Template.Spec)
}

func deviceOf(d *api.Device) place.Device {
	out := place.Device{
		Name: d.Metadata.Name, Labels: d.Metadata.Labels, Taints: d.Spec.Taints, Unschedulable: d.Spec.Unschedulable,
		Ready: api.ConditionIs(d.Status.Conditions, "Ready", api.True), CPU: place.Unknown, Memory: place.Unknown,
	}
	if q, ok := d.Status.Allocatable["cpu"]; ok {
		out.CPU = q.Milli()
	}
	if q, ok := d.Status.Allocatable["memory"]; ok {
		out.Memory = q.Bytes()
	}
	return out
}

// view is one workload with what its plan needs. Devices that the cache does not have are looked up in the store: only what
// is not there is lost.
func (s *Scheduler) view(ctx context.Context, w *api.Workload, fleet *place.Snapshot) (view, error) {
	own := slices.DeleteFunc(cache.By[*api.Assignment](s.assignments, byWorkload, cache.KeyOf(w).String()), func(a *api.Assignment) bool {
		return !owned(a, w)
	})
	lost := map[string]bool{}
	v := view{
		workload: w, assignments: own, fleet: fleet, now: s.Now(),
		lost: func(device string) bool { return lost[device] },
		labels: func(device string) (map[string]string, bool) {
			d, ok := cache.Get[*api.Device](s.devices, "", device)
			if !ok {
				return nil, false
			}
			return d.Metadata.Labels, true
		},
		needs: w.Spec.Template.Spec.Needs(), hostPorts: w.Spec.Template.Spec.HostPorts(), pools: s.poolsNow(),
	}
	for _, a := range own {
		if v.cpu == 0 && v.memory == 0 {
			v.cpu, v.memory = s.requests(cache.Key{Namespace: a.Metadata.Namespace, Name: a.Spec.Revision})
		}
		if _, ok := s.devices.Get(cache.Key{Name: a.Spec.Device}); ok || a.Spec.Device == "" || lost[a.Spec.Device] {
			continue
		}
		_, err := s.Client.Get(ctx, api.Ref{Kind: api.KindDevice, Name: a.Spec.Device}, client.GetOptions{})
		if fault.Is(err, fault.NotFound) {
			lost[a.Spec.Device] = true
		} else if err != nil {
			return view{}, fmt.Errorf("look for device %s: %w", a.Spec.Device, err)
		}
	}
	return v, nil
}

func owned(a *api.Assignment, w *api.Workload) bool {
	return slices.ContainsFunc(a.Metadata.OwnerReferences, func(r api.OwnerReference) bool { return r.UID == w.Metadata.UID })
}

// listen makes workloads due by what changes.
func (s *Scheduler) listen() {
	s.workloads.AddHandler(func(c cache.Change) {
		if c.New != nil && (c.Old == nil || c.Old == c.New || c.Old.Meta().Generation != c.New.Meta().Generation) {
			s.pending.add(cache.KeyOf(c.New), c.Revision)
		}
	})
	s.assignments.AddHandler(func(c cache.Change) {
		if a, ok := c.New.(*api.Assignment); ok && a.Spec.Device == "" && (c.Old == nil || c.Old == c.New || bound(c.Old) != "") {
			s.pending.add(workloadOf(a), c.Revision)
		}
		if before := bound(c.Old); before != "" && before != bound(c.New) {
			s.pending.unblock(c.Revision) // it made room
		}
	})
	s.pools.AddHandler(func(c cache.Change) {
		if c.Old != nil && c.New != nil && c.Old.Meta().Generation == c.New.Meta().Generation {
			return
		}
		for _, w := range cache.List[*api.Workload](s.workloads) {
			if w.Spec.Placement.Replicas != nil {
				s.pending.add(cache.KeyOf(w), c.Revision)
			}
		}
	})
	s.devices.AddHandler(func(c cache.Change) {
		if c.New == nil || c.Old != nil && !maps.Equal(c.Old.Meta().Labels, c.New.Meta().Labels) {
			for _, a := range cache.By[*api.Assignment](s.assignments, byDevice, c.Object().Meta().Name) {
				s.pending.add(workloadOf(a), c.Revision)
			}
		}
		if relevant(c) {
			s.pending.unblock(c.Revision)
		}
	})
}

func bound(o api.Object) string {
	a, ok := o.(*api.Assignment)
	if !ok {
		return ""
	}
	return a.Spec.Device
}

// relevant reports a change of what filters look at.
func relevant(c cache.Change) bool {
	if c.Old == nil || c.New == nil || c.Old == c.New {
		return true
	}
	a, b := c.Old.(*api.Device), c.New.(*api.Device)
	x, y := deviceOf(a), deviceOf(b)
	return !maps.Equal(x.Labels, y.Labels) || !slices.Equal(x.Taints, y.Taints) || x.Unschedulable != y.Unschedulable ||
		x.Ready != y.Ready || x.CPU != y.CPU || x.Memory != y.Memory
}
