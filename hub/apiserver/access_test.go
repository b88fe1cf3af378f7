package apiserver_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/drover-fleet/drover/api/wire"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/client/remote"
	"github.com/drover-fleet/drover/hub/apiserver"
	"github.com/drover-fleet/drover/hub/registry"
)

// TestWhoMayWhat is the whole table of authentication and authorisation.
func TestWhoMayWhat(t *testing.T) {
	h := startHub(t, func(c *apiserver.Config) {
		c.Members = apiserver.MembersFunc(func(context.Context) ([]remote.Member, error) { return nil, nil })
		c.Metrics = func() ([]byte, error) { return []byte("drover_alarm 0\n"), nil }
	})
	const secrets, members, nowhere, metrics = "/api/v1/secrets", "/drover/v1/members", "/api/v1/pods", "/metrics"
	tests := []struct {
		who    string
		orgs   []string
		path   string
		behalf string
		want   int
	}{
		{"nobody", nil, "/version", "", 200},
		{"nobody", nil, "/livez", "", 200},
		{"nobody", nil, "/api", "", 401},
		{"nobody", nil, secrets, "", 401},
		{"nobody", nil, nowhere, "", 401},
		{"pi-07", []string{wire.OrgDevices}, nowhere, "", 403},
		{"h2", []string{wire.OrgHubs}, nowhere, "", 404},
		{"alice", []string{wire.OrgAdmins}, secrets, "", 200},
		{"alice", []string{wire.OrgAdmins}, members, "", 200},
		{"alice", []string{wire.OrgAdmins}, nowhere, "", 404},
		{"pi-07", []string{wire.OrgDevices}, secrets, "", 403},
		{"pi-07", []string{wire.OrgDevices}, "/api", "", 403},
		{"pi-07", []string{wire.OrgDevices}, members, "", 403},
		{"pi-07", []string{wire.OrgDevices}, secrets, "alice", 403},
		{"alice", []string{wire.OrgAdmins}, secrets, "bob", 403},
		{"h2", []string{wire.OrgHubs}, members, "", 200},
		{"h2", []string{wire.OrgHubs}, secrets, "", 403},
		{"nobody", nil, metrics, "", 401},
		{"pi-07", []string{wire.OrgDevices}, metrics, "", 403},
		{"alice", []string{wire.OrgAdmins}, metrics, "", 200},
		{"h2", []string{wire.OrgHubs}, metrics, "", 200},
		{"h2", []string{wire.OrgHubs}, secrets, `{"kind":"person","name":"alice","groups":["drover:admins"]}`, 200},
		{"h2", []string{wire.OrgHubs}, secrets, `{"kind":"person","name":"alice","groups":["night-shift"]}`, 403},
		{"h2", []string{wire.OrgHubs}, secrets, `{"kind":"device","name":"pi-07"}`, 403},
		{"h2", []string{wire.OrgHubs}, secrets, "alice", 400},
		{"bob", []string{"night-shift"}, secrets, "", 403},
		{"bob", []string{"night-shift", "system:masters"}, secrets, "", 401},
		{"system:serviceaccount:default:ci", []string{"night-shift"}, secrets, "", 401},
		{"both", []string{wire.OrgAdmins, wire.OrgDevices}, secrets, "", 401},
		{"stranger", []string{"system:masters"}, secrets, "", 401},
		{"", []string{wire.OrgAdmins}, secrets, "", 401},
	}
	for _, tt := range tests {
		b := h.as(tt.who, tt.orgs...)
		var headers []string
		if tt.behalf != "" {
			headers = []string{remote.HeaderOnBehalfOf, tt.behalf}
		}
		if got := b.get(tt.path, headers...); got.code != tt.want {
			t.Errorf("%s %v for %q at %s: got %d %s, want %d", tt.who, tt.orgs, tt.behalf, tt.path, got.code, got.body, tt.want)
		}
	}
}

// TestWritesAndRefusalsAreOnRecordWithoutBodies: the receipt comes before the outcome, a secret value is nowhere.
func TestWritesAndRefusalsAreOnRecordWithoutBodies(t *testing.T) {
	h := startHub(t, nil)
	const canary = "Y2FuYXJ5LXZhbHVl"
	b := h.admin()
	const id = "request-0123456789"
	b.want(201, b.send("POST", "/api/v1/namespaces/default/secrets", `{"metadata":{"name":"s"},"data":{"k":"`+canary+`"}}`, remote.HeaderRequestID, id))
	b.want(400, b.send("POST", "/api/v1/namespaces/default/secrets", `{"metadata":{"name":"s2"},"dota":{"k":"`+canary+`"}}`))
	b.want(200, b.get("/api/v1/namespaces/default/secrets/s"))
	d := h.as("pi-07", wire.OrgDevices)
	d.want(403, d.get("/api/v1/namespaces/default/secrets/s"))
	log := h.logs.String()
	var lines []string
	for line := range strings.Lines(log) {
		if strings.Contains(line, id) {
			lines = append(lines, line)
		}
	}
	if len(lines) != 2 || !strings.Contains(lines[0], "request received") || !strings.Contains(lines[1], "code=201 outcome=ok") {
		t.Errorf("lines of the write: got %q, want receipt, then outcome", lines)
	}
	for _, want := range []string{`actor=user:alice`, `verb=create`, `object="Secret default/s"`, "code=400 outcome=BadRequest", "actor=device:pi-07", "code=403 outcome=Forbidden"} {
		if !strings.Contains(log, want) {
			t.Errorf("log lacks %q:\n%s", want, log)
		}
	}
	for _, secret := range []string{canary, "canary-value"} {
		if strings.Contains(log, secret) {
			t.Errorf("log shows the secret:\n%s", log)
		}
	}
}

// panicking is a view of the system in which every list is a defect.
type panicking struct{ client.Client }

func (panicking) As(registry.Actor) client.Client { return panicking{} }

func TestCrashOfOneRequestIsAnsweredAndOnRecord(t *testing.T) {
	h := startHub(t, func(c *apiserver.Config) { c.Clients = panicking{} })
	b := h.admin()
	r := b.want(500, b.get("/api/v1/namespaces"))
	if id := r.header.Get(remote.HeaderRequestID); id == "" || !strings.Contains(r.body, id) || strings.Contains(r.body, "goroutine") {
		t.Errorf("answer: got id %q, body %s; want the id in it and no stack", id, r.body)
	}
	if log := h.logs.String(); !strings.Contains(log, "request crashed") || !strings.Contains(log, "code=500 outcome=InternalError") {
		t.Errorf("log: got %s, want crash and outcome", log)
	}
	b.want(200, b.get("/version"))
}

func TestHealthTellsWhatFailsWithoutTellingWhy(t *testing.T) {
	var quorum error
	h := startHub(t, func(c *apiserver.Config) {
		c.Ready = []apiserver.Check{{Name: "quorum", Ask: func(context.Context) error { return quorum }}}
	})
	b := h.as("nobody")
	if r := b.want(200, b.get("/readyz")); r.body != "ok" {
		t.Errorf("ready: got %q, want ok", r.body)
	}
	if r := b.want(200, b.get("/readyz?verbose")); !strings.Contains(r.body, "[+]quorum ok\nreadyz check passed") {
		t.Errorf("verbose: got %q", r.body)
	}
	quorum = errors.New("peer 10.0.0.7 away")
	r := b.want(503, b.get("/readyz"))
	if !strings.Contains(r.body, "[-]quorum failed") || strings.Contains(r.body, "10.0.0.7") {
		t.Errorf("not ready: got %q, want the check and not its reason", r.body)
	}
	b.want(200, b.get("/livez"))
}

func TestTooLargeRequestNamesSizeAndLimit(t *testing.T) {
	h := startHub(t, func(c *apiserver.Config) { c.Limits = apiserver.Limits{Object: 1000, Transaction: 2000} })
	b := h.admin()
	big := `{"metadata":{"name":"x"},"data":{"k":"` + strings.Repeat("v", 1000) + `"}}`
	for _, tt := range []struct{ path, body, want string }{
		{"/api/v1/namespaces/default/configmaps", big, "1041 bytes; the limit is 1000 bytes"},
		{remote.PathTransactions, strings.Repeat(" ", 2001), "2001 bytes; the limit is 2000 bytes"},
		{remote.PathTransactions, `{"items":[{"verb":"create","object":` + big + `}]}`, "items[0].object is 1041 bytes; the limit is 1000 bytes"},
	} {
		if r := b.want(413, b.send("POST", tt.path, tt.body)); !strings.Contains(r.body, tt.want) || !strings.Contains(r.body, `"reason":"RequestEntityTooLarge"`) {
			t.Errorf("%s: got %s, want %q", tt.path, r.body, tt.want)
		}
	}
	// Without a length the limit is found as the body is read.
	rq, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.base+"/api/v1/namespaces/default/configmaps", struct{ *strings.Reader }{strings.NewReader(big)})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := b.http.Do(rq)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != 413 {
		t.Errorf("chunked: got %d, want 413", resp.StatusCode)
	}
	b.want(413, b.get("/version?"+strings.Repeat("x", 17<<10)))
}
