package rollout

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/controllers/copies"
	"github.com/drover-fleet/drover/controllers/reconcile"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func at(seconds int) api.Time { return api.TimeOf(noon.Add(time.Duration(seconds) * time.Second)) }

// scene is a workload on its way from r1 to r2, whose copies a test describes.
func scene(budget int32, states ...string) view {
	w := &api.Workload{
		Metadata: api.ObjectMeta{Name: "w", Namespace: "default", UID: "u1", Generation: 1},
		Spec:     api.WorkloadSpec{Rollout: api.RolloutRule{MaxUnavailable: &api.IntOrPercent{Count: budget}}},
		Status: api.WorkloadStatus{
			ObservedGeneration: 1, CurrentRevision: "r1", UpdatedRevision: "r2", Counts: api.Counts{Desired: int32(len(states))},
		},
	}
	v := view{
		workload: w, devices: map[string]*api.Device{}, now: noon,
		target: &api.WorkloadRevision{Metadata: api.ObjectMeta{Name: "r2", ResourceVersion: "50"}, Spec: api.WorkloadRevisionSpec{Workload: "w", Revision: 2}},
		rollouts: []*api.Rollout{{
			Metadata: api.ObjectMeta{Name: "r2", Namespace: "default", UID: "ro", ResourceVersion: "60", Generation: 1, OwnerReferences: reconcile.Owned(w)},
			Spec:     api.RolloutSpec{Workload: "w", From: "r1", To: "r2", Revision: 2},
			Status: api.RolloutStatus{
				Phase: api.RolloutProgressing, ObservedGeneration: 1, LastProgress: at(-30), OriginRevision: "55",
				Wave: 1, Waves: []api.WaveStatus{{StartedAt: at(-300)}},
			},
		}},
	}
	for i, s := range states {
		v.add(fmt.Sprint("pi-", i), s)
	}
	return v
}

// add adds a copy: old, old-down, old-away, old-late, told, told-away, new, new-crash, new-fatal, new-dark.
func (v *view) add(name, state string) {
	a := &api.Assignment{
		Metadata: api.ObjectMeta{Name: "w." + name, Namespace: "default", OwnerReferences: reconcile.Owned(v.workload), CreationTimestamp: at(-9000)},
		Spec:     api.AssignmentSpec{Workload: "w", Device: name, Revision: "r1"},
		Status:   api.AssignmentStatus{Revision: "r1", Phase: api.PhaseRunning, Ready: true, ReadySince: at(-8000), ReportedAt: at(-8000)},
	}
	connected := api.Condition{Type: copies.CondConnected, Status: api.True}
	what, how, _ := strings.Cut(state, "-")
	if what != "old" {
		a.Spec.Revision = "r2"
		a.Metadata.Annotations = map[string]string{copies.AnnotationMovedAt: at(-200).Format(time.RFC3339)}
	}
	if what == "new" {
		a.Status.Revision, a.Status.ReadySince, a.Status.ReportedAt = "r2", at(-100), at(-100)
	}
	switch how {
	case "down":
		a.Status.Ready = false
	case "crash":
		a.Status.Ready, a.Status.Phase, a.Status.Message = false, api.PhaseCrashLoop, "exit code 1"
	case "fatal":
		a.Status.Ready, a.Status.Phase, a.Status.Message = false, api.PhaseFailed, "no such command"
	case "away":
		connected.Status, connected.LastTransitionTime = api.False, at(-1000)
	case "dark":
		a.Status.Ready = false
		connected.Status, connected.LastTransitionTime = api.False, at(-50)
	case "late":
		connected.Status = api.Unknown
	}
	v.devices[name] = &api.Device{Metadata: api.ObjectMeta{Name: name}, Status: api.DeviceStatus{Conditions: []api.Condition{connected}}}
	v.assignments = append(v.assignments, a)
}

// outcome is what a plan moves and what it says of the rollout.
func outcome(p plan) (moves []string, r *api.Rollout) {
	moves = []string{}
	for _, w := range p.writes {
		switch o := w.Object.(type) {
		case *api.Assignment:
			moves = append(moves, strings.TrimPrefix(o.Metadata.Name, "w.pi-"))
		case *api.Rollout:
			r = o
		}
	}
	return moves, r
}

func TestWhoMovesWithinTheBudget(t *testing.T) {
	for _, tc := range []struct {
		name   string
		budget int32
		states []string
		want   []string
	}{
		{"one of the healthy", 1, []string{"old", "old", "old"}, []string{"0"}},
		{"as many as may be down", 2, []string{"old", "old", "old"}, []string{"0", "1"}},
		{"none while one is on its way", 1, []string{"told", "old", "old"}, []string{}},
		{"none while a new one fails", 1, []string{"new-crash", "old", "old"}, []string{}},
		{"the next once it is updated", 1, []string{"new", "old", "old"}, []string{"1"}},
		{"who is down moves first and costs nothing, but counts", 1, []string{"old", "old-down", "old"}, []string{"1"}},
		{"two down exceed the budget and move all the same", 1, []string{"old-down", "old-down", "old"}, []string{"0", "1"}},
		{"who is away costs nothing", 1, []string{"old", "old-away", "old-away"}, []string{"0", "1", "2"}},
		{"who went dark with the new one counts", 1, []string{"new-dark", "old", "old-away"}, []string{"2"}},
		{"who was told while away does not", 1, []string{"told-away", "old"}, []string{"1"}},
		{"silent ones last", 1, []string{"old-late", "old"}, []string{"1"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := makePlan(scene(tc.budget, tc.states...))
			got, r := outcome(p)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("moves (-want +got):\n%s", diff)
			}
			if len(got) > 0 && p.cause != "55" {
				t.Errorf("got cause %q, want the creation of the rollout, 55", p.cause)
			}
			if len(got) > 0 && (r == nil || r.Status.Moves != int64(len(got)) || r.Metadata.ResourceVersion != "60") {
				t.Errorf("got rollout %+v, want it changed in the same transaction, so that another plan from this observation is refused", r)
			}
		})
	}
}

func TestPhases(t *testing.T) {
	for _, tc := range []struct {
		name   string
		states []string
		change func(v *view, r *api.Rollout)
		phase  string
		cause  string // part of it
	}{
		{"all updated", []string{"new", "new"}, nil, api.RolloutCompleted, "2 of 2 copies are updated"},
		{"the rest is away", []string{"new", "told-away"}, nil, api.RolloutCompleted, "1 take the revision when their device returns"},
		{"all are away", []string{"told-away", "told-away"}, nil, api.RolloutWaiting, "all 2 devices are offline"},
		{"told is not updated", []string{"new", "told"}, nil, api.RolloutProgressing, "waiting for w.pi-1 to report the revision"},
		{"crash loop within the deadline", []string{"new", "new-crash"}, nil, api.RolloutProgressing, "w.pi-1 (CrashLoop: exit code 1)"},
		{"crash loop past the deadline", []string{"new", "new-crash"}, func(_ *view, r *api.Rollout) { r.Status.LastProgress, r.Status.Best = at(-601), 9 },
			api.RolloutFailed, "no step forward in 10m0s"},
		{"cannot run", []string{"new-fatal", "old"}, nil, api.RolloutFailed, "no such command"},
		{"late success", []string{"new", "new"}, func(_ *view, r *api.Rollout) { r.Status.Phase = api.RolloutFailed }, api.RolloutCompleted, ""},
		{"failed stays failed", []string{"new", "told"}, func(_ *view, r *api.Rollout) { r.Status.Phase, r.Status.Cause = api.RolloutFailed, "why" }, api.RolloutFailed, "why"},
		{"failed, then its spec changed", []string{"new", "told"}, func(_ *view, r *api.Rollout) { r.Status.Phase, r.Metadata.Generation = api.RolloutFailed, 2 },
			api.RolloutProgressing, ""},
		{"completed, then a relapse", []string{"new", "new-crash"}, func(_ *view, r *api.Rollout) { r.Status.Phase = api.RolloutCompleted }, api.RolloutCompleted, "1 failed since"},
		{"paused", []string{"new", "old"}, func(_ *view, r *api.Rollout) { r.Spec.Paused = true }, api.RolloutPaused, ""},
		{"aborted", []string{"new", "old"}, func(_ *view, r *api.Rollout) { r.Spec.Aborted = true }, api.RolloutAborted, ""},
		{"nothing is wanted", nil, nil, api.RolloutCompleted, "no copy is wanted"},
		{"copies are not made yet", nil, func(v *view, _ *api.Rollout) { v.workload.Status.Counts.Desired = 3 }, api.RolloutProgressing, ""},
		{"the spec was not looked at yet", []string{"new"}, func(v *view, _ *api.Rollout) { v.workload.Metadata.Generation = 2 }, api.RolloutProgressing, ""},
		{"no device for it", []string{"new", "told"}, func(v *view, _ *api.Rollout) {
			v.assignments[1].Spec.Device, v.assignments[1].Status = "", api.AssignmentStatus{Conditions: []api.Condition{{Type: copies.CondScheduled, Status: api.False, Message: "0/2 devices: 2 cordoned"}}}
		}, api.RolloutProgressing, "w.pi-1, which has no device: 0/2 devices: 2 cordoned"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := scene(1, tc.states...)
			if tc.change != nil {
				tc.change(&v, v.rollouts[0])
			}
			_, r := outcome(makePlan(v))
			if r == nil {
				r = v.rollouts[0] // nothing to write
			}
			if r.Status.Phase != tc.phase || !strings.Contains(r.Status.Cause, tc.cause) {
				t.Errorf("got %s: %q, want %s with %q", r.Status.Phase, r.Status.Cause, tc.phase, tc.cause)
			}
			if ended := !r.Status.Waves[0].FinishedAt.IsZero(); ended != over(r.Status.Phase) && r != v.rollouts[0] {
				t.Errorf("got wave finished at %v in phase %s", r.Status.Waves[0].FinishedAt, r.Status.Phase)
			}
		})
	}
}

func TestFlappingIsNoProgress(t *testing.T) {
	v := scene(1, "new", "new-crash")
	r := v.rollouts[0]
	r.Status.Best = 2 + 2 + 2 // both were updated once
	r.Status.LastProgress = at(-500)
	_, next := outcome(makePlan(v))
	if next.Status.LastProgress != at(-500) || next.Status.Best != 6 {
		t.Errorf("got progress at %v, best %d; want %v and 6 as before", next.Status.LastProgress, next.Status.Best, at(-500))
	}
}

func TestNewerRevisionSupersedesInOneTransaction(t *testing.T) {
	v := scene(1, "new", "told")
	v.target = &api.WorkloadRevision{Metadata: api.ObjectMeta{Name: "r3", ResourceVersion: "70"}, Spec: api.WorkloadRevisionSpec{Revision: 3}}
	p := makePlan(v)
	if len(p.writes) != 2 || p.writes[0].Verb != client.TxCreate || p.cause != "70" {
		t.Fatalf("got %d writes by %q, want a creation and an abort by 70", len(p.writes), p.cause)
	}
	made, old := p.writes[0].Object.(*api.Rollout), p.writes[1].Object.(*api.Rollout)
	if made.Metadata.Name != "r3" || made.Spec.From != "r1" || made.Spec.Revision != 3 {
		t.Errorf("got %+v, want r3 from r1", made.Spec)
	}
	if old.Status.Phase != api.RolloutAborted || old.Status.Cause != "superseded by r3 (revision 3)" {
		t.Errorf("got %s: %q", old.Status.Phase, old.Status.Cause)
	}
	// The same revision again, with a higher number, is another rollout under another name.
	v = scene(1, "new")
	v.target.Spec.Revision = 4
	if got := makePlan(v).writes[0].Object.Meta().Name; got != "r2-4" {
		t.Errorf("got %s, want r2-4", got)
	}
}

func TestRolloutOfAnEarlierGenerationDoesNotSpeakOfTheNext(t *testing.T) {
	v := scene(1, "new", "new")
	v.workload.Status.Conditions = []api.Condition{
		{Type: copies.CondImageResolved, Status: api.False, ObservedGeneration: 1, Message: "registry does not answer"},
	}
	for _, w := range makePlan(v).writes {
		if o, ok := w.Object.(*api.Workload); ok {
			c := api.FindCondition(o.Status.Conditions, copies.CondProgressing)
			if c.Reason != "ImagesNotResolved" || c.Status != api.Unknown || c.Message != "registry does not answer" {
				t.Errorf("got %+v, want ImagesNotResolved with what the registry said", c)
			}
			return
		}
	}
	t.Error("got no condition Progressing of the workload")
}

func TestOldRolloutsGoBeyondTheLimit(t *testing.T) {
	v := scene(1, "new")
	limit := int32(1)
	v.workload.Spec.RevisionHistoryLimit = &limit
	for n := range int64(4) {
		v.rollouts = append(v.rollouts, &api.Rollout{
			Metadata: api.ObjectMeta{Name: fmt.Sprint("old-", n), Namespace: "default", OwnerReferences: reconcile.Owned(v.workload)},
			Spec:     api.RolloutSpec{Workload: "w", To: "x", Revision: n - 5},
			Status:   api.RolloutStatus{Phase: api.RolloutCompleted},
		})
	}
	_, r := outcome(makePlan(v)) // settle first: pruning waits until nothing else is to be written
	v.rollouts[0] = r
	for _, w := range makePlan(v).writes {
		if o, ok := w.Object.(*api.Workload); ok {
			v.workload = o
		}
	}
	var got []string
	for _, w := range makePlan(v).writes {
		got = append(got, fmt.Sprint(w.Verb, " ", w.Object.Meta().Name))
	}
	if diff := cmp.Diff([]string{"delete old-2", "delete old-1", "delete old-0"}, got); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}
