package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Each bad manifest is refused with file, line, column and a hint, exit code 1, and nothing of its set applied.
func TestBadManifestsAreRefusedWhole(t *testing.T) {
	f := shared
	good := f.workload("bad", "1.0", "x")
	change := func(old, with string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("the manifest has no %q", old)
		}
		return strings.Replace(good, old, with, 1)
	}
	everywhere := "placement: {everywhere: true, all: true}"
	for _, c := range []struct {
		name, manifest string
		want           []string
	}{
		{"unknown field", change("maxUnavailable", "maxUnavailabel"), []string{"m.yaml:6:", "maxUnavailabel", "maxUnavailable"}},
		{"duplicate key", change("metadata: {name: bad}", "metadata: {name: bad}\nmetadata: {name: bad}"), []string{"m.yaml:4:", "metadata"}},
		{"quoted number", change(everywhere, `placement: {replicas: "3", all: true}`), []string{"m.yaml:5:", "replicas", "quotes"}},
		{"env value no", change(`value: "x"`, "value: no"), []string{"m.yaml:14:", "quote"}},
		{"milli memory", change("        readinessProbe:", "        resources: {limits: {memory: 256m}}\n        readinessProbe:"), []string{"m.yaml:16:", "256m", "256Mi"}},
		{"tab", change("  placement", "\tplacement"), []string{"m.yaml:5:", "tab"}},
		{"empty file", "", []string{"m.yaml", "empty"}},
		{"2 MiB file", good + "# " + strings.Repeat("x", 2<<20) + "\n", []string{"m.yaml", "1048576"}},
		{"pod field of Kubernetes", change("terminationGracePeriodSeconds: 2", "initContainers: []"), []string{"m.yaml:9:", "initContainers"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "m.yaml")
			if err := os.WriteFile(file, []byte(c.manifest), 0o644); err != nil {
				t.Fatal(err)
			}
			out, err := f.Drover(within(t, 30*time.Second), "apply", "-f", file)
			if exitCode(err) != 1 {
				t.Fatalf("exit code %d, want 1: %v %s", exitCode(err), err, out)
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("the error does not say %q:\n%v", w, err)
				}
			}
			f.drover(t, 1, "get", "workload", "bad")
		})
	}
}

func TestOneBadFileAmongGoodOnesAppliesNothing(t *testing.T) {
	f := shared
	dir := t.TempDir()
	f.drover(t, 1, "apply", "-f", dir) // an empty folder is an error
	for name, text := range map[string]string{
		"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: set-a}\ndata: {k: v}\n",
		"b.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: set-b}\ndata: {k: on}\n",
		"c.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: set-c}\ndata: {k: v}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	_, err := f.Drover(within(t, 30*time.Second), "apply", "-f", dir)
	if exitCode(err) != 1 || !strings.Contains(err.Error(), "b.yaml:4:") {
		t.Errorf("exit code %d, %v; want 1 and b.yaml:4:", exitCode(err), err)
	}
	for _, n := range []string{"set-a", "set-c"} {
		f.drover(t, 1, "get", "configmap", n)
	}
}
