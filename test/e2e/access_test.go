package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const bindings = `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: e2e-viewer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: viewer}
subjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: vera}, {kind: ServiceAccount, namespace: default, name: e2e-ci}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: e2e-installer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: installer}
subjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: ines}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: e2e-operator}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: operator}
subjects: [{kind: Group, apiGroup: rbac.authorization.k8s.io, name: night-shift}]
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: e2e-ci}
`

// people gives the fleet colleagues with the ready-made roles, and returns each one's config and what takes the roles away again. A
// binding counts on every member a moment after it was written.
func (f *fleet) people(t *testing.T) (map[string]string, func()) {
	t.Helper()
	f.droverIn(t, 0, bindings, "apply", "-f", "-")
	leave := func() { f.drover(t, 0, "delete", "clusterrolebindings", "e2e-viewer", "e2e-installer", "e2e-operator") }
	configs := map[string]string{}
	for name, groups := range map[string][]string{"vera": nil, "ines": nil, "otto": {"--group", "night-shift"}} {
		configs[name] = filepath.Join(t.TempDir(), name)
		f.drover(t, 0, append([]string{"auth", "add-user", name, "--for", "1h", "--out", configs[name]}, groups...)...)
	}
	for _, m := range f.Members {
		f.until(t, 20*time.Second, "the bindings count on "+m.Name, func() error {
			for name, config := range configs {
				if out, err := f.Drover(within(t, time.Minute), "--config", config, "--server", "https://"+m.API, "auth", "can-i", "list", "devices"); err != nil {
					return fmt.Errorf("%s: %w: %s", name, err, out)
				}
			}
			return nil
		})
	}
	return configs, leave
}

func TestPeopleMayWhatTheirRoleSays(t *testing.T) {
	f := shared
	configs, leave := f.people(t)
	defer leave()
	const denied = 9
	manifest := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(manifest, []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: e2e-shift}\ndata: {k: v}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		who  string
		want int
		args string
	}{
		{"vera", 0, "get devices"},
		{"vera", 0, "get workloads -A"},
		{"vera", denied, "get secrets"},
		{"vera", denied, "apply -f " + manifest},
		{"vera", denied, "label device pi-01 seen=yes"},
		{"vera", denied, "token create"},
		{"vera", denied, "auth can-i create workloads"},
		{"vera", 0, "auth can-i --list"},
		{"vera", denied, "--as otto auth whoami"},
		{"vera", denied, "auth add-user mallory --group drover:admins"},
		{"ines", 0, "token create --uses 2"},
		{"ines", 0, "get devices"},
		{"ines", denied, "get workloads"},
		{"ines", denied, "apply -f " + manifest},
		{"ines", denied, "delete device pi-01"},
		{"ines", denied, "auth token e2e-ci"},
		{"otto", 0, "apply -f " + manifest},
		{"otto", 0, "delete configmap e2e-shift"},
		{"otto", denied, "delete clusterrolebinding e2e-viewer"},
		{"otto", denied, "hub compact"},
		{"otto", denied, "auth add-user mallory"},
	} {
		out, err := f.Drover(within(t, time.Minute), append([]string{"--config", configs[tt.who]}, strings.Fields(tt.args)...)...)
		if got := exitCode(err); got != tt.want {
			t.Errorf("%s: drover %s: got exit code %d, want %d: %v\n%s", tt.who, tt.args, got, tt.want, err, out)
		}
	}
}

// TestServiceAccountLogsInByATokenUntilItIsDeleted: by the fingerprint of the CA, as a machine does that holds nothing else.
func TestServiceAccountLogsInByATokenUntilItIsDeleted(t *testing.T) {
	f := shared
	_, leave := f.people(t)
	defer leave()
	config := filepath.Join(t.TempDir(), "ci")
	server := "https://" + f.Members[0].API
	token := f.drover(t, 0, "auth", "token", "e2e-ci", "--for", "10m")
	if _, err := f.DroverIn(within(t, time.Minute), token, "--config", config, "login", server, "--token-file", "-"); err == nil || !strings.Contains(err.Error(), "--ca-fingerprint") {
		t.Fatalf("login without a CA: got %v, want to be told of --ca-fingerprint", err)
	}
	out := f.droverIn(t, 0, token, "--config", config, "login", server, "--token-file", "-", "--ca", f.Path("hub", f.Members[0].Name, "ca.crt"))
	if !strings.Contains(out, "system:serviceaccount:default:e2e-ci") {
		t.Errorf("login says %q, want the account's name", out)
	}
	f.drover(t, 0, "--config", config, "get", "devices")
	f.drover(t, 9, "--config", config, "get", "secrets")
	other := f.drover(t, 0, "auth", "token", "e2e-ci", "--audience", "registry")
	f.droverIn(t, 9, other, "--config", config, "login", server, "--token-file", "-", "--name", "other", "--ca", f.Path("hub", f.Members[0].Name, "ca.crt"))
	f.drover(t, 0, "delete", "serviceaccount", "e2e-ci")
	f.until(t, 20*time.Second, "the token of a deleted account is refused", func() error {
		if _, err := f.Drover(within(t, time.Minute), "--config", config, "get", "devices"); exitCode(err) != 9 {
			return fmt.Errorf("exit code %d, want 9: %w", exitCode(err), err)
		}
		return nil
	})
	f.drover(t, 0, "--config", config, "logout")
	f.drover(t, 9, "--config", config, "get", "devices")
}
