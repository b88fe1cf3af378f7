package fleet

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/controllers/copies"
)

// replicated is a workload of n copies on devices of site north that ask for memory.
func replicated(name string, n int32, memory string) *api.Workload {
	w := everywhere(name, "app:1", 1)
	w.Spec.Placement = api.Placement{Replicas: &n, Selector: &api.LabelSelector{MatchLabels: map[string]string{"site": "north"}}}
	if memory != "" {
		q, err := api.ParseQuantity(memory)
		if err != nil {
			panic(err)
		}
		w.Spec.Template.Spec.Containers[0].Resources.Requests = api.ResourceList{"memory": q}
	}
	return w
}

// bound maps each copy to its device.
func (f *fleet) bound() map[string]string {
	f.Helper()
	out := map[string]string{}
	for _, a := range list[*api.Assignment](f, api.KindAssignment) {
		out[a.Metadata.Name] = a.Spec.Device
	}
	return out
}

func (f *fleet) scale(name string, n int32) {
	f.Helper()
	change(f, api.KindWorkload, name, func(w *api.Workload) { w.Spec.Placement.Replicas = &n })
}

// ready is "" once so many copies are ready.
func (f *fleet) ready(want int) string {
	f.Helper()
	got := 0
	for _, a := range list[*api.Assignment](f, api.KindAssignment) {
		if a.Status.Ready && a.Status.Revision == a.Spec.Revision && a.Spec.Device != "" {
			got++
		}
	}
	if got != want {
		return fmt.Sprintf("got %d ready copies, want %d: %v", got, want, f.bound())
	}
	return ""
}

func TestReplicasSpreadOverSelectedDevicesAndScaleByOrdinal(t *testing.T) {
	bubble(t, 6, func(f *fleet) { // pi-2 and pi-5 are south
		f.pass(5 * time.Second)
		f.create(replicated("web", 4, ""))
		f.eventually(time.Minute, func() string { return f.ready(4) })
		seen := map[string]bool{}
		for _, device := range f.bound() {
			seen[device] = true
		}
		if len(seen) != 4 || seen["pi-2"] || seen["pi-5"] {
			t.Errorf("got %v, want one copy on each device of site north", f.bound())
		}
		before := f.bound()
		f.scale("web", 2)
		f.eventually(time.Minute, func() string { return f.ready(2) })
		if got := f.bound(); got["web.0"] != before["web.0"] || got["web.1"] != before["web.1"] || len(got) != 2 {
			t.Errorf("got %v, want web.0 and web.1 of %v", got, before)
		}
		f.eventually(time.Minute, func() string {
			if n := len(list[*api.Tombstone](f, api.KindTombstone)); n != 0 {
				return fmt.Sprintf("%d tombstones are left", n)
			}
			return ""
		})
	})
}

func TestUnplacedCopiesSayWhyAndAreTriedWhenSomethingChanges(t *testing.T) {
	bubble(t, 3, func(f *fleet) {
		f.pass(5 * time.Second)
		f.allocatable("pi-0", "64Mi")
		f.allocatable("pi-1", "64Mi")
		f.create(replicated("web", 3, "40Mi"))
		want := "0/3 devices: 2 insufficient memory, 1 not selected"
		f.eventually(time.Minute, func() string {
			w := get[*api.Workload](f, api.KindWorkload, "web")
			if c := api.FindCondition(w.Status.Conditions, copies.CondScheduled); c == nil || c.Message != want {
				return fmt.Sprintf("got %+v, want %q", c, want)
			}
			return ""
		})
		a := get[*api.Assignment](f, api.KindAssignment, "web.2")
		if c := api.FindCondition(a.Status.Conditions, copies.CondScheduled); c == nil || c.Message != want || c.Status != api.False {
			t.Errorf("got condition %+v of web.2, want %q", c, want)
		}
		f.eventually(time.Minute, func() string { return f.ready(2) })
		f.pass(5 * time.Second)
		at := f.backend.Revision()
		f.pass(30 * time.Minute)
		f.atMost(at, 2, "an unplaced copy is tried without a reason") // the rollout misses its deadline
		f.allocatable("pi-1", "128Mi")
		f.eventually(10*time.Second, func() string { return f.ready(3) })
		a = get[*api.Assignment](f, api.KindAssignment, "web.2")
		if c := api.FindCondition(a.Status.Conditions, copies.CondScheduled); c == nil || c.Status != api.True {
			t.Errorf("got condition %+v of web.2, want it true", c)
		}
	})
}

// atMost fails when more than n writes were made since a revision.
func (f *fleet) atMost(since interface{ Counter() uint64 }, n uint64, why string) {
	f.Helper()
	if got := f.backend.Revision().Counter() - since.Counter(); got > n {
		f.Errorf("got %d writes, want at most %d: %s", got, n, why)
	}
}

func (f *fleet) allocatable(device, memory string) {
	f.Helper()
	q, err := api.ParseQuantity(memory)
	if err != nil {
		f.Fatal(err)
	}
	d := get[*api.Device](f, api.KindDevice, device)
	d = api.Copy(d)
	d.Status.Allocatable = api.ResourceList{"memory": q}
	if _, err := f.devices.c.Update(f.ctx, d, client.WriteOptions{Subresource: "status"}); err != nil {
		f.Fatal(err)
	}
}

func TestCopiesLeaveDevicesThatAreDeletedOrRelabelledAndNoOthers(t *testing.T) {
	bubble(t, 6, func(f *fleet) {
		f.pass(5 * time.Second)
		f.create(replicated("web", 2, ""))
		f.eventually(time.Minute, func() string { return f.ready(2) })
		before := f.bound()
		uid := get[*api.Assignment](f, api.KindAssignment, "web.0").Metadata.UID

		// Offline, cordoned and tainted: nothing moves.
		f.devices.set(before["web.0"], false)
		change(f, api.KindDevice, before["web.1"], func(d *api.Device) {
			d.Spec.Unschedulable = true
			d.Spec.Taints = []api.Taint{{Key: "broken", Effect: "NoSchedule"}}
		})
		f.pass(3 * time.Hour)
		if got := f.bound(); got["web.0"] != before["web.0"] || got["web.1"] != before["web.1"] {
			t.Errorf("got %v after hours, want %v", got, before)
		}

		if err := f.user.Delete(f.ctx, ref(api.KindDevice, before["web.0"]), client.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		f.moved("web.0", before["web.0"])
		if got := get[*api.Assignment](f, api.KindAssignment, "web.0").Metadata.UID; got != uid {
			t.Errorf("got uid %s after the move, want %s as before", got, uid)
		}

		change(f, api.KindDevice, before["web.1"], func(d *api.Device) { d.Metadata.Labels["site"] = "south" })
		f.moved("web.1", before["web.1"])
		f.eventually(time.Minute, func() string {
			for _, left := range list[*api.Tombstone](f, api.KindTombstone) {
				if left.Spec.Device != before["web.0"] { // that one was deleted: its tombstone waits for its return
					return fmt.Sprintf("tombstone %s is left", left.Metadata.Name)
				}
			}
			return ""
		})
		if got := f.devices.stoppedOn(before["web.1"]); len(got) != 1 {
			t.Errorf("got %v stopped on %s, want the one copy that left", got, before["web.1"])
		}
	})
}

// moved waits until the copy runs on another device.
func (f *fleet) moved(name, from string) {
	f.Helper()
	f.eventually(time.Minute, func() string {
		if got := f.bound()[name]; got == from || got == "" {
			return name + " is on " + got
		}
		return f.ready(2)
	})
}

func TestEverywhereFollowsLabelsAndKeepsUIDs(t *testing.T) {
	bubble(t, 3, func(f *fleet) {
		w := everywhere("cam", "app:1", 1)
		w.Spec.Placement = api.Placement{Everywhere: true, Selector: &api.LabelSelector{MatchLabels: map[string]string{"site": "north"}}}
		f.create(w)
		f.eventually(time.Minute, func() string { return f.ready(2) })
		uid := get[*api.Assignment](f, api.KindAssignment, "cam.pi-0").Metadata.UID
		change(f, api.KindDevice, "pi-2", func(d *api.Device) { d.Metadata.Labels["site"] = "north" })
		change(f, api.KindDevice, "pi-1", func(d *api.Device) { d.Metadata.Labels["site"] = "south" })
		f.eventually(time.Minute, func() string {
			got := fmt.Sprint(f.bound())
			if got != "map[cam.pi-0:pi-0 cam.pi-2:pi-2]" {
				return got
			}
			return f.ready(2)
		})
		f.push("cam", "app:2")
		f.eventually(time.Minute, func() string { return f.settled("cam", api.RolloutCompleted) })
		if got := get[*api.Assignment](f, api.KindAssignment, "cam.pi-0").Metadata.UID; got != uid {
			t.Errorf("got uid %s after an update, want %s as before", got, uid)
		}
	})
}

func TestPlacementMayChangeItsKind(t *testing.T) {
	bubble(t, 3, func(f *fleet) {
		f.pass(5 * time.Second)
		f.create(replicated("web", 5, ""))
		f.eventually(time.Minute, func() string { return f.ready(5) })
		change(f, api.KindWorkload, "web", func(w *api.Workload) { w.Spec.Placement = api.Placement{Everywhere: true, All: true} })
		f.eventually(time.Minute, func() string {
			if c := api.FindCondition(get[*api.Workload](f, api.KindWorkload, "web").Status.Conditions, copies.CondScheduled); c != nil {
				return fmt.Sprintf("got %+v, want no word of the scheduler", c)
			}
			return f.ready(3)
		})
		if got := fmt.Sprint(f.bound()); got != "map[web.pi-0:pi-0 web.pi-1:pi-1 web.pi-2:pi-2]" {
			t.Errorf("got %s, want one on each device", got)
		}
	})
}

func TestWhoSelectsNothingGetsNothing(t *testing.T) {
	bubble(t, 3, func(f *fleet) {
		w := everywhere("cam", "app:1", 1)
		w.Spec.Placement = api.Placement{Everywhere: true, Selector: &api.LabelSelector{MatchLabels: map[string]string{"site": "west"}}}
		f.create(w)
		f.eventually(time.Minute, func() string { return f.settled("cam", api.RolloutCompleted) })
		c := api.FindCondition(get[*api.Workload](f, api.KindWorkload, "cam").Status.Conditions, copies.CondAvailable)
		if c == nil || c.Status != api.False || !strings.Contains(c.Message, "0/3 devices") || len(f.bound()) != 0 {
			t.Errorf("got condition %+v and copies %v, want unavailable with 0/3 devices and none", c, f.bound())
		}
	})
}
