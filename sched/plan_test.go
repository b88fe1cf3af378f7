package sched

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/client/cache"
	"github.com/drover-fleet/drover/sched/place"
)

// fleetOf are ready devices of site north for each name.
func fleetOf(names ...string) (*place.Snapshot, map[string]map[string]string) {
	var devices []place.Device
	labels := map[string]map[string]string{}
	for _, n := range names {
		labels[n] = map[string]string{"site": "north"}
		devices = append(devices, place.Device{Name: n, Ready: true, Labels: labels[n], CPU: place.Unknown, Memory: 100})
	}
	return place.NewSnapshot(devices), labels
}

func replica(n int32, device string, scheduled string) *api.Assignment {
	a := &api.Assignment{
		Metadata: api.ObjectMeta{Name: fmt.Sprint("w.", n), Namespace: "default", Labels: map[string]string{"app": "w"}},
		Spec:     api.AssignmentSpec{Workload: "w", Ordinal: &n, Device: device, Revision: "r"},
	}
	if device != "" {
		a.Status = api.AssignmentStatus{Phase: api.PhaseRunning, Ready: true, Revision: "r"}
	}
	if scheduled != "" {
		a.Status.Conditions = []api.Condition{{Type: CondScheduled, Status: scheduled, Reason: reasonUnschedulable}}
	}
	return a
}

func planFor(t *testing.T, memory int64, devices []string, lost string, have ...*api.Assignment) (plan, []string) {
	t.Helper()
	fleet, labels := fleetOf(devices...)
	w := &api.Workload{Metadata: api.ObjectMeta{Name: "w", Namespace: "default"}}
	w.Spec.Placement.Selector = &api.LabelSelector{MatchLabels: map[string]string{"site": "north"}}
	p, err := makePlan(view{
		workload: w, assignments: have, fleet: fleet, memory: memory, now: time.Unix(1e9, 0),
		lost:   func(d string) bool { return d == lost },
		labels: func(d string) (map[string]string, bool) { l, ok := labels[d]; return l, ok },
	})
	if err != nil {
		t.Fatal(err)
	}
	out := []string{}
	for _, items := range p.bindings {
		for _, i := range items {
			a := i.Object.(*api.Assignment)
			c := api.FindCondition(a.Status.Conditions, CondScheduled)
			s := fmt.Sprintf("%s %s on %q", i.Verb, a.Metadata.Name, a.Spec.Device)
			if i.Verb == "status" {
				s += fmt.Sprintf(" ready=%v scheduled=%s", a.Status.Ready, c.Status)
			} else if a.Metadata.Labels[api.LabelDevice] != a.Spec.Device || a.Metadata.Labels["app"] != "w" {
				t.Errorf("got labels %v of %s on %q", a.Metadata.Labels, a.Metadata.Name, a.Spec.Device)
			}
			out = append(out, s)
		}
	}
	return p, out
}

func TestPlanOfBindings(t *testing.T) {
	for _, tc := range []struct {
		name    string
		memory  int64
		devices []string
		lost    string
		have    []*api.Assignment
		want    []string
		blocked bool
	}{
		{"a first binding is one write", 0, []string{"a"}, "", []*api.Assignment{replica(0, "", "")}, []string{`update w.0 on "a"`}, false},
		{"what is bound stays", 0, []string{"a", "b"}, "", []*api.Assignment{replica(0, "b", "")}, []string{}, false},
		{"a device that is only not known keeps its copy", 0, []string{"a"}, "", []*api.Assignment{replica(0, "x", "")}, []string{}, false},
		{"off a device that is gone, its report forgotten", 0, []string{"a"}, "x", []*api.Assignment{replica(0, "x", "")},
			[]string{`status w.0 on "x" ready=false scheduled=True`, `update w.0 on "a"`}, false},
		{"no device for all", 60, []string{"a"}, "", []*api.Assignment{replica(0, "", ""), replica(1, "", "")},
			[]string{`update w.0 on "a"`, `status w.1 on "" ready=false scheduled=False`}, true},
		{"nowhere else to go", 101, []string{"a"}, "x", []*api.Assignment{replica(0, "x", "")},
			[]string{`status w.0 on "x" ready=false scheduled=False`, `update w.0 on ""`}, true},
		{"refused before, bound now", 0, []string{"a"}, "", []*api.Assignment{replica(0, "", api.False)},
			[]string{`status w.0 on "" ready=false scheduled=True`, `update w.0 on "a"`}, false},
		{"bound, but its condition was not mended", 0, []string{"a"}, "", []*api.Assignment{replica(0, "a", api.False)},
			[]string{`status w.0 on "a" ready=true scheduled=True`}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, got := planFor(t, tc.memory, tc.devices, tc.lost, tc.have...)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			if p.blocked != tc.blocked || p.workload == nil || api.ConditionIs(p.workload.Status.Conditions, CondScheduled, api.False) != tc.blocked {
				t.Errorf("got blocked %v and workload %+v, want %v and a condition that says so", p.blocked, p.workload, tc.blocked)
			}
		})
	}
}

func TestBlockedWorkloadIsDueOnlyOnceSomethingChanged(t *testing.T) {
	p := newPending()
	a, b := cache.Key{Namespace: "default", Name: "a"}, cache.Key{Namespace: "default", Name: "b"}
	p.add(b, "3")
	p.add(a, "9")
	p.add(a, "10")
	if got := fmt.Sprint(p.take()); got != "[{{default a} 10} {{default b} 3}]" {
		t.Errorf("got %s, want a by its newest cause, then b", got)
	}
	p.settle(a) // b stays blocked
	if got := p.take(); len(got) != 0 {
		t.Errorf("got %v due though nothing changed", got)
	}
	p.unblock("12")
	if got := fmt.Sprint(p.take()); got != "[{{default b} 12}]" {
		t.Errorf("got %s, want b by the change", got)
	}
	p.unblock("13") // while the pass runs
	if got := fmt.Sprint(p.take()); got != "[{{default b} 13}]" {
		t.Errorf("got %s, want the change during the pass to count", got)
	}
}
