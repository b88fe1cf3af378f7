package remote

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-fleet/drover/api/fault"
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
		CA: []byte("ca"), Context: "main", Credentials: Credentials{Cert: []byte("cert"), Key: []byte("key")},
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
		{"exec", kubeconfig(server, "    exec: {command: s3cret}\n"), "", "exec is not supported: no program is run"},
		{"a password", kubeconfig(server, "    password: s3cret\n"), "", "password is not supported"},
		{"what is unknown", kubeconfig(server, "    tokens: s3cret\n"), "", "tokens: is not supported"},
		{"a token of two words", kubeconfig(server, "    token: s3cret s3cret\n"), "", "holds blanks"},
		{"a token that is no text", kubeconfig(server, "    token: [s3cret]\n"), "", "token: want a string"},
		{"groups without a user", kubeconfig(server, "    token: abc\n    as-groups: [g]\n"), "", "as-groups is given without as"},
		{"no credentials", kubeconfig(server, "    as: bob\n"), "", "neither a client certificate nor a token"},
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

func TestCredentialsDoNotPrint(t *testing.T) {
	k := &Kubeconfig{Context: "a", Servers: []string{"https://h:1"}, Credentials: Credentials{Key: []byte("s3cret"), Token: "s3cret"}}
	f, err := parseConfigFile([]byte("users: [{name: a, user: {token: s3cret}}]"))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []any{k, *k, k.Credentials, &k.Credentials, k.Token, f, IssuedToken{Token: k.Token}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
			if got := fmt.Sprintf(verb, v); strings.Contains(got, "s3cret") || strings.Contains(got, "733363726574") {
				t.Errorf("%T by %s: got %s, want no secret", v, verb, got)
			}
		}
	}
}

// TestATokenFileIsReadAgain: whoever renews the token writes the file; a refusal has it read at once.
func TestATokenFileIsReadAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	now := time.Unix(0, 0)
	b := &bearer{file: file, now: func() time.Time { return now }}
	write := func(s string) {
		if err := os.WriteFile(file, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := func(token string) {
		t.Helper()
		if got, err := b.token(); err != nil || string(got) != token {
			t.Errorf("got %q, %v; want %q", string(got), err, token)
		}
	}
	if _, err := b.token(); !fault.Is(err, fault.Unauthorized) {
		t.Errorf("no file: got %v, want Unauthorized", err)
	}
	write("one\n")
	want("one")
	write("two\n")
	want("one")
	now = now.Add(tokenAge)
	want("two")
	write("three")
	b.forget()
	want("three")
	write("not one token")
	now = now.Add(tokenAge)
	want("three") // half written: what was read a moment ago goes on
	now = now.Add(7 * tokenAge)
	if _, err := b.token(); !fault.Is(err, fault.Unauthorized) {
		t.Errorf("a file that stays wrong: got %v, want Unauthorized", err)
	}
}
