package apiserver_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/wire"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/client/auditlog"
	"github.com/drover-fleet/drover/client/remote"
	"github.com/drover-fleet/drover/hub/apiserver"
	"github.com/drover-fleet/drover/hub/audit"
	"github.com/drover-fleet/drover/hub/registry"
)

// recorder is an audit in memory.
type recorder struct {
	policy *audit.Policy
	mu     sync.Mutex
	fails  error // what receipts come to
	all    []auditlog.Record
}

func (r *recorder) Policy() *audit.Policy { return r.policy }

func (r *recorder) Receipt(_ context.Context, rec auditlog.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fails != nil {
		return audit.Unrecorded(r.fails)
	}
	rec.Stage = auditlog.Receipt
	r.all = append(r.all, rec)
	return nil
}

func (r *recorder) Outcome(rec auditlog.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec.Stage = auditlog.Outcome
	r.all = append(r.all, rec)
}

// take returns a line for each record since the last call.
func (r *recorder) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, x := range r.all {
		line := fmt.Sprintf("%s %s %s", x.Stage, x.Actor, x.Verb)
		if x.By != "" {
			line += " by " + x.By
		}
		if x.Object != nil {
			line += fmt.Sprintf(" %s/%s", x.Object.Resource, x.Object.Name)
		}
		for _, i := range x.Items {
			line += fmt.Sprintf(" [%s %s/%s]", i.Verb, i.Object.Resource, i.Object.Name)
		}
		if x.Forced {
			line += " forced"
		}
		if x.Note != "" {
			line += " (" + x.Note + ")"
		}
		if x.Stage == auditlog.Outcome {
			line += fmt.Sprintf(" %d %s %s", x.Code, x.Decision, x.Reason)
		}
		if len(x.Body) > 0 {
			line += " " + string(x.Body)
		}
		out = append(out, strings.TrimSpace(line))
	}
	r.all = nil
	return out
}

func startRecorded(t *testing.T, policy *audit.Policy, change func(*apiserver.Config)) (*hub, *recorder) {
	t.Helper()
	r := &recorder{policy: policy}
	return startHub(t, func(c *apiserver.Config) {
		c.Audit = r
		if change != nil {
			change(c)
		}
	}), r
}

func TestEveryWriteHasAReceiptThenItsOutcome(t *testing.T) {
	h, audited := startRecorded(t, audit.DefaultPolicy(), nil)
	b, d := h.admin(), h.as("pi-07", wire.OrgDevices)
	const maps = "/api/v1/namespaces/default/configmaps"
	patch := []string{"Content-Type", "application/merge-patch+json"}
	for _, tt := range []struct {
		name string
		do   func() reply
		want []string
	}{
		{"create", func() reply { return b.send("POST", maps, `{"metadata":{"name":"a"}}`) }, []string{"receipt user:alice create configmaps/", "outcome user:alice create configmaps/a 201 allow"}},
		{"another", func() reply { return b.send("POST", maps, `{"metadata":{"name":"b"}}`) }, []string{"receipt user:alice create configmaps/", "outcome user:alice create configmaps/b 201 allow"}},
		{"patch", func() reply { return b.send("PATCH", maps+"/a", `{"data":{"k":"v"}}`, patch...) }, []string{"receipt user:alice patch configmaps/a", "outcome user:alice patch configmaps/a 200 allow"}},
		{"what is not there", func() reply { return b.send("DELETE", maps+"/none", "") }, []string{"receipt user:alice delete configmaps/none", "outcome user:alice delete configmaps/none 404 allow NotFound"}},
		{"malformed", func() reply { return b.send("POST", maps, `{`) }, []string{"receipt user:alice create configmaps/", "outcome user:alice create configmaps/ 400 deny BadRequest"}},
		{"a read", func() reply { return b.get(maps + "/a") }, nil},
		{"a read of secrets", func() reply { return b.get("/api/v1/namespaces/default/secrets") }, []string{"outcome user:alice list secrets/ 200 allow"}},
		{"a refused read", func() reply { return d.get(maps) }, []string{"outcome device:pi-07 list configmaps/ 403 deny Forbidden"}},
		{"a transaction", func() reply {
			return b.send("POST", remote.PathTransactions, `{"fieldManager":"m","force":true,"items":[{"verb":"apply","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"default"}}},{"verb":"delete","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default"}}}]}`)
		}, []string{
			"receipt user:alice transact [apply configmaps/c] [delete configmaps/a] forced",
			"outcome user:alice transact [apply configmaps/c] [delete configmaps/a] forced 200 allow",
		}},
		{"in another's name", func() reply { return b.get(maps, "Impersonate-User", "bob") }, []string{"outcome user:bob list by user:alice configmaps/ 403 deny Forbidden"}},
		{"nobody's health", func() reply { return h.as("nobody").get("/livez") }, nil},
	} {
		tt.do()
		if diff := cmp.Diff(tt.want, audited.take()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestF59AWriteThatCannotBePutOnRecordIsNotDone(t *testing.T) {
	h, audited := startRecorded(t, audit.DefaultPolicy(), nil)
	b := h.admin()
	const maps = "/api/v1/namespaces/default/configmaps"
	audited.fails = errors.New("no space left on device")
	for _, r := range []reply{
		b.send("POST", maps, `{"metadata":{"name":"a"}}`),
		b.send("POST", remote.PathTransactions, `{"fieldManager":"m","items":[{"verb":"apply","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default"}}}]}`),
	} {
		if b.want(503, r); !strings.Contains(r.body, "audit") || r.header.Get("Retry-After") == "" {
			t.Errorf("got %s with Retry-After %q, want why and when", r.body, r.header.Get("Retry-After"))
		}
	}
	b.want(404, b.get(maps+"/a")) // reads go on
	audited.fails = nil
	b.want(201, b.send("POST", maps, `{"metadata":{"name":"a"}}`))
}

func TestBodiesAreOnRecordByPolicyAndNeverASecret(t *testing.T) {
	policy, err := audit.ParsePolicy([]byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Request}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	h, audited := startRecorded(t, policy, nil)
	b := h.admin()
	b.want(201, b.send("POST", "/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"a"},"data":{"k":"v"}}`))
	b.want(201, b.send("POST", "/api/v1/namespaces/default/secrets", `{"metadata":{"name":"a"},"data":{"k":"Y2FuYXJ5"}}`))
	want := []string{
		`receipt user:alice create configmaps/ {"data":{"k":"v"},"metadata":{"name":"a"}}`, "outcome user:alice create configmaps/a 201 allow",
		`receipt user:alice create secrets/ "not kept: secrets hold secrets"`, "outcome user:alice create secrets/a 201 allow",
	}
	if diff := cmp.Diff(want, audited.take()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// failing is a view of the system whose writes come to an error, or a defect.
type failing struct {
	client.Client
	err error
}

func (f failing) As(registry.Actor) client.Client { return f }

func (f failing) Create(context.Context, api.Object, client.WriteOptions) (api.Object, error) {
	return nil, f.err
}

func TestACrashAndALostOutcomeAreTold(t *testing.T) {
	for _, tt := range []struct {
		clients apiserver.Clients
		want    string
	}{
		{failing{err: fault.Timeout.Errorf("the leader changed")}, "outcome user:alice create configmaps/a 504 allow unknown"},
		{panicking{}, "outcome user:alice create configmaps/a 500 allow crashed"},
	} {
		h, audited := startRecorded(t, audit.DefaultPolicy(), func(c *apiserver.Config) { c.Clients = tt.clients })
		b := h.admin()
		b.send("POST", "/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"a"}}`)
		if diff := cmp.Diff([]string{"receipt user:alice create configmaps/", tt.want}, audited.take()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestADryRunIsOnRecordAsOneOnlyWhereNothingIsWritten(t *testing.T) {
	h, audited := startRecorded(t, audit.DefaultPolicy(), nil)
	b := h.admin()
	const maps = "/api/v1/namespaces/default/configmaps"
	item := `"items":[{"verb":"apply","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"default"}}}]`
	b.want(201, b.send("POST", maps, `{"metadata":{"name":"a"}}`))
	audited.take()
	for _, tt := range []struct {
		name, method, path, body string
		dry                      bool
	}{
		{"a create", "POST", maps + "?dryRun=All", `{"metadata":{"name":"b"}}`, true},
		{"a deletion by query", "DELETE", maps + "/a?dryRun=All", "", true},
		{"a deletion by body, as kubectl sends it", "DELETE", maps + "/a", `{"dryRun":["All"]}`, true},
		{"a collection by body", "DELETE", maps, `{"dryRun":["All"]}`, true},
		{"a transaction, as drover sends it", "POST", remote.PathTransactions, `{"fieldManager":"m","dryRun":true,` + item + `}`, true},
		{"a transaction by query", "POST", remote.PathTransactions + "?dryRun=All", `{"fieldManager":"m",` + item + `}`, true},
		{"a transaction", "POST", remote.PathTransactions, `{"fieldManager":"m",` + item + `}`, false},
		{"an operation, which knows no dry run", "POST", remote.PathHub + "compact?dryRun=All", `{}`, false},
	} {
		b.send(tt.method, tt.path, tt.body)
		lines := audited.take()
		if len(lines) != 2 {
			t.Fatalf("%s: got %q, want a receipt and an outcome", tt.name, lines)
		}
		if dry := strings.Contains(lines[1], "(dry run)"); dry != tt.dry {
			t.Errorf("%s: got %q, want it told as a dry run: %v", tt.name, lines[1], tt.dry)
		}
	}
}
