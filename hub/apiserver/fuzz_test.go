package apiserver

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/drover-fleet/drover/api"
)

// FuzzRoute: a path that leads to an object leads to exactly the one that it names, read in one way.
func FuzzRoute(f *testing.F) {
	for _, p := range []string{
		"/api/v1/namespaces/default/configmaps/a", "/apis/fleet.drover.dev/v1/workloads", "/api/v1/namespaces/a/secrets/b/../c", "/api/v1/namespaces//configmaps",
		"/apis/fleet.drover.dev/v1/namespaces/a/workloads/b/scale", "/api/v1/namespaces/a/serviceaccounts/b/token", "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:x",
		"/drover/v1/why", "/drover/v1/hub/status", "/healthz", "/%2e%2e/", "/api/v1/namespaces/a/configmaps/a%2Fb", "//", "/openapi/v3/apis/fleet.drover.dev/v1",
	} {
		f.Add("GET", p, "")
		f.Add("DELETE", p, "watch=1")
	}
	f.Fuzz(func(t *testing.T, method, path, query string) {
		u, err := url.ParseRequestURI(path)
		if err != nil || u.Path == "" || method == "" {
			return // net/http refuses a request without a method
		}
		u.RawQuery = query
		rt, err := parseRoute(&http.Request{Method: method, URL: u, Header: http.Header{}})
		if rt.verb == "" {
			t.Fatalf("%s %s: no verb to judge or to put on record", method, path)
		}
		if err != nil || rt.ref.Kind == nil {
			return
		}
		if rt.ref.Namespace != "" && !rt.ref.Kind.Namespaced && rt.ref.Kind != api.KindNamespace {
			t.Fatalf("%s %s: %s in namespace %q, and its kind has none", method, path, rt.ref.Kind.Kind, rt.ref.Namespace)
		}
		for _, part := range []string{rt.ref.Namespace, rt.ref.Name, rt.sub} {
			if strings.Contains(part, "/") || part == "." || part == ".." {
				t.Fatalf("%s %s: %q is a part of what it names", method, path, part)
			}
			if part != "" && !strings.Contains(u.Path, part) {
				t.Fatalf("%s %s: %q is named and does not stand there", method, path, part)
			}
		}
	})
}

// FuzzMergePatch: what a patch makes of a document can be written, and the same patch changes it no further (RFC 7386); of a patch by
// strategy only the first holds.
func FuzzMergePatch(f *testing.F) {
	f.Add(`{"a":{"b":[1,2]},"c":null}`, `{"a":{"b":null,"d":{"e":null}}}`)
	f.Add(`{"metadata":{"finalizers":["a"]}}`, `{"metadata":{"finalizers":["b"],"$deleteFromPrimitiveList/finalizers":["a"]}}`)
	f.Add(`{}`, `{"metadata":{"ownerReferences":[{"uid":"1","$patch":"delete"}],"$retainKeys":["x"],"$patch":"replace"}}`)
	f.Add(`{"a":1e400}`, `{"a":{"a":{"a":{}}}}`)
	f.Fuzz(func(t *testing.T, doc, patch string) {
		for _, media := range []string{mergePatch, strategicPatch} {
			change, err := newEdit(media, []byte(patch))
			if err != nil {
				continue
			}
			var v any
			if unmarshalNumbers([]byte(doc), &v) != nil {
				return
			}
			once, err := change(v)
			if err != nil {
				continue
			}
			text := encoded(t, once)
			if media != mergePatch {
				continue
			}
			if change, err = newEdit(media, []byte(patch)); err != nil {
				t.Fatal(err)
			}
			twice, err := change(once)
			if err != nil {
				t.Fatal(err)
			}
			if again := encoded(t, twice); again != text {
				t.Fatalf("patched twice: got %s, want %s", again, text)
			}
		}
	})
}

// FuzzAccept: no Accept header makes the hub answer in a form that it does not have.
func FuzzAccept(f *testing.F) {
	f.Add("application/json;as=Table;v=v1;g=meta.k8s.io,application/json")
	f.Add("application/vnd.kubernetes.protobuf;q=0.9, */*;q=0.1")
	f.Add("text/html;;;,=,")
	f.Fuzz(func(t *testing.T, accept string) {
		form, err := negotiate(accept)
		if err != nil {
			return
		}
		switch form.as {
		case "", "Table", "PartialObjectMetadata", "PartialObjectMetadataList":
		default:
			t.Fatalf("%q: got the form %q", accept, form.as)
		}
	})
}
