package audit

import (
	"strings"
	"testing"
)

func TestTheFirstRuleThatMatchesSaysTheLevel(t *testing.T) {
	p, err := ParsePolicy([]byte(`
apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- level: None
  users: [probe]
- level: Request
  verbs: [create, patch]
  resources: [{group: fleet.drover.dev, resources: [workloads, "assignments/*"]}]
  namespaces: [prod]
- level: Metadata
  resources: [{group: "", resources: [secrets], resourceNames: [db]}]
- level: None
  nonResourceURLs: ["/healthz*"]
- level: Metadata
  userGroups: [night-shift]
`))
	if err != nil {
		t.Fatal(err)
	}
	workload := Attributes{User: "alice", Verb: "create", Group: "fleet.drover.dev", Resource: "workloads", Namespace: "prod"}
	with := func(change func(*Attributes)) Attributes {
		a := workload
		change(&a)
		return a
	}
	for _, tt := range []struct {
		name string
		a    Attributes
		want Level
	}{
		{"matches", workload, LevelRequest},
		{"user comes first", with(func(a *Attributes) { a.User = "probe" }), LevelNone},
		{"another verb", with(func(a *Attributes) { a.Verb = "delete" }), LevelNone},
		{"another namespace", with(func(a *Attributes) { a.Namespace = "dev" }), LevelNone},
		{"another group of the API", with(func(a *Attributes) { a.Group = "" }), LevelNone},
		{"a subresource is not its object", with(func(a *Attributes) { a.Sub = "status" }), LevelNone},
		{"any subresource", with(func(a *Attributes) { a.Resource, a.Sub = "assignments", "log" }), LevelRequest},
		{"not the object of any subresource", with(func(a *Attributes) { a.Resource = "assignments" }), LevelNone},
		{"by name", Attributes{Verb: "get", Resource: "secrets", Name: "db"}, LevelMetadata},
		{"by another name", Attributes{Verb: "get", Resource: "secrets", Name: "web"}, LevelNone},
		{"a path", Attributes{Verb: "get", Path: "/healthz/x", Groups: []string{"night-shift"}}, LevelNone},
		{"a group", Attributes{Verb: "get", Path: "/metrics", Groups: []string{"x", "night-shift"}}, LevelMetadata},
		{"nothing matches", Attributes{Verb: "get", Path: "/metrics"}, LevelNone},
	} {
		if got := p.Level(&tt.a); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestTheBuiltInPolicyKeepsWritesAndReadsOfSecrets(t *testing.T) {
	for _, tt := range []struct {
		a    Attributes
		want Level
	}{
		{Attributes{Verb: "get", Resource: "secrets"}, LevelMetadata},
		{Attributes{Verb: "watch", Resource: "secrets"}, LevelMetadata},
		{Attributes{Verb: "get", Group: "fleet.drover.dev", Resource: "assignments", Sub: "log"}, LevelMetadata},
		{Attributes{Verb: "get", Path: "/drover/v1/why"}, LevelMetadata},
		{Attributes{Verb: "get", Path: "/drover/v1/audit"}, LevelMetadata},
		{Attributes{Verb: "list", Group: "fleet.drover.dev", Resource: "workloads"}, LevelNone},
		{Attributes{Verb: "get", Path: "/version"}, LevelNone},
		{Attributes{Verb: "delete", Resource: "configmaps"}, LevelMetadata},
		{Attributes{Verb: "post", Path: "/drover/v1/hub/remove"}, LevelMetadata},
	} {
		if got := DefaultPolicy().Level(&tt.a); got != tt.want {
			t.Errorf("%+v: got %s, want %s", tt.a, got, tt.want)
		}
	}
	if err := DefaultPolicy().validate(); err != nil {
		t.Error(err)
	}
}

func TestAPolicyIsReadStrictly(t *testing.T) {
	const head = "apiVersion: audit.k8s.io/v1\nkind: Policy\n"
	for text, want := range map[string]string{
		"":                                     "empty",
		"kind: Policy\nrules: [{level: None}]": "want audit.k8s.io/v1",
		head:                                   "rules: got 0",
		head + "rules: [{level: RequestResponse}]":                                            "use Request",
		head + "rules: [{level: metadata}]":                                                   `"metadata"`,
		head + "rules: [{level: None, omitStages: [x]}]":                                      "omitStages",
		head + "rules: [{level: None, nonResourceURLs: ['/a*b']}]":                            "at its end",
		head + "rules: [{level: None}]\n---\nkind: Policy":                                    "more than one",
		head + "rules: [{level: None, resources: [{resources: [x]}], nonResourceURLs: [/x]}]": "alternatives",
		strings.Repeat("x", maxPolicy+1):                                                      "bytes",
	} {
		if _, err := ParsePolicy([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80q: got %v, want an error with %q", text, err, want)
		}
	}
}

func TestF59BodiesOnRecordHoldNoSecret(t *testing.T) {
	const canary = "c4n4ry"
	tx := Attributes{Verb: "create", Group: "fleet.drover.dev", Resource: "transactions"}
	for _, tt := range []struct {
		a    Attributes
		body string
	}{
		{Attributes{Resource: "secrets"}, `{"kind":"Secret","data":{"x":"c4n4ry"}}`},
		{Attributes{Resource: "secrets"}, `[{"op":"add","path":"/data/x","value":"c4n4ry"}]`},
		{Attributes{Resource: "serviceaccounts", Sub: "token"}, `{"spec":{"audiences":["c4n4ry"]}}`},
		{Attributes{Resource: "configmaps"}, `{"kind":"secret","data":{"x":"c4n4ry"}}`},
		{Attributes{Resource: "configmaps"}, `{"kind":"Secret", "data": {"x":"c4n4ry"`},
		{Attributes{Resource: "configmaps"}, "kind: Secret\nstringData: {x: c4n4ry}\n"},
		{Attributes{Resource: "configmaps"}, `{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"kind\":\"Secret\",\"data\":\"c4n4ry\"}"}}}`},
		{Attributes{Group: "authentication.k8s.io", Resource: "tokenreviews"}, `{"spec":{"token":"c4n4ry"}}`},
		{tx, `{"items":[{"verb":"apply","object":{"kind":"Secret","metadata":{"name":"db","annotations":{"x":"c4n4ry"}},"data":{"x":"c4n4ry"}}}]}`},
		{tx, `{"items":[{"verb":"apply","object":{"kind":"JoinToken","spec":{"secretHash":"c4n4ry"}}}]}`},
		{tx, `{"token":"c4n4ry"}`},
	} {
		if got := string(Body(&tt.a, []byte(tt.body))); strings.Contains(got, canary) || got == "" {
			t.Errorf("%s: got %s, want a body without what is secret", tt.body, got)
		}
	}
	const plain = `{"items":[{"object":{"data":{"n":12345678901234567890},"kind":"ConfigMap"}}]}`
	if got := string(Body(&tx, []byte(plain))); got != plain {
		t.Errorf("got %s, want %s", got, plain)
	}
}
