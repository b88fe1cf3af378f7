package apiserver_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/client/remote"
	"github.com/drover-fleet/drover/hub/apiserver"
)

const (
	configMaps = "/api/v1/namespaces/default/configmaps"
	workloads  = "/apis/fleet.drover.dev/v1/namespaces/default/workloads"
	asTable    = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
)

func decoded[T any](t *testing.T, r reply) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(r.body), &v); err != nil {
		t.Fatalf("body %s: %v", r.body, err)
	}
	return v
}

func workloadJSON(name, image string) string {
	return fmt.Sprintf(`{"apiVersion":"fleet.drover.dev/v1","kind":"Workload","metadata":{"name":%q},"spec":{"placement":{"everywhere":true,"all":true},`+
		`"template":{"spec":{"containers":[{"name":"main","image":%q}]}}}}`, name, image)
}

type tableDoc struct {
	Kind    string `json:"kind"`
	Columns []struct {
		Name     string `json:"name"`
		Priority int    `json:"priority"`
	} `json:"columnDefinitions"`
	Rows []struct {
		Cells  []any `json:"cells"`
		Object struct {
			Kind     string         `json:"kind"`
			Metadata api.ObjectMeta `json:"metadata"`
		} `json:"object"`
	} `json:"rows"`
}

func (d tableDoc) column(name string) any {
	for i, c := range d.Columns {
		if c.Name == name {
			return d.Rows[0].Cells[i]
		}
	}
	return nil
}

type lastContacts map[string]time.Duration

func (l lastContacts) Last(device string) (time.Duration, bool) {
	age, ok := l[device]
	return age, ok
}

func TestLastContactIsComputedAsADeviceIsReadAndNeverStored(t *testing.T) {
	now := time.Now()
	h := startHub(t, func(c *apiserver.Config) {
		c.Contacts = lastContacts{"pi-07": 90 * time.Second}
		c.Now = func() time.Time { return now }
	})
	if _, err := h.own().Create(t.Context(), &api.Device{Metadata: api.ObjectMeta{Name: "pi-07"}}, client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	b := h.admin()
	want := api.TimeOf(now.Add(-90 * time.Second))
	const path = "/apis/fleet.drover.dev/v1/devices/pi-07"
	if got := decoded[api.Device](t, b.want(200, b.get(path))).Status.LastContact; !got.Equal(want.Time) {
		t.Errorf("lastContact: got %s, want %s", got, want)
	}
	if got := decoded[tableDoc](t, b.want(200, b.get(path, "Accept", asTable))).column("Last-Contact"); got != "90s ago" {
		t.Errorf("column: got %v, want 90s ago", got)
	}
	b.want(200, b.send("PATCH", path, `{"metadata":{"labels":{"site":"north"}}}`, "Content-Type", "application/merge-patch+json"))
	stored, err := h.own().Get(t.Context(), api.Ref{Kind: api.KindDevice, Name: "pi-07"}, client.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if d := stored.(*api.Device); !d.Status.LastContact.IsZero() || d.Metadata.Labels["site"] != "north" {
		t.Errorf("stored: got lastContact %s labels %v, want none and the label", d.Status.LastContact, d.Metadata.Labels)
	}
}

// TestEveryKindHasATable: each kind lists as a Table with name first and age, in both versions of the form, and its rows
// have as many cells as there are columns. An event's name is a hash: its first column is when it was last seen.
func TestEveryKindHasATable(t *testing.T) {
	h := startHub(t, nil)
	b := h.admin()
	b.want(201, b.send("POST", workloads, workloadJSON("w", "127.0.0.1:1/a:1")))
	b.want(201, b.send("POST", configMaps, `{"metadata":{"name":"c"},"data":{"a":"b"}}`))
	for _, k := range api.Kinds() {
		path := "/apis/" + k.APIVersion + "/" + k.Plural
		if k.APIVersion == api.CoreV1 {
			path = "/api/v1/" + k.Plural
		}
		d := decoded[tableDoc](t, b.want(200, b.get(path, "Accept", asTable)))
		first := "Name"
		if k == api.KindEvent {
			first = "Last-Seen"
		}
		if d.Kind != "Table" || len(d.Columns) < 2 || d.Columns[0].Name != first {
			t.Errorf("%s: got kind %q with columns %v, want a Table that begins with %s", k, d.Kind, d.Columns, first)
		}
		for _, row := range d.Rows {
			if len(row.Cells) != len(d.Columns) || row.Object.Kind != "PartialObjectMetadata" || row.Object.Metadata.Name == "" {
				t.Errorf("%s: row %+v does not fit its %d columns", k, row, len(d.Columns))
			}
		}
	}
	wide := decoded[tableDoc](t, b.want(200, b.get(workloads+"/w?includeObject=None", "Accept", asTable)))
	if got := wide.column("Images"); got != "127.0.0.1:1/a:1" {
		t.Errorf("images: got %v", got)
	}
}

func TestDeletionTellsWhichObjectWent(t *testing.T) {
	h := startHub(t, nil)
	b := h.admin()
	made := decoded[api.ConfigMap](t, b.want(201, b.send("POST", configMaps, `{"metadata":{"name":"c"}}`)))
	other := b.want(409, b.send("DELETE", configMaps+"/c", `{"preconditions":{"uid":"another"}}`))
	if st := decoded[fault.Status](t, other); st.Reason != "Conflict" {
		t.Errorf("precondition: got %+v, want Conflict", st)
	}
	dry := b.want(200, b.send("DELETE", configMaps+"/c?dryRun=All", ""))
	if st := decoded[fault.Status](t, dry); st.Status != "Success" {
		t.Errorf("dry run: got %+v", st)
	}
	b.want(200, b.get(configMaps+"/c"))
	st := decoded[fault.Status](t, b.want(200, b.send("DELETE", configMaps+"/c", `{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Background"}`)))
	if st.Status != "Success" || st.Details == nil || st.Details.UID != made.Metadata.UID || st.Details.Kind != "configmaps" {
		t.Errorf("status: got %+v details %+v, want Success with uid %s", st, st.Details, made.Metadata.UID)
	}
	gone := decoded[fault.Status](t, b.want(404, b.send("DELETE", configMaps+"/c", "")))
	if gone.Reason != "NotFound" || gone.Details.Name != "c" {
		t.Errorf("second deletion: got %+v", gone)
	}
	b.want(201, b.send("POST", configMaps, `{"metadata":{"name":"held","finalizers":["test/hold"]}}`))
	held := decoded[api.ConfigMap](t, b.want(200, b.send("DELETE", configMaps+"/held", "")))
	if held.Kind != "ConfigMap" || held.Metadata.DeletionTimestamp == nil {
		t.Errorf("held by a finalizer: got %+v, want the object with its deletionTimestamp", held)
	}
}

func TestDeleteCollectionObeysItsSelector(t *testing.T) {
	h := startHub(t, nil)
	b := h.admin()
	for i := range 5 {
		b.want(201, b.send("POST", configMaps, fmt.Sprintf(`{"metadata":{"name":"c%d","labels":{"even":"%v"}}}`, i, i%2 == 0)))
	}
	b.want(200, b.send("DELETE", configMaps+"?labelSelector=even%3Dtrue", ""))
	var names []string
	for _, item := range decoded[struct{ Items []api.ConfigMap }](t, b.want(200, b.get(configMaps))).Items {
		names = append(names, item.Metadata.Name)
	}
	if diff := cmp.Diff([]string{"c1", "c3"}, names); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
	b.want(405, b.send("DELETE", "/api/v1/configmaps", ""))
}

// TestPatchesOfEachType: what each changes, and what each refuses.
func TestPatchesOfEachType(t *testing.T) {
	h := startHub(t, nil)
	b := h.admin()
	b.want(201, b.send("POST", configMaps, `{"metadata":{"name":"c"},"data":{"a":"1"}}`))
	b.want(201, b.send("POST", workloads, workloadJSON("w", "127.0.0.1:1/a:1")))
	const apply = "application/apply-patch+yaml"
	tests := []struct {
		path, media, body string
		code              int
		want              string
	}{
		{configMaps + "/c", "application/merge-patch+json", `{"data":{"b":"2","a":null}}`, 200, `"data":{"b":"2"}`},
		{configMaps + "/c", "application/json-patch+json", `[{"op":"test","path":"/data/b","value":"2"},{"op":"add","path":"/data/c","value":"3"}]`, 200, `"data":{"b":"2","c":"3"}`},
		{configMaps + "/c", "application/json-patch+json", `[{"op":"test","path":"/data/b","value":"9"}]`, 422, "the value is another one"},
		{configMaps + "/c", "application/strategic-merge-patch+json", `{"data":{"c":null}}`, 200, `"data":{"b":"2"}`},
		{configMaps + "/c", "application/merge-patch+json", `{"metadata":{"resourceVersion":"1"},"data":{"z":"1"}}`, 409, "Conflict"},
		{configMaps + "/c", "application/merge-patch+json", `{"metadata":{"name":"d"}}`, 400, "the path says"},
		{configMaps + "/c", "application/merge-patch+json", `{"dota":{}}`, 400, "dota: unknown field"},
		{configMaps + "/none", "application/merge-patch+json", `{}`, 404, "NotFound"},
		{workloads + "/w", "application/strategic-merge-patch+json", `{}`, 415, "kubectl patch --type=merge"},
		{configMaps + "/c", "text/plain", `{}`, 415, "patches are"},
		{configMaps + "/new?fieldManager=me", apply, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: new}\ndata: {a: b}\n", 201, `"data":{"a":"b"}`},
		{configMaps + "/new?fieldManager=me", apply, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"new"},"data":{"c":"d"}}`, 200, `"data":{"c":"d"}`},
		{configMaps + "/new?fieldManager=you", apply, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"new"},"data":{"c":"e"}}`, 409, `me`},
		{configMaps + "/new?fieldManager=you&force=true", apply, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"new"},"data":{"c":"e"}}`, 200, `"data":{"c":"e"}`},
		{configMaps + "/new", apply, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"new"}}`, 400, "fieldManager is required"},
	}
	for _, tt := range tests {
		r := b.send("PATCH", tt.path, tt.body, "Content-Type", tt.media)
		if r.code != tt.code || !strings.Contains(r.body, tt.want) {
			t.Errorf("%s %s %s: got %d %s, want %d with %q", tt.path, tt.media, tt.body, r.code, r.body, tt.code, tt.want)
		}
	}
}

func TestUnknownFieldsAreRefusedUnlessTheClientAsksOtherwise(t *testing.T) {
	h := startHub(t, nil)
	b := h.admin()
	const body = `{"metadata":{"name":"c"},"dota":{}}`
	strict := decoded[fault.Status](t, b.want(400, b.send("POST", configMaps, body)))
	if !strings.Contains(strict.Message, "dota") {
		t.Errorf("strict: got %q", strict.Message)
	}
	warned := b.want(201, b.send("POST", configMaps+"?fieldValidation=Warn&dryRun=All", body))
	if got := warned.header.Get("Warning"); !strings.HasPrefix(got, `299 - "`) || !strings.Contains(got, "dota") {
		t.Errorf("warning: got %q", got)
	}
	ignored := b.want(201, b.send("POST", configMaps+"?fieldValidation=Ignore&dryRun=All", body))
	if got := ignored.header.Get("Warning"); got != "" {
		t.Errorf("ignore: got warning %q, want none", got)
	}
	b.want(404, b.get(configMaps+"/c"))
}

func TestBadRequestsSayWhatIsWrong(t *testing.T) {
	h := startHub(t, nil)
	b := h.admin()
	tests := []struct {
		method, path, body string
		code               int
		want               string
	}{
		{"GET", configMaps + "?limit=-1", "", 400, "limit"},
		{"GET", configMaps + "?resourceVersion=abc", "", 400, "resourceVersion"},
		{"GET", configMaps + "?resourceVersion=0&resourceVersionMatch=Exact", "", 422, "exactly"},
		{"GET", configMaps + "?watch=1&timeoutSeconds=x", "", 400, "timeoutSeconds"},
		{"GET", configMaps + "?labelSelector=%3D%3D", "", 400, "labelSelector"},
		{"GET", configMaps + "?fieldSelector=spec.x%3D1", "", 400, "fieldSelector"},
		{"POST", configMaps + "?dryRun=some", "{}", 400, "dryRun"},
		{"POST", configMaps, "", 400, "empty"},
		{"POST", configMaps, "{", 400, "body"},
		{"POST", configMaps, `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"x"}}`, 400, "Secret"},
		{"POST", configMaps, `{"metadata":{"name":"x","namespace":"other"}}`, 400, "the path says"},
		{"POST", "/api/v1/configmaps", `{"metadata":{"name":"x"}}`, 400, "belong to a namespace"},
		{"POST", configMaps + "/x", "{}", 405, "not supported"},
		{"PUT", configMaps, "{}", 405, "not supported"},
		{"POST", "/version", "{}", 405, "use GET"},
		{"GET", remote.PathTransactions, "", 405, "use POST"},
		{"GET", "/api/v1/namespaces/default/configmaps/x/scale", "", 404, "nothing is served"},
		{"GET", "/api/v1/namespaces/default/namespaces", "", 404, "nothing is served"},
		{"POST", remote.PathTransactions, `{"items":[{"verb":"apply","object":{"kind":"Nope"}}]}`, 400, "items[0].object"},
		{"POST", remote.PathTransactions, `{"item":[]}`, 400, "unknown field"},
		{"DELETE", configMaps + "/x", `{"propagationPolicy":"Maybe"}`, 422, "propagationPolicy"},
		{"GET", "/drover/v1/why?kind=Workload", "", 400, "apiVersion"},
	}
	for _, tt := range tests {
		r := b.send(tt.method, tt.path, tt.body)
		st := decoded[fault.Status](t, r)
		if r.code != tt.code || st.Code != tt.code || !strings.Contains(st.Message, tt.want) {
			t.Errorf("%s %s %s: got %d %s, want %d with %q", tt.method, tt.path, tt.body, r.code, r.body, tt.code, tt.want)
		}
	}
}

// TestRepeatedRequestIsDoneOnce: whoever lost an answer sends the write again under its id and is told that it is done.
func TestRepeatedRequestIsDoneOnce(t *testing.T) {
	h := startHub(t, nil)
	b := h.admin()
	const body = `{"metadata":{"name":"once"}}`
	first := decoded[api.ConfigMap](t, b.want(201, b.send("POST", configMaps, body, remote.HeaderRequestID, "id-0123456789abcdef")))
	again := decoded[api.ConfigMap](t, b.want(201, b.send("POST", configMaps, body, remote.HeaderRequestID, "id-0123456789abcdef")))
	if first.Metadata.UID != again.Metadata.UID {
		t.Errorf("uid: got %s, want %s", again.Metadata.UID, first.Metadata.UID)
	}
	b.want(409, b.send("POST", configMaps, body, remote.HeaderRequestID, "id-another-0123456789"))
	b.want(409, b.send("POST", configMaps, body))
	b.want(200, b.send("DELETE", configMaps+"/once", "", remote.HeaderRequestID, "id-delete-0123456789"))
	b.want(200, b.send("DELETE", configMaps+"/once", "", remote.HeaderRequestID, "id-delete-0123456789"))
	b.want(404, b.send("DELETE", configMaps+"/once", ""))
}

func TestDiscoveryListsEveryKind(t *testing.T) {
	h := startHub(t, nil)
	b := h.admin()
	const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
	type list struct {
		Resources []struct {
			Name, Kind string
			Namespaced bool
			Verbs      []string
		}
	}
	found := map[string]bool{}
	for _, path := range []string{"/api/v1", "/apis/fleet.drover.dev/v1", "/apis/rbac.authorization.k8s.io/v1"} {
		r := b.want(200, b.get(path, "Accept", aggregated))
		if got := r.header.Get("Content-Type"); got != "application/json" {
			t.Errorf("%s: content type got %q, want plain JSON, so that clients fall back", path, got)
		}
		for _, res := range decoded[list](t, r).Resources {
			found[res.Name] = true
		}
	}
	for _, k := range api.Kinds() {
		if !found[k.Plural] || found[k.Plural+"/status"] != k.HasStatus {
			t.Errorf("%s: listed %v, with status %v; want true, %v", k, found[k.Plural], found[k.Plural+"/status"], k.HasStatus)
		}
	}
	index := decoded[struct {
		Paths map[string]struct{ ServerRelativeURL string }
	}](t, b.want(200, b.get("/openapi/v3")))
	for _, p := range []string{"api/v1", "apis/fleet.drover.dev/v1"} {
		doc := b.want(200, b.get(index.Paths[p].ServerRelativeURL))
		if !strings.Contains(doc.body, "fieldValidation") || !json.Valid([]byte(doc.body)) {
			t.Errorf("%s: OpenAPI does not tell of fieldValidation", p)
		}
	}
	const proto = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
	r := b.want(200, b.get("/openapi/v2", "Accept", proto))
	if got := r.header.Get("Content-Type"); !strings.HasPrefix(r.body, "\x0a\x032.0") || strings.Contains(got, "@") {
		t.Errorf("OpenAPI v2: got %d bytes of type %q, which must be a media type", len(r.body), got)
	}
}

func TestLargeAnswersAreCompressedForWhoTakesIt(t *testing.T) {
	h := startHub(t, nil)
	b := h.admin()
	b.want(201, b.send("POST", configMaps, `{"metadata":{"name":"big"},"data":{"k":"`+strings.Repeat("v", 300<<10)+`"}}`))
	plain := b.want(200, b.get(configMaps+"/big"))
	small := b.want(200, b.get(configMaps+"/big", "Accept-Encoding", "gzip"))
	if got := small.header.Get("Content-Encoding"); got != "gzip" || len(small.body)*10 > len(plain.body) {
		t.Errorf("encoding %q with %d of %d bytes, want gzip and far fewer", got, len(small.body), len(plain.body))
	}
}
