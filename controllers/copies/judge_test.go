package copies

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-fleet/drover/api"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func at(seconds int) api.Time { return api.TimeOf(noon.Add(time.Duration(seconds) * time.Second)) }

// copyOf runs r1 since a long time before noon.
func copyOf(change func(a *api.Assignment)) *api.Assignment {
	a := &api.Assignment{
		Metadata: api.ObjectMeta{Name: "w.pi", CreationTimestamp: at(-9000)},
		Spec:     api.AssignmentSpec{Workload: "w", Device: "pi", Revision: "r1"},
		Status:   api.AssignmentStatus{Phase: api.PhaseRunning, Ready: true, ReadySince: at(-8000), ReportedAt: at(-8000), Revision: "r1"},
	}
	if change != nil {
		change(a)
	}
	return a
}

func told(a *api.Assignment, revision string, seconds int) {
	a.Spec.Revision = revision
	a.Metadata.Annotations = map[string]string{AnnotationMovedAt: at(seconds).Format(time.RFC3339)}
}

func device(status string, since int) *api.Device {
	return &api.Device{Status: api.DeviceStatus{Conditions: []api.Condition{{Type: CondConnected, Status: status, LastTransitionTime: at(since)}}}}
}

func TestJudge(t *testing.T) {
	here := device(api.True, -9000)
	for _, tc := range []struct {
		name     string
		a        *api.Assignment
		device   *api.Device
		minReady time.Duration
		want     Verdict
	}{
		{"ready on its revision", copyOf(nil), here, 0, Verdict{Bound: true, Reached: true, Updated: true}},
		{"told is not updated", copyOf(func(a *api.Assignment) { told(a, "r2", -10) }), here, 0, Verdict{Bound: true, Down: true}},
		{"ready for too short", copyOf(func(a *api.Assignment) { a.Status.ReadySince = at(-10) }), here, time.Minute,
			Verdict{Bound: true, Reached: true, Proving: true, Down: true, Wait: 50 * time.Second}},
		{"ready for long enough", copyOf(func(a *api.Assignment) { a.Status.ReadySince = at(-60) }), here, time.Minute,
			Verdict{Bound: true, Reached: true, Updated: true}},
		{"relapse takes it back", copyOf(func(a *api.Assignment) { a.Status.Ready = false }), here, 0, Verdict{Bound: true, Reached: true, Down: true}},
		{"crash loop", copyOf(func(a *api.Assignment) { a.Status.Ready, a.Status.Phase = false, api.PhaseCrashLoop }), here, 0,
			Verdict{Bound: true, Reached: true, Failed: true, Down: true}},
		{"cannot run", copyOf(func(a *api.Assignment) { a.Status.Ready, a.Status.Phase = false, api.PhaseFailed }), here, 0,
			Verdict{Bound: true, Reached: true, Failed: true, Fatal: true, Down: true}},
		{"crash of the revision before proves nothing", copyOf(func(a *api.Assignment) {
			told(a, "r2", -10)
			a.Status.Ready, a.Status.Phase = false, api.PhaseFailed
		}), here, 0, Verdict{Bound: true, Down: true}},
		{"unbound", copyOf(func(a *api.Assignment) { a.Spec.Device, a.Status = "", api.AssignmentStatus{} }), nil, 0, Verdict{Down: true}},
		{"late is not away", copyOf(nil), device(api.Unknown, -60), 0, Verdict{Bound: true, Reached: true, Updated: true}},
		{"away and fine when last heard of", copyOf(nil), device(api.False, -600), 0, Verdict{Bound: true, Away: true, Reached: true, Updated: true}},
		{"away before it was told", copyOf(func(a *api.Assignment) { told(a, "r2", -10) }), device(api.False, -600), 0,
			Verdict{Bound: true, Away: true, PendingOffline: true}},
		{"dark after it was told", copyOf(func(a *api.Assignment) { told(a, "r2", -600) }), device(api.False, -300), 0,
			Verdict{Bound: true, Away: true, Failed: true, Down: true}},
		{"dark so shortly before that clocks cannot tell", copyOf(func(a *api.Assignment) { told(a, "r2", -600) }), device(api.False, -603), 0,
			Verdict{Bound: true, Away: true, Failed: true, Down: true}},
		{"dark before it proved good", copyOf(func(a *api.Assignment) {
			told(a, "r1", -600)
			a.Status.ReadySince, a.Status.ReportedAt = at(-330), at(-330)
		}), device(api.False, -300), time.Minute, Verdict{Bound: true, Away: true, Reached: true, Failed: true, Down: true}},
		{"dark after it proved good", copyOf(func(a *api.Assignment) {
			told(a, "r1", -600)
			a.Status.ReadySince, a.Status.ReportedAt = at(-500), at(-500)
		}), device(api.False, -300), time.Minute, Verdict{Bound: true, Away: true, Reached: true, Updated: true}},
		{"back to the old revision while dark: the old report proves nothing", copyOf(func(a *api.Assignment) { told(a, "r1", -600) }),
			device(api.False, -300), 0, Verdict{Bound: true, Away: true, Reached: true, Failed: true, Down: true}},
		{"device that never connected", copyOf(func(a *api.Assignment) { a.Metadata.CreationTimestamp, a.Status = at(-9000), api.AssignmentStatus{} }),
			&api.Device{Status: api.DeviceStatus{Conditions: []api.Condition{{Type: CondConnected, Status: api.False, Reason: ReasonNeverConnected, LastTransitionTime: at(-9000)}}}}, 0,
			Verdict{Bound: true, Away: true, PendingOffline: true}},
		{"device deleted", copyOf(func(a *api.Assignment) { told(a, "r2", -10) }), nil, 0, Verdict{Bound: true, Away: true, PendingOffline: true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := Judge(tc.a, tc.device, tc.minReady, noon)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
			if got.Updated && (got.Failed || got.Down || got.PendingOffline) || got.PendingOffline && got.Down {
				t.Errorf("got a verdict that contradicts itself: %+v", got)
			}
		})
	}
}
