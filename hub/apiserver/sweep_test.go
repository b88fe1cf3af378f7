package apiserver_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/client/remote"
)

// way is one way to ask something of a kind, and the right that it takes.
type way struct {
	method, path, body, media string
	verb, sub                 string
}

// waysOf lists every way that there is to an object of the kind, and to its collection.
func waysOf(k *api.Kind) []way {
	base := "/apis/" + k.APIVersion
	if k.Group() == "" {
		base = "/api/" + k.APIVersion
	}
	everywhere := base + "/" + k.Plural
	all := everywhere
	namespace := ""
	if k.Namespaced {
		all, namespace = base+"/namespaces/default/"+k.Plural, `,"namespace":"default"`
	}
	one := all + "/x"
	obj := fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":"x"%s}}`, k.APIVersion, k.Kind, namespace)
	item := func(verb string) string {
		return `{"fieldManager":"m","items":[{"verb":"` + verb + `","object":` + obj + `}]}`
	}
	rests := fmt.Sprintf(`{"fieldManager":"m","items":[{"verb":"delete","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"y","namespace":"other"}}}],`+
		`"preconditions":[{"apiVersion":%q,"kind":%q,"name":"x"%s}]}`, k.APIVersion, k.Kind, namespace)
	why := remote.PathWhy + "?apiVersion=" + k.APIVersion + "&kind=" + k.Kind + "&name=x"
	if k.Namespaced {
		why += "&namespace=default"
	}
	const (
		jsons  = "application/json"
		patchs = "application/json-patch+json"
	)
	ways := []way{
		{"GET", one, "", "", "get", ""}, {"HEAD", one, "", "", "get", ""}, {"GET", one + "?resourceVersion=0", "", "", "get", ""},
		{"GET", one + "?watch=1&timeoutSeconds=1", "", "", "watch", ""},
		{"GET", all, "", "", "list", ""}, {"HEAD", all, "", "", "list", ""}, {"GET", everywhere, "", "", "list", ""},
		{"GET", all + "?labelSelector=a%3Db&limit=1", "", "", "list", ""}, {"GET", all + "?fieldSelector=metadata.name%3Dx", "", "", "list", ""},
		{"GET", all + "?watch=true&timeoutSeconds=1", "", "", "watch", ""}, {"HEAD", everywhere + "?watch=true", "", "", "watch", ""},
		{"POST", all, obj, jsons, "create", ""}, {"POST", all + "?dryRun=All", obj, jsons, "create", ""},
		{"PUT", one, obj, jsons, "update", ""}, {"PUT", one + "?dryRun=All", obj, jsons, "update", ""},
		{"PATCH", one, `{}`, merges, "patch", ""}, {"PATCH", one, `[]`, patchs, "patch", ""},
		{"PATCH", one, `{}`, "application/strategic-merge-patch+json", "patch", ""},
		{"PATCH", one + "?fieldManager=m", obj, applies, "patch", ""}, {"PATCH", one + "?fieldManager=m&dryRun=All&force=true", obj, applies, "create", ""},
		{"DELETE", one, "", "", "delete", ""}, {"DELETE", one + "?dryRun=All", "", "", "delete", ""},
		{"POST", remote.PathTransactions, item("create"), jsons, "create", ""}, {"POST", remote.PathTransactions, item("apply"), jsons, "patch", ""},
		{"POST", remote.PathTransactions, item("update"), jsons, "update", ""}, {"POST", remote.PathTransactions, item("delete"), jsons, "delete", ""},
		{"POST", remote.PathTransactions, rests, jsons, "get", ""},
		{"GET", why, "", "", "get", ""},
	}
	if k.Namespaced {
		ways = append(ways, way{"DELETE", all, "", "", "deletecollection", ""})
	}
	if k.HasStatus {
		ways = append(ways,
			way{"GET", one + "/status", "", "", "get", "status"}, way{"PUT", one + "/status", obj, jsons, "update", "status"}, way{"PATCH", one + "/status", `{}`, merges, "patch", "status"},
			way{"PATCH", one + "/status?fieldManager=m", obj, applies, "patch", "status"}, way{"POST", remote.PathTransactions, item("status"), jsons, "update", "status"})
	}
	switch k {
	case api.KindWorkload:
		ways = append(ways, way{"GET", one + "/scale", "", "", "get", "scale"}, way{"PUT", one + "/scale", `{}`, jsons, "update", "scale"}, way{"PATCH", one + "/scale", `{}`, merges, "patch", "scale"})
	case api.KindAssignment:
		ways = append(ways, way{"GET", one + "/log", "", "", "get", "log"})
	case api.KindServiceAccount:
		ways = append(ways, way{"POST", one + "/token", `{}`, jsons, "create", "token"})
	}
	return ways
}

// allBut are all rights on everything, save one verb on one resource.
func allBut(k *api.Kind, w way) []api.PolicyRule {
	left := w.verb
	var verbs, resources []string
	for _, v := range []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"} {
		if v != left {
			verbs = append(verbs, v)
		}
	}
	for _, other := range api.Kinds() {
		for _, sub := range []string{"", "/status", "/scale", "/log", "/token"} {
			if other != k || strings.TrimPrefix(sub, "/") != w.sub {
				resources = append(resources, other.Plural+sub)
			}
		}
	}
	return []api.PolicyRule{
		{Verbs: verbs, APIGroups: []string{"*"}, Resources: []string{"*"}},
		{Verbs: []string{left}, APIGroups: []string{"*"}, Resources: resources},
		{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}},
	}
}

// TestEveryWayToEveryKindTakesItsRight: whoever may everything but the one thing is refused it, in the words of that right; so are
// devices, strangers, and members in their own name.
func TestEveryWayToEveryKindTakesItsRight(t *testing.T) {
	h := startHub(t, nil)
	eve, others := h.as("eve", "night-shift"), map[string]*browser{"a device": h.as("pi-07", "drover:devices"), "a stranger": h.as("nobody"), "a member": h.as("h2", "drover:hubs")}
	h.access.Put(&api.ClusterRoleBinding{Metadata: api.ObjectMeta{Name: "eve"}, RoleRef: api.RoleRef{Kind: "ClusterRole", Name: "eve"}, Subjects: []api.Subject{user("eve")}})
	tried := 0
	for _, k := range api.Kinds() {
		for _, w := range waysOf(k) {
			h.access.Put(&api.ClusterRole{Metadata: api.ObjectMeta{Name: "eve"}, Rules: allBut(k, w)})
			var headers []string
			if w.media != "" {
				headers = kindOf(w.media)
			}
			tried++
			resource := k.Plural
			if w.sub != "" {
				resource += "/" + w.sub
			}
			words := fmt.Sprintf(`cannot %s resource \"%s\"`, w.verb, resource)
			got := eve.send(w.method, w.path, w.body, headers...)
			said := w.method == "HEAD" || strings.Contains(got.body, words) || strings.Contains(got.body, "may not create it") // as nobody may
			if got.code != 403 || !said {
				t.Errorf("%s %s %s without the right to %s %s: got %d %.300s, want 403", w.method, w.path, w.body, w.verb, resource, got.code, got.body)
			}
			for who, b := range others {
				if got := b.send(w.method, w.path, w.body, headers...); got.code != 401 && got.code != 403 {
					t.Errorf("%s: %s %s: got %d %.300s, want a refusal", who, w.method, w.path, got.code, got.body)
				}
			}
		}
	}
	if tried < 400 {
		t.Errorf("got %d ways tried, want all of them", tried)
	}
}
