package admission

import (
	"context"
	"io"
	"log"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/hub/registry"
)

func discardLog() *log.Logger { return log.New(io.Discard, "", 0) }

// recorder answers with what it is given and keeps what it was asked.
type recorder struct {
	answers map[string]error // nil: resolved
	digest  string

	mu    sync.Mutex
	asked []string
}

func (r *recorder) Resolve(_ context.Context, image string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = append(r.asked, image)
	if err := r.answers[image]; err != nil {
		return "", err
	}
	return strings.SplitN(image, ":", 2)[0] + "@" + r.digest, nil
}

func admitter(t *testing.T, images Images) *Admitter {
	t.Helper()
	now := time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC)
	a, err := New(Config{Images: images, Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func workload(policy string, images ...string) *api.Workload {
	w := &api.Workload{Metadata: api.ObjectMeta{Name: "w", Namespace: "default"}}
	for _, image := range images {
		w.Spec.Template.Spec.Containers = append(w.Spec.Template.Spec.Containers, api.Container{Name: "c", Image: image, ImagePullPolicy: policy})
	}
	return w
}

func write(verb string, k *api.Kind, old, obj api.Object) *registry.AdmissionRequest {
	return &registry.AdmissionRequest{Actor: registry.Actor{Name: "user:alice"}, Verb: verb, Kind: k, Old: old, New: obj}
}

func TestTagBecomesADigestInTheSameWrite(t *testing.T) {
	r := &recorder{digest: "sha256:1"}
	a := admitter(t, r)
	w := workload("IfNotPresent", "a:1", "b:1", "a:1")
	if err := a.Admit(t.Context(), write("create", api.KindWorkload, nil, w)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"a:1": "a@sha256:1", "b:1": "b@sha256:1"}, w.Status.Images); diff != "" {
		t.Errorf("images (-want +got):\n%s", diff)
	}
	c := api.FindCondition(w.Status.Conditions, "ImageResolved")
	if c == nil || c.Status != api.True || c.ObservedGeneration != 1 || c.LastTransitionTime.IsZero() {
		t.Errorf("condition: got %+v, want True for generation 1", c)
	}
	if len(r.asked) != 2 {
		t.Errorf("asked: got %v, want each image once", r.asked)
	}
}

// TestWhichImagesAreAskedAgain: what is known stays, except where the policy is Always and a person writes.
func TestWhichImagesAreAskedAgain(t *testing.T) {
	old := workload("IfNotPresent", "a:1")
	old.Metadata.Generation = 4
	old.Status.Images = map[string]string{"a:1": "a@sha256:old", "gone:1": "gone@sha256:old"}
	tests := []struct {
		name, policy, actor, image string
		wantDigest                 string
		wantGeneration             int64
	}{
		{"unchanged", "IfNotPresent", "user:alice", "a:1", "a@sha256:old", 4},
		{"another image", "IfNotPresent", "user:alice", "b:1", "b@sha256:new", 5},
		{"always", "Always", "user:alice", "a:1", "a@sha256:new", 5},
		{"always, by a controller", "Always", "controller:rollout", "a:1", "a@sha256:old", 5},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := workload(tt.policy, tt.image)
			rq := write("update", api.KindWorkload, old, w)
			rq.Actor.Name = tt.actor
			if err := admitter(t, &recorder{digest: "sha256:new"}).Admit(t.Context(), rq); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(map[string]string{tt.image: tt.wantDigest}, w.Status.Images); diff != "" {
				t.Errorf("images (-want +got):\n%s", diff)
			}
			if got := w.Status.Conditions[0].ObservedGeneration; got != tt.wantGeneration {
				t.Errorf("generation: got %d, want %d", got, tt.wantGeneration)
			}
		})
	}
}

func TestMissingImageRefusesTheWriteAndNamesTheField(t *testing.T) {
	r := &recorder{digest: "sha256:1", answers: map[string]error{"b:9": fault.Invalid.Errorf("image b:9 does not exist")}}
	w := workload("IfNotPresent", "a:1", "b:9")
	err := admitter(t, r).Admit(t.Context(), write("create", api.KindWorkload, nil, w))
	const field = "spec.template.spec.containers[1].image"
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), field) || !strings.Contains(err.Error(), "b:9 does not exist") {
		t.Errorf("got %v, want Invalid with %s", err, field)
	}
	if w.Status.Images != nil {
		t.Errorf("images: got %v, want none written", w.Status.Images)
	}
}

func TestUnreachableRegistryAcceptsTheWriteAndSaysSo(t *testing.T) {
	r := &recorder{digest: "sha256:1", answers: map[string]error{"b:1": fault.Unavailable.Errorf("registry away")}}
	w := workload("IfNotPresent", "a:1", "b:1")
	rq := write("create", api.KindWorkload, nil, w)
	if err := admitter(t, r).Admit(t.Context(), rq); err != nil {
		t.Fatal(err)
	}
	c := api.FindCondition(w.Status.Conditions, "ImageResolved")
	if c == nil || c.Status != api.False || c.Reason != "RegistryUnreachable" || !strings.Contains(c.Message, "registry away") {
		t.Errorf("condition: got %+v, want False, RegistryUnreachable", c)
	}
	if len(rq.Warnings) != 1 || w.Status.Images["b:1"] != "" || w.Status.Images["a:1"] == "" {
		t.Errorf("got warnings %q, images %v; want one warning and a's digest only", rq.Warnings, w.Status.Images)
	}
}

// TestOneRequestIsToldOneDigest: the registry plans a write again when others write in between.
func TestOneRequestIsToldOneDigest(t *testing.T) {
	r := &recorder{digest: "sha256:1"}
	a := admitter(t, r)
	for i, id := range []string{"one", "one", "two"} {
		w := workload("Always", "a:1")
		rq := write("create", api.KindWorkload, nil, w)
		rq.Actor.RequestID = id
		if err := a.Admit(t.Context(), rq); err != nil {
			t.Fatal(err)
		}
		if want := []string{"a@sha256:1", "a@sha256:1", "a@sha256:2"}[i]; w.Status.Images["a:1"] != want {
			t.Errorf("write %d: got %v, want %s", i, w.Status.Images, want)
		}
		r.digest = "sha256:2"
	}
	for i := range 3 * memoSize {
		a.memo.do("id", strings.Repeat("x", i), func() answer { return answer{} })
	}
	if len(a.memo.known) > memoSize || len(a.memo.order) > memoSize {
		t.Errorf("memo holds %d, want at most %d", len(a.memo.known), memoSize)
	}
}

// TestWhatPeopleMayWrite is the table of what is whose; controllers may do all of it.
func TestWhatPeopleMayWrite(t *testing.T) {
	assignment := func(revision string, labels map[string]string) *api.Assignment {
		return &api.Assignment{Metadata: api.ObjectMeta{Name: "a", Labels: labels}, Spec: api.AssignmentSpec{Workload: "w", Revision: revision}}
	}
	rollout := func(to string, paused bool) *api.Rollout {
		return &api.Rollout{Metadata: api.ObjectMeta{Name: "r"}, Spec: api.RolloutSpec{Workload: "w", To: to, Paused: paused}}
	}
	request := func(device string, approved, denied bool) *api.EnrollmentRequest {
		return &api.EnrollmentRequest{Metadata: api.ObjectMeta{Name: "e"}, Spec: api.EnrollmentRequestSpec{Device: device, Approved: approved, Denied: denied}}
	}
	device := func(cordon bool) *api.Device {
		return &api.Device{Metadata: api.ObjectMeta{Name: "d"}, Spec: api.DeviceSpec{Unschedulable: cordon}}
	}
	revision := &api.WorkloadRevision{Metadata: api.ObjectMeta{Name: "w-1"}}
	tombstone := &api.Tombstone{Metadata: api.ObjectMeta{Name: "d.u"}}
	tests := []struct {
		name     string
		verb     string
		kind     *api.Kind
		old, obj api.Object
		want     fault.Class // "" = allowed
	}{
		{"cordon a device", "update", api.KindDevice, device(false), device(true), ""},
		{"create a device", "create", api.KindDevice, nil, device(false), fault.Forbidden},
		{"delete a device", "delete", api.KindDevice, device(false), nil, ""},
		{"write a device's status", "status", api.KindDevice, device(false), device(false), fault.Forbidden},
		{"write a workload's status", "status", api.KindWorkload, workload(""), workload(""), fault.Forbidden},
		{"label an assignment", "update", api.KindAssignment, assignment("1", nil), assignment("1", map[string]string{"a": "b"}), ""},
		{"move an assignment", "update", api.KindAssignment, assignment("1", nil), assignment("2", nil), fault.Forbidden},
		{"create an assignment", "create", api.KindAssignment, nil, assignment("1", nil), fault.Forbidden},
		{"delete an assignment", "delete", api.KindAssignment, assignment("1", nil), nil, ""},
		{"pause a rollout", "update", api.KindRollout, rollout("1", false), rollout("1", true), ""},
		{"redirect a rollout", "update", api.KindRollout, rollout("1", false), rollout("2", true), fault.Forbidden},
		{"create a rollout", "create", api.KindRollout, nil, rollout("1", false), fault.Forbidden},
		{"create a revision", "create", api.KindWorkloadRevision, nil, revision, fault.Forbidden},
		{"delete a revision", "delete", api.KindWorkloadRevision, revision, nil, fault.Forbidden},
		{"create a tombstone", "create", api.KindTombstone, nil, tombstone, fault.Forbidden},
		{"delete a tombstone", "delete", api.KindTombstone, tombstone, nil, fault.Forbidden},
		{"approve a request", "update", api.KindEnrollmentRequest, request("d", false, false), request("d", true, false), ""},
		{"approve and deny", "update", api.KindEnrollmentRequest, request("d", false, false), request("d", true, true), fault.Invalid},
		{"rename a request", "update", api.KindEnrollmentRequest, request("d", false, false), request("x", true, false), fault.Forbidden},
		{"create a request", "create", api.KindEnrollmentRequest, nil, request("d", false, false), fault.Forbidden},
		{"write an event", "create", api.KindEvent, nil, new(api.Event), ""},
	}
	a := admitter(t, &recorder{})
	for _, tt := range tests {
		rq := write(tt.verb, tt.kind, tt.old, tt.obj)
		err := a.Admit(t.Context(), rq)
		if fault.ClassOf(err) != tt.want {
			t.Errorf("a person may %s: got %v, want class %q", tt.name, err, tt.want)
		}
		for _, actor := range []string{"controller:rollout", "device:d", "hub:h1"} {
			rq.Actor.Name = actor
			if err := a.Admit(t.Context(), rq); err != nil {
				t.Errorf("%s may %s: got %v", actor, tt.name, err)
			}
		}
	}
}

func TestTokenIsKeptAsAHashThatNeverChanges(t *testing.T) {
	hash := "sha256:" + strings.Repeat("ab", 32)
	token := func(hash string) *api.JoinToken {
		return &api.JoinToken{Metadata: api.ObjectMeta{Name: "t"}, Spec: api.JoinTokenSpec{SecretHash: hash}}
	}
	a := admitter(t, &recorder{})
	for _, tt := range []struct {
		name     string
		old, obj *api.JoinToken
		ok       bool
	}{
		{"hash", nil, token(hash), true},
		{"no hash", nil, token(""), false},
		{"the secret itself", nil, token("s3cret-value"), false},
		{"same hash", token(hash), token(hash), true},
		{"another hash", token(hash), token("sha256:" + strings.Repeat("cd", 32)), false},
	} {
		rq := write("create", api.KindJoinToken, nil, tt.obj)
		if tt.old != nil {
			rq = write("update", api.KindJoinToken, tt.old, tt.obj)
		}
		err := a.Admit(t.Context(), rq)
		if (err == nil) != tt.ok {
			t.Errorf("%s: got %v, want accepted %v", tt.name, err, tt.ok)
		}
		if err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: the error shows the value: %v", tt.name, err)
		}
	}
}
