package registry_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/hub/registry"
)

func replicated(name string, n int32) *api.Workload {
	w := workload(name, image1)
	w.Spec.Placement = api.Placement{Replicas: &n, All: true}
	return w
}

// drifter is one workload that alice declares and others change.
type drifter struct {
	*testing.T
	f *fixture
}

func (d *drifter) apply(who string, o api.Object, force bool) {
	d.Helper()
	_, err := d.f.user(who).Transact(d.Context(), client.Transaction{FieldManager: who, Force: force, Items: []client.TxItem{{Verb: client.TxApply, Object: o}}})
	if err != nil {
		d.Fatal(err)
	}
}

func (d *drifter) update(who string, o api.Object) {
	d.Helper()
	if _, err := d.f.user(who).Update(d.Context(), o, client.WriteOptions{FieldManager: who}); err != nil {
		d.Fatal(err)
	}
}

func (d *drifter) get(o api.Object) api.Object {
	d.Helper()
	ref, _ := api.RefOf(o)
	got, err := d.f.user("alice").Get(d.Context(), ref, client.GetOptions{})
	if err != nil {
		d.Fatal(err)
	}
	return got
}

// want compares who contends for what: FIELD DECLARER CHANGER.
func (d *drifter) want(o api.Object, want ...string) {
	d.Helper()
	got := d.get(o)
	var found []string
	for _, f := range api.ContendedFields(got) {
		found = append(found, f.Field+" "+f.DeclaredBy+" "+f.ChangedBy)
	}
	if diff := cmp.Diff(want, found); diff != "" {
		d.Errorf("contended fields (-want +got):\n%s", diff)
	}
	conditions := api.ConditionsOf(got)
	if conditions == nil {
		return
	}
	c := api.FindCondition(*conditions, api.ConditionContended)
	if isTrue := c != nil && c.Status == api.True; isTrue != (len(want) > 0) {
		d.Errorf("condition: got %+v, want it to be true: %t", c, len(want) > 0)
	}
	for _, w := range want {
		for _, part := range strings.Fields(w) {
			if c != nil && !strings.Contains(c.Message, part) {
				d.Errorf("condition: got %q, want it to name %s", c.Message, part)
			}
		}
	}
}

func TestDeclaredFieldThatAnotherChangesIsContended(t *testing.T) {
	d := &drifter{t, open(t, registry.Options{})}
	one, two := replicated("w", 1), replicated("w", 2)
	d.apply("alice", one, false)
	d.want(one)

	before := d.get(one).Meta().ResourceVersion
	d.update("scaler", two)
	d.want(one, "spec.placement.replicas alice scaler")
	if f := api.ContendedFields(d.get(one))[0]; f.After != before {
		t.Errorf("revision of the change: got after %s, want after %s", f.After, before)
	}
	if c := api.FindCondition(d.get(one).(*api.Workload).Status.Conditions, api.ConditionContended); c.ObservedGeneration != 2 {
		t.Errorf("the condition speaks of generation %d, want 2", c.ObservedGeneration)
	}
	// Who writes the status neither sets nor clears it, and who updates the object cannot forge it.
	for _, conditions := range [][]api.Condition{nil, {{Type: api.ConditionContended, Status: api.False}, {Type: "Available", Status: api.True}}} {
		st := api.Copy(d.get(one).(*api.Workload))
		st.Metadata.ResourceVersion, st.Status.Conditions = "", conditions
		if _, err := d.f.As(registry.Actor{Name: "controller:workload"}).Update(t.Context(), st, client.WriteOptions{Subresource: "status"}); err != nil {
			t.Fatal(err)
		}
		d.want(one, "spec.placement.replicas alice scaler")
	}
	forged := replicated("w", 2)
	forged.Metadata.Annotations = map[string]string{api.AnnotationContended: "[]"}
	d.update("scaler", forged)
	d.want(one, "spec.placement.replicas alice scaler")

	// The other takes it back.
	d.update("scaler", one)
	d.want(one)

	// The declarer insists.
	d.update("scaler", two)
	d.want(one, "spec.placement.replicas alice scaler")
	d.apply("alice", one, true)
	d.want(one)

	// The declarer gives the field up.
	d.update("scaler", two)
	without := workload("w", image1)
	without.Spec.Placement = api.Placement{All: true}
	d.apply("alice", without, false)
	d.want(one)
	if got := *d.get(one).(*api.Workload).Spec.Placement.Replicas; got != 2 {
		t.Errorf("replicas: got %d, want the 2 of who has the field now", got)
	}
}

// Of several who change a field in turn it is the last who contends for it, and who declared it may change it by other means than applying.
func TestLastChangerIsNamedAndTheDeclarerContendsWithNobody(t *testing.T) {
	d := &drifter{t, open(t, registry.Options{})}
	o := replicated("w", 1)
	d.apply("alice", o, false)
	d.update("bob", replicated("w", 2))
	between := d.get(o).Meta().ResourceVersion
	d.update("carol", replicated("w", 3))
	d.want(o, "spec.placement.replicas alice carol")
	if f := api.ContendedFields(d.get(o))[0]; f.After != between {
		t.Errorf("revision of the change: got after %s, want after %s", f.After, between)
	}
	d.update("alice", replicated("w", 4))
	d.want(o)
}

func TestFlappingAppliersAreBothNamed(t *testing.T) {
	d := &drifter{t, open(t, registry.Options{})}
	d.apply("git", replicated("w", 1), false)
	for range 3 {
		d.apply("ops", replicated("w", 2), true)
		d.want(replicated("w", 1), "spec.placement.replicas git ops")
		d.apply("git", replicated("w", 1), true)
		d.want(replicated("w", 1), "spec.placement.replicas ops git")
	}
}

// Kinds without a status have no condition; the fields are noted all the same, by keyed hash, and labels with dots are found again.
func TestContendedFieldsOfKindsWithoutStatus(t *testing.T) {
	d := &drifter{t, open(t, registry.Options{})}
	s := func(v, label string) *api.Secret {
		return &api.Secret{
			TypeMeta: api.TypeMeta{APIVersion: api.CoreV1, Kind: "Secret"}, Metadata: api.ObjectMeta{Name: "s", Namespace: api.DefaultNS, Labels: map[string]string{"a.io/b.c": label}},
			Data: map[string][]byte{"k": []byte(v)},
		}
	}
	d.apply("alice", s("hunter2", "x"), false)
	d.update("bob", s("hunter3", "y"))
	d.want(s("", ""), "data.k alice bob", `metadata.labels["a.io/b.c"] alice bob`)
	if a := d.get(s("", "")).Meta().Annotations[api.AnnotationContended]; strings.Contains(a, "hunter") || strings.Contains(a, "aHVudGVy") {
		t.Errorf("the note holds a value: %s", a)
	}
	d.update("bob", s("hunter2", "y"))
	d.want(s("", ""), `metadata.labels["a.io/b.c"] alice bob`)
	d.update("bob", s("hunter2", "x"))
	d.want(s("", ""))
	d.apply("alice", s("hunter2", "x"), false)
	if a := d.get(s("", "")).Meta().Annotations; len(a) != 0 {
		t.Errorf("annotations: got %v, want none left", a)
	}
}

// What nobody declared by applying is nobody's to defend.
func TestPlainUpdatesAreNoDrift(t *testing.T) {
	d := &drifter{t, open(t, registry.Options{})}
	d.update("alice", must(d.f.user("alice").Create(t.Context(), replicated("w", 1), client.WriteOptions{FieldManager: "alice"}))(t))
	d.update("bob", replicated("w", 2))
	d.want(replicated("w", 1))
}

func TestNotesOfContendedFieldsAreTheHubsAlone(t *testing.T) {
	d := &drifter{t, open(t, registry.Options{})}
	forged := replicated("w", 1)
	forged.Metadata.Annotations = map[string]string{api.AnnotationContended: `[{"field":"spec.placement.replicas","declaredBy":"alice","changedBy":"bob","after":"1"}]`}
	must(d.f.user("mallory").Create(t.Context(), forged, client.WriteOptions{}))(t)
	d.want(forged)
	forged.Metadata.Name = "applied"
	d.apply("mallory", forged, false)
	d.want(forged)
}

func TestNotesOfContendedFieldsAreBounded(t *testing.T) {
	d := &drifter{t, open(t, registry.Options{})}
	of := func(value string) *api.ConfigMap {
		data := map[string]string{}
		for i := range 30 {
			data[fmt.Sprintf("k%02d", i)] = value
		}
		return configMap("c", data)
	}
	d.apply("alice", of("declared"), false)
	d.update("bob", of("changed"))
	if n := len(api.ContendedFields(d.get(of("")))); n != 20 {
		t.Errorf("got %d notes of 30 contended fields, want the 20 that are kept", n)
	}
}
