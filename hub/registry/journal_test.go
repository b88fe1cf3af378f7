package registry_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/hub/registry"
	"github.com/drover-fleet/drover/store"
)

func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func meta(name string) api.ObjectMeta { return api.ObjectMeta{Name: name, Namespace: api.DefaultNS} }

func workload(name, image string) *api.Workload {
	return &api.Workload{
		Metadata: meta(name),
		Spec: api.WorkloadSpec{
			Placement: api.Placement{Everywhere: true, All: true},
			Template:  api.Template{Spec: api.PodSpec{Containers: []api.Container{{Name: "main", Image: image}}}},
		},
	}
}

func configMap(name string, data map[string]string) *api.ConfigMap {
	return &api.ConfigMap{Metadata: meta(name), Data: data}
}

func assignment(name, device string) *api.Assignment {
	return &api.Assignment{Metadata: meta(name), Spec: api.AssignmentSpec{Workload: "camera", Revision: "camera-1", Device: device}}
}

func refTo(o api.Object) api.Ref {
	r, _ := api.RefOf(o)
	return r
}

const (
	image1 = "registry.example/camera@sha256:1111111111111111111111111111111111111111111111111111111111111111"
	image2 = "registry.example/camera@sha256:2222222222222222222222222222222222222222222222222222222222222222"
)

// story plays what controllers do for one workload on one device, each write caused by the one before. It returns the
// resourceVersions by what they are.
func story(t *testing.T, f *fixture) map[string]string {
	t.Helper()
	rv := map[string]string{}
	create := func(what, actor, cause string, o api.Object) {
		t.Helper()
		rv[what] = must(f.As(registry.Actor{Name: actor}).Create(t.Context(), o, client.WriteOptions{Cause: cause}))(t).Meta().ResourceVersion
	}
	create("workload", "user:alice", "", workload("camera", image1))
	create("revision", "controller:revision", rv["workload"], &api.WorkloadRevision{
		Metadata: meta("camera-1"),
		Spec: api.WorkloadRevisionSpec{
			Workload: "camera", Revision: 1, Hash: "1111111111", Template: workload("camera", image1).Spec.Template, Images: map[string]string{image1: image1},
		},
	})
	create("rollout", "controller:rollout", rv["revision"], &api.Rollout{Metadata: meta("camera-1"), Spec: api.RolloutSpec{Workload: "camera", To: "camera-1"}})
	create("assignment", "controller:workload", rv["rollout"], assignment("camera.pi-07", "pi-07"))
	// Another assignment of the device is the newest change of its bundle.
	create("other", "controller:workload", rv["rollout"], assignment("web.pi-07", "pi-07"))
	a := assignment("camera.pi-07", "pi-07")
	a.Status = api.AssignmentStatus{Phase: api.PhaseRunning, SpecHash: "abc", Ready: true}
	rv["report"] = must(f.As(registry.Actor{Name: "device:pi-07"}).Update(t.Context(), a, client.WriteOptions{Subresource: "status", Cause: rv["other"]}))(t).Meta().ResourceVersion
	return rv
}

func revisions(links []registry.Link) []string {
	var out []string
	for _, l := range links {
		out = append(out, l.Revision)
	}
	return out
}

func TestWhyLeadsFromADevicesReportToThePersonWhoAsked(t *testing.T) {
	f := open(t, registry.Options{})
	rv := story(t, f)
	c := must(f.Why(t.Context(), refTo(assignment("camera.pi-07", "")), 0))(t)
	want := []string{rv["report"], rv["assignment"], rv["rollout"], rv["revision"], rv["workload"]}
	if d := cmp.Diff(want, revisions(c.Links)); d != "" {
		t.Fatalf("chain (-want +got):\n%s\n%+v", d, c)
	}
	if !c.Complete || c.Links[len(c.Links)-1].Actor != "user:alice" || c.Links[0].Actor != "device:pi-07" {
		t.Errorf("chain: got complete %v from %s to %s, want complete from device:pi-07 to user:alice", c.Complete, c.Links[0].Actor, c.Links[len(c.Links)-1].Actor)
	}
}

func TestWhySurvivesCompaction(t *testing.T) {
	f := open(t, registry.Options{})
	story(t, f)
	if err := f.compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c := must(f.Why(t.Context(), refTo(assignment("camera.pi-07", "")), 0))(t); !c.Complete || len(c.Links) != 5 {
		t.Errorf("chain after compaction: got complete %v with %d links, want complete with 5", c.Complete, len(c.Links))
	}
}

func TestWhyOfAWorkloadShowsWhatItBroughtAbout(t *testing.T) {
	f := open(t, registry.Options{})
	rv := story(t, f)
	c := must(f.Why(t.Context(), refTo(workload("camera", "")), 0))(t)
	if d := cmp.Diff([]string{rv["revision"], rv["rollout"], rv["assignment"], rv["other"], rv["report"]}, revisions(c.Effects)); d != "" {
		t.Errorf("effects (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]int{1, 2, 3, 3, 4}, depths(c.Effects)); d != "" {
		t.Errorf("depths (-want +got):\n%s", d)
	}
}

func depths(links []registry.Link) []int {
	var out []int
	for _, l := range links {
		out = append(out, l.Depth)
	}
	return out
}

// A new config restarts what uses it: then the report answers the config's change.
func TestWhyFollowsTheConfigThatChangedWhatRuns(t *testing.T) {
	f := open(t, registry.Options{})
	story(t, f)
	cm := must(f.user("bob").Create(t.Context(), configMap("settings", map[string]string{"k": "v"}), client.WriteOptions{}))(t)
	a := assignment("camera.pi-07", "pi-07")
	a.Status = api.AssignmentStatus{Phase: api.PhaseRunning, SpecHash: "def", Ready: true}
	must(f.As(registry.Actor{Name: "device:pi-07"}).Update(t.Context(), a, client.WriteOptions{Subresource: "status", Cause: cm.Meta().ResourceVersion}))(t)
	c := must(f.Why(t.Context(), refTo(a), 0))(t)
	if len(c.Links) != 2 || c.Links[1].Object != "ConfigMap default/settings" || c.Links[1].Actor != "user:bob" || !c.Complete {
		t.Errorf("chain: got %+v, want the report and bob's ConfigMap", c)
	}
}

func TestWhySaysWhereAChainBreaks(t *testing.T) {
	f := open(t, registry.Options{})
	a := assignment("camera.pi-07", "pi-07")
	must(f.As(registry.Actor{Name: "controller:workload"}).Create(t.Context(), a, client.WriteOptions{}))(t)
	c := must(f.Why(t.Context(), refTo(a), 0))(t)
	if c.Complete || !strings.Contains(c.End, "controller:workload") {
		t.Errorf("chain: got complete %v, end %q; want a break at controller:workload", c.Complete, c.End)
	}
	if c := must(f.Why(t.Context(), refTo(a), 1))(t); len(c.Links) != 1 {
		t.Errorf("links: got %d, want 1 as asked", len(c.Links))
	}
}

func TestHistoryTellsVersionsWithTheirDiffs(t *testing.T) {
	f := open(t, registry.Options{})
	alice := f.user("alice")
	w := must(alice.Create(t.Context(), workload("camera", image1), client.WriteOptions{}))(t)
	must(alice.Update(t.Context(), workload("camera", image2), client.WriteOptions{}))(t)
	if err := alice.Delete(t.Context(), refTo(w), client.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	h := must(f.History(t.Context(), refTo(w), 0))(t)
	var verbs []string
	for _, l := range h {
		verbs = append(verbs, l.Verb)
	}
	if d := cmp.Diff([]string{"delete", "update", "create"}, verbs); d != "" {
		t.Fatalf("verbs, newest first (-want +got):\n%s", d)
	}
	want := registry.Diff{Changes: []registry.Change{{Path: "spec.template.spec.containers[0].image", Old: `"` + image1 + `"`, New: `"` + image2 + `"`}}}
	if d := cmp.Diff(want, h[1].Diff); d != "" {
		t.Errorf("diff of the update (-want +got):\n%s", d)
	}
}

func TestDiffIsBounded(t *testing.T) {
	f := open(t, registry.Options{})
	data := map[string]string{}
	for i := range 500 {
		data[fmt.Sprintf("key-%03d", i)] = strings.Repeat("ä", 300)
	}
	o := must(f.user("alice").Create(t.Context(), configMap("big", data), client.WriteOptions{}))(t)
	d := must(f.History(t.Context(), refTo(o), 1))(t)[0].Diff
	if len(d.Changes) > 40 || d.More == 0 || len(d.Changes)+d.More != 500 {
		t.Errorf("diff: got %d changes and %d more, want at most 40 and 500 in all", len(d.Changes), d.More)
	}
}

const canary = "CANARY-3f7b1c"

func secret(value string) *api.Secret {
	return &api.Secret{Metadata: meta("s"), StringData: map[string]string{"password": value}}
}

// The planted value must be in no file of the store, encoded or not, and in no answer but the object's own.
func TestSecretsStandNowhereInClear(t *testing.T) {
	f := open(t, registry.Options{})
	alice := f.user("alice")
	in := secret(canary)
	in.Metadata.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": canary}
	must(alice.Create(t.Context(), in, client.WriteOptions{}))(t)
	must(alice.Update(t.Context(), secret(canary+"-2"), client.WriteOptions{}))(t)
	must(alice.Transact(t.Context(), client.Transaction{Items: []client.TxItem{{Verb: client.TxApply, Object: secret(canary + "-2")}}}))(t)
	if got := must(alice.Get(t.Context(), refTo(in), client.GetOptions{}))(t).(*api.Secret); string(got.Data["password"]) != canary+"-2" {
		t.Fatalf("read back: got %q, want the value", got.Data["password"])
	}
	raw := must(os.ReadFile(f.path))(t)
	for _, needle := range []string{canary, "Q0FOQVJZLTNmN2IxYw", "NBTkFSWS0zZjdiMW"} {
		if bytes.Contains(raw, []byte(needle)) {
			t.Errorf("the state file holds %q", needle)
		}
	}
	for _, l := range must(f.History(t.Context(), refTo(in), 0))(t) {
		if s := fmt.Sprintf("%+v", l); strings.Contains(s, canary) {
			t.Errorf("journal holds the value: %s", s)
		}
	}
}

func TestSecretsDiffTellsEqualFromDifferentOnly(t *testing.T) {
	f := open(t, registry.Options{})
	alice := f.user("alice")
	for _, v := range []string{"one", "two", "one"} {
		if _, err := alice.Update(t.Context(), secret(v), client.WriteOptions{}); err != nil {
			must(alice.Create(t.Context(), secret(v), client.WriteOptions{}))(t)
		}
	}
	h := must(f.History(t.Context(), refTo(secret("")), 0))(t)
	if len(h) != 3 {
		t.Fatalf("history: got %d links, want 3", len(h))
	}
	c := h[0].Diff.Changes
	if len(c) != 1 || c[0].Path != "data.password" || !strings.HasPrefix(c[0].New, `"hmac:`) || c[0].Old == c[0].New {
		t.Fatalf("diff: got %+v, want one change of hashes at data.password", c)
	}
	first := h[2].Diff.Changes
	if last := first[len(first)-2]; c[0].New != last.New && c[0].New != first[len(first)-1].New && c[0].New != first[0].New {
		t.Errorf("hash of the same value: got %s, want that of the first write in %+v", c[0].New, first)
	}
}

func TestSealedValueCannotBeMoved(t *testing.T) {
	f := open(t, registry.Options{})
	must(f.user("alice").Create(t.Context(), secret(canary), client.WriteOptions{}))(t)
	kv := must(f.backend.Range(t.Context(), store.RangeRequest{Start: "secrets/default/s"}))(t).KVs[0]
	moved := bytes.Replace(kv.Value, []byte(`"name":"s"`), []byte(`"name":"t"`), 1)
	must(f.backend.Propose(t.Context(), &store.Command{Actor: "test", Ops: []store.Op{{Type: store.OpPut, Key: "secrets/default/t", Value: moved}}}))(t)
	other := secret("")
	other.Metadata.Name = "t"
	if got, err := f.user("alice").Get(t.Context(), refTo(other), client.GetOptions{}); err == nil {
		t.Errorf("a sealed value under another name was opened: %q", got.(*api.Secret).Data["password"])
	}
}

// Nothing but time and silence makes the judge of links write.
func TestAChainMayEndAtWhatWasHeardOfADevice(t *testing.T) {
	f := open(t, registry.Options{})
	d := &api.Device{Metadata: api.ObjectMeta{Name: "pi-07"}}
	must(f.As(registry.Actor{Name: "user:alice"}).Create(t.Context(), d, client.WriteOptions{}))(t)
	d.Status.Conditions = []api.Condition{{Type: "Connected", Status: api.False, Reason: "Offline", Message: "silent"}}
	must(f.As(registry.Actor{Name: "controller:presence"}).Update(t.Context(), d, client.WriteOptions{Subresource: "status"}))(t)
	c := must(f.Why(t.Context(), refTo(d), 0))(t)
	if !c.Complete || c.End != "" || len(c.Links) != 1 || c.Links[0].Actor != "controller:presence" {
		t.Errorf("got complete %v, end %q, links %+v; want a complete chain of the one write", c.Complete, c.End, c.Links)
	}
}
