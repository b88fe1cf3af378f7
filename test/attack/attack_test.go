package attack

import (
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-fleet/drover/api/wire"
	"github.com/drover-fleet/drover/client/auditlog"
)

// attack is one row: what is sent, and what must come of it.
type attack struct {
	name   string
	sender sender
	want   []int  // codes, one of which is answered; 0: the connection is ended
	reason string // of drover_api_refused_total; "": the answer is counted by its code alone
	actor  string // on record
}

// world is what the attackers find.
const world = `
apiVersion: v1
kind: Secret
metadata: {name: db, namespace: default}
stringData: {password: c4n4ry}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: ci, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: grasping}
rules:
- {apiGroups: [rbac.authorization.k8s.io], resources: ["*"], verbs: ["*"]}
- {apiGroups: [""], resources: [configmaps], verbs: ["*"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: grasping}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: grasping}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: eve}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: everything}
rules: [{apiGroups: ["*"], resources: ["*"], verbs: ["*"]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: everything}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: everything}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: wanda}]
`

const (
	core   = "/api/v1/namespaces/default/"
	fleet  = "/apis/fleet.drover.dev/v1/"
	rights = "/apis/rbac.authorization.k8s.io/v1/"
	maps   = core + "configmaps"
)

func TestF58EveryAttackIsRefusedCountedAndOnRecord(t *testing.T) {
	g := start(t)
	g.apply(world)
	stolen, admin := g.enroll("pi-07"), g.person("root", wire.OrgAdmins)
	g.enroll("pi-08")
	await(t, "rights of eve", func() bool { return g.get(g.client(g.person("eve")), maps) == http.StatusOK })

	rows := slices.Concat(g.devices(stolen), g.credentials(stolen), g.grasping(), paths(admin), bodies(admin), slow(admin))
	number := uint64(0)
	_, number = g.recorded(number)
	for _, a := range rows {
		refused := g.counters("drover_api_refused_total", "reason")[a.reason]
		codes := g.counters("drover_api_requests_total", "code")
		code, detail := a.sender.send(g)
		if !slices.Contains(a.want, code) {
			t.Errorf("%s: got %d (%.300s), want one of %v", a.name, code, detail, a.want)
			continue
		}
		if strings.Contains(detail, "c4n4ry") {
			t.Errorf("%s: the answer has the secret", a.name)
		}
		await(t, a.name+" in the counters", func() bool {
			if a.reason == "" {
				return g.counters("drover_api_requests_total", "code")[fmt.Sprint(code)] > codes[fmt.Sprint(code)]
			}
			return g.counters("drover_api_refused_total", "reason")[a.reason] > refused
		})
		await(t, a.name+" on record", func() bool {
			records, _ := g.recorded(number)
			return slices.ContainsFunc(records, func(r auditlog.Record) bool {
				return r.Actor == a.actor && r.Stage == auditlog.Outcome && (r.Code == code || code == 0 && r.Verb == "connect" || code == 0 && r.Reason != "") && r.Source != ""
			})
		})
		_, number = g.recorded(number)
	}
	t.Logf("%d attacks", len(rows))
	g.stands()
}

// stands fails unless the member answers and its audit is whole and holds no secret.
func (g *target) stands() {
	g.t.Helper()
	if code := g.get(g.web, core+"secrets/db"); code != http.StatusOK {
		g.t.Errorf("afterwards an admin's get is answered with %d, want 200", code)
	}
	r, err := auditlog.Verify(g.t.Context(), filepath.Join(g.dir, "audit"))
	check(g.t, err)
	if len(r.Faults) > 0 || r.Lost > 0 {
		g.t.Errorf("the audit: got faults %q, %d lost; want none", r.Faults, r.Lost)
	}
	found, err := auditlog.Newest(g.t.Context(), filepath.Join(g.dir, "audit"), auditlog.Query{}, 1<<20, 1<<30)
	check(g.t, err)
	if bytes.Contains(bytes.Join(found.Lines, nil), []byte("c4n4ry")) {
		g.t.Error("the audit has the secret")
	}
}

// devices are what a stolen card is used for. The operators' API is closed to it altogether.
func (g *target) devices(stolen *tls.Certificate) []attack {
	actor := "device:pi-07"
	forbidden := []int{http.StatusForbidden}
	ask := func(name, method, path, body string) attack {
		return attack{"stolen device: " + name, request{as: stolen, method: method, path: path, body: text(body)}, forbidden, "forbidden", actor}
	}
	return []attack{
		ask("read a secret", "GET", core+"secrets/db", ""),
		ask("list secrets", "GET", core+"secrets", ""),
		ask("list all devices", "GET", fleet+"devices", ""),
		ask("watch all workloads", "GET", fleet+"workloads?watch=true", ""),
		ask("write another's status", "PUT", fleet+"devices/pi-08/status", `{"status":{}}`),
		ask("relabel itself", "PATCH", fleet+"devices/pi-07", `{"metadata":{"labels":{"site":"prod"}}}`),
		ask("give itself rights", "POST", rights+"clusterrolebindings", `{"metadata":{"name":"mine"}}`),
		ask("make a token", "POST", core+"serviceaccounts/ci/token", `{}`),
		ask("a transaction", "POST", fleet+"transactions", `{"items":[]}`),
		ask("remove a member", "POST", "/drover/v1/hub/remove?member=h1&force=true", ""),
		ask("take a backup", "GET", "/drover/v1/hub/snapshot", ""),
		ask("read the audit", "GET", "/drover/v1/audit", ""),
		ask("metrics", "GET", "/metrics", ""),
		ask("tell contacts as a member does", "POST", "/drover/v1/internal/contacts", ""),
		{"stolen device: another's report", message{stolen, wire.PathReport, "not a report"}, []int{http.StatusBadRequest}, "malformed", actor},
		{
			"stolen device: a message of JSON", request{as: stolen, method: "POST", path: wire.PathHello, body: text("{}")},
			[]int{http.StatusUnsupportedMediaType}, "media", actor,
		},
		{"stolen device: a body without end", request{
			as: stolen, method: "POST", path: wire.PathHello, header: map[string]string{"Content-Type": "application/cbor"},
			body: func() io.Reader { return io.LimitReader(zeros{}, wire.MaxHello+1) },
		}, []int{http.StatusRequestEntityTooLarge}, "too_large", actor},
		{"stranger: the device protocol", message{nil, wire.PathHello, wire.Hello{}}, []int{http.StatusUnauthorized}, "unauthenticated", "anonymous"},
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// credentials are those that are over, or of others.
func (g *target) credentials(stolen *tls.Certificate) []attack {
	expired := g.expired("pi-07", wire.OrgDevices)
	expiredPerson := g.expired("root", wire.OrgAdmins)
	other := start(g.t)
	foreign := other.person("root", wire.OrgAdmins)
	member := g.pair(func(csr []byte) (*x509.Certificate, error) {
		return g.authority().SignHub(csr, "h9", nil)
	})
	usurper := g.pair(func(csr []byte) (*x509.Certificate, error) {
		return g.authority().SignHub(csr, "h1", nil)
	})
	good := g.token(time.Now())
	bearer := func(name, token string) attack {
		return attack{"token: " + name, request{method: "GET", path: core + "secrets/db", header: map[string]string{"Authorization": "Bearer " + token}}, []int{http.StatusUnauthorized}, "unauthenticated", "anonymous"}
	}
	get := request{method: "GET", path: core + "secrets/db"}
	with := func(as *tls.Certificate, header ...string) request {
		r := get
		r.as, r.header = as, map[string]string{}
		for i := 0; i < len(header); i += 2 {
			r.header[header[i]] = header[i+1]
		}
		return r
	}
	return []attack{
		{"nobody", get, []int{http.StatusUnauthorized}, "unauthenticated", "anonymous"},
		{"expired certificate of a device", with(expired), []int{0}, "certificate", "anonymous"},
		{"expired certificate of an admin", with(expiredPerson), []int{0}, "certificate", "anonymous"},
		{"certificate of another hub's admin", with(foreign), []int{0}, "certificate", "anonymous"},
		{"certificate of who is no member", with(member), []int{http.StatusForbidden}, "forbidden", "hub:h9"},
		{"another key under a member's name", with(usurper), []int{http.StatusForbidden}, "forbidden", "hub:h1"},
		bearer("expired", g.token(time.Now().Add(-3*time.Hour))),
		bearer("of another audience", g.token(time.Now(), "https://elsewhere.example")),
		bearer("of the future", g.token(time.Now().Add(3*time.Hour))),
		bearer("tampered with", good[:len(good)-6]+"AAAAAA"),
		bearer("unsigned", unsigned(good)),
		bearer("of another hub", other.strangeToken()),
		bearer("too large", strings.Repeat("x", 20<<10)),
		{"token: in the URL", request{method: "GET", path: core + "secrets/db?access_token=" + good}, []int{http.StatusUnauthorized}, "unauthenticated", "anonymous"},
		{"token: good, without rights", with(nil, "Authorization", "Bearer "+good), []int{http.StatusForbidden}, "forbidden", "serviceaccount:default/ci"},
		{"password", with(nil, "Authorization", "Basic cm9vdDpyb290"), []int{http.StatusUnauthorized}, "unauthenticated", "anonymous"},
		{"impersonation without the right", with(g.person("eve"), "Impersonate-User", "root", "Impersonate-Group", wire.OrgAdmins), []int{http.StatusForbidden}, "forbidden", "user:eve"},
		{"impersonation by a wildcard", with(g.person("wanda"), "Impersonate-Group", wire.OrgAdmins, "Impersonate-User", "root"), []int{http.StatusForbidden}, "forbidden", "user:wanda"},
		{"in another's name by who is no member", with(g.person("eve"), "Drover-On-Behalf-Of", `{"kind":"person","name":"root"}`), []int{http.StatusForbidden}, "forbidden", "user:eve"},
		{"in another's name by a device", with(stolen, "Drover-On-Behalf-Of", `{"kind":"person","name":"root"}`), []int{http.StatusForbidden}, "forbidden", "device:pi-07"},
	}
}

// strangeToken is a token of this hub, for use at another.
func (g *target) strangeToken() string {
	g.t.Helper()
	g.apply("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: ci, namespace: default}\n")
	return g.token(time.Now())
}

// grasping are small roles that try to become large ones.
func (g *target) grasping() []attack {
	eve, wanda := g.person("eve"), g.person("wanda")
	all := `"rules":[{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}]`
	bind := `{"metadata":{"name":"NAME"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"ROLE"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"eve"}]}`
	binding := func(name, role string) string {
		return strings.NewReplacer("NAME", name, "ROLE", role).Replace(bind)
	}
	patch := map[string]string{"Content-Type": "application/merge-patch+json"}
	jsonPatch := map[string]string{"Content-Type": "application/json-patch+json"}
	apply := map[string]string{"Content-Type": "application/apply-patch+yaml"}
	by := func(name string, r request) attack {
		actor := "user:eve"
		if r.as = eve; strings.HasPrefix(name, "wildcard") {
			r.as, actor = wanda, "user:wanda"
		}
		return attack{name, r, []int{http.StatusForbidden}, "forbidden", actor}
	}
	item := func(verb, object string) func() io.Reader {
		return text(`{"items":[{"verb":"` + verb + `","object":` + object + `}],"fieldManager":"eve","force":true}`)
	}
	typed := `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"grasping"},` + all + `}`
	return []attack{
		by("who may write roles adds a verb by patch", request{method: "PATCH", path: rights + "clusterroles/grasping", header: patch, body: text(`{` + all + `}`)}),
		by("the same by JSON patch", request{method: "PATCH", path: rights + "clusterroles/grasping", header: jsonPatch, body: text(`[{"op":"add","path":"/rules/0/apiGroups/0","value":"*"}]`)}),
		by("the same by apply", request{method: "PATCH", path: rights + "clusterroles/grasping?fieldManager=eve&force=true", header: apply, body: text(typed)}),
		by("the same by update", request{method: "PUT", path: rights + "clusterroles/grasping", body: text(typed)}),
		by("the same by a new role", request{method: "POST", path: rights + "clusterroles", body: text(`{"metadata":{"name":"mine"},` + all + `}`)}),
		by("the same in a transaction", request{method: "POST", path: fleet + "transactions", body: item("apply", typed)}),
		by("binds itself to all rights", request{method: "POST", path: rights + "clusterrolebindings", body: text(binding("mine", "everything"))}),
		{"binds itself to a role that is not there yet", request{as: eve, method: "POST", path: rights + "clusterrolebindings", body: text(binding("mine", "later"))}, []int{http.StatusNotFound, http.StatusForbidden}, "", "user:eve"},
		by("reads a secret by its role for roles", request{method: "GET", path: core + "secrets/db"}),
		by("reads a secret by why", request{method: "GET", path: "/drover/v1/why?apiVersion=v1&kind=Secret&namespace=default&name=db"}),
		by("writes a secret in a transaction of config maps", request{method: "POST", path: fleet + "transactions", body: item("apply", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"db","namespace":"default"},"stringData":{"x":"y"}}`)}),
		by("removes a member", request{method: "POST", path: "/drover/v1/hub/remove?member=h1&force=true"}),
		by("makes a colleague with an admin's group", request{method: "POST", path: "/drover/v1/hub/users", body: text(`{"user":"bob","groups":["drover:admins"],"request":"eA=="}`)}),
		by("wildcard makes a colleague with an admin's group", request{method: "POST", path: "/drover/v1/hub/users", body: text(`{"user":"bob","groups":["drover:admins"],"request":"eA=="}`)}),
	}
}

// paths are requests that could be read in two ways, or hold too much before their body.
func paths(admin *tls.Certificate) []attack {
	bad := func(name, path string) attack {
		return attack{"path: " + name, request{as: admin, method: "GET", path: path}, []int{http.StatusBadRequest}, "malformed", "user:root"}
	}
	return []attack{
		bad("an encoded slash", maps+"/a%2fb"),
		bad("an encoded slash, in capitals", maps+"/..%2F..%2Fsecrets"),
		bad("dots", core+"configmaps/../secrets/db"),
		bad("encoded dots", core+"configmaps/%2e%2e/secrets/db"),
		bad("an empty part", "/api/v1/namespaces//secrets"),
		bad("too many parameters", maps+"?"+strings.Repeat("a=b&", 100)),
		bad("a huge selector", maps+"?labelSelector="+strings.Repeat("a,", 3000)+"a"),
		{"path: too long", request{as: admin, method: "GET", path: maps + "/" + strings.Repeat("a", 17<<10)}, []int{http.StatusRequestEntityTooLarge}, "too_large", "user:root"},
		{"too many headers", request{as: admin, method: "GET", path: maps, header: headers(40)}, []int{http.StatusRequestEntityTooLarge}, "too_large", "user:root"},
		{"too many headers, HTTP/1", request{as: admin, method: "GET", path: maps, header: headers(40), http1: true}, []int{http.StatusRequestEntityTooLarge}, "too_large", "user:root"},
	}
}

// headers of about n KiB.
func headers(n int) map[string]string {
	h := map[string]string{}
	for i := range n {
		h[fmt.Sprint("X-Flood-", i)] = strings.Repeat("x", 1000)
	}
	return h
}

// bodies are what a decoder might choke on.
func bodies(admin *tls.Certificate) []attack {
	post := func(name, body string, codes ...int) attack {
		reason := ""
		if slices.Equal(codes, []int{http.StatusBadRequest}) {
			reason = "malformed"
		}
		return attack{"body: " + name, request{as: admin, method: "POST", path: maps, body: text(body)}, codes, reason, "user:root"}
	}
	deep := strings.Repeat(`{"a":`, 200_000)
	zip := func() io.Reader {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write(make([]byte, 64<<20))
		_ = z.Close()
		return &b
	}
	var labels strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&labels, `,"l%d":"v"`, i)
	}
	return []attack{
		post("deep", deep, http.StatusBadRequest),
		post("deep lists", `{"data":`+strings.Repeat("[", 400_000), http.StatusBadRequest),
		post("a huge number", `{"metadata":{"name":"x","generation":`+strings.Repeat("9", 100_000)+`}}`, http.StatusBadRequest),
		post("a number of a huge exponent", `{"metadata":{"name":"x","generation":1e999999999}}`, http.StatusBadRequest),
		post("duplicate keys", `{"metadata":{"name":"x"},"metadata":{"name":"y"}}`, http.StatusBadRequest),
		post("invalid UTF-8", "{\"metadata\":{\"name\":\"x\xff\"}}", http.StatusBadRequest),
		post("two documents", `{"metadata":{"name":"x"}}{"metadata":{"name":"y"}}`, http.StatusBadRequest),
		post("no object", `[]`, http.StatusBadRequest),
		post("many labels", `{"metadata":{"name":"x","labels":{"a":"b"`+labels.String()+`}}}`, http.StatusUnprocessableEntity, http.StatusBadRequest, http.StatusRequestEntityTooLarge),
		{"body: too large", request{as: admin, method: "POST", path: maps, body: text(`{"data":{"x":"` + strings.Repeat("x", 2<<20) + `"}}`)}, []int{http.StatusRequestEntityTooLarge}, "too_large", "user:root"},
		{"body: too large a transaction", request{as: admin, method: "POST", path: fleet + "transactions", body: text(strings.Repeat("x", 9<<20))}, []int{http.StatusRequestEntityTooLarge}, "too_large", "user:root"},
		{"body: chunks without end", raw{admin, endless}, []int{http.StatusRequestEntityTooLarge}, "too_large", "user:root"},
		{"body: a gzip bomb", request{as: admin, method: "POST", path: maps, header: map[string]string{"Content-Encoding": "gzip"}, body: zip}, []int{http.StatusUnsupportedMediaType}, "media", "user:root"},
		{"body: of another kind", request{as: admin, method: "POST", path: maps, header: map[string]string{"Content-Type": "text/html"}, body: text("<x>")}, []int{http.StatusUnsupportedMediaType}, "media", "user:root"},
	}
}

// slow are clients that hold what they have by sending as little as they can.
func slow(admin *tls.Certificate) []attack {
	return []attack{
		{"slow body", raw{admin, trickle("POST " + maps + " HTTP/1.1\r\nHost: hub\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n")}, []int{http.StatusBadRequest}, "slow_body", "user:root"},
		{"slow header", raw{admin, trickle("GET " + maps + " HTTP/1.1\r\nHost: hub\r\nX-Slow: ")}, []int{0}, "slow_header", "user:root"},
		{"slow header of a stranger", raw{nil, trickle("GET /version HTTP/1.1\r\nHost: hub\r\nX-Slow: ")}, []int{0}, "slow_header", "anonymous"},
	}
}
