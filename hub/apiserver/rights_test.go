package apiserver_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/wire"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/client/remote"
	"github.com/drover-fleet/drover/controllers/rights"
	"github.com/drover-fleet/drover/hub/apiserver"
	"github.com/drover-fleet/drover/hub/tokens"
)

// allow makes a ClusterRole of the rules and binds it, in a namespace or, where that is empty, everywhere. The policy is told at once, as an
// informer would in a moment.
func (h *hub) allow(namespace string, who api.Subject, rules ...api.PolicyRule) {
	h.t.Helper()
	name := fmt.Sprintf("%s-%s-%d", who.Name, namespace, len(rules))
	h.put(&api.ClusterRole{Metadata: api.ObjectMeta{Name: name}, Rules: rules})
	h.bind(namespace, name, who)
}

func (h *hub) bind(namespace, role string, who api.Subject) {
	h.t.Helper()
	ref := api.RoleRef{Kind: "ClusterRole", Name: role}
	if namespace == "" {
		h.put(&api.ClusterRoleBinding{Metadata: api.ObjectMeta{Name: role + "-" + who.Name}, RoleRef: ref, Subjects: []api.Subject{who}})
		return
	}
	h.put(&api.RoleBinding{Metadata: api.ObjectMeta{Name: role + "-" + who.Name, Namespace: namespace}, RoleRef: ref, Subjects: []api.Subject{who}})
}

func (h *hub) put(obj api.Object) {
	h.t.Helper()
	made, err := h.own().Create(h.t.Context(), obj, client.WriteOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
	h.access.Put(made)
}

func user(name string) api.Subject { return api.Subject{Kind: "User", Name: name} }

func can(verbs, group, resources string) api.PolicyRule {
	return api.PolicyRule{Verbs: strings.Split(verbs, ","), APIGroups: []string{group}, Resources: strings.Split(resources, ",")}
}

const (
	secretsIn  = "/api/v1/namespaces/default/secrets"
	rolesIn    = "/apis/" + api.RBACV1 + "/namespaces/default/roles"
	bindings   = "/apis/" + api.RBACV1 + "/namespaces/default/rolebindings"
	clusters   = "/apis/" + api.RBACV1 + "/clusterroles"
	everywhere = "/apis/" + api.RBACV1 + "/clusterrolebindings"

	merges  = "application/merge-patch+json"
	applies = "application/apply-patch+yaml"
)

func kindOf(media string) []string { return []string{"Content-Type", media} }

// TestEveryRouteAsksForTheRightThatItsVerbNames: bob may read config maps of one namespace, and that is all he may.
func TestEveryRouteAsksForTheRightThatItsVerbNames(t *testing.T) {
	h := startHub(t, func(c *apiserver.Config) {
		c.Metrics = func() ([]byte, error) { return []byte("x 0\n"), nil }
		c.Operations = map[string]apiserver.Operation{"status": {Read: func(context.Context) (any, error) { return 1, nil }}}
	})
	h.allow("default", user("bob"), can("get,list,watch", "", "configmaps"))
	b, a := h.as("bob", "night-shift"), h.admin()
	a.want(201, a.send("POST", configMaps, `{"metadata":{"name":"c","finalizers":["x.y/z"]},"data":{"k":"v"}}`))
	item := func(verb, obj string) string {
		return `{"fieldManager":"m","items":[{"verb":"` + verb + `","object":` + obj + `}]}`
	}
	const obj = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"default"},"data":{"k":"w"}}`
	why := func(kind, name string) string {
		return remote.PathWhy + "?apiVersion=v1&namespace=default&kind=" + kind + "&name=" + name
	}
	for _, tt := range []struct {
		method, path, body, media string
		want                      int
	}{
		{"GET", configMaps + "/c", "", "", 200},
		{"GET", configMaps, "", "", 200},
		{"GET", configMaps + "?watch=true&timeoutSeconds=1", "", "", 200},
		{"GET", "/api/v1/configmaps", "", "", 403}, // every namespace at once
		{"GET", secretsIn, "", "", 403},
		{"GET", secretsIn + "?fieldSelector=metadata.name=x", "", "", 403},
		{"POST", configMaps, `{"metadata":{"name":"d"}}`, "", 403},
		{"PUT", configMaps + "/c", obj, "", 403},
		{"PATCH", configMaps + "/c", `{"data":{"k":"w"}}`, merges, 403},
		{"PATCH", configMaps + "/c?fieldManager=m", obj, applies, 403},
		{"PATCH", configMaps + "/c?fieldManager=m&dryRun=All", obj, applies, 403},
		{"DELETE", configMaps + "/c", "", "", 403},
		{"DELETE", configMaps, "", "", 403},
		{"POST", remote.PathTransactions, item("apply", obj), "", 403},
		{"POST", remote.PathTransactions, item("create", obj), "", 403},
		{"POST", remote.PathTransactions, item("update", obj), "", 403},
		{"POST", remote.PathTransactions, item("delete", obj), "", 403},
		{"POST", remote.PathTransactions + "?dryRun=All", item("apply", obj), "", 403},
		{"GET", why("ConfigMap", "c"), "", "", 200},
		{"GET", why("Secret", "s"), "", "", 403},
		{"GET", "/metrics", "", "", 403},
		{"GET", "/drover/v1/members", "", "", 403},
		{"GET", "/drover/v1/hub/status", "", "", 403},
		{"POST", "/drover/v1/hub/users", `{}`, "", 403},
		{"GET", "/apis", "", "", 403},
		{"GET", "/version", "", "", 200},
		{"POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", `{}`, "", 403},
		{"POST", "/api/v1/namespaces/default/serviceaccounts/ci/token", `{}`, "", 403},
		{"GET", "/nowhere", "", "", 403},
	} {
		var headers []string
		if tt.media != "" {
			headers = kindOf(tt.media)
		}
		if got := b.send(tt.method, tt.path, tt.body, headers...); got.code != tt.want {
			t.Errorf("bob: %s %s %s: got %d %s, want %d", tt.method, tt.path, tt.body, got.code, got.body, tt.want)
		}
	}
	r := b.get(secretsIn + "/s")
	const words = `secrets \"s\" is forbidden: User \"bob\" cannot get resource \"secrets\" in API group \"\" in the namespace \"default\"`
	if !strings.Contains(r.body, words) || !strings.Contains(r.body, `"reason":"Forbidden"`) {
		t.Errorf("refusal: got %s, want %s", r.body, words)
	}
}

// TestARightToWriteIsNoWayToRead: what a write answers with is whole for those who may get the object.
func TestARightToWriteIsNoWayToRead(t *testing.T) {
	h := startHub(t, nil)
	h.allow("default", user("eve"), can("create,update,patch,delete", "", "secrets"))
	a, e := h.admin(), h.as("eve", "night-shift")
	a.want(201, a.send("POST", secretsIn, `{"metadata":{"name":"s","finalizers":["x.y/z"]},"data":{"k":"Y2FuYXJ5"}}`))
	const named = `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s","namespace":"default","labels":{"a":"b"}}}`
	for name, r := range map[string]reply{
		"merge":       e.want(200, e.send("PATCH", secretsIn+"/s", `{"metadata":{"labels":{"a":"b"}}}`, kindOf(merges)...)),
		"dry run":     e.want(200, e.send("PATCH", secretsIn+"/s?dryRun=All", `{"metadata":{"labels":{"a":"c"}}}`, kindOf(merges)...)),
		"apply":       e.want(200, e.send("PATCH", secretsIn+"/s?fieldManager=m", named, kindOf(applies)...)),
		"transaction": e.want(200, e.send("POST", remote.PathTransactions, `{"fieldManager":"m","items":[{"verb":"apply","object":`+named+`}]}`)),
		"delete":      e.want(200, e.send("DELETE", secretsIn+"/s", "")),
	} {
		if strings.Contains(r.body, "Y2FuYXJ5") || !strings.Contains(r.body, `"name":"s"`) {
			t.Errorf("%s answers with %s, want the name and no data", name, r.body)
		}
	}
	e.want(403, e.get(secretsIn+"/s"))
}

// TestAPatchThatReadsNeedsTheRightToGet: a test tells whether a guess is right, and a value that is copied to where it does not belong comes
// back in the refusal.
func TestAPatchThatReadsNeedsTheRightToGet(t *testing.T) {
	h := startHub(t, nil)
	h.allow("default", user("eve"), can("update,patch", "", "secrets"))
	h.allow("default", user("rob"), can("get,patch", "", "secrets"))
	a, e, r := h.admin(), h.as("eve", "night-shift"), h.as("rob", "night-shift")
	a.want(201, a.send("POST", secretsIn, `{"metadata":{"name":"s"},"data":{"k":"Y2FuYXJ5"}}`))
	patch := func(b *browser, ops string) reply {
		return b.send("PATCH", secretsIn+"/s?dryRun=All", "["+ops+"]", kindOf("application/json-patch+json")...)
	}
	for name, op := range map[string]string{
		"test, right": `{"op":"test","path":"/data/k","value":"Y2FuYXJ5"}`,
		"test, wrong": `{"op":"test","path":"/data/k","value":"x"}`,
		"copy":        `{"op":"copy","from":"/data/k","path":"/metadata/name"}`,
		"move":        `{"op":"move","from":"/data/k","path":"/kind"}`,
		"later":       `{"op":"add","path":"/metadata/labels","value":{}},{"op":"copy","from":"/data/k","path":"/metadata/labels/a b"}`,
	} {
		if got := patch(e, op); got.code != 403 || strings.Contains(got.body, "Y2FuYXJ5") {
			t.Errorf("%s: got %d %s, want 403 without the value", name, got.code, got.body)
		}
	}
	e.want(200, patch(e, `{"op":"replace","path":"/data/k","value":"eHg="}`))
	r.want(200, patch(r, `{"op":"test","path":"/data/k","value":"Y2FuYXJ5"}`))
}

// TestARepeatedRequestTellsNobodyWhatTheyMayNotGet: request ids stand in journals and logs.
func TestARepeatedRequestTellsNobodyWhatTheyMayNotGet(t *testing.T) {
	h := startHub(t, nil)
	h.allow("default", user("eve"), can("create,update", "", "secrets"))
	a, e := h.admin(), h.as("eve", "night-shift")
	again := []string{remote.HeaderRequestID, "id-0123456789abcdef"}
	const (
		mine = `{"metadata":{"name":"s"},"data":{"k":"bWluZQ=="}}`
		tx   = `{"items":[{"verb":"create","object":{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s","namespace":"default"}}}]}`
	)
	a.want(201, a.send("POST", secretsIn, `{"metadata":{"name":"theirs"},"data":{"k":"Y2FuYXJ5"}}`, again...))
	if r := e.send("POST", secretsIn, `{"metadata":{"name":"theirs"}}`, again...); r.code != 409 || strings.Contains(r.body, "Y2FuYXJ5") {
		t.Errorf("another's request: got %d %s, want 409 without the value", r.code, r.body)
	}
	e.want(201, e.send("POST", secretsIn, mine, again...))
	a.want(200, a.send("PATCH", secretsIn+"/s", `{"data":{"k":"Y2FuYXJ5"}}`, kindOf(merges)...))
	if r := e.send("POST", secretsIn, mine, again...); r.code != 201 || strings.Contains(r.body, "Y2FuYXJ5") {
		t.Errorf("one's own request, after others wrote: got %d %s, want 201 without the value", r.code, r.body)
	}
	if r := e.send("POST", remote.PathTransactions, tx, again...); r.code != 200 || strings.Contains(r.body, "Y2FuYXJ5") {
		t.Errorf("the same in a transaction: got %d %s, want 200 without the value", r.code, r.body)
	}
}

// TestNobodyGrantsMoreThanTheyHold: mallory may write roles and bindings by every verb, and reads config maps.
func TestNobodyGrantsMoreThanTheyHold(t *testing.T) {
	h := startHub(t, nil)
	h.allow("", user("mallory"), can("*", api.RBACGroup, "*"), can("get,list", "", "configmaps"), can("get,list,create,update,patch", "", "serviceaccounts"))
	h.put(&api.Role{Metadata: api.ObjectMeta{Name: "low", Namespace: "default"}, Rules: []api.PolicyRule{can("get", "", "configmaps")}})
	h.put(&api.ClusterRole{Metadata: api.ObjectMeta{Name: "admin"}, Rules: rights.Roles()[0].Rules})
	h.put(&api.ClusterRole{Metadata: api.ObjectMeta{Name: "low"}, Rules: []api.PolicyRule{can("get", "", "configmaps")}})
	h.put(&api.ClusterRole{Metadata: api.ObjectMeta{Name: "gathers"}, AggregationRule: &api.AggregationRule{
		ClusterRoleSelectors: []api.LabelSelector{{MatchLabels: map[string]string{"to": "gathers"}}},
	}})
	role := func(name, verb, resource string) string {
		return `{"apiVersion":"` + api.RBACV1 + `","kind":"Role","metadata":{"name":"` + name + `","namespace":"default"},"rules":[{"verbs":["` + verb + `"],"apiGroups":[""],"resources":["` + resource + `"]}]}`
	}
	binding := func(name, kind, ref string) string {
		return `{"apiVersion":"` + api.RBACV1 + `","kind":"RoleBinding","metadata":{"name":"` + name + `","namespace":"default"},"roleRef":{"apiGroup":"` + api.RBACGroup + `","kind":"` + kind + `","name":"` + ref + `"},"subjects":[{"kind":"User","apiGroup":"` + api.RBACGroup + `","name":"mallory"}]}`
	}
	set := func(verb string, objs ...string) string {
		var items []string
		for _, o := range objs {
			items = append(items, `{"verb":"`+verb+`","object":`+o+`}`)
		}
		return `{"fieldManager":"m","force":true,"items":[` + strings.Join(items, ",") + `]}`
	}
	const jsonPatch = "application/json-patch+json"
	rule := `{"rules":[{"verbs":["get"],"apiGroups":[""],"resources":["secrets"]}]}`
	m := h.as("mallory", "night-shift")
	for _, tt := range []struct {
		name, method, path, body, media string
		want                            int
	}{
		{"a role of what she holds", "POST", rolesIn, role("own", "get", "configmaps"), "", 201},
		{"create", "POST", rolesIn, role("r", "get", "secrets"), "", 403},
		{"create, everything", "POST", rolesIn, role("r", "*", "*"), "", 403},
		{"create, dry run", "POST", rolesIn + "?dryRun=All", role("r", "get", "secrets"), "", 403},
		{"create, the right to bind", "POST", rolesIn, strings.ReplaceAll(role("r", "bind", "roles"), `[""]`, `["`+api.RBACGroup+`"]`), "", 403},
		{"update", "PUT", rolesIn + "/low", role("low", "get", "secrets"), "", 403},
		{"merge patch", "PATCH", rolesIn + "/low", rule, merges, 403},
		{"JSON patch", "PATCH", rolesIn + "/low", `[{"op":"add","path":"/rules/0/verbs/-","value":"delete"}]`, jsonPatch, 403},
		{"apply", "PATCH", rolesIn + "/low?fieldManager=m&force=true", role("low", "get", "secrets"), applies, 403},
		{"apply, made", "PATCH", rolesIn + "/new?fieldManager=m", role("new", "get", "secrets"), applies, 403},
		{"transaction: apply", "POST", remote.PathTransactions, set("apply", role("low", "get", "secrets")), "", 403},
		{"transaction: create", "POST", remote.PathTransactions, set("create", role("r", "get", "secrets")), "", 403},
		{"transaction: update", "POST", remote.PathTransactions, set("update", role("low", "get", "secrets")), "", 403},
		{"transaction: a role and its binding", "POST", remote.PathTransactions, set("create", role("r", "get", "secrets"), binding("b", "Role", "r")), "", 403},
		{"transaction: what she holds and its binding", "POST", remote.PathTransactions, set("create", role("r2", "get", "configmaps"), binding("b2", "Role", "r2")), "", 200},
		{"bind the admin", "POST", bindings, binding("b", "ClusterRole", "admin"), "", 403},
		{"bind the admin by apply", "PATCH", bindings + "/b?fieldManager=m", binding("b", "ClusterRole", "admin"), applies, 403},
		{"bind what is not there yet", "POST", bindings, binding("b", "Role", "later"), "", 404},
		{"bind what she holds", "POST", bindings, binding("b", "Role", "low"), "", 201},
		{"turn a binding to another role", "PATCH", bindings + "/b", `{"roleRef":{"name":"own"}}`, merges, 422},
		{"bind the admin everywhere", "POST", everywhere, strings.NewReplacer("RoleBinding", "ClusterRoleBinding", `,"namespace":"default"`, "").Replace(binding("b", "ClusterRole", "admin")), "", 403},
		{"gather", "POST", clusters, `{"metadata":{"name":"g"},"aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{"a":"b"}}]}}`, "", 403},
		{"have a role gather", "PATCH", clusters + "/low", `{"aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{"a":"b"}}]}}`, merges, 403},
		{"write a role that gathers", "PATCH", clusters + "/gathers", `{"metadata":{"labels":{"x":"y"}}}`, merges, 403},
		{"have the admin gathered", "PATCH", clusters + "/admin", `{"metadata":{"labels":{"to":"gathers"}}}`, merges, 403},
		{"a token", "POST", "/api/v1/namespaces/default/serviceaccounts/ci/token", `{}`, "", 403},
		{"act as an admin", "GET", secretsIn, "", "as:alice/" + wire.OrgAdmins, 403},
	} {
		headers := kindOf(tt.media)
		if tt.media == "" {
			headers = nil
		} else if as, ok := strings.CutPrefix(tt.media, "as:"); ok {
			name, group, _ := strings.Cut(as, "/")
			headers = []string{"Impersonate-User", name, "Impersonate-Group", group}
		}
		if got := m.send(tt.method, tt.path, tt.body, headers...); got.code != tt.want {
			t.Errorf("%s: got %d %s, want %d", tt.name, got.code, got.body, tt.want)
		}
	}
	h.allow("", user("mallory"), can("escalate", api.RBACGroup, "roles"), can("bind", api.RBACGroup, "clusterroles"), can("list", "", "nodes"), can("get", "", "nodes"))
	m.want(201, m.send("POST", rolesIn, role("raised", "get", "secrets")))
	m.want(201, m.send("POST", bindings, binding("raised", "ClusterRole", "admin")))
}

// TestATokenThatLetsMembersJoinNeedsARightOfItsOwn: an installer makes tokens for devices.
func TestATokenThatLetsMembersJoinNeedsARightOfItsOwn(t *testing.T) {
	h := startHub(t, nil)
	for _, r := range rights.Roles() {
		h.put(r)
	}
	h.bind("", "installer", user("ivan"))
	h.bind("", "viewer", user("vera"))
	token := func(name, purpose string) string {
		return `{"metadata":{"name":"` + name + `"},"spec":{"for":"` + purpose + `","secretHash":"sha256:` + strings.Repeat("ab", 32) + `"}}`
	}
	const path = "/apis/" + api.FleetV1 + "/jointokens"
	ivan, vera := h.as("ivan", "x"), h.as("vera", "x")
	ivan.want(201, ivan.send("POST", path, token("d", "device")))
	ivan.want(403, ivan.send("POST", path, token("h", "hub")))
	ivan.want(403, ivan.get("/apis/"+api.FleetV1+"/workloads"))
	ivan.want(200, ivan.get("/apis/"+api.FleetV1+"/devices"))
	vera.want(403, vera.send("POST", path, token("v", "device")))
	vera.want(403, vera.get(secretsIn))
	vera.want(200, vera.get(configMaps))
}

// withTokens has the hub make and read tokens, and sign for persons.
func withTokens(t *testing.T, h **hub) func(*apiserver.Config) {
	t.Helper()
	return func(c *apiserver.Config) {
		late := &lateTokens{}
		c.Tokens = late
		c.Users = signer{h}
		t.Cleanup(func() { late.Authority = nil })
		late.make = func() *tokens.Authority {
			a, err := tokens.New(tokens.Config{Member: "h1", Backend: (*h).backend, Sealer: (*h).sealer, Client: (*h).own(), Cluster: func() (string, bool) { return "C", true }})
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
	}
}

type lateTokens struct {
	*tokens.Authority
	make func() *tokens.Authority
}

// signer signs with the test's CA.
type signer struct{ h **hub }

func (s signer) SignUser(_ context.Context, q remote.UserRequest, life time.Duration) (*remote.UserCertificate, error) {
	return &remote.UserCertificate{User: q.User, Groups: q.Groups, NotAfter: api.TimeOf(time.Now().Add(life))}, nil
}

func (h *hub) startTokens(c apiserver.Tokens) { c.(*lateTokens).Authority = c.(*lateTokens).make() }

type reviewed struct {
	Kind   string `json:"kind"`
	Status struct {
		Token         string              `json:"token"`
		Allowed       bool                `json:"allowed"`
		Authenticated bool                `json:"authenticated"`
		Error         string              `json:"error"`
		User          map[string]any      `json:"user"`
		UserInfo      map[string]any      `json:"userInfo"`
		ResourceRules []api.PolicyRule    `json:"resourceRules"`
		PathRules     []api.PolicyRule    `json:"nonResourceRules"`
		Extra         map[string][]string `json:"-"`
	} `json:"status"`
}

func read(t *testing.T, r reply) reviewed {
	t.Helper()
	var v reviewed
	if err := json.Unmarshal([]byte(r.body), &v); err != nil {
		t.Fatalf("%v: %s", err, r.body)
	}
	return v
}

// TestAServiceAccountsTokenOpensWhatTheAccountMay goes from the token that an admin asks for to a write in the account's name.
func TestAServiceAccountsTokenOpensWhatTheAccountMay(t *testing.T) {
	var h *hub
	var cfg apiserver.Tokens
	prepare := withTokens(t, &h)
	h = startHub(t, func(c *apiserver.Config) { prepare(c); cfg = c.Tokens })
	h.startTokens(cfg)
	h.put(&api.ServiceAccount{Metadata: api.ObjectMeta{Name: "ci", Namespace: "default"}})
	h.allow("default", api.Subject{Kind: "ServiceAccount", Name: "ci", Namespace: "default"}, can("create,get", "", "configmaps"), can("create", "authentication.k8s.io", "tokenreviews"))
	a := h.admin()
	const path = "/api/v1/namespaces/default/serviceaccounts/ci/token"
	got := read(t, a.want(201, a.send("POST", path, `{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1","spec":{"expirationSeconds":600}}`)))
	bearer := []string{"Authorization", "Bearer " + got.Status.Token}
	n := h.as("nobody")
	n.want(201, n.send("POST", configMaps, `{"metadata":{"name":"by-token"}}`, bearer...))
	n.want(403, n.send("DELETE", configMaps+"/by-token", "", bearer...))
	n.want(403, n.get(secretsIn, bearer...))
	n.want(401, n.get(configMaps+"/by-token"))
	n.want(401, n.get(configMaps+"/by-token", "Authorization", "Basic YTpi"))
	n.want(401, n.get(configMaps+"/by-token?access_token="+got.Status.Token))
	n.want(401, n.get(configMaps+"/by-token", "Authorization", "Bearer "+strings.Repeat("x", 20<<10)))
	r := n.want(401, n.get(configMaps+"/by-token", "Authorization", "Bearer "+got.Status.Token[:len(got.Status.Token)-3]))
	if strings.Contains(r.body+h.logs.String(), got.Status.Token[:30]) {
		t.Error("the token stands in an answer or in the log")
	}
	chain := a.want(200, a.get(remote.PathWhy+"?apiVersion=v1&kind=ConfigMap&namespace=default&name=by-token"))
	if !strings.Contains(chain.body, `"actor":"serviceaccount:default/ci"`) || !strings.Contains(chain.body, `"complete":true`) {
		t.Errorf("why: got %s, want a chain that ends at the account", chain.body)
	}
	a.want(422, a.send("POST", path, `{"spec":{"expirationSeconds":599}}`))
	a.want(422, a.send("POST", path, `{"spec":{"expirationSeconds":172801}}`))
	a.want(404, a.send("POST", strings.Replace(path, "/ci/", "/none/", 1), `{}`))
	const reviews = "/apis/authentication.k8s.io/v1/tokenreviews"
	good := read(t, a.want(201, a.send("POST", reviews, `{"spec":{"token":"`+got.Status.Token+`"}}`)))
	if !good.Status.Authenticated || good.Status.User["username"] != "system:serviceaccount:default:ci" {
		t.Errorf("review: got %+v, want the account", good.Status)
	}
	if bad := read(t, a.want(201, a.send("POST", reviews, `{"spec":{"token":"`+got.Status.Token+`","audiences":["vault"]}}`))); bad.Status.Authenticated || bad.Status.Error == "" {
		t.Errorf("review for another audience: got %+v, want a refusal", bad.Status)
	}
	if err := h.own().Delete(t.Context(), api.Ref{Kind: api.KindServiceAccount, Namespace: "default", Name: "ci"}, client.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	n.want(401, n.get(configMaps+"/by-token", bearer...))
}

func TestReviewsAnswerWhatTheRoutesDecide(t *testing.T) {
	h := startHub(t, nil)
	for _, r := range rights.Roles() {
		h.put(r)
	}
	for _, b := range rights.Bindings() {
		h.put(b)
	}
	h.allow("default", user("bob"), can("get", "", "configmaps"))
	b, a := h.as("bob", "night-shift"), h.admin()
	const self, other, local, lists, me = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "/apis/authorization.k8s.io/v1/subjectaccessreviews",
		"/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", "/apis/authentication.k8s.io/v1/selfsubjectreviews"
	ask := func(who *browser, path, spec string) reviewed {
		t.Helper()
		return read(t, who.want(201, who.send("POST", path, `{"metadata":{"creationTimestamp":null},"spec":`+spec+`,"status":{"allowed":false}}`)))
	}
	what := func(verb, ns string) string {
		return `"resourceAttributes":{"verb":"` + verb + `","resource":"configmaps","namespace":"` + ns + `"}`
	}
	for _, tt := range []struct {
		who        *browser
		path, spec string
		want       bool
	}{
		{b, self, `{` + what("get", "default") + `}`, true},
		{b, self, `{` + what("delete", "default") + `}`, false},
		{b, self, `{` + what("get", "") + `}`, false},
		{b, self, `{"nonResourceAttributes":{"verb":"get","path":"/apis"}}`, true},
		{b, self, `{"nonResourceAttributes":{"verb":"get","path":"/metrics"}}`, false},
		{a, self, `{` + what("delete", "") + `}`, true},
		{a, other, `{"user":"bob",` + what("get", "default") + `}`, true},
		{a, other, `{"user":"bob","nonResourceAttributes":{"verb":"get","path":"/apis"}}`, false}, // no group is added
		{a, other, `{"user":"bob","groups":["system:authenticated"],"nonResourceAttributes":{"verb":"get","path":"/apis"}}`, true},
		{a, other, `{"groups":["drover:admins"],` + what("delete", "x") + `}`, true},
		{a, local, `{"user":"bob",` + what("get", "default") + `}`, true},
	} {
		if got := ask(tt.who, tt.path, tt.spec); got.Status.Allowed != tt.want {
			t.Errorf("%s %s: got %+v, want %v", tt.path, tt.spec, got.Status, tt.want)
		}
	}
	b.want(403, b.send("POST", other, `{"spec":{"user":"bob",`+what("get", "default")+`}}`))
	a.want(422, a.send("POST", local, `{"spec":{"user":"bob",`+what("get", "other")+`}}`))
	a.want(422, a.send("POST", self, `{"spec":{}}`))
	a.want(400, a.send("POST", self, `{"spec":{"resourceAttribute":{}}}`))
	a.want(405, a.get(self))
	if got := ask(b, me, `{}`); got.Status.UserInfo["username"] != "bob" || !strings.Contains(fmt.Sprint(got.Status.UserInfo["groups"]), "night-shift system:authenticated") {
		t.Errorf("who bob is: got %+v", got.Status.UserInfo)
	}
	if got := ask(b, lists, `{"namespace":"default"}`); len(got.Status.ResourceRules) != 3 || len(got.Status.PathRules) != 1 {
		t.Errorf("bob's rules: got %+v, want his own, and those of everybody", got.Status)
	}
	if got := ask(b, lists, `{"namespace":"other"}`); len(got.Status.ResourceRules) != 2 {
		t.Errorf("bob's rules elsewhere: got %+v, want those of everybody", got.Status)
	}
	if r := b.want(200, b.get("/apis")); !strings.Contains(r.body, "authorization.k8s.io") || !strings.Contains(r.body, "authentication.k8s.io") {
		t.Errorf("discovery: got %s, want the groups of reviews", r.body)
	}
	b.want(200, b.get("/apis/authorization.k8s.io/v1"))
}

// TestOneActsAsOthersOnlyWithTheRightTo by Kubernetes' headers, each of which needs a right of its own.
func TestOneActsAsOthersOnlyWithTheRightTo(t *testing.T) {
	h := startHub(t, nil)
	h.allow("", user("root"), can("*", "*", "*"))
	h.allow("", user("help"), api.PolicyRule{Verbs: []string{"impersonate"}, APIGroups: []string{""}, Resources: []string{"users"}, ResourceNames: []string{"bob"}},
		api.PolicyRule{Verbs: []string{"impersonate"}, APIGroups: []string{""}, Resources: []string{"groups"}, ResourceNames: []string{"readers"}})
	h.allow("default", api.Subject{Kind: "Group", Name: "readers"}, can("get,list", "", "configmaps"), can("get", "", "a"), can("get", "", "b"))
	help, root, admin := h.as("help", "x"), h.as("root", "x"), h.admin()
	as := func(b *browser, path string, headers ...string) reply { return b.send("GET", path, "", headers...) }
	for _, tt := range []struct {
		name    string
		who     *browser
		headers []string
		want    int
	}{
		{"as bob, who may nothing", help, []string{"Impersonate-User", "bob"}, 403},
		{"as bob of the readers", help, []string{"Impersonate-User", "bob", "Impersonate-Group", "readers"}, 200},
		{"as bob of the admins", help, []string{"Impersonate-User", "bob", "Impersonate-Group", wire.OrgAdmins}, 403},
		{"as carol", help, []string{"Impersonate-User", "carol", "Impersonate-Group", "readers"}, 403},
		{"as bob of another uid", help, []string{"Impersonate-User", "bob", "Impersonate-Group", "readers", "Impersonate-Uid", "7"}, 403},
		{"as bob with an extra", help, []string{"Impersonate-User", "bob", "Impersonate-Group", "readers", "Impersonate-Extra-Scopes", "x"}, 403},
		{"as a service account", help, []string{"Impersonate-User", "system:serviceaccount:default:ci"}, 403},
		{"as a group of nobody", help, []string{"Impersonate-Group", "readers"}, 400},
		{"a star is no right to", root, []string{"Impersonate-User", "bob", "Impersonate-Group", "readers"}, 403},
		{"an admin as bob, who may nothing", admin, []string{"Impersonate-User", "bob"}, 403},
		{"an admin as bob of the readers", admin, []string{"Impersonate-User", "bob", "Impersonate-Group", "readers"}, 200},
		{"a device as an admin", h.as("pi-07", wire.OrgDevices), []string{"Impersonate-User", "bob", "Impersonate-Group", wire.OrgAdmins}, 403},
		{"a member as an admin", h.as("h2", wire.OrgHubs), []string{"Impersonate-User", "bob", "Impersonate-Group", wire.OrgAdmins}, 403},
		{"nobody as an admin", h.as("nobody"), []string{"Impersonate-User", "bob", "Impersonate-Group", wire.OrgAdmins}, 401},
	} {
		if got := as(tt.who, configMaps, tt.headers...); got.code != tt.want {
			t.Errorf("%s: got %d %s, want %d", tt.name, got.code, got.body, tt.want)
		}
	}
}

// TestACertificateForAColleagueGivesNoMoreThanItsMakerMayActAs.
func TestACertificateForAColleagueGivesNoMoreThanItsMakerMayActAs(t *testing.T) {
	var h *hub
	h = startHub(t, withTokens(t, &h))
	post := api.PolicyRule{Verbs: []string{"post"}, NonResourceURLs: []string{remote.PathUsers}}
	named := func(resource string, names ...string) api.PolicyRule {
		return api.PolicyRule{Verbs: []string{"impersonate"}, APIGroups: []string{""}, Resources: []string{resource}, ResourceNames: names}
	}
	h.allow("", user("lead"), post, named("users", "bob"), named("groups", "readers"))
	h.allow("", user("clerk"), post, can("*", "*", "*"))
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(name string, groups ...string) string {
		b, err := json.Marshal(remote.UserRequest{User: name, Groups: groups, Request: csr})
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	lead, clerk, admin := h.as("lead", "x"), h.as("clerk", "x"), h.admin()
	for _, tt := range []struct {
		name string
		who  *browser
		body string
		want int
	}{
		{"bob of the readers", lead, ask("bob", "readers"), 201},
		{"bob of the admins", lead, ask("bob", wire.OrgAdmins), 403},
		{"somebody else", lead, ask("carol", "readers"), 403},
		{"by a star", clerk, ask("bob", "readers"), 403},
		{"by an admin", admin, ask("carol", wire.OrgAdmins), 201},
		{"a member", admin, ask("h9", wire.OrgHubs), 422},
		{"a device", admin, ask("pi", wire.OrgDevices), 422},
		{"a name of the hub's own", admin, ask("system:serviceaccount:default:ci"), 422},
		{"a group of the hub's own", admin, ask("bob", "system:masters"), 422},
		{"no name", admin, ask(""), 422},
		{"a control character", admin, ask("bob\n"), 422},
		{"no request", admin, `{"user":"bob"}`, 422},
		{"for ever", admin, `{"user":"bob","request":"` + base64.StdEncoding.EncodeToString(csr) + `","expirationSeconds":999999999}`, 422},
		{"another field", admin, `{"user":"bob","admin":true}`, 400},
	} {
		if got := tt.who.send("POST", remote.PathUsers, tt.body); got.code != tt.want {
			t.Errorf("%s: got %d %s, want %d", tt.name, got.code, got.body, tt.want)
		}
	}
}

// TestWhyShowsOfWhatTheAskerMayNotGetOnlyThatItWas: the chain of an event leads to the secret that it was written because of.
func TestWhyShowsOfWhatTheAskerMayNotGetOnlyThatItWas(t *testing.T) {
	h := startHub(t, nil)
	h.allow("default", user("bob"), can("get", "", "configmaps"))
	a, b := h.admin(), h.as("bob", "x")
	a.want(201, a.send("POST", secretsIn, `{"metadata":{"name":"hidden-name"}}`))
	secret, err := h.own().Get(t.Context(), api.Ref{Kind: api.KindSecret, Namespace: "default", Name: "hidden-name"}, client.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	rev := secret.Meta().ResourceVersion
	if _, err := h.own().Create(t.Context(), &api.ConfigMap{Metadata: api.ObjectMeta{Name: "c", Namespace: "default"}}, client.WriteOptions{Cause: rev}); err != nil {
		t.Fatal(err)
	}
	const path = remote.PathWhy + "?apiVersion=v1&kind=ConfigMap&namespace=default&name=c"
	if r := a.want(200, a.get(path)); !strings.Contains(r.body, "hidden-name") {
		t.Fatalf("admin: got %s, want the secret in the chain", r.body)
	}
	if r := b.want(200, b.get(path)); strings.Contains(r.body, "hidden-name") || !strings.Contains(r.body, rev) || !strings.Contains(r.body, `"object":"Secret"`) {
		t.Errorf("bob: got %s, want kind and revision of the secret alone", r.body)
	}
}
