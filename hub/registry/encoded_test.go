package registry_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/hub/registry"
)

// TestAnEncodedListSaysWhatAListSays: page by page, for kinds that are taken as they are stored and for those that are not.
func TestAnEncodedListSaysWhatAListSays(t *testing.T) {
	f := open(t, registry.Options{})
	c := f.user("alice")
	for _, obj := range []api.Object{
		&api.ConfigMap{Metadata: api.ObjectMeta{Name: "a", Namespace: "default", Labels: map[string]string{"x": "y"}}, Data: map[string]string{"k": "<&>\u2028"}},
		&api.ConfigMap{Metadata: api.ObjectMeta{Name: "b", Namespace: "default"}},
		&api.ConfigMap{Metadata: api.ObjectMeta{Name: "c", Namespace: "default", Labels: map[string]string{"x": "y"}}},
		&api.Secret{Metadata: api.ObjectMeta{Name: "s", Namespace: "default"}, Data: map[string][]byte{"k": []byte("value")}},
		assignment("camera.pi-07", "pi-07"),
		&api.Role{Metadata: api.ObjectMeta{Name: "r", Namespace: "default"}, Rules: []api.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"configmaps"}}}},
	} {
		k, _ := api.KindFor(obj)
		*obj.Type() = api.TypeMeta{APIVersion: k.APIVersion, Kind: k.Kind}
		if _, err := c.Create(t.Context(), obj, client.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, k := range api.Kinds() {
		for _, o := range []client.ListOptions{{}, {Limit: 2}, {LabelSelector: "x=y"}, {LabelSelector: "x=y", Limit: 1}, {FieldSelector: "metadata.name=b"}} {
			sameLists(t, c, k, o)
		}
	}
}

func sameLists(t *testing.T, c client.Client, k *api.Kind, o client.ListOptions) {
	t.Helper()
	for {
		want, err := c.List(t.Context(), k, o)
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.(registry.EncodedLister).ListEncoded(t.Context(), k, o)
		if err != nil {
			t.Fatal(err)
		}
		if got.ResourceVersion != want.ResourceVersion || got.Continue != want.Continue || got.Remaining != want.Remaining || len(got.Items) != len(want.Items) {
			t.Errorf("%s %+v: got %d items at %s, continue %q, remaining %d; want %d, %s, %q, %d", k.Kind, o,
				len(got.Items), got.ResourceVersion, got.Continue, got.Remaining, len(want.Items), want.ResourceVersion, want.Continue, want.Remaining)
			return
		}
		for i, item := range got.Items {
			b, err := json.Marshal(want.Items[i])
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(anyJSON(t, b), anyJSON(t, item)); diff != "" {
				t.Errorf("%s %+v (-list +encoded):\n%s", k.Kind, o, diff)
			}
			stored := strings.Contains(string(item), `"metadata":{"resourceVersion":`)
			if want := k != api.KindSecret && o.LabelSelector == ""; stored != want {
				t.Errorf("%s %+v: taken as it is stored: %v, want %v: %s", k.Kind, o, stored, want, item)
			}
		}
		if o.Continue = want.Continue; o.Continue == "" {
			return
		}
	}
}

func anyJSON(t *testing.T, b []byte) (v any) {
	t.Helper()
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	return v
}
