package registry_test

import (
	"testing"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/hub/registry"
)

// TestPreconditionsHoldWhenTheCommandIsApplied: what is written between a plan and its command is seen, though the plan held.
func TestPreconditionsHoldWhenTheCommandIsApplied(t *testing.T) {
	f := open(t, registry.Options{})
	alice := f.user("alice")
	b := &racing{LocalBackend: f.backend}
	c := must(registry.New(b, registry.Options{Sealer: sealer(t)}))(t).As(registry.Actor{Name: "user:bob"})
	was := must(alice.Create(t.Context(), configMap("read", nil), client.WriteOptions{}))(t)
	create := func(o *api.ConfigMap) func() {
		return func() { must(alice.Create(t.Context(), o, client.WriteOptions{}))(t) }
	}
	newcomer, stranger := configMap("newcomer", nil), configMap("stranger", nil)
	newcomer.Metadata.Labels = map[string]string{"set": "x"}
	selection := client.Precondition{
		Ref: api.Ref{Kind: api.KindConfigMap, Namespace: api.DefaultNS}, Selection: &client.Selection{LabelSelector: "set=x"},
	}
	for _, tt := range []struct {
		what  string
		pre   client.Precondition
		race  func()
		moved bool
	}{
		{"another object", selection, create(stranger), false},
		{"an object that comes into the selection", selection, create(newcomer), true},
		{"an object that was not there", client.Precondition{Ref: refTo(configMap("absent", nil))}, create(configMap("absent", nil)), true},
		{"the object", client.Precondition{Ref: refTo(was), ResourceVersion: was.Meta().ResourceVersion}, func() {
			must(alice.Update(t.Context(), configMap("read", map[string]string{"k": "v"}), client.WriteOptions{}))(t)
		}, true},
	} {
		b.before = tt.race
		_, err := c.Transact(t.Context(), client.Transaction{
			If: []client.Precondition{tt.pre}, Items: []client.TxItem{{Verb: client.TxApply, Object: configMap("written", map[string]string{"after": tt.what})}}, FieldManager: "bob",
		})
		if client.PlanMoved(err) != tt.moved || !tt.moved && err != nil {
			t.Errorf("%s is written meanwhile: got %v, want a refusal since the plan moved: %t", tt.what, err, tt.moved)
		}
	}
}
