package gateway

import (
	"testing"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/wire"
	"github.com/drover-fleet/drover/client"
)

func reportOn(now time.Time) (reportInputs, wire.Report) {
	d := &api.Device{Metadata: api.ObjectMeta{Name: "pi-07", UID: "d1", ResourceVersion: "50"}}
	d.Status.Identity = api.DeviceIdentity{Session: 3, Sequence: 5, JournalAcked: 10}
	d.Status.Bundle.Desired = api.BundleRef{Revision: "40", Hash: "h"}
	d.Status.Bundle.Held = api.BundleRef{Revision: "40"}
	d.Status.Bundle.Inputs = map[string]string{"tombstones": "30"}
	in := reportInputs{
		device: d, now: now,
		assignments: map[string]*api.Assignment{"u1": {Metadata: api.ObjectMeta{Namespace: "default", Name: "camera.pi-07", UID: "u1"}, Spec: api.AssignmentSpec{Device: "pi-07"}}},
		tombstones: map[string]*api.Tombstone{
			"old": {Metadata: api.ObjectMeta{Name: "pi-07.old", ResourceVersion: "30"}, Spec: api.TombstoneSpec{Device: "pi-07", UID: "old"}},
			"new": {Metadata: api.ObjectMeta{Name: "pi-07.new", ResourceVersion: "31"}, Spec: api.TombstoneSpec{Device: "pi-07", UID: "new"}},
		},
	}
	return in, wire.Report{Session: 3, Sequence: 6, Held: wire.Position{Revision: 40}}
}

func verbs(p reportPlan) map[client.Verb]int {
	out := map[client.Verb]int{}
	for _, i := range p.items {
		out[i.Verb]++
	}
	return out
}

func TestAReportNotHigherThanWhatWasWrittenChangesNothing(t *testing.T) {
	for _, c := range []struct{ session, sequence uint64 }{{3, 5}, {3, 4}, {2, 99}} {
		in, r := reportOn(time.Now())
		r.Session, r.Sequence = c.session, c.sequence
		r.Statuses = []wire.Status{{UID: "u1", Phase: api.PhaseRunning}}
		if p := planReport(in, r); !p.stale || len(p.items) != 0 {
			t.Errorf("(%d, %d): stale %v with %d writes, want stale and none", c.session, c.sequence, p.stale, len(p.items))
		}
	}
}

func TestAReportThatTellsNothingNewWritesNothing(t *testing.T) {
	in, r := reportOn(time.Now())
	if p := planReport(in, r); p.stale || len(p.items) != 0 {
		t.Fatalf("stale %v, writes %v; want neither", p.stale, p.items)
	}
	in.gap = true // a report before it is not accounted for and may arrive late
	p := planReport(in, r)
	if len(p.items) != 1 || p.items[0].Object.(*api.Device).Status.Identity.Sequence != 6 {
		t.Errorf("writes %v; want the device's sequence alone", p.items)
	}
}

func TestReadySinceIsTheHubsClockAndEndsWithReadiness(t *testing.T) {
	now := time.Unix(1000, 0)
	in, r := reportOn(now)
	r.Statuses = []wire.Status{{UID: "u1", Phase: api.PhaseRunning, Ready: true, SpecHash: wire.HashOf([]byte("1"))}}
	a := planReport(in, r).items[0].Object.(*api.Assignment)
	if !a.Status.ReadySince.Equal(now) {
		t.Errorf("readySince %v, want the hub's now %v", a.Status.ReadySince, now)
	}
	in.assignments["u1"], in.now = a, now.Add(time.Hour)
	r.Statuses[0].Message = "still"
	if b := planReport(in, r).items[0].Object.(*api.Assignment); !b.Status.ReadySince.Equal(now) {
		t.Errorf("readySince moved to %v though it stayed ready", b.Status.ReadySince)
	}
	r.Statuses[0].SpecHash = wire.HashOf([]byte("2"))
	if b := planReport(in, r).items[0].Object.(*api.Assignment); !b.Status.ReadySince.Equal(in.now) {
		t.Errorf("readySince %v; another copy runs, want now %v", b.Status.ReadySince, in.now)
	}
	r.Statuses[0].Ready = false
	if b := planReport(in, r).items[0].Object.(*api.Assignment); !b.Status.ReadySince.IsZero() {
		t.Errorf("readySince %v though not ready", b.Status.ReadySince)
	}
}

func TestADeviceReachesItsOwnObjectsOnly(t *testing.T) {
	in, r := reportOn(time.Now())
	in.assignments["u2"] = &api.Assignment{Metadata: api.ObjectMeta{UID: "u2"}, Spec: api.AssignmentSpec{Device: "pi-08"}}
	in.tombstones["other"] = &api.Tombstone{Metadata: api.ObjectMeta{ResourceVersion: "1"}, Spec: api.TombstoneSpec{Device: "pi-08", UID: "other"}}
	r.Statuses = []wire.Status{{UID: "u2", Phase: api.PhaseFailed}, {UID: "unknown", Phase: api.PhaseFailed}}
	r.Gone = []string{"other"}
	if p := planReport(in, r); len(p.items) != 0 {
		t.Errorf("writes %v; want none on another device's objects", p.items)
	}
}

func TestATombstoneGoesOnlyWhenTheBundleThatHeldItIsHeld(t *testing.T) {
	in, r := reportOn(time.Now())
	r.Gone = []string{"new", "old", "unknown"}
	p := planReport(in, r)
	if v := verbs(p); v[client.TxDelete] != 1 || p.items[0].Object.Meta().Name != "pi-07.old" {
		t.Errorf("writes %v; want the deletion of pi-07.old alone: pi-07.new is newer than the bundle", p.items)
	}
	r.Held.Revision = 39
	if v := verbs(planReport(in, r)); v[client.TxDelete] != 0 {
		t.Errorf("writes %v; the device does not hold the recorded bundle yet", v)
	}
}

func TestJournalRecordsBecomeEventsOnce(t *testing.T) {
	in, r := reportOn(time.Now())
	r.Journal = []wire.JournalRecord{
		{Sequence: 9, Count: 1, Reason: "Old"},
		{Sequence: 11, Count: 2, Reason: "Drift", UID: "u1", First: 1e9, Last: 2e9, Message: "stopped by hand"},
	}
	p := planReport(in, r)
	if v := verbs(p); v[client.TxCreate] != 1 || p.acked != 11 {
		t.Fatalf("writes %v, acked %d; want one event and 11", v, p.acked)
	}
	e := p.items[0].Object.(*api.Event)
	if e.InvolvedObject.Name != "camera.pi-07" || e.EventType != "Warning" || e.Count != 2 {
		t.Errorf("event %+v", e)
	}
	if again := planReport(in, r).items[0].Object.(*api.Event); again.Metadata.Name != e.Metadata.Name {
		t.Errorf("the record that came twice is named %s and %s", e.Metadata.Name, again.Metadata.Name)
	}
	in.noEvents = true
	if p := planReport(in, r); verbs(p)[client.TxCreate] != 0 || p.acked != 11 {
		t.Errorf("writes %v, acked %d; want no event and 11", verbs(p), p.acked)
	}
}

func TestConditionsOfOthersStayAndTheDevicesOwnGoWhenItNoLongerReportsThem(t *testing.T) {
	now := time.Unix(1000, 0)
	have := []api.Condition{{Type: "Connected", Status: api.True}, {Type: "Ready", Status: api.True}, {Type: "TimeUnsure", Status: api.True}}
	got := planConditions(have, []wire.Condition{{Type: "Ready", Status: "False"}, {Type: "RuntimeUnavailable", Status: "True"}}, now)
	for _, c := range []struct{ typ, want string }{{"Connected", api.True}, {"Ready", api.True}, {"TimeUnsure", api.Unknown}, {"RuntimeUnavailable", api.True}} {
		if !api.ConditionIs(got, c.typ, c.want) {
			t.Errorf("condition %s in %v: want %s", c.typ, got, c.want)
		}
	}
}
