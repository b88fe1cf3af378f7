package audit

import (
	"encoding/json"
	"strings"
	"testing"
)

// FuzzParsePolicy: a policy that is taken can judge.
func FuzzParsePolicy(f *testing.F) {
	f.Add([]byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Request, verbs: [create], resources: [{group: '', resources: [secrets]}]}, {level: None}]\n"))
	f.Add([]byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata, users: ['*'], nonResourceURLs: ['/x/*']}]\n---\n{}"))
	f.Add([]byte("rules: &a [*a]"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := ParsePolicy(b)
		if (err == nil) != (p != nil && p.validate() == nil) {
			t.Fatalf("got %v and %v", p, err)
		}
	})
}

// FuzzBodyKeepsNoSecret: wherever a Secret stands in a body, its values do not go on record.
func FuzzBodyKeepsNoSecret(f *testing.F) {
	f.Add(`{"items":[]}`, "items")
	f.Add(`[1,"x"]`, "kind")
	f.Add(`{"kind":"List"}`, "metadata")
	f.Fuzz(func(t *testing.T, around, key string) {
		const canary = "c4n4ry-of-the-mine"
		secret := map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "s"}, "data": map[string]any{"k": canary}, "stringData": map[string]any{"k": canary}}
		var v any
		if json.Unmarshal([]byte(around), &v) != nil {
			return
		}
		switch at := v.(type) {
		case map[string]any:
			at[key] = secret
		case []any:
			v = append(at, secret)
		default:
			v = map[string]any{key: []any{v, secret}}
		}
		b, err := json.Marshal(v)
		if err != nil {
			return
		}
		got := Body(&Attributes{Verb: "create", Resource: "transactions"}, b)
		if strings.Contains(string(got), canary) {
			t.Fatalf("%s goes on record as %s", b, got)
		}
	})
}
