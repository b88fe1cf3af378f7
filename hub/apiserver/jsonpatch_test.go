package apiserver

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func document(t *testing.T, s string) any {
	t.Helper()
	var v any
	if err := unmarshalNumbers([]byte(s), &v); err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	return v
}

func encoded(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestJSONPatchIsRFC6902 has the examples of the RFC's appendix that say something, and the edges of arrays.
func TestJSONPatchIsRFC6902(t *testing.T) {
	tests := []struct{ name, doc, patch, want, wantErr string }{
		{"add to an object", `{"a":1}`, `[{"op":"add","path":"/b","value":2}]`, `{"a":1,"b":2}`, ""},
		{"add into an array", `{"a":[1,3]}`, `[{"op":"add","path":"/a/1","value":2}]`, `{"a":[1,2,3]}`, ""},
		{"append", `{"a":[1]}`, `[{"op":"add","path":"/a/-","value":2}]`, `{"a":[1,2]}`, ""},
		{"add an explicit null", `{}`, `[{"op":"add","path":"/a","value":null}]`, `{"a":null}`, ""},
		{"add the whole", `{"a":1}`, `[{"op":"add","path":"","value":{"b":1}}]`, `{"b":1}`, ""},
		{"remove", `{"a":[1,2,3]}`, `[{"op":"remove","path":"/a/1"}]`, `{"a":[1,3]}`, ""},
		{"replace", `{"a":{"b":1}}`, `[{"op":"replace","path":"/a/b","value":{"c":[]}}]`, `{"a":{"b":{"c":[]}}}`, ""},
		{"move", `{"a":{"x":1},"b":{}}`, `[{"op":"move","from":"/a/x","path":"/b/y"}]`, `{"a":{},"b":{"y":1}}`, ""},
		{"move within an array", `{"a":[1,2,3]}`, `[{"op":"move","from":"/a/0","path":"/a/2"}]`, `{"a":[2,3,1]}`, ""},
		{"a copy shares nothing", `{"a":{"x":1}}`, `[{"op":"copy","from":"/a","path":"/b"},{"op":"replace","path":"/b/x","value":2}]`, `{"a":{"x":1},"b":{"x":2}}`, ""},
		{"escaped names", `{"a/b":{"~":1}}`, `[{"op":"replace","path":"/a~1b/~0","value":2}]`, `{"a/b":{"~":2}}`, ""},
		{"test by value", `{"a":{"x":1.0,"y":[true,null]}}`, `[{"op":"test","path":"/a","value":{"y":[true,null],"x":1}}]`, `{"a":{"x":1.0,"y":[true,null]}}`, ""},
		{"64-bit integers survive", `{"a":9007199254740993}`, `[{"op":"add","path":"/b","value":9223372036854775807}]`, `{"a":9007199254740993,"b":9223372036854775807}`, ""},
		{"failed test", `{"a":1}`, `[{"op":"test","path":"/a","value":"1"}]`, "", "operation 0 (test /a): the value is another one"},
		{"remove what is not there", `{}`, `[{"op":"remove","path":"/a"}]`, "", "nothing at this path"},
		{"replace what is not there", `{}`, `[{"op":"replace","path":"/a","value":1}]`, "", "nothing at this path"},
		{"add below what is not there", `{}`, `[{"op":"add","path":"/a/b","value":1}]`, "", "nothing at this path"},
		{"index past the end", `{"a":[1]}`, `[{"op":"add","path":"/a/2","value":1}]`, "", "nothing at this path"},
		{"index with leading zero", `{"a":[1,2]}`, `[{"op":"remove","path":"/a/01"}]`, "", "nothing at this path"},
		{"into itself", `{"a":{"b":1}}`, `[{"op":"move","from":"/a","path":"/a/b"}]`, "", "into itself"},
		{"unknown op", `{}`, `[{"op":"merge","path":"/a","value":1}]`, "", `op "merge": want add`},
		{"no value", `{}`, `[{"op":"add","path":"/a"}]`, "", "value is missing"},
		{"no list", `{}`, `{"op":"add"}`, "", "not a list of operations"},
		{"path without slash", `{}`, `[{"op":"remove","path":"a"}]`, "", "starts with a slash"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ops, err := parseJSONPatch([]byte(tt.patch))
			var got any
			if err == nil {
				got, err = ops.apply(document(t, tt.doc))
			}
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Fatalf("error: got %v, want one with %q", err, tt.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(encoded(t, document(t, tt.want)), encoded(t, got)); diff != "" {
				t.Errorf("document (-want +got):\n%s", diff)
			}
		})
	}
}

// TestMergePatchIsRFC7386 has the RFC's table of examples, as far as the target and the patch are objects.
func TestMergePatchIsRFC7386(t *testing.T) {
	tests := [][3]string{
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`{"e":null}`, `{"a":1}`, `{"a":1,"e":null}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
	}
	for _, tt := range tests {
		patch, ok := document(t, tt[1]).(map[string]any)
		if !ok {
			t.Fatalf("%s is no object", tt[1])
		}
		if got, want := encoded(t, mergeInto(document(t, tt[0]), patch)), encoded(t, document(t, tt[2])); got != want {
			t.Errorf("%s with %s: got %s, want %s", tt[0], tt[1], got, want)
		}
	}
}

func TestCopiesOfAJSONPatchAreBounded(t *testing.T) {
	patch := `[{"op":"copy","from":"/a","path":"/b"}` + strings.Repeat(`,{"op":"copy","from":"","path":"/c"}`, 100) + `]`
	ops, err := parseJSONPatch([]byte(patch))
	if err != nil {
		t.Fatal(err)
	}
	_, err = ops.apply(document(t, `{"a":"`+strings.Repeat("x", 1000)+`"}`))
	if err == nil || !strings.Contains(err.Error(), "copies come to more than") {
		t.Errorf("100 copies of the whole: got %v, want a refusal", err)
	}
}

func TestStrategicPatchMergesFinalizersAndOwnersAndReplacesEveryOtherList(t *testing.T) {
	const doc = `{"metadata":{"finalizers":["a","b"],"ownerReferences":[{"uid":"1","name":"x"},{"uid":"2","name":"y"}],"labels":{"k":"v"}},"rules":[1,2]}`
	tests := []struct{ name, patch, want, wantErr string }{
		{"null removes", `{"metadata":{"labels":{"k":null}}}`, `{"metadata":{"finalizers":["a","b"],"ownerReferences":[{"uid":"1","name":"x"},{"uid":"2","name":"y"}],"labels":{}},"rules":[1,2]}`, ""},
		{"a finalizer is added", `{"metadata":{"finalizers":["c","a"]}}`, `{"metadata":{"finalizers":["a","b","c"],"ownerReferences":[{"uid":"1","name":"x"},{"uid":"2","name":"y"}],"labels":{"k":"v"}},"rules":[1,2]}`, ""},
		{"a finalizer is removed", `{"metadata":{"$deleteFromPrimitiveList/finalizers":["a"],"$setElementOrder/finalizers":["b"]}}`, `{"metadata":{"finalizers":["b"],"ownerReferences":[{"uid":"1","name":"x"},{"uid":"2","name":"y"}],"labels":{"k":"v"}},"rules":[1,2]}`, ""},
		{"an owner changes, one goes, one comes", `{"metadata":{"ownerReferences":[{"uid":"1","name":"z"},{"uid":"2","$patch":"delete"},{"uid":"3"}]}}`, `{"metadata":{"finalizers":["a","b"],"ownerReferences":[{"uid":"1","name":"z"},{"uid":"3"}],"labels":{"k":"v"}},"rules":[1,2]}`, ""},
		{"other lists are one value", `{"rules":[3]}`, `{"metadata":{"finalizers":["a","b"],"ownerReferences":[{"uid":"1","name":"x"},{"uid":"2","name":"y"}],"labels":{"k":"v"}},"rules":[3]}`, ""},
		{"replace", `{"metadata":{"$patch":"replace","name":"n"}}`, `{"metadata":{"name":"n"},"rules":[1,2]}`, ""},
		{"retain", `{"metadata":{"$retainKeys":["labels"],"labels":{"k":"w"}}}`, `{"metadata":{"labels":{"k":"w"}},"rules":[1,2]}`, ""},
		{"order", `{"metadata":{"$setElementOrder/finalizers":["b","a"],"finalizers":["b"]}}`, `{"metadata":{"finalizers":["b","a"],"ownerReferences":[{"uid":"1","name":"x"},{"uid":"2","name":"y"}],"labels":{"k":"v"}},"rules":[1,2]}`, ""},
		{"unknown directive", `{"$mix":[]}`, "", `directive "$mix"`},
		{"unknown value", `{"metadata":{"$patch":"burn"}}`, "", `$patch is "burn"`},
		{"owner without uid", `{"metadata":{"ownerReferences":[{"name":"z"}]}}`, "", "has no uid"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			change, err := newEdit(strategicPatch, []byte(tt.patch))
			if err != nil {
				t.Fatal(err)
			}
			got, err := change(document(t, doc))
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Fatalf("error: got %v, want one with %q", err, tt.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(encoded(t, document(t, tt.want)), encoded(t, got)); diff != "" {
				t.Errorf("document (-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzJSONPatch(f *testing.F) {
	f.Add(`{"a":[1,{"b":2}]}`, `[{"op":"move","from":"/a/0","path":"/a/1/b"}]`)
	f.Add(`{"a":{}}`, `[{"op":"copy","from":"","path":"/a/x"},{"op":"test","path":"/a","value":1e400}]`)
	f.Fuzz(func(t *testing.T, doc, patch string) {
		ops, err := parseJSONPatch([]byte(patch))
		if err != nil || len(ops) > 20 {
			return
		}
		var v any
		if unmarshalNumbers([]byte(doc), &v) != nil {
			return
		}
		if out, err := ops.apply(v); err == nil {
			encoded(t, out) // what is accepted can be encoded
		}
	})
}

func TestAgesReadAsKubectlWritesThem(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 0: "0s", 119 * time.Second: "119s", 2 * time.Minute: "2m", 5*time.Minute + 10*time.Second: "5m10s", 15*time.Minute + 10*time.Second: "15m",
		3*time.Hour + 20*time.Minute: "3h20m", 26 * time.Hour: "26h", 50 * time.Hour: "2d2h", 40 * 24 * time.Hour: "40d", 800 * 24 * time.Hour: "2y70d", 9 * 365 * 24 * time.Hour: "9y",
	} {
		if got := humanDuration(d); got != want {
			t.Errorf("%s: got %s, want %s", d, got, want)
		}
	}
}

func TestFirstKnownFormOfAcceptIsTaken(t *testing.T) {
	tests := []struct {
		accept string
		want   form
		ok     bool
	}{
		{"", form{}, true},
		{"*/*", form{}, true},
		{"application/json", form{}, true},
		{"application/vnd.kubernetes.protobuf,application/json", form{}, true},
		{"application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json", form{"Table", "v1"}, true},
		{"application/json;as=Table;v=v1beta1;g=meta.k8s.io, application/json", form{"Table", "v1beta1"}, true},
		{"application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", form{"PartialObjectMetadata", "v1"}, true},
		{"application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json", form{}, true},
		{"application/json;as=Table;v=v9;g=meta.k8s.io", form{}, false},
		{"application/vnd.kubernetes.protobuf", form{}, false},
		{"text/html", form{}, false},
	}
	for _, tt := range tests {
		got, err := negotiate(tt.accept)
		if got != tt.want || (err == nil) != tt.ok {
			t.Errorf("%q: got %+v, %v; want %+v, accepted %v", tt.accept, got, err, tt.want, tt.ok)
		}
	}
}
