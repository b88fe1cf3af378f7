package images

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
)

// answers is a Resolver: a digest, or the error, by image.
type answers map[string]error

func (a answers) Resolve(_ context.Context, image string) (string, error) {
	if err := a[image]; err != nil {
		return "", err
	}
	return "r/" + image + "@sha256:new", nil
}

func workload(images ...string) *api.Workload {
	w := &api.Workload{Metadata: api.ObjectMeta{Name: "w", Generation: 2}}
	for _, i := range images {
		w.Spec.Template.Spec.Containers = append(w.Spec.Template.Spec.Containers, api.Container{Name: i, Image: i})
	}
	return w
}

func TestResolveKeepsWhatIsKnownAndNamesWhatFails(t *testing.T) {
	down := fault.Unavailable.Errorf("connection refused")
	missing := fault.Invalid.Errorf("no such tag")
	for _, tc := range []struct {
		name    string
		known   map[string]string
		answers answers
		found   map[string]string
		reason  string
		message string
	}{
		{"all", nil, answers{}, map[string]string{"a": "r/a@sha256:new", "b": "r/b@sha256:new"}, "Resolved", "every image is known by its digest"},
		{"a known digest never changes", map[string]string{"a": "r/a@sha256:old"}, answers{}, map[string]string{"a": "r/a@sha256:old", "b": "r/b@sha256:new"},
			"Resolved", "every image is known by its digest"},
		{"one registry is down", nil, answers{"a": down}, map[string]string{"b": "r/b@sha256:new"}, "RegistryUnreachable", `image "a": connection refused`},
		{"what is missing is the worse news", nil, answers{"a": down, "b": missing}, map[string]string{}, "ImageNotFound", `image "b": no such tag`},
		{"what the template no longer names goes", map[string]string{"z": "r/z@sha256:old"}, answers{"a": errors.New("odd"), "b": down}, map[string]string{},
			"RegistryUnreachable", `image "a": odd`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := workload("a", "b", "a")
			w.Status.Images = tc.known
			l := &loop{resolver: tc.answers}
			found, failure := l.resolve(t.Context(), w)
			if diff := cmp.Diff(tc.found, found); diff != "" {
				t.Errorf("found (-want +got):\n%s", diff)
			}
			c := condition(w, failure)
			if c.Reason != tc.reason || c.Message != tc.message || c.ObservedGeneration != 2 || (c.Status == api.True) != (failure == nil) {
				t.Errorf("got %+v, want %s: %s", c, tc.reason, tc.message)
			}
		})
	}
}

func TestStatusWritesDoNotAskAgain(t *testing.T) {
	a := workload("a")
	b := api.Copy(a)
	b.Metadata.ResourceVersion, b.Status.Conditions = "9", []api.Condition{condition(a, errors.New("down"))}
	if !sameQuestion(a, b) {
		t.Error("got another question after a status write, want the back-off to go on")
	}
	b.Metadata.Generation = 3
	if sameQuestion(a, b) || sameQuestion(nil, a) || sameQuestion(a, a) {
		t.Error("got the same question of a new generation, a new workload or a resync")
	}
}
