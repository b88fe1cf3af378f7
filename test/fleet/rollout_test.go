package fleet

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/client"
)

// everywhere is a workload on all devices with an image and a budget.
func everywhere(name, image string, budget int32) *api.Workload {
	return &api.Workload{
		Metadata: api.ObjectMeta{Name: name, Namespace: api.DefaultNS},
		Spec: api.WorkloadSpec{
			Placement: api.Placement{Everywhere: true, All: true},
			Rollout:   api.RolloutRule{MaxUnavailable: &api.IntOrPercent{Count: budget}},
			Template:  api.Template{Spec: api.PodSpec{Containers: []api.Container{{Name: "main", Image: image}}}},
		},
	}
}

func (f *fleet) push(name, image string) {
	f.Helper()
	change(f, api.KindWorkload, name, func(w *api.Workload) { w.Spec.Template.Spec.Containers[0].Image = image })
}

// settled is "" once the newest rollout of the workload is in the phase.
func (f *fleet) settled(workload, phase string) string {
	f.Helper()
	r := f.newest(workload)
	w := get[*api.Workload](f, api.KindWorkload, workload)
	if w.Status.ObservedGeneration != w.Metadata.Generation || r == nil || r.Spec.To != w.Status.UpdatedRevision || r.Status.Phase != phase {
		return fmt.Sprintf("rollout %+v, workload %+v: want phase %s", r, w.Status, phase)
	}
	return ""
}

func (f *fleet) newest(workload string) *api.Rollout {
	f.Helper()
	var newest *api.Rollout
	for _, r := range list[*api.Rollout](f, api.KindRollout) {
		if r.Spec.Workload == workload && (newest == nil || r.Spec.Revision > newest.Spec.Revision) {
			newest = r
		}
	}
	return newest
}

// runsImage is "" once so many copies report the image ready.
func (f *fleet) runsImage(image string, want int) string {
	f.Helper()
	revisions := map[string]string{}
	for _, r := range list[*api.WorkloadRevision](f, api.KindWorkloadRevision) {
		revisions[r.Metadata.Name] = r.Spec.Template.Spec.Containers[0].Image
	}
	got := 0
	for _, a := range list[*api.Assignment](f, api.KindAssignment) {
		if a.Status.Ready && revisions[a.Status.Revision] == image {
			got++
		}
	}
	if got != want {
		return fmt.Sprintf("got %d copies that run %s, want %d", got, image, want)
	}
	return ""
}

// mark remembers the assignments as they are; mostDown looks at what came after.
func (f *fleet) mark() string {
	f.Helper()
	l, err := f.user.List(f.ctx, api.KindAssignment, client.ListOptions{})
	if err != nil {
		f.Fatal(err)
	}
	for _, o := range l.Items {
		f.assignmentsAt[l.ResourceVersion] = append(f.assignmentsAt[l.ResourceVersion], o.(*api.Assignment))
	}
	return l.ResourceVersion
}

// mostDown replays the history of assignments after a revision and returns the most copies that were down at once: not ready,
// or told of another revision than they run. Devices in except do not count.
func (f *fleet) mostDown(after string, except ...string) int {
	f.Helper()
	state := map[string]*api.Assignment{}
	for _, a := range f.assignmentsAt[after] {
		state[a.Metadata.Name] = a
	}
	last := uint64(0)
	for _, a := range list[*api.Assignment](f, api.KindAssignment) {
		last = max(last, revision(a.Metadata.ResourceVersion))
	}
	w, err := f.user.Watch(f.ctx, api.KindAssignment, client.WatchOptions{ResourceVersion: after})
	if err != nil {
		f.Fatal(err)
	}
	defer w.Close()
	most := 0
	for at := uint64(0); at < last; {
		e, err := w.Next(f.ctx)
		if err != nil {
			f.Fatal(err)
		}
		a := e.Object.(*api.Assignment)
		at = revision(a.Metadata.ResourceVersion)
		state[a.Metadata.Name] = a
		if e.Type == client.Deleted {
			delete(state, a.Metadata.Name)
		}
		most = max(most, down(state, except))
	}
	return most
}

func down(state map[string]*api.Assignment, except []string) int {
	n := 0
	for _, a := range state {
		if !a.Status.Ready || a.Status.Revision != a.Spec.Revision {
			if !slices.Contains(except, a.Spec.Device) {
				n++
			}
		}
	}
	return n
}

func TestFirstRolloutStartsEverywhereAndCompletes(t *testing.T) {
	bubble(t, 3, func(f *fleet) {
		f.create(everywhere("hello", "app:1", 1))
		f.eventually(time.Minute, func() string { return f.settled("hello", api.RolloutCompleted) })
		w := get[*api.Workload](f, api.KindWorkload, "hello")
		want := api.Counts{Desired: 3, Reached: 3, Ready: 3, Updated: 3}
		if w.Status.Counts != want || w.Status.CurrentRevision != w.Status.UpdatedRevision || w.Status.CurrentRevision == "" {
			t.Errorf("got counts %+v, current %q, updated %q, want %+v and both the same",
				w.Status.Counts, w.Status.CurrentRevision, w.Status.UpdatedRevision, want)
		}
		a := get[*api.Assignment](f, api.KindAssignment, "hello.pi-1")
		if a.Spec.Device != "pi-1" || a.Metadata.OwnerReferences[0].UID != w.Metadata.UID {
			t.Errorf("got device %q owner %+v, want pi-1 owned by the workload", a.Spec.Device, a.Metadata.OwnerReferences)
		}
	})
}

// started is a workload that runs app:1 everywhere.
func (f *fleet) started(budget int32) {
	f.Helper()
	f.create(everywhere("hello", "app:1", budget))
	f.eventually(time.Minute, func() string { return f.settled("hello", api.RolloutCompleted) })
	f.pass(time.Minute) // what follows is told well after the last report
}

func TestBudgetHoldsInTheWholeHistoryOfARollout(t *testing.T) {
	for _, budget := range []int32{1, 2} {
		t.Run(fmt.Sprint("budget ", budget), func(t *testing.T) {
			bubble(t, 5, func(f *fleet) {
				f.started(budget)
				before := f.mark()
				f.push("hello", "app:2")
				f.eventually(2*time.Minute, func() string { return f.settled("hello", api.RolloutCompleted) })
				if why := f.runsImage("app:2", 5); why != "" {
					t.Error(why)
				}
				if got := f.mostDown(before); got != int(budget) {
					t.Errorf("got %d copies down at once, want the budget of %d to be used and kept", got, budget)
				}
			})
		})
	}
}

func TestUndoReusesTheOldRevisionWithAHigherNumber(t *testing.T) {
	bubble(t, 3, func(f *fleet) {
		f.started(1)
		first := get[*api.Workload](f, api.KindWorkload, "hello").Status.CurrentRevision
		f.push("hello", "app:2")
		f.eventually(time.Minute, func() string { return f.settled("hello", api.RolloutCompleted) })
		// As rollout undo does: the old template, its images by digest.
		old := get[*api.WorkloadRevision](f, api.KindWorkloadRevision, first)
		change(f, api.KindWorkload, "hello", func(w *api.Workload) {
			w.Spec.Template = *api.Copy(&old.Spec.Template)
			c := &w.Spec.Template.Spec.Containers[0]
			c.Image = old.Spec.Images[c.Image]
		})
		f.eventually(time.Minute, func() string {
			if f.newest("hello").Spec.Revision != 3 {
				return "no third rollout"
			}
			return f.settled("hello", api.RolloutCompleted)
		})
		w := get[*api.Workload](f, api.KindWorkload, "hello")
		if n := len(list[*api.WorkloadRevision](f, api.KindWorkloadRevision)); w.Status.CurrentRevision != first || n != 2 {
			t.Errorf("got current %s and %d revisions, want %s and 2", w.Status.CurrentRevision, n, first)
		}
		if r := get[*api.WorkloadRevision](f, api.KindWorkloadRevision, first); r.Spec.Revision != 3 {
			t.Errorf("got number %d, want 3", r.Spec.Revision)
		}
	})
}

func TestOfflineDevicesNeverBlockAWaveAndTakeTheNewestOnReturn(t *testing.T) {
	bubble(t, 6, func(f *fleet) {
		f.started(1)
		f.devices.set("pi-2", false)
		f.devices.set("pi-4", false)
		f.pass(offlineAfter + 10*time.Second)
		before := f.mark()
		f.push("hello", "app:2")
		f.eventually(time.Minute, func() string { return f.settled("hello", api.RolloutCompleted) })
		wave := f.newest("hello").Status.Waves[0]
		if wave.Updated != 4 || wave.PendingOffline != 2 || wave.Failed != 0 || wave.Selected != 6 {
			t.Errorf("got wave %+v, want 4 updated, 2 pending offline of 6", wave)
		}
		if got := f.mostDown(before, "pi-2", "pi-4"); got != 1 {
			t.Errorf("got %d down, want 1", got)
		}
		f.push("hello", "app:3")
		f.eventually(time.Minute, func() string { return f.settled("hello", api.RolloutCompleted) })
		back := f.mark()
		f.devices.set("pi-2", true)
		f.eventually(time.Minute, func() string { return f.runsImage("app:3", 5) })
		for _, a := range f.versions(back, "hello.pi-2") {
			if r := get[*api.WorkloadRevision](f, api.KindWorkloadRevision, a.Status.Revision); a.Status.Revision != "" && r.Spec.Revision == 2 {
				t.Errorf("hello.pi-2 ran revision 2 on its way to 3")
			}
		}
	})
}

func TestDeviceThatDiedUnnoticedBeforeThePushDoesNotBlock(t *testing.T) {
	bubble(t, 3, func(f *fleet) {
		f.started(1)
		f.devices.set("pi-0", false)
		f.pass(10 * time.Second) // still taken for connected, and the first to be told
		f.push("hello", "app:2")
		f.eventually(2*time.Minute, func() string { return f.settled("hello", api.RolloutCompleted) })
		if wave := f.newest("hello").Status.Waves[0]; wave.Updated != 2 || wave.PendingOffline != 1 || wave.Failed != 0 {
			t.Errorf("got wave %+v, want 2 updated and 1 pending offline", wave)
		}
	})
}

func TestDeviceThatNeverConnectedDoesNotBlock(t *testing.T) {
	bubble(t, 2, func(f *fleet) {
		f.started(1)
		f.create(&api.Device{Metadata: api.ObjectMeta{Name: "pi-boxed"}})
		f.pass(5 * time.Second)
		f.push("hello", "app:2")
		f.eventually(time.Minute, func() string { return f.settled("hello", api.RolloutCompleted) })
		want := api.Counts{Desired: 3, Reached: 2, Ready: 2, Updated: 2, PendingOffline: 1}
		f.eventually(time.Minute, func() string {
			if got := get[*api.Workload](f, api.KindWorkload, "hello").Status.Counts; got != want {
				return fmt.Sprintf("got %+v, want %+v", got, want)
			}
			return ""
		})
	})
}

// versions are the states of one assignment after a revision.
func (f *fleet) versions(after, name string) []*api.Assignment {
	f.Helper()
	w, err := f.user.Watch(f.ctx, api.KindAssignment, client.WatchOptions{ResourceVersion: after, FieldSelector: "metadata.name=" + name})
	if err != nil {
		f.Fatal(err)
	}
	defer w.Close()
	last := get[*api.Assignment](f, api.KindAssignment, name).Metadata.ResourceVersion
	var out []*api.Assignment
	for {
		e, err := w.Next(f.ctx)
		if err != nil {
			f.Fatal(err)
		}
		out = append(out, e.Object.(*api.Assignment))
		if e.Object.Meta().ResourceVersion == last {
			return out
		}
	}
}

func TestBadRevisionStopsAtTheBudgetAndFails(t *testing.T) {
	for _, tc := range []struct {
		name string
		what outcome
		want string // in the cause
		by   time.Duration
	}{
		{"crashing", crashes, "no step forward in 10m0s", 11 * time.Minute},
		{"cannot run", fatal, "1 copies cannot run and the budget is 1", 20 * time.Second},
		{"cuts the link", darkens, "went dark after it may have taken the update", 11 * time.Minute},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, 5, func(f *fleet) {
				f.started(1)
				f.devices.behave(func(_, image string) outcome {
					if image == "app:bad" {
						return tc.what
					}
					return runs
				})
				before := f.mark()
				f.push("hello", "app:bad")
				f.eventually(tc.by, func() string { return f.settled("hello", api.RolloutFailed) })
				r := f.newest("hello")
				if !strings.Contains(r.Status.Cause, tc.want) || r.Status.Waves[0].Failed != 1 {
					t.Errorf("got cause %q, wave %+v, want %q and 1 failed", r.Status.Cause, r.Status.Waves[0], tc.want)
				}
				f.pass(5 * time.Minute)
				if got := f.mostDown(before); got != 1 {
					t.Errorf("got %d down, want 1", got)
				}
				f.push("hello", "app:1") // the way back is not stuck behind the failure
				f.eventually(2*time.Minute, func() string {
					return f.settled("hello", map[bool]string{true: api.RolloutProgressing, false: api.RolloutCompleted}[tc.what == darkens])
				})
			})
		})
	}
}

func TestRepeatedBadPushesTakeDownNoMoreThanTheBudget(t *testing.T) {
	for name, what := range map[string]outcome{"crashing": crashes, "cutting the link": darkens} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 6, func(f *fleet) { f.pushBadOnes(what) })
		})
	}
}

func (f *fleet) pushBadOnes(what outcome) {
	f.Helper()
	f.started(1)
	f.devices.behave(func(_, image string) outcome {
		if image != "app:1" {
			return what
		}
		return runs
	})
	before := f.mark()
	for _, image := range []string{"bad:1", "bad:2", "bad:3"} {
		f.push("hello", image)
		f.pass(90 * time.Second)
	}
	f.push("hello", "bad:4")
	f.pass(15 * time.Minute)
	if got := f.mostDown(before); got != 1 {
		f.Errorf("got %d down, want 1", got)
	}
	superseded := 0
	for _, r := range list[*api.Rollout](f, api.KindRollout) {
		if r.Status.Phase == api.RolloutAborted && strings.HasPrefix(r.Status.Cause, "superseded by ") {
			superseded++
		}
	}
	if superseded != 3 {
		f.Errorf("got %d superseded rollouts, want 3", superseded)
	}
}

func TestPausedAndAbortedRolloutsMoveNothing(t *testing.T) {
	bubble(t, 4, func(f *fleet) {
		f.started(1)
		f.push("hello", "app:2")
		f.eventually(time.Minute, func() string { return f.runsImage("app:2", 1) })
		name := f.newest("hello").Metadata.Name
		change(f, api.KindRollout, name, func(r *api.Rollout) { r.Spec.Paused = true })
		f.eventually(time.Minute, func() string { return f.settled("hello", api.RolloutPaused) })
		f.pass(5 * time.Second) // what was told before goes through
		told := f.told("hello")
		f.pass(20 * time.Minute)
		if got := f.told("hello"); got != told || got == 4 {
			t.Errorf("got %d copies told while paused, want %d as before", got, told)
		}
		f.addDevice("pi-new", map[string]string{"site": "north"})
		f.eventually(time.Minute, func() string { return f.runsImage("app:1", 4-told+1) }) // born on what is known to work
		change(f, api.KindRollout, name, func(r *api.Rollout) { r.Spec.Paused = false })
		f.eventually(time.Minute, func() string { return f.settled("hello", api.RolloutCompleted) })

		f.push("hello", "app:3")
		f.eventually(time.Minute, func() string { return f.settled("hello", api.RolloutProgressing) })
		change(f, api.KindRollout, f.newest("hello").Metadata.Name, func(r *api.Rollout) { r.Spec.Aborted = true })
		f.eventually(time.Minute, func() string { return f.settled("hello", api.RolloutAborted) })
		told = f.told("hello")
		f.pass(time.Minute)
		if got := f.told("hello"); got != told || got == 5 {
			t.Errorf("got %d copies told after the abort, want %d as before", got, told)
		}
	})
}

// told is how many copies are to run the updated revision.
func (f *fleet) told(workload string) int {
	f.Helper()
	to, n := get[*api.Workload](f, api.KindWorkload, workload).Status.UpdatedRevision, 0
	for _, a := range list[*api.Assignment](f, api.KindAssignment) {
		if a.Spec.Workload == workload && a.Spec.Revision == to {
			n++
		}
	}
	return n
}

func TestUnreachableRegistryStartsNothingAndHealsByItself(t *testing.T) {
	bubble(t, 2, func(f *fleet) {
		f.images.setDown(true)
		f.create(everywhere("hello", "app:1", 1))
		f.pass(time.Minute)
		if n := len(list[*api.Assignment](f, api.KindAssignment)); n != 0 {
			t.Errorf("got %d assignments of unresolved images, want 0", n)
		}
		f.images.setDown(false)
		f.eventually(6*time.Minute, func() string { return f.settled("hello", api.RolloutCompleted) })
	})
}

func TestMinReadySecondsHoldTheNextCopyBack(t *testing.T) {
	bubble(t, 3, func(f *fleet) {
		w := everywhere("hello", "app:1", 1)
		w.Spec.Rollout.MinReadySeconds = 60
		f.create(w)
		f.eventually(2*time.Minute, func() string { return f.settled("hello", api.RolloutCompleted) })
		start := time.Now()
		f.push("hello", "app:2")
		f.eventually(10*time.Minute, func() string { return f.settled("hello", api.RolloutCompleted) })
		if took := time.Since(start); took < 3*time.Minute || took > 4*time.Minute {
			t.Errorf("got %v for three copies of a minute each, want 3 to 4 minutes", took)
		}
	})
}
