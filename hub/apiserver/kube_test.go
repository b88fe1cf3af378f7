package apiserver_test

import (
	"net/http"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// field writes one field that carries its length; several make a message.
func field(n protowire.Number, b ...[]byte) []byte {
	var all []byte
	for _, part := range b {
		all = append(all, part...)
	}
	return protowire.AppendBytes(protowire.AppendTag(nil, n, protowire.BytesType), all)
}

func textField(n protowire.Number, s string) []byte { return field(n, []byte(s)) }

// envelope is Kubernetes' around a message of a kind.
func envelope(apiVersion, kind string, message ...[]byte) string {
	return "k8s\x00" + string(field(1, textField(1, apiVersion), textField(2, kind))) + string(field(2, message...)) + string(textField(3, ""))
}

const protobuf = "application/vnd.kubernetes.protobuf"

func TestProtobufBodiesOfKubernetesOwnKindsAreRead(t *testing.T) {
	h := startHub(t, nil)
	b := h.admin()
	meta := field(1, textField(1, "typed"), textField(4, ""), field(11, textField(1, "app"), textField(2, "x")), field(8))
	body := envelope("v1", "ConfigMap", meta, field(2, textField(1, "k"), textField(2, "v")), field(3, textField(1, "b"), field(2, []byte{0, 255})))
	r := b.want(201, b.send("POST", configMaps, body, "Content-Type", protobuf))
	for _, want := range []string{`"name":"typed"`, `"labels":{"app":"x"}`, `"data":{"k":"v"}`, `"binaryData":{"b":"AP8="}`} {
		if !strings.Contains(r.body, want) {
			t.Errorf("got %s, want it to have %s", r.body, want)
		}
	}
	options := envelope("v1", "DeleteOptions", field(2, textField(1, "another-uid")))
	if r := b.send("DELETE", configMaps+"/typed", options, "Content-Type", protobuf); r.code != http.StatusConflict {
		t.Errorf("deletion with the uid of another: got %d %s, want 409", r.code, r.body)
	}
}

func TestProtobufThatIsNotReadIsRefused(t *testing.T) {
	h := startHub(t, nil)
	b := h.admin()
	named := field(1, textField(1, "typed"))
	for what, c := range map[string]struct {
		body string
		code int
		text string
	}{
		"no envelope":       {"ConfigMap", 400, "does not begin with"},
		"unknown kind":      {envelope("apps/v1", "Deployment", named), 415, "no protobuf form"},
		"inner message":     {envelope("v1", "ObjectMeta"), 400, ""},
		"unknown field":     {envelope("v1", "ConfigMap", named, textField(77, "x")), 400, "field 77 of ConfigMap"},
		"cut off":           {envelope("v1", "ConfigMap", []byte{0x0a, 0x7f}), 400, "ConfigMap.metadata"},
		"wrong type":        {envelope("v1", "ConfigMap", []byte{0x08, 0x01}), 400, "ConfigMap.metadata"},
		"not UTF-8":         {envelope("v1", "ConfigMap", field(1, textField(1, "\xff"))), 400, "not UTF-8"},
		"another kind":      {envelope("v1", "Secret", named), 400, ""},
		"a field we lack":   {envelope("v1", "ConfigMap", field(1, textField(1, "typed"), textField(4, "/self"))), 400, "selfLink"},
		"encoded otherwise": {envelope("v1", "ConfigMap", named) + string(textField(3, "gzip")), 415, "encoding"},
	} {
		if r := b.send("POST", configMaps, c.body, "Content-Type", protobuf); r.code != c.code || !strings.Contains(r.body, c.text) {
			t.Errorf("%s: got %d %s, want %d with %q", what, r.code, r.body, c.code, c.text)
		}
	}
}

func workloadOf(name, placement string) string {
	return `{"metadata":{"name":"` + name + `"},"spec":{"placement":` + placement + `,"template":{"spec":{"containers":[{"name":"main","image":"registry.example/x:1"}]}}}}`
}

func TestScaleWritesTheNumberOfReplicasAndNothingElse(t *testing.T) {
	h := startHub(t, nil)
	b := h.admin()
	b.want(201, b.send("POST", workloads, workloadOf("web", `{"replicas":1,"all":true}`)))
	got := b.want(200, b.get(workloads+"/web/scale"))
	for _, want := range []string{`"kind":"Scale"`, `"apiVersion":"autoscaling/v1"`, `"spec":{"replicas":1}`, `"selector":"fleet.drover.dev/workload=web"`} {
		if !strings.Contains(got.body, want) {
			t.Errorf("got %s, want it to have %s", got.body, want)
		}
	}
	b.want(200, b.send("PATCH", workloads+"/web/scale", `{"spec":{"replicas":3}}`, "Content-Type", "application/merge-patch+json"))
	b.want(409, b.send("PUT", workloads+"/web/scale", strings.Replace(got.body, `"replicas":1`, `"replicas":9`, 1)))
	b.want(422, b.send("PATCH", workloads+"/web/scale", `{"spec":{"replicas":-1}}`, "Content-Type", "application/merge-patch+json"))
	b.want(405, b.send("DELETE", workloads+"/web/scale", ""))
	if r := b.want(200, b.get(workloads+"/web")); !strings.Contains(r.body, `"placement":{"replicas":3,"all":true}`) {
		t.Errorf("workload: got %s, want 3 replicas and all else as it was", r.body)
	}
}

func TestScaleOfAWorkloadThatRunsEverywhereSaysWhyNot(t *testing.T) {
	h := startHub(t, nil)
	b := h.admin()
	b.want(201, b.send("POST", workloads, workloadOf("wide", `{"everywhere":true,"all":true}`)))
	b.want(200, b.get(workloads+"/wide/scale"))
	r := b.want(422, b.send("PATCH", workloads+"/wide/scale", `{"spec":{"replicas":3}}`, "Content-Type", "application/merge-patch+json"))
	if !strings.Contains(r.body, "one copy on every selected device") || !strings.Contains(r.body, `"field":"spec.placement"`) {
		t.Errorf("got %s, want the reason and the field", r.body)
	}
}

func TestAppliedScaleConflictsWithWhoAppliedAnotherNumber(t *testing.T) {
	h := startHub(t, nil)
	b := h.admin()
	const apply = "application/apply-patch+yaml"
	whole := `{"apiVersion":"fleet.drover.dev/v1","kind":"Workload",` + workloadOf("web", `{"replicas":1,"all":true}`)[1:]
	b.want(201, b.send("PATCH", workloads+"/web?fieldManager=anna", whole, "Content-Type", apply))
	scale := `{"apiVersion":"autoscaling/v1","kind":"Scale","spec":{"replicas":4}}`
	r := b.want(409, b.send("PATCH", workloads+"/web/scale?fieldManager=bert", scale, "Content-Type", apply))
	if !strings.Contains(r.body, "anna") || !strings.Contains(r.body, "bert") {
		t.Errorf("conflict: got %s, want both managers named", r.body)
	}
	b.want(200, b.send("PATCH", workloads+"/web/scale?fieldManager=bert&force=true", scale, "Content-Type", apply))
}

func TestApplyToStatusSetsWhatItGives(t *testing.T) {
	h := startHub(t, nil)
	b := h.admin()
	b.want(400, b.send("PATCH", workloads+"/web/status?fieldManager=m", `{"apiVersion":"fleet.drover.dev/v1","kind":"Workload"}`, "Content-Type", "application/apply-patch+yaml"))
	b.want(404, b.send("PATCH", workloads+"/web/status?fieldManager=m", `{"status":{"currentRevision":"x"}}`, "Content-Type", "application/apply-patch+yaml"))
	b.want(415, b.send("PATCH", workloads+"/web/status?fieldManager=m", "status: {}", "Content-Type", "application/apply-patch+yaml"))
}
