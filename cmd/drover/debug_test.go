package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/drover-fleet/drover/api"
)

// TestBundleShowsNoValueThatItsListDoesNotName plants a word in the places of which the script has none.
func TestBundleShowsNoValueThatItsListDoesNotName(t *testing.T) {
	const canary, coded = "canary", "Y2FuYXJ5" // and as JSON holds bytes
	meta := api.ObjectMeta{Name: "o", Annotations: map[string]string{"note": canary}, ManagedFields: []api.ManagedFieldsEntry{{Manager: "alice", FieldsV1: api.RawJSON(`{"canary":{}}`)}}}
	template := api.Template{Spec: api.PodSpec{Containers: []api.Container{{
		Name: "first", Command: []string{canary}, Args: []string{canary}, Env: []api.EnvVar{{Name: "PSK", Value: canary}},
	}}}}
	for _, tt := range []struct {
		kind  *api.Kind
		obj   api.Object
		shown string // what is there all the same
	}{
		{api.KindJoinToken, &api.JoinToken{Metadata: meta, Spec: api.JoinTokenSpec{Uses: 7, SecretHash: canary, Labels: map[string]string{"a": canary}}}, `"uses":7`},
		{api.KindConfigMap, &api.ConfigMap{Metadata: meta, Data: map[string]string{"site": canary}, BinaryData: map[string][]byte{"blob": []byte(canary)}}, `"blob":"(not shown)"`},
		{api.KindSecret, &api.Secret{Metadata: meta, Data: map[string][]byte{"password": []byte(canary)}}, `"password":"(not shown)"`},
		{api.KindWorkload, &api.Workload{Metadata: meta, Spec: api.WorkloadSpec{Template: template}}, `"name":"PSK"`},
		{api.KindWorkloadRevision, &api.WorkloadRevision{Metadata: meta, Spec: api.WorkloadRevisionSpec{Template: template}}, `"name":"PSK"`},
	} {
		p, err := projected(tt.kind, tt.obj)
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(b); strings.Contains(got, canary) || strings.Contains(got, coded) || !strings.Contains(got, tt.shown) || !strings.Contains(got, `"manager":"alice"`) {
			t.Errorf("%s: got %s, want %s and the manager's name, without %q", tt.kind.Singular, got, tt.shown, canary)
		}
	}
}
