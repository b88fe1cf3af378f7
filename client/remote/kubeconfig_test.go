package remote

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// kubeconfig is a file with the given cluster and user lines.
func kubeconfig(cluster, user string) string {
	return "apiVersion: v1\nkind: Config\ncurrent-context: main\npreferences: {}\nclusters:\n- name: hub\n  cluster:\n" + cluster +
		"users:\n- name: admin\n  user:\n" + user +
		"contexts:\n- name: main\n  context: {cluster: hub, user: admin, namespace: prod}\n- name: broken\n  context: {cluster: hub, user: nobody}\n"
}

const (
	goodCluster = "    server: https://10.0.0.1:6443/\n    certificate-authority-data: Y2E=\n    tls-server-name: hub.drover.internal\n" +
		"    extensions:\n    - name: fleet.drover.dev/servers\n      extension:\n        servers: [\"https://10.0.0.1:6443\", \"https://10.0.0.2:6443\"]\n    - name: other\n      extension: {x: y}\n"
	goodUser = "    client-certificate-data: Y2VydA==\n    client-key-data: a2V5\n"
)

func TestKubeconfigListsEveryMemberOnce(t *testing.T) {
	got, err := ParseKubeconfig([]byte(kubeconfig(goodCluster, goodUser)), "", "")
	if err != nil {
		t.Fatal(err)
	}
	want := &Kubeconfig{
		Servers: []string{"https://10.0.0.1:6443", "https://10.0.0.2:6443"}, ServerName: "hub.drover.internal", Namespace: "prod",
		CA: []byte("ca"), Cert: []byte("cert"), Key: []byte("key"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestKubeconfigFilesAreRelativeToItsFolder(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"ca.crt": "ca", "u.crt": "cert", "u.key": "key",
		"config": kubeconfig("    server: https://h:1\n    certificate-authority: ca.crt\n", "    client-certificate: "+filepath.Join(dir, "u.crt")+"\n    client-key: u.key\n"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := LoadKubeconfig(filepath.Join(dir, "config"), "")
	if err != nil || string(got.CA) != "ca" || string(got.Cert) != "cert" || string(got.Key) != "key" {
		t.Errorf("got %+v, %v; want what the files hold", got, err)
	}
}

func TestKubeconfigRefusesWhatItWouldHaveToIgnore(t *testing.T) {
	const server = "    server: https://h:1\n    certificate-authority-data: Y2E=\n"
	tests := []struct{ name, file, context, want string }{
		{"no YAML", "\t{", "", "not valid YAML"},
		{"no context", "apiVersion: v1\n", "", "current-context"},
		{"unknown context", kubeconfig(goodCluster, goodUser), "other", `context "other"`},
		{"unknown user", kubeconfig(goodCluster, goodUser), "broken", `user "nobody"`},
		{"plain HTTP", kubeconfig("    server: http://h:1\n    certificate-authority-data: Y2E=\n", goodUser), "", "want https://HOST:PORT"},
		{"a path", kubeconfig("    server: https://h:1/k8s\n    certificate-authority-data: Y2E=\n", goodUser), "", "want https://HOST:PORT"},
		{"no CA", kubeconfig("    server: https://h:1\n", goodUser), "", "neither certificate-authority-data"},
		{"no verification", kubeconfig(server+"    insecure-skip-tls-verify: true\n", goodUser), "", "insecure-skip-tls-verify is not supported"},
		{"proxy", kubeconfig(server+"    proxy-url: http://p:1\n", goodUser), "", "proxy-url is not supported"},
		{"token", kubeconfig(server, "    token: s3cret\n"), "", "token is not supported"},
		{"exec", kubeconfig(server, "    exec: {command: x}\n"), "", "exec is not supported"},
		{"no base64", kubeconfig(server, "    client-certificate-data: Y2VydA==\n    client-key-data: s3cret!\n"), "", "client-key-data is not base64"},
		{"missing file", kubeconfig("    server: https://h:1\n    certificate-authority: none.crt\n", goodUser), "", "none.crt"},
		{"too large", strings.Repeat("#", maxKubeconfig+1), "", "the limit is 1048576 bytes"},
	}
	for _, tt := range tests {
		_, err := ParseKubeconfig([]byte(tt.file), t.TempDir(), tt.context)
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: got %v, want an error with %q and no secret", tt.name, err, tt.want)
		}
	}
}

func FuzzParseKubeconfig(f *testing.F) {
	f.Add([]byte(kubeconfig(goodCluster, goodUser)))
	f.Add([]byte("current-context: a\ncontexts: [{name: a, context: {cluster: b}}]\nclusters: [{name: b, cluster: {server: 'https://[::1'}}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if k, err := ParseKubeconfig(data, "", ""); err == nil && len(k.Servers) == 0 {
			t.Error("accepted without a server")
		}
	})
}
