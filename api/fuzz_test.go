package api

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzDecodeJSON: an object that is taken reads back as the same, and its validation tells of errors instead of panicking.
func FuzzDecodeJSON(f *testing.F) {
	for _, k := range Kinds() {
		f.Add([]byte(`{"apiVersion":"` + k.APIVersion + `","kind":"` + k.Kind + `","metadata":{"name":"a","namespace":"b","labels":{"x":"y"}}}`))
	}
	f.Add([]byte(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"},"data":{"k":"eA=="},"stringData":{"k":"v"}}`))
	f.Add([]byte(`{"apiVersion":"fleet.drover.dev/v1","kind":"Workload","metadata":{"name":"a"},"spec":{"placement":{"replicas":-1},"template":{"spec":{"containers":[{"name":"m","image":"i","resources":{"limits":{"memory":"1e99Gi"}}}]}}}}`))
	f.Add([]byte(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"a:b"},"rules":[{"verbs":["*"],"nonResourceURLs":["/x/*"]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		obj, err := DecodeJSON(nil, data)
		if err != nil {
			return
		}
		Default(obj)
		_ = Validate(obj)
		text, err := json.Marshal(obj)
		if err != nil {
			t.Fatal(err)
		}
		again, err := DecodeJSON(nil, text)
		if err != nil {
			t.Fatalf("what was read does not read back: %v\n%s", err, text)
		}
		back, err := json.Marshal(again) // an empty map reads back as none
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(text), string(back)); diff != "" {
			t.Fatalf("read back differently:\n%s", diff)
		}
	})
}
