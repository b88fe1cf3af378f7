package fleet

import (
	"fmt"
	"slices"
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
	if r == nil || r.Spec.To != w.Status.UpdatedRevision || r.Status.Phase != phase {
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
