package revision

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/controllers/copies"
	"github.com/drover-fleet/drover/controllers/reconcile"
)

// applied is a workload whose images are resolved for the present generation.
func applied(image, digest string) *api.Workload {
	return &api.Workload{
		Metadata: api.ObjectMeta{Name: "w", Namespace: "default", UID: "u1", Generation: 3},
		Spec:     api.WorkloadSpec{Template: api.Template{Spec: api.PodSpec{Containers: []api.Container{{Name: "main", Image: image}}}}},
		Status: api.WorkloadStatus{
			Images:     map[string]string{image: digest},
			Conditions: []api.Condition{{Type: copies.CondImageResolved, Status: api.True, ObservedGeneration: 3}},
		},
	}
}

// become runs the plan and returns what it writes, as "verb kind revision number".
func become(t *testing.T, v view) ([]string, []client.TxItem) {
	t.Helper()
	items, _, err := makePlan(v)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, i := range items {
		s := fmt.Sprint(i.Verb, " ", i.Object.Type().Kind)
		if r, ok := i.Object.(*api.WorkloadRevision); ok {
			s += fmt.Sprint(" ", r.Spec.Revision)
		}
		out = append(out, s)
	}
	return out, items
}

func TestTemplateBecomesARevisionOnceItsImagesAreKnown(t *testing.T) {
	w := applied("app:1", "r/app@sha256:1")
	got, items := become(t, view{workload: w})
	if diff := cmp.Diff([]string{"create WorkloadRevision 1", "status Workload"}, got); diff != "" {
		t.Fatalf("writes (-want +got):\n%s", diff)
	}
	first := items[0].Object.(*api.WorkloadRevision)
	now := items[1].Object.(*api.Workload)
	if now.Status.UpdatedRevision != first.Metadata.Name || !copies.Revised(now) || copies.Revised(w) {
		t.Errorf("got updated %q, want %q and the status to speak of it only then", now.Status.UpdatedRevision, first.Metadata.Name)
	}
	if again, _ := become(t, view{workload: now, revisions: []*api.WorkloadRevision{first}}); len(again) != 0 {
		t.Errorf("got %v for a template that has its revision, want nothing", again)
	}
	for name, change := range map[string]func(*api.Workload){
		"condition of an earlier generation": func(w *api.Workload) { w.Metadata.Generation = 4 },
		"not resolved":                       func(w *api.Workload) { w.Status.Conditions[0].Status = api.False },
		"an image without a digest":          func(w *api.Workload) { w.Status.Images = nil },
	} {
		w := applied("app:1", "r/app@sha256:1")
		change(w)
		if got, _ := become(t, view{workload: w}); len(got) != 0 {
			t.Errorf("%s: got %v, want nothing", name, got)
		}
	}
}

func TestOldTemplateByDigestReusesItsRevisionWithTheNextNumber(t *testing.T) {
	_, items := become(t, view{workload: applied("app:1", "r/app@sha256:1")})
	first := items[0].Object.(*api.WorkloadRevision)
	w := applied("app:2", "r/app@sha256:2")
	_, items = become(t, view{workload: w, revisions: []*api.WorkloadRevision{first}})
	second := items[0].Object.(*api.WorkloadRevision)
	if second.Spec.Revision != 2 || second.Metadata.Name == first.Metadata.Name {
		t.Fatalf("got second %s number %d, want another name and 2", second.Metadata.Name, second.Spec.Revision)
	}
	undo := applied("r/app@sha256:1", "r/app@sha256:1")
	undo.Status.UpdatedRevision = second.Metadata.Name
	got, items := become(t, view{workload: undo, revisions: []*api.WorkloadRevision{first, second}})
	if diff := cmp.Diff([]string{"update WorkloadRevision 3", "status Workload"}, got); diff != "" {
		t.Fatalf("writes (-want +got):\n%s", diff)
	}
	if name := items[0].Object.Meta().Name; name != first.Metadata.Name {
		t.Errorf("got %s, want %s to be current again", name, first.Metadata.Name)
	}
}

func TestHistoryLimitSparesWhatIsUsed(t *testing.T) {
	w := applied("app:1", "r/app@sha256:1")
	limit := int32(1)
	w.Spec.RevisionHistoryLimit = &limit
	w.Status.Conditions = nil // nothing new becomes
	w.Status.CurrentRevision, w.Status.UpdatedRevision = "r7", "r8"
	v := view{workload: w}
	for n := range int64(9) {
		v.revisions = append(v.revisions, &api.WorkloadRevision{
			Metadata: api.ObjectMeta{Name: fmt.Sprint("r", n), Namespace: "default", OwnerReferences: reconcile.Owned(w)},
			Spec:     api.WorkloadRevisionSpec{Workload: "w", Revision: n},
		})
	}
	v.assignments = []*api.Assignment{{Spec: api.AssignmentSpec{Revision: "r1"}, Status: api.AssignmentStatus{Revision: "r0"}}}
	v.rollouts = []*api.Rollout{{Spec: api.RolloutSpec{From: "r2", To: "r3"}, Status: api.RolloutStatus{Phase: api.RolloutPaused}}}
	_, prune, err := makePlan(v)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, i := range prune {
		got = append(got, i.Object.Meta().Name)
	}
	if diff := cmp.Diff([]string{"r5", "r4"}, got); diff != "" { // r6 is the one old revision that stays
		t.Errorf("pruned (-want +got):\n%s", diff)
	}
}
