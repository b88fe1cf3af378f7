package fleet

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/controllers/copies"
	"github.com/drover-fleet/drover/hub/registry"
)

func (f *fleet) remove(k *api.Kind, name string) {
	f.Helper()
	if err := f.user.Delete(f.ctx, ref(k, name), client.DeleteOptions{}); err != nil {
		f.Fatalf("delete %s: %v", name, err)
	}
}

// left is "" once nothing of the kinds is there.
func (f *fleet) left(kinds ...*api.Kind) string {
	f.Helper()
	for _, k := range kinds {
		if l := list[api.Object](f, k); len(l) > 0 {
			return fmt.Sprintf("%d %s are left, such as %s", len(l), k.Plural, l[0].Meta().Name)
		}
	}
	return ""
}

func TestDeletionReachesDevicesThatAreAwayOnceTheyReturn(t *testing.T) {
	bubble(t, 3, func(f *fleet) {
		f.started(1)
		uid := get[*api.Assignment](f, api.KindAssignment, "hello.pi-1").Metadata.UID
		f.devices.set("pi-1", false)
		f.pass(time.Minute)
		f.remove(api.KindWorkload, "hello")
		f.eventually(10*time.Second, func() string { return f.left(api.KindAssignment, api.KindWorkloadRevision, api.KindRollout) })
		f.pass(3 * time.Hour)
		left := list[*api.Tombstone](f, api.KindTombstone)
		if len(left) != 1 || left[0].Spec.Device != "pi-1" || left[0].Spec.UID != uid {
			t.Fatalf("got tombstones %+v after hours, want that of pi-1", left)
		}
		f.devices.set("pi-1", true)
		f.eventually(10*time.Second, func() string { return f.left(api.KindTombstone) })
	})
}

// A board that was deleted and enrolls again under its name still runs what it held: it must stop that.
func TestTombstonesOfADeletedDeviceWaitForItsReturn(t *testing.T) {
	bubble(t, 3, func(f *fleet) {
		f.started(1)
		uid := get[*api.Assignment](f, api.KindAssignment, "hello.pi-1").Metadata.UID
		f.devices.set("pi-1", false)
		f.pass(time.Minute)
		f.remove(api.KindDevice, "pi-1")
		f.pass(time.Hour)
		left := list[*api.Tombstone](f, api.KindTombstone)
		if len(left) != 1 || left[0].Spec.Device != "pi-1" || left[0].Spec.UID != uid {
			t.Fatalf("got tombstones %+v after an hour, want that of pi-1", left)
		}
		f.addDevice("pi-1", nil)
		f.devices.set("pi-1", true)
		f.eventually(time.Minute, func() string { return f.left(api.KindTombstone) })
		if got := f.devices.stoppedOn("pi-1"); len(got) != 1 || got[0] != uid {
			t.Errorf("got %v stopped on pi-1, want its copy of before", got)
		}
		if a := get[*api.Assignment](f, api.KindAssignment, "hello.pi-1"); a.Metadata.UID == uid {
			t.Errorf("got the old copy's uid %s again, want a new one", uid)
		}
	})
}

func TestNewObjectOfTheSameNameOwnsNothingOfTheOld(t *testing.T) {
	bubble(t, 2, func(f *fleet) {
		f.started(1)
		old := get[*api.Assignment](f, api.KindAssignment, "hello.pi-0").Metadata.UID
		f.remove(api.KindWorkload, "hello")
		f.create(everywhere("hello", "app:2", 1))
		f.eventually(time.Minute, func() string { return f.settled("hello", api.RolloutCompleted) })
		if a := get[*api.Assignment](f, api.KindAssignment, "hello.pi-0"); a.Metadata.UID == old {
			t.Errorf("got the assignment %s of the deleted workload, want a new one", old)
		}
		if why := f.runsImage("app:2", 2); why != "" {
			t.Error(why)
		}
	})
}

func TestNamespaceIsEmptiedThenGoes(t *testing.T) {
	bubble(t, 2, func(f *fleet) {
		f.create(&api.Namespace{Metadata: api.ObjectMeta{Name: "lab"}})
		w := everywhere("hello", "app:1", 1)
		w.Metadata.Namespace = "lab"
		f.create(w)
		f.create(&api.ConfigMap{Metadata: api.ObjectMeta{Name: "c", Namespace: "lab"}, Data: map[string]string{"a": "b"}})
		f.eventually(time.Minute, func() string { return f.ready(2) })
		f.remove(api.KindNamespace, "lab")
		f.eventually(time.Minute, func() string {
			_, err := f.user.Get(f.ctx, ref(api.KindNamespace, "lab"), client.GetOptions{})
			if !fault.Is(err, fault.NotFound) {
				return fmt.Sprintf("got %v, want the namespace to be gone", err)
			}
			return f.left(api.KindWorkload, api.KindAssignment, api.KindWorkloadRevision, api.KindRollout, api.KindConfigMap, api.KindTombstone)
		})
	})
}

func TestSettledFleetWritesNothing(t *testing.T) {
	bubble(t, 4, func(f *fleet) {
		f.started(1)
		f.pass(5 * time.Second)
		at := f.backend.Revision()
		f.pass(2 * time.Hour)
		f.atMost(at, 0, "nothing changed for two hours")
	})
}

func TestOldLeadersWritesAreRefusedAndTheNewOneGoesOn(t *testing.T) {
	bubble(t, 5, func(f *fleet) {
		f.started(1)
		before := f.mark()
		f.push("hello", "app:2")
		f.eventually(time.Minute, func() string { return f.runsImage("app:2", 2) })
		// Term 1 is not told that it is over: both run.
		stop := f.lead(f.ctx, 2)
		f.eventually(2*time.Minute, func() string { return f.settled("hello", api.RolloutCompleted) })
		if got := f.mostDown(before); got != 1 {
			t.Errorf("got %d down with two leaders, want 1", got)
		}
		stale := f.registry.As(registry.Actor{Name: "controller:workload", Term: 1})
		w := api.Copy(get[*api.Workload](f, api.KindWorkload, "hello"))
		w.Status.Counts.Failed = 99
		if _, err := stale.Update(f.ctx, w, client.WriteOptions{Subresource: "status"}); err == nil {
			t.Error("got a write of term 1 accepted in term 2, want it refused")
		}
		stop()
	})
}

func TestPresenceIsWrittenOnlyWhenItChangesAndIsDatedFromTheLastContact(t *testing.T) {
	bubble(t, 4, func(f *fleet) {
		f.pass(5 * time.Second)
		connected := func(name string) *api.Condition {
			return api.FindCondition(get[*api.Device](f, api.KindDevice, name).Status.Conditions, copies.CondConnected)
		}
		if c := connected("pi-0"); c == nil || c.Status != api.True {
			t.Fatalf("got %+v, want Connected", c)
		}
		at := f.backend.Revision()
		gone := time.Now()
		f.devices.set("pi-0", false)
		f.pass(lateAfter + 2*time.Second)
		if c := connected("pi-0"); c.Status != api.Unknown || c.Reason != "Late" {
			t.Errorf("got %+v, want Late", c)
		}
		f.pass(offlineAfter)
		c := connected("pi-0")
		if c.Status != api.False || c.Reason != "Offline" || c.LastTransitionTime.Sub(gone).Abs() > 2*time.Second {
			t.Errorf("got %+v, want Offline since %v", c, gone)
		}
		if strings.Contains(c.Message, "at about that time") {
			t.Errorf("got %q of one device, want no word of others", c.Message)
		}
		f.pass(time.Hour)
		f.atMost(at, 2, "Late and Offline are one write each")
		for _, d := range []string{"pi-1", "pi-2", "pi-3"} {
			f.devices.set(d, false)
		}
		f.pass(time.Minute)
		if c := connected("pi-2"); c.Reason != "Offline" || !strings.Contains(c.Message, "3 of 3 devices went silent at about that time") {
			t.Errorf("got %+v, want an outage of many named", c)
		}
		f.devices.set("pi-2", true)
		f.pass(3 * time.Second)
		if c := connected("pi-2"); c.Status != api.True || !api.ConditionIs(get[*api.Device](f, api.KindDevice, "pi-2").Status.Conditions, copies.CondReady, api.True) {
			t.Errorf("got %+v, want Connected and Ready again", c)
		}
	})
}

func TestNewLeaderGivesAFullGrace(t *testing.T) {
	bubble(t, 2, func(f *fleet) {
		f.pass(5 * time.Second)
		stop := f.lead(f.ctx, 2)
		defer stop()
		f.devices.forget()
		f.pass(offlineAfter - 2*time.Second)
		for _, d := range list[*api.Device](f, api.KindDevice) {
			if api.ConditionIs(d.Status.Conditions, copies.CondConnected, api.False) {
				t.Errorf("got %s offline before the grace of the new leader was over", d.Metadata.Name)
			}
		}
		f.pass(5 * time.Second)
		for _, d := range list[*api.Device](f, api.KindDevice) {
			if !api.ConditionIs(d.Status.Conditions, copies.CondConnected, api.False) {
				t.Errorf("got %+v after the grace, want offline", d.Status.Conditions)
			}
		}
	})
}

func TestCopyIsExplainedByAnUnbrokenChainUpToThePerson(t *testing.T) {
	bubble(t, 3, func(f *fleet) {
		f.started(1)
		f.push("hello", "app:2")
		f.eventually(time.Minute, func() string { return f.settled("hello", api.RolloutCompleted) })
		chain, err := f.registry.Why(f.ctx, ref(api.KindAssignment, "hello.pi-2"), 20)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, l := range chain.Links {
			step := l.Actor + " " + strings.Fields(l.Object)[0]
			if len(got) == 0 || got[len(got)-1] != step {
				got = append(got, step)
			}
		}
		want := []string{
			"device:simulated Assignment", "controller:rollout Assignment", "controller:rollout Rollout",
			"controller:revision WorkloadRevision", "user:test Workload",
		}
		if diff := cmp.Diff(want, got); diff != "" || !chain.Complete {
			t.Errorf("chain complete %v (-want +got):\n%s", chain.Complete, diff)
		}
	})
}
