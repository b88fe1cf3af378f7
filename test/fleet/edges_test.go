package fleet

import (
	"fmt"
	"testing"
	"time"

	"github.com/drover-fleet/drover/api"
)

func TestRegistryAwayWhileOnlyTheBudgetChanges(t *testing.T) {
	bubble(t, 2, func(f *fleet) {
		w := everywhere("hello", "app:1", 1)
		w.Spec.Template.Spec.Containers[0].ImagePullPolicy = "Always"
		f.create(w)
		f.eventually(time.Minute, func() string { return f.settled("hello", api.RolloutCompleted) })
		f.images.setDown(true)
		change(f, api.KindWorkload, "hello", func(w *api.Workload) { w.Spec.Rollout.MaxUnavailable = &api.IntOrPercent{Count: 2} })
		f.pass(time.Minute)
		f.images.setDown(false)
		f.eventually(6*time.Minute, func() string { return f.settled("hello", api.RolloutCompleted) })
	})
}

func TestCopiesThatServeButAreNotProvenDoNotMoveAllAtOnce(t *testing.T) {
	bubble(t, 6, func(f *fleet) {
		f.started(2)
		before := f.mark()
		change(f, api.KindWorkload, "hello", func(w *api.Workload) {
			w.Spec.Rollout.MinReadySeconds = 3600 // longer than any copy has run
			w.Spec.Template.Spec.Containers[0].Image = "app:2"
		})
		f.eventually(time.Minute, func() string { return f.runsImage("app:2", 2) })
		// A correction does not wait until the faulty revision has proven itself.
		f.push("hello", "app:3")
		f.eventually(time.Minute, func() string { return f.runsImage("app:3", 2) })
		if why := f.runsImage("app:1", 4); why != "" {
			t.Error(why)
		}
		change(f, api.KindWorkload, "hello", func(w *api.Workload) { w.Spec.Rollout.MinReadySeconds = 1 })
		f.eventually(2*time.Minute, func() string { return f.settled("hello", api.RolloutCompleted) })
		if got := f.mostDown(before); got != 2 {
			t.Errorf("got %d copies down at once, want the budget of 2", got)
		}
	})
}

func TestRolloutOfASelectionThatShrankKeepsItsDeadlineByWhatIsLeft(t *testing.T) {
	bubble(t, 8, func(f *fleet) {
		w := everywhere("hello", "app:1", 1)
		w.Spec.Rollout.MinReadySeconds = 240
		f.create(w)
		f.eventually(10*time.Minute, func() string { return f.settled("hello", api.RolloutCompleted) })
		f.push("hello", "app:2")
		f.eventually(30*time.Minute, func() string { return f.runsImage("app:2", 5) })
		for _, a := range list[*api.Assignment](f, api.KindAssignment) {
			if a.Status.Revision != f.newest("hello").Spec.To {
				change(f, api.KindDevice, a.Spec.Device, func(d *api.Device) { d.Metadata.Labels["left"] = "yes" })
			}
		}
		change(f, api.KindWorkload, "hello", func(w *api.Workload) {
			w.Spec.Placement = api.Placement{Everywhere: true, Selector: &api.LabelSelector{MatchLabels: map[string]string{"left": "yes"}}}
		})
		f.eventually(30*time.Minute, func() string {
			if r := f.newest("hello"); r.Status.Phase == api.RolloutFailed {
				f.Fatalf("failed: %+v", r.Status)
			}
			return f.settled("hello", api.RolloutCompleted)
		})
	})
}

func TestScalingToNoneAndBackReachesDevicesThatAreAway(t *testing.T) {
	bubble(t, 6, func(f *fleet) {
		f.pass(5 * time.Second)
		f.create(replicated("web", 3, ""))
		f.eventually(time.Minute, func() string { return f.ready(3) })
		away := f.bound()["web.1"]
		f.devices.set(away, false)
		f.pass(time.Minute)
		f.scale("web", 0)
		f.scale("web", 3)
		f.pass(time.Minute)
		f.scale("web", 0)
		f.pass(time.Minute)
		f.eventually(time.Minute, func() string { return f.left(api.KindAssignment) })
		f.scale("web", 3)
		f.eventually(time.Minute, func() string { return f.ready(3) })
		f.devices.set(away, true)
		f.eventually(time.Minute, func() string { return f.left(api.KindTombstone) })
		f.eventually(time.Minute, func() string { return f.settled("web", api.RolloutCompleted) })
	})
}

func TestHistoryIsNoLongerThanItsLimitOnceRolloutsEnd(t *testing.T) {
	for _, limit := range []int32{0, 1} {
		t.Run(fmt.Sprint("limit ", limit), func(t *testing.T) {
			bubble(t, 3, func(f *fleet) {
				w := everywhere("hello", "app:1", 1)
				w.Spec.RevisionHistoryLimit = &limit
				f.create(w)
				f.eventually(time.Minute, func() string { return f.settled("hello", api.RolloutCompleted) })
				for _, image := range []string{"app:2", "app:1", "app:2", "app:3", "app:1"} {
					f.push("hello", image)
					f.eventually(time.Minute, func() string { return f.settled("hello", api.RolloutCompleted) })
					f.eventually(time.Minute, func() string {
						revisions, rollouts := len(list[*api.WorkloadRevision](f, api.KindWorkloadRevision)), len(list[*api.Rollout](f, api.KindRollout))
						if keep := int(limit) + 1; revisions > keep || rollouts > keep {
							return fmt.Sprintf("%d revisions and %d rollouts, want at most %d of each", revisions, rollouts, keep)
						}
						return ""
					})
				}
			})
		})
	}
}
