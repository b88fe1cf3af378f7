package gateway

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/wire"
)

const testImage = "r.example/i@sha256:0000000000000000000000000000000000000000000000000000000000000001"

// inputsOf is one device with one assignment of one container.
func inputsOf(c api.Container) Inputs {
	c.Name, c.Image = "main", "i:1"
	return Inputs{
		Device: &api.Device{Metadata: api.ObjectMeta{Name: "pi-07", Labels: map[string]string{"site": "north"}}},
		Assignments: []*api.Assignment{{
			Metadata: api.ObjectMeta{Namespace: "default", Name: "camera.pi-07", UID: "u1"},
			Spec:     api.AssignmentSpec{Workload: "camera", Revision: "camera-1", Device: "pi-07"},
		}},
		Revisions: map[string]*api.WorkloadRevision{"default/camera-1": {
			Metadata: api.ObjectMeta{Namespace: "default", Name: "camera-1"},
			Spec: api.WorkloadRevisionSpec{Images: map[string]string{"i:1": testImage},
				Template: api.Template{Spec: api.PodSpec{Containers: []api.Container{c}}}},
		}},
		ConfigMaps: map[string]*api.ConfigMap{"default/cm": {Data: map[string]string{"k": "v"}}},
		Secrets:    map[string]*api.Secret{"default/s": {Data: map[string][]byte{"k": []byte("hunter2")}}},
	}
}

func build(t *testing.T, in Inputs) (*Bundle, wire.Assignment) {
	t.Helper()
	b, err := Build(in, walkKeyed)
	if err != nil {
		t.Fatal(err)
	}
	var a wire.Assignment
	for _, body := range b.Bodies {
		if err := wire.Decode(body, wire.MaxBody, &a); err != nil {
			t.Fatal(err)
		}
	}
	return b, a
}

func TestReferencesAreResolvedAsWritten(t *testing.T) {
	in := inputsOf(api.Container{
		Env: []api.EnvVar{
			{Name: "SITE", ValueFrom: &api.EnvVarSource{FieldRef: &api.FieldRef{FieldPath: "device.labels.site"}}},
			{Name: "ROOM", ValueFrom: &api.EnvVarSource{FieldRef: &api.FieldRef{FieldPath: "device.labels.room"}}},
			{Name: "CM", ValueFrom: &api.EnvVarSource{ConfigMapKeyRef: &api.KeySelector{Name: "cm", Key: "k"}}},
			{Name: "BOTH", Value: "$(CM)-$(device.name)"},
		},
		Args: []string{"$(SITE)", "$(device.labels.room:-none)", "$(assignment.namespace)/$(assignment.name)", "$(UNKNOWN)", "$$(SITE)", "a$b$", "$("},
	})
	_, a := build(t, in)
	wantEnv := []wire.Env{{Name: "SITE", Value: "north"}, {Name: "ROOM"}, {Name: "CM", Value: "v"}, {Name: "BOTH", Value: "v-pi-07"}}
	if d := cmp.Diff(wantEnv, a.Containers[0].Env); d != "" {
		t.Errorf("env (-want +got):\n%s", d)
	}
	wantArgs := []string{"north", "none", "default/camera.pi-07", "$(UNKNOWN)", "$(SITE)", "a$b$", "$("}
	if d := cmp.Diff(wantArgs, a.Containers[0].Args); d != "" {
		t.Errorf("args (-want +got):\n%s", d)
	}
}

func TestWhatCannotBeResolvedIsLeftOutAndSaidWhy(t *testing.T) {
	yes := true
	secret := api.EnvVar{Name: "S", ValueFrom: &api.EnvVarSource{SecretKeyRef: &api.KeySelector{Name: "s", Key: "k"}}}
	for _, c := range []struct {
		name string
		c    api.Container
		want string // "" resolves
	}{
		{"no ConfigMap", api.Container{Env: []api.EnvVar{{Name: "X", ValueFrom: &api.EnvVarSource{ConfigMapKeyRef: &api.KeySelector{Name: "no", Key: "k"}}}}}, "ConfigMap default/no does not exist"},
		{"no key", api.Container{Env: []api.EnvVar{{Name: "X", ValueFrom: &api.EnvVarSource{SecretKeyRef: &api.KeySelector{Name: "s", Key: "no"}}}}}, "Secret default/s has no key no"},
		{"optional", api.Container{Env: []api.EnvVar{{Name: "X", ValueFrom: &api.EnvVarSource{SecretKeyRef: &api.KeySelector{Name: "s", Key: "no", Optional: &yes}}}}}, ""},
		{"no label", api.Container{Args: []string{"$(device.labels.room)"}}, "write $(device.labels.room:-default)"},
		{"no such field", api.Container{Args: []string{"$(device.lables.site)"}}, "device.lables.site is no field"},
		{"a secret on the command line", api.Container{Env: []api.EnvVar{secret}, Args: []string{"$(S)"}}, "$(S) is a secret"},
		{"a secret in another variable", api.Container{Env: []api.EnvVar{secret, {Name: "T", Value: "x$(S)"}}}, "$(S) is a secret"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, _ := build(t, inputsOf(c.c))
			if c.want == "" {
				if len(b.Problems) != 0 || len(b.Entries) != 1 {
					t.Fatalf("problems %v, entries %d; want none and 1", b.Problems, len(b.Entries))
				}
				return
			}
			if len(b.Entries) != 0 || len(b.Problems) != 1 || !strings.Contains(b.Problems[0].Message, c.want) {
				t.Errorf("entries %d, problems %v; want none, and one with %q", len(b.Entries), b.Problems, c.want)
			}
		})
	}
}

func TestSecretsAreReferencesThatChangeWithTheValue(t *testing.T) {
	in := inputsOf(api.Container{Env: []api.EnvVar{{Name: "S", ValueFrom: &api.EnvVarSource{SecretKeyRef: &api.KeySelector{Name: "s", Key: "k"}}}}})
	b, a := build(t, in)
	for _, body := range b.Bodies {
		if strings.Contains(string(body), "hunter2") {
			t.Error("the body has the secret's value in clear")
		}
	}
	ref := a.Containers[0].Env[0].Secret
	if ref == nil || len(b.Entries[0].Secrets) != 1 || !ref.ID.Equal(b.Entries[0].Secrets[0].ID) {
		t.Fatalf("env %+v, entry %+v; want one reference in both", a.Containers[0].Env, b.Entries[0])
	}
	if v, ok := b.secret(*ref); !ok || string(v) != "hunter2" {
		t.Errorf("secret of the bundle: %q, %v", v, ok)
	}
	in.Secrets["default/s"] = &api.Secret{Data: map[string][]byte{"k": []byte("other")}}
	b2, _ := build(t, in)
	if b2.Hash.Equal(b.Hash) {
		t.Error("the bundle's hash did not change with the secret's value")
	}
	if _, ok := b2.secret(*ref); ok {
		t.Error("the old reference opens the new value")
	}
}

func TestEqualInputsGiveEqualBundlesWhateverStatusSays(t *testing.T) {
	in := inputsOf(api.Container{})
	a, _ := build(t, in)
	in.Assignments[0] = api.Copy(in.Assignments[0])
	in.Assignments[0].Status.Phase = api.PhaseRunning
	in.Assignments[0].Metadata.ResourceVersion = "99"
	b, _ := build(t, in)
	if !a.Hash.Equal(b.Hash) {
		t.Error("a report changed the bundle")
	}
}

func TestATombstoneOfWhatIsBoundAgainIsNotSaid(t *testing.T) {
	in := inputsOf(api.Container{})
	in.Tombstones = []*api.Tombstone{{Spec: api.TombstoneSpec{Device: "pi-07", UID: "u1"}}, {Spec: api.TombstoneSpec{Device: "pi-07", UID: "u2", Namespace: "n", Name: "x"}}}
	b, _ := build(t, in)
	if d := cmp.Diff([]wire.Tombstone{{UID: "u2", Name: "n/x"}}, b.Tombstones); d != "" {
		t.Errorf("tombstones (-want +got):\n%s", d)
	}
}

func TestABundleStaysWithinItsLimit(t *testing.T) {
	in := inputsOf(api.Container{})
	big := strings.Repeat("x", 30<<10)
	var env []api.EnvVar
	for range 30 {
		env = append(env, api.EnvVar{Name: "E" + string(rune('A'+len(env))), Value: big})
	}
	in.Revisions["default/camera-1"].Spec.Template.Spec.Containers[0].Env = env
	first := in.Assignments[0]
	in.Assignments = nil
	for i := range 6 {
		a := api.Copy(first)
		a.Metadata.UID = "u" + string(rune('0'+i))
		in.Assignments = append(in.Assignments, a)
	}
	b, _ := build(t, in)
	size := 0
	for _, e := range b.Entries {
		size += len(b.Bodies[e.SpecHash.String()])
	}
	if size > wire.MaxBodies || len(b.Problems) == 0 || !strings.Contains(b.Problems[0].Message, "the limits are") {
		t.Errorf("size %d, problems %v; want at most %d and the rest left out with the limits", size, b.Problems, wire.MaxBodies)
	}
}

// What a device could never hold, or start a program with, is left out and said; the rest of its bundle goes on.
func TestSecretsCountInTheSizeOfABundle(t *testing.T) {
	in := inputsOf(api.Container{})
	in.Assignments = nil
	add := func(n int, value []byte) {
		name := "w" + string(rune('a'+n))
		in.Assignments = append(in.Assignments, &api.Assignment{
			Metadata: api.ObjectMeta{Namespace: "default", Name: name, UID: name},
			Spec:     api.AssignmentSpec{Workload: name, Revision: name, Device: "pi-07"},
		})
		in.Secrets["default/"+name] = &api.Secret{Data: map[string][]byte{}}
		c := api.Container{Name: "main", Image: "i:1"}
		for i := range 10 {
			key := "k" + string(rune('0'+i))
			in.Secrets["default/"+name].Data[key] = append([]byte(key), value...)
			c.Env = append(c.Env, api.EnvVar{Name: key, ValueFrom: &api.EnvVarSource{SecretKeyRef: &api.KeySelector{Name: name, Key: key}}})
		}
		in.Revisions["default/"+name] = &api.WorkloadRevision{
			Metadata: api.ObjectMeta{Namespace: "default", Name: name},
			Spec: api.WorkloadRevisionSpec{Images: map[string]string{"i:1": testImage},
				Template: api.Template{Spec: api.PodSpec{Containers: []api.Container{c}}}},
		}
	}
	for n := range 6 {
		add(n, []byte(strings.Repeat("s", 100<<10)))
	}
	add(6, []byte("a zero \x00 byte"))
	add(7, []byte(strings.Repeat("s", 128<<10)))
	b, err := Build(in, walkKeyed)
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, v := range b.secrets {
		total += len(v)
	}
	if total > wire.MaxBodies || len(b.Entries) != 4 || len(b.Problems) != 4 {
		t.Errorf("%d entries with %d bytes of secrets, %d problems; want 4 with at most %d, 4", len(b.Entries), total, len(b.Problems), wire.MaxBodies)
	}
	for _, p := range b.Problems {
		if strings.Contains(p.Message, "sss") || strings.Contains(p.Message, "a zero ") {
			t.Errorf("a secret stands in a message: %s", p.Message)
		}
	}
}
