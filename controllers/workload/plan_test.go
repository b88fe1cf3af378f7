package workload

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/controllers/copies"
	"github.com/drover-fleet/drover/controllers/reconcile"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func on(p api.Placement) *api.Workload {
	return &api.Workload{
		Metadata: api.ObjectMeta{Name: "w", Namespace: "default", UID: "u1", Generation: 1},
		Spec:     api.WorkloadSpec{Placement: p},
		Status:   api.WorkloadStatus{UpdatedRevision: "w-r1"},
	}
}

var rev1 = &api.WorkloadRevision{Metadata: api.ObjectMeta{Name: "w-r1", Namespace: "default"}, Spec: api.WorkloadRevisionSpec{Workload: "w", Revision: 1}}

func device(name string, change func(*api.Device)) *api.Device {
	d := &api.Device{Metadata: api.ObjectMeta{Name: name, Labels: map[string]string{"site": "north"}}}
	if change != nil {
		change(d)
	}
	return d
}

// placed is a copy as the loop makes them; ordinal below 0 is none.
func placed(w *api.Workload, name, device string, ordinal int32) *api.Assignment {
	a := &api.Assignment{
		Metadata: api.ObjectMeta{Name: name, Namespace: "default", UID: "a-" + name, OwnerReferences: reconcile.Owned(w)},
		Spec:     api.AssignmentSpec{Workload: "w", Device: device, Revision: "w-r1"},
	}
	if ordinal >= 0 {
		a.Spec.Ordinal = &ordinal
	}
	return a
}

// told lists the writes of a plan as "verb name device".
func told(p plan) []string {
	out := []string{}
	for _, w := range p.writes {
		out = append(out, strings.TrimSpace(fmt.Sprint(w.Verb, " ", w.Object.Meta().Name, " ", w.Object.(*api.Assignment).Spec.Device)))
	}
	return out
}

func TestPlanOfCopies(t *testing.T) {
	north := api.Placement{Everywhere: true, Selector: &api.LabelSelector{MatchLabels: map[string]string{"site": "north"}}}
	replicas := func(n int32) api.Placement { return api.Placement{Replicas: &n, All: true} }
	older := on(north)
	older.Metadata.UID = "u0"
	offline := func(d *api.Device) {
		d.Status.Conditions = []api.Condition{{Type: copies.CondConnected, Status: api.False}, {Type: copies.CondReady, Status: api.False}}
	}
	gone := api.TimeOf(noon)
	for _, tc := range []struct {
		name string
		w    *api.Workload
		dev  []*api.Device
		have []*api.Assignment
		want []string
		n    int32 // desired
	}{
		{"one on each selected device, offline ones too", on(north),
			[]*api.Device{device("a", nil), device("b", offline), device("c", func(d *api.Device) { d.Metadata.Labels["site"] = "south" })}, nil,
			[]string{"create w.a a", "create w.b b"}, 2},
		{"selected no longer", on(north), []*api.Device{device("a", func(d *api.Device) { d.Metadata.Labels = nil })},
			[]*api.Assignment{placed(on(north), "w.a", "a", -1)}, []string{"delete w.a"}, 0},
		{"device deleted", on(north), nil, []*api.Assignment{placed(on(north), "w.a", "a", -1)}, []string{"delete w.a"}, 0},
		{"device on its way out", on(north), []*api.Device{device("a", func(d *api.Device) { d.Metadata.DeletionTimestamp = &gone })}, nil, []string{}, 0},
		{"cordoned and tainted ones get nothing new and lose nothing", on(north), []*api.Device{
			device("a", func(d *api.Device) { d.Spec.Unschedulable = true }),
			device("b", func(d *api.Device) { d.Spec.Taints = []api.Taint{{Key: "k", Effect: "NoSchedule"}} }),
			device("c", func(d *api.Device) { d.Spec.Unschedulable = true }),
		}, []*api.Assignment{placed(on(north), "w.b", "b", -1), placed(on(north), "w.c", "c", -1)}, []string{}, 2},
		{"no selector selects nothing", on(api.Placement{Everywhere: true}), []*api.Device{device("a", nil)}, nil, []string{}, 0},
		{"an earlier workload's copy is left to gc and its name waited for", on(north), []*api.Device{device("a", nil)},
			[]*api.Assignment{placed(older, "w.a", "a", -1)}, []string{}, 1},
		{"replicas are born unbound", on(replicas(2)), []*api.Device{device("a", nil)}, nil, []string{"create w.0", "create w.1"}, 2},
		{"highest ordinals go first", on(replicas(1)), nil,
			[]*api.Assignment{placed(on(north), "w.0", "a", 0), placed(on(north), "w.1", "b", 1), placed(on(north), "w.10", "c", 10)}, []string{"delete w.1", "delete w.10"}, 1},
		{"a hole is filled", on(replicas(2)), nil, []*api.Assignment{placed(on(north), "w.1", "b", 1)}, []string{"create w.0"}, 2},
		{"everywhere becomes replicas", on(replicas(1)), []*api.Device{device("a", nil)}, []*api.Assignment{placed(on(north), "w.a", "a", -1)},
			[]string{"create w.0", "delete w.a"}, 1},
		{"a copy of the other kind keeps its name until it is gone", on(replicas(1)), nil, []*api.Assignment{placed(on(north), "w.0", "0", -1)}, []string{"delete w.0"}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, err := makePlan(view{workload: tc.w, devices: tc.dev, assignments: tc.have, birth: rev1, now: noon})
			if err != nil {
				t.Fatal(err)
			}
			got := told(p)
			slices.Sort(got)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			if p.status.Counts.Desired != tc.n {
				t.Errorf("got desired %d, want %d", p.status.Counts.Desired, tc.n)
			}
		})
	}
}

func TestNothingIsMadeBeforeThereIsARevision(t *testing.T) {
	w := on(api.Placement{Everywhere: true, All: true})
	p, err := makePlan(view{workload: w, devices: []*api.Device{device("a", nil)}, now: noon})
	if err != nil || len(p.writes) > 0 {
		t.Errorf("got %v %v, want no write", told(p), err)
	}
	c := api.FindCondition(p.status.Conditions, copies.CondAvailable)
	if c == nil || c.Reason != "NoRevision" || p.status.ObservedGeneration != 0 {
		t.Errorf("got %+v, observed %d; want NoRevision, and no word of the present generation", c, p.status.ObservedGeneration)
	}
}

func TestBornOnIsTheLastGoodRevisionWhileTheNewestIsHeld(t *testing.T) {
	w := on(api.Placement{})
	w.Status.CurrentRevision, w.Status.UpdatedRevision = "w-r1", "w-r2"
	to := func(phase string, paused bool) *api.Rollout {
		return &api.Rollout{Spec: api.RolloutSpec{To: "w-r2", Paused: paused}, Status: api.RolloutStatus{Phase: phase}}
	}
	for _, tc := range []struct {
		newest *api.Rollout
		want   string
	}{
		{nil, "w-r2"}, {to(api.RolloutProgressing, false), "w-r2"}, {to(api.RolloutProgressing, true), "w-r1"},
		{to(api.RolloutFailed, false), "w-r1"}, {to(api.RolloutAborted, false), "w-r1"}, {to(api.RolloutCompleted, false), "w-r2"},
	} {
		if got := copies.BornOn(w, tc.newest); got != tc.want {
			t.Errorf("%+v: got %s, want %s", tc.newest, got, tc.want)
		}
	}
}
