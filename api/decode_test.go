package api

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-fleet/drover/api/fault"
)

// hello is a whole good workload; tests change one line of it.
const hello = `apiVersion: fleet.drover.dev/v1
kind: Workload
metadata: {name: hello, labels: {app: hello}}
spec:
  placement:
    everywhere: true
    selector: {matchLabels: {site: north}}
  template:
    spec:
      containers:
      - name: main
        image: registry.example/hello:1.4
        env:
        - {name: SITE, value: "north"}
        resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {memory: 128Mi}}
        volumeMounts: [{name: data, mountPath: /data}]
      volumes: [{name: data, emptyDir: {}}]
`

// errorsOf decodes and returns the error lines, of which there must be some.
func errorsOf(t *testing.T, data string) []string {
	t.Helper()
	items, err := DecodeManifests("f.yaml", []byte(data))
	var list DecodeErrors
	if !errors.As(err, &list) || items != nil {
		t.Fatalf("got %d items, %v; want no items and DecodeErrors for\n%s", len(items), err, clip(data))
	}
	if got := err.Error(); got != list.Error() {
		t.Errorf("the fault says %q, its errors %q", got, list)
	}
	return strings.Split(err.Error(), "\n")
}

func TestAGoodManifestIsReadWithoutDefaults(t *testing.T) {
	items, err := DecodeManifests("f.yaml", []byte("# a comment\n---\n"+hello+"---\n# nothing\n---\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: north\n"))
	if err != nil || len(items) != 2 {
		t.Fatalf("got %d items, %v; want 2", len(items), err)
	}
	w := items[0].Object.(*Workload)
	if w.Spec.Template.Spec.RestartPolicy != "" || w.Metadata.Namespace != "" || w.Spec.RevisionHistoryLimit != nil {
		t.Errorf("defaults were filled in: %+v", w)
	}
	c := w.Spec.Template.Spec.Containers[0]
	if c.Env[0].Value != "north" || c.Resources.Requests["cpu"].Milli() != 100 || c.Resources.Limits["memory"].Bytes() != 128<<20 {
		t.Errorf("container is %+v", c)
	}
	if items[0].Line != 3 || items[1].Line != 23 {
		t.Errorf("objects at lines %d and %d, want 3 and 23", items[0].Line, items[1].Line)
	}
	if line, col := items[0].Place("spec.template.spec.containers[0].env[0].value"); line != 16 || col != 31 {
		t.Errorf("the env value stands at %d:%d, want 16:31", line, col)
	}
}

func TestEachTrapIsAnErrorWithPlaceAndHint(t *testing.T) {
	for _, c := range []struct{ name, old, new, want string }{
		{"misspelt field", "    everywhere: true", "    evrywhere: true\n    everywhere: true", "f.yaml:6:5: spec.placement.evrywhere: unknown field; did you mean everywhere?"},
		{"duplicate key", "    everywhere: true", "    everywhere: true\n    everywhere: true", "f.yaml:7:5: spec.placement.everywhere: is there twice: also at line 6, column 5; keep one"},
		{"quoted number", "    everywhere: true", `    replicas: "3"`, `f.yaml:6:15: spec.placement.replicas: want a number, got the string "3"; remove the quotes`},
		{"quoted bool", "    everywhere: true", `    everywhere: "true"`, "f.yaml:6:17: spec.placement.everywhere: want true or false, got a string; remove the quotes"},
		{"yes as bool", "    everywhere: true", "    everywhere: yes", `f.yaml:6:17: spec.placement.everywhere: want true or false, got "yes"`},
		{"octal", "    everywhere: true", "    replicas: 010", `f.yaml:6:15: spec.placement.replicas: want a number, got "010"; write a whole number in decimal, without leading zeros`},
		{"out of range", "    everywhere: true", "    replicas: 3000000000", "f.yaml:6:15: spec.placement.replicas: 3000000000 is out of range; want -2147483648 to 2147483647"},
		{"no as string", `"north"`, "no", `f.yaml:14:31: spec.template.spec.containers[0].env[0].value: want a string, got "no", which is a bool or a number; quote it: "no"`},
		{"version as string", `"north"`, "1.10", `f.yaml:14:31: spec.template.spec.containers[0].env[0].value: want a string, got "1.10", which is a bool or a number; quote it: "1.10"`},
		{"empty string", `"north"`, "", `f.yaml:14:31: spec.template.spec.containers[0].env[0].value: has no value: want a string; write "" for an empty string, quote it ("") if it is a word, or remove the line`},
		{"trap as a key", "{site: north}", "{on: north}", `f.yaml:7:30: spec.placement.selector.matchLabels.on: the key "on" is read by other tools as a bool, null or number; quote it: "on"`},
		{"memory in thousandths", "128Mi", "256m", `f.yaml:15:75: spec.template.spec.containers[0].resources.limits.memory: 256m is 256 thousandths of a byte; did you mean "256Mi" or "256M"?`},
		{"pod field of Kubernetes", "      volumes:", "      initContainers: []\n      volumes:", "f.yaml:17:7: spec.template.spec.initContainers: not supported by this release of Drover; remove it"},
		{"volume of Kubernetes", "emptyDir: {}", "configMap: {name: x}", "f.yaml:17:30: spec.template.spec.volumes[0].configMap: not supported by this release of Drover; remove it"},
		{"list wanted", "      - name: main\n        image: registry.example/hello:1.4", "        name: main\n        image: registry.example/hello:1.4", `f.yaml:11:9: spec.template.spec.containers: want a list, got a map; begin each element with "- "`},
		{"tab", "    everywhere: true", "\teverywhere: true", "f.yaml:6:1: is indented with a tab, which YAML forbids; use spaces"},
		{"tab after spaces", "    everywhere: true", "  \t everywhere: true", "f.yaml:6:3: is indented with a tab, which YAML forbids; use spaces"},
		{"anchor", "metadata: {", "metadata: &m {", "f.yaml:3:11: anchor &m is not accepted; remove it and write the value out where it is used"},
		{"tag", "name: hello,", "name: !!str hello,", "f.yaml:3:18: tag !!str is not accepted; remove it"},
		{"merge key", "metadata: {", "metadata: {<<: {a: b}, ", "f.yaml:3:12: merge key << is not accepted; write the fields out"},
		{"kind", "kind: Workload", "kind: Wrkload", `f.yaml:2:7: kind: "Wrkload" is not known; did you mean Workload?`},
		{"version", "fleet.drover.dev/v1", "apps/v1", `f.yaml:1:13: apiVersion: "apps/v1" has no kind Workload; want fleet.drover.dev/v1`},
		{"status", "spec:\n  placement", "status: {currentRevision: x}\nspec:\n  placement", "f.yaml:4:9: status: is written by Drover, not by manifests; remove it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			data := strings.Replace(hello, c.old, c.new, 1)
			if data == hello {
				t.Fatalf("%q is not in the manifest", c.old)
			}
			if got := errorsOf(t, data); !slicesContain(got, c.want) {
				t.Errorf("got:\n%s\nwant the line:\n%s", strings.Join(got, "\n"), c.want)
			}
		})
	}
}

func slicesContain(lines []string, want string) bool {
	for _, l := range lines {
		if l == want {
			return true
		}
	}
	return false
}

func TestPlainScalarsOfOtherTypesAreNoStrings(t *testing.T) {
	for _, s := range []string{
		"y", "Y", "yes", "No", "n", "TRUE", "off", "On", "~", "null", "0", "080", "0o7", "0x1F", "0b1", "1_000", "-3", "1.10", "1.", ".5", "1e3", "-1.5E-3", ".inf", "-.Inf", ".NaN", "12:30", "1:00:00",
	} {
		if got := errorsOf(t, strings.Replace(hello, `"north"`, s, 1)); len(got) != 1 || !strings.Contains(got[0], "env[0].value") || !strings.Contains(got[0], "quote it") {
			t.Errorf("env value %s: got %q, want an error that says to quote it", s, got)
		}
		if _, err := DecodeManifests("f.yaml", []byte(strings.Replace(hello, `"north"`, `"`+s+`"`, 1))); err != nil {
			t.Errorf("env value %q in quotes: %v", s, err)
		}
	}
	for _, s := range []string{"norway", "1.2.3", "10.0.0.1", "8080:80", "2026-11-30", "x1", "v1.10", "one two", "a:b", "1.4-rc", "0g", "e5", "true-ish", "/no"} {
		if _, err := DecodeManifests("f.yaml", []byte(strings.Replace(hello, `"north"`, s, 1))); err != nil {
			t.Errorf("env value %s: %v, want it taken as a string", s, err)
		}
	}
}

func TestAllErrorsOfAFileComeAtOnceInItsOrder(t *testing.T) {
	bad := strings.Replace(hello, "everywhere: true", "everywhere: yes\n    replcas: 3", 1)
	broken := "foo: [1, 2\nbar: x\n"
	got := errorsOf(t, bad+"---\n"+broken+"---\n"+strings.Replace(hello, "image: registry", "imagee: registry", 1))
	want := []string{
		`f.yaml:6:17: spec.placement.everywhere: want true or false, got "yes"`,
		"f.yaml:7:5: spec.placement.replcas: unknown field; did you mean replicas?",
		"f.yaml:21:4: is not YAML: while parsing a flow sequence: did not find expected ',' or ']'",
		"f.yaml:34:9: spec.template.spec.containers[0].imagee: unknown field; did you mean image?",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
}

func TestSizesAreCheckedBeforeParsing(t *testing.T) {
	huge := strings.Replace(hello, `"north"`, `"`+strings.Repeat("x", 2<<20)+`"`, 1)
	for name, c := range map[string]struct{ data, want string }{
		"one object of 2 MiB":  {huge, fmt.Sprintf("f.yaml:1:1: the object is %d bytes; the limit is 1048576 bytes (1 MiB); split it", len(huge))},
		"second object":        {hello + "---\n" + huge, fmt.Sprintf("f.yaml:18:1: the object is %d bytes; the limit is 1048576 bytes (1 MiB); split it", len(huge)+4)},
		"unparsable 2 MiB":     {strings.Repeat("[", 2<<20), "f.yaml:1:1: the object is 2097152 bytes; the limit is 1048576 bytes (1 MiB); split it"},
		"claims to be a List":  {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  k: |\n    kind: List\n    " + strings.Repeat("x", 1<<20) + "\n", "the object is"},
		"a large item":         {"apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {a: " + strings.Repeat("x", 1<<20) + "}}\n", "f.yaml:4:1: the object is"},
		"more than 8 MiB file": {strings.Repeat(" ", MaxFile+1), "f.yaml: the file is 8388609 bytes; the limit is 8388608 bytes (8 MiB); split it"},
	} {
		_, err := DecodeManifests("f.yaml", []byte(c.data))
		if !errors.Is(err, fault.TooLarge) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v; want TooLarge with %q", name, clip(fmt.Sprint(err)), c.want)
		}
	}
	many := strings.Repeat("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a%d}\ndata: {k: "+strings.Repeat("x", 300<<10)+"}\n", 4)
	if items, err := DecodeManifests("f.yaml", fmt.Appendf(nil, many, 0, 1, 2, 3)); err != nil || len(items) != 4 {
		t.Errorf("4 objects of 300 KiB: got %d items, %v; want 4", len(items), err)
	}
}

func TestAFileWithoutAnObjectIsAnError(t *testing.T) {
	for _, data := range []string{"", "\n\n", "# only a comment\n", "---\n", "---\n# x\n---\n...\n", "\xef\xbb\xbf"} {
		if got := errorsOf(t, data); got[0] != "f.yaml: the file has no object in it; write one, or leave the file out" {
			t.Errorf("%q: got %q", data, got)
		}
	}
	for data, want := range map[string]string{
		"hello": "want an object", "- a\n": "want an object", "a: 1\n": "apiVersion: is missing", "%YAML 1.2\n---\na: b\n": "directives", "a: \xff": "UTF-8", "a: b\x00": "UTF-8",
		"? [a]\n: b\n": "key is a list", "a: *x\n": "x",
		strings.Repeat("{a: ", 100) + strings.Repeat("}", 100): "deeper",
	} {
		if got := errorsOf(t, data); !strings.Contains(strings.Join(got, "\n"), want) {
			t.Errorf("%q: got %q, want %q", clip(data), got, want)
		}
	}
}

func TestAnObjectThatIsThereTwiceIsAnError(t *testing.T) {
	got := errorsOf(t, hello+"---\n"+hello)
	if want := "f.yaml:21:18: metadata.name: workload/default/hello is there twice: also at f.yaml:3; keep one"; got[0] != want {
		t.Errorf("got %q, want %q", got[0], want)
	}
}

func TestAListStandsForItsItems(t *testing.T) {
	list := "apiVersion: v1\nkind: List\nmetadata: {}\nitems:\n- apiVersion: v1\n  kind: Namespace\n  metadata: {name: a}\n- apiVersion: v1\n  kind: Namespace\n  metadata: {name: b}\n"
	items, err := DecodeManifests("f.yaml", []byte(list))
	if err != nil || len(items) != 2 || items[1].Object.Meta().Name != "b" || items[1].Line != 8 {
		t.Errorf("got %+v, %v; want a and b, b at line 8", items, err)
	}
	if got := errorsOf(t, list+"extra: 1\n"); !strings.Contains(got[0], "f.yaml:11:1: extra: unknown field") {
		t.Errorf("got %q, want extra refused", got)
	}
}

func TestJSONManifestsHavePlacesToo(t *testing.T) {
	data := "{\n  \"apiVersion\": \"v1\",\n  \"kind\": \"ConfigMap\",\n  \"metadata\": {\"name\": \"a\"},\n  \"data\": {\"k\": 1,\n    \"k\": \"2\"}\n}\n"
	_, err := DecodeManifests("f.json", []byte(data))
	want := "f.json:5:17: data.k: want a string, got \"1\", which is a bool or a number; quote it: \"1\"\nf.json:6:5: data.k: is there twice: also at line 5, column 12; keep one"
	if err == nil || err.Error() != want {
		t.Errorf("got:\n%v\nwant:\n%s", err, want)
	}
	if _, err := DecodeManifests("f.json", []byte(`{"apiVersion":"v1"`)); err == nil || !strings.Contains(err.Error(), "f.json:1:19: is not JSON: it ends too early") {
		t.Errorf("cut off: %v", err)
	}
	if _, err := DecodeManifests("f.json", []byte("{} {}")); err == nil || !strings.Contains(err.Error(), "after its end") {
		t.Errorf("two values: %v", err)
	}
}

func TestErrorsOfASecretNeverShowItsValues(t *testing.T) {
	for _, data := range []string{
		"stringData: {k: 4711}", "stringData: {k: [4711]}", "data: {k: 4711!}", "data: 4711", "stringData: {k: true}", "stringData: {k: '4711', k: '4711'}",
		"data: {k: '4711'}\nimmutable: 4711",
	} {
		got := strings.Join(errorsOf(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n"+data+"\n"), "\n")
		if strings.Contains(got, "4711") {
			t.Errorf("%s: the error shows the value: %s", data, got)
		}
	}
}

func FuzzDecodeManifests(f *testing.F) {
	f.Add([]byte(hello))
	f.Add([]byte("apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {a: |\n  x\n}\n---\n{}\n...\n"))
	f.Add([]byte(`{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"a":"b"}}]}`))
	f.Add([]byte("a: &x [*x]\n\tb: !!int 3\n<<: {}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		items, err := DecodeManifests("f.yaml", data)
		if (err == nil) != (len(items) > 0) {
			t.Fatalf("%d items and error %v", len(items), err)
		}
		for _, it := range items {
			text, err := EncodeYAML(it.Object)
			if err != nil {
				t.Fatal(err)
			}
			again, err := DecodeManifests("again.yaml", text)
			if err != nil || len(again) != 1 {
				t.Fatalf("what was read does not read back: %v\n%s", err, text)
			}
			if diff := cmp.Diff(it.Object, again[0].Object); diff != "" {
				t.Fatalf("read back differently:\n%s\n%s", diff, text)
			}
		}
	})
}
