package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/drover-fleet/drover/api"
)

// A pool that forbids it: each is refused at apply with the pool's name; what it allows runs; what it allows no more goes. What the
// device does when it is asked directly stands in agent/grant_test.go and test/e2e/ctrd/host_test.go.
func TestPoolRefusesAtApplyAndTakesAwayWhatItAllowsNoMore(t *testing.T) {
	f := shared
	dir := f.Path("cameras")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	device := f.Devices[0]
	pool := func(allow string) string {
		return fmt.Sprintf("apiVersion: fleet.drover.dev/v1\nkind: DevicePool\nmetadata: {name: north}\n"+
			"spec: {selector: {matchLabels: {%s: %s}}, namespaces: [north], allow: %s, weight: 10}\n", api.LabelHostname, device, allow)
	}
	namespaces := "apiVersion: v1\nkind: Namespace\nmetadata: {name: north}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: south}\n---\n"
	f.droverIn(t, 0, namespaces+pool(fmt.Sprintf("{hostPorts: [8088], hostPaths: [%s]}", dir)), "apply", "-f", "-")
	defer func() {
		f.drover(t, 0, "delete", "devicepool", "north")
		f.drover(t, 0, "delete", "namespace", "north")
		f.drover(t, 0, "delete", "namespace", "south")
	}()
	manifest := func(container, spec string) string {
		m := strings.Replace(f.workload("cam", "1.0", "x"), "{everywhere: true, all: true}",
			fmt.Sprintf("{everywhere: true, selector: {matchLabels: {%s: %s}}}", api.LabelHostname, device), 1)
		return strings.Replace(m, "        env:\n", container+"        env:\n", 1) + spec
	}
	volume := func(path string) (string, string) {
		return "        volumeMounts: [{name: v, mountPath: /v}]\n", fmt.Sprintf("      volumes: [{name: v, hostPath: {path: %s}}]\n", path)
	}
	etc, etcVolume := volume("/etc")
	own, ownVolume := volume(dir + "/1")
	for _, tc := range []struct{ name, namespace, manifest, want string }{
		{"host path", "north", manifest(etc, etcVolume), "pool north does not allow host path /etc"},
		{"host port", "north", manifest("        ports: [{containerPort: 22, hostPort: 22}]\n", ""), "pool north does not allow host port 22"},
		{"device file", "north", manifest("        devices: [{path: /dev/fuse}]\n", ""), "pool north does not allow device file /dev/fuse"},
		{"privileged", "north", manifest("        securityContext: {privileged: true}\n", ""), "pool north does not allow privileged containers"},
		{"another namespace's device", "south", manifest("", ""), "pool north does not admit namespace south"},
	} {
		_, err := f.DroverIn(within(t, 30*time.Second), tc.manifest, "-n", tc.namespace, "apply", "-f", "-")
		if exitCode(err) != 9 || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got code %d, %v; want 9 and %q", tc.name, exitCode(err), err, tc.want)
		}
	}

	f.droverIn(t, 0, manifest(own+"        ports: [{containerPort: 8088, hostPort: 8088}]\n", ownVolume), "-n", "north", "apply", "-f", "-")
	f.drover(t, 0, "-n", "north", "rollout", "status", "cam", "--timeout", "90s")
	if c := f.containers(t, "cam"); len(c) != 1 {
		t.Errorf("got %v, want the copy that the pool allows to run", c)
	}
	f.droverIn(t, 0, pool("{hostPorts: [8088]}"), "apply", "-f", "-")
	f.until(t, time.Minute, "the copy is gone with the pool's word", func() error {
		if c := f.containers(t, "cam"); len(c) > 0 {
			return fmt.Errorf("%v", c)
		}
		out := f.drover(t, 0, "-n", "north", "get", "workload", "cam", "-o", "json")
		var w api.Workload
		if err := json.Unmarshal([]byte(out), &w); err != nil {
			return err
		}
		if c := api.FindCondition(w.Status.Conditions, "Placed"); c == nil || !strings.Contains(c.Message, "pool north does not allow host path "+dir+"/1") {
			return fmt.Errorf("conditions %+v", w.Status.Conditions)
		}
		return nil
	})
}

func TestQuotaRefusesAWholeSetAndFreesAtOnce(t *testing.T) {
	f := shared
	f.droverIn(t, 0, "apiVersion: v1\nkind: Namespace\nmetadata: {name: counted}\n---\napiVersion: fleet.drover.dev/v1\nkind: ResourceQuota\n"+
		"metadata: {name: small, namespace: counted}\nspec: {hard: {configmaps: 2}}\n", "apply", "-f", "-")
	defer f.drover(t, 0, "delete", "namespace", "counted")
	set := func(n int) string {
		text := ""
		for i := range n {
			text += fmt.Sprintf("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: m%d, namespace: counted}\ndata: {k: v}\n", i)
		}
		return text
	}
	const words = "exceeded quota: small, requested: configmaps=3, used: configmaps=0, limited: configmaps=2"
	if _, err := f.DroverIn(within(t, 30*time.Second), set(3), "apply", "-f", "-"); exitCode(err) != 9 || !strings.Contains(err.Error(), words) {
		t.Errorf("got code %d, %v; want 9 and %q", exitCode(err), err, words)
	}
	f.drover(t, 1, "-n", "counted", "get", "configmap", "m0")
	f.droverIn(t, 0, set(2), "apply", "-f", "-")
	f.drover(t, 0, "-n", "counted", "delete", "configmap", "m0")
	f.droverIn(t, 0, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other, namespace: counted}\n", "apply", "-f", "-")
	if out := f.drover(t, 0, "-n", "counted", "get", "resourcequota", "small"); !strings.Contains(out, "configmaps 2/2") {
		t.Errorf("got %s, want configmaps 2/2", out)
	}
}
