package hub

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/client/remote"
)

// TestAColleagueMayWhatTheReadyMadeRoleGives goes from the founding of a hub to a request in the name of a colleague, whose key the hub never sees.
func TestAColleagueMayWhatTheReadyMadeRoleGives(t *testing.T) {
	h, admin := found(t, Config{})
	await(t, "the ready-made roles are there", func() bool {
		_, err := admin.Get(t.Context(), api.Ref{Kind: api.KindClusterRole, Name: "viewer"}, client.GetOptions{})
		return err == nil
	})
	_, err := admin.Create(t.Context(), &api.ClusterRoleBinding{
		TypeMeta: api.TypeMeta{APIVersion: api.RBACV1, Kind: "ClusterRoleBinding"}, Metadata: api.ObjectMeta{Name: "readers"},
		RoleRef: api.RoleRef{Kind: "ClusterRole", Name: "viewer"}, Subjects: []api.Subject{{Kind: "Group", Name: "readers"}},
	}, client.WriteOptions{})
	check(t, err)
	bob := h.colleague(admin, "bob", "readers")
	await(t, "the binding counts", func() bool {
		_, err := bob.List(t.Context(), api.KindWorkload, client.ListOptions{})
		return err == nil
	})
	if _, err := bob.List(t.Context(), api.KindSecret, client.ListOptions{}); !fault.Is(err, fault.Forbidden) {
		t.Errorf("a viewer lists secrets: got %v, want Forbidden", err)
	}
	if _, err := bob.Create(t.Context(), configMap("c"), client.WriteOptions{}); !fault.Is(err, fault.Forbidden) {
		t.Errorf("a viewer writes: got %v, want Forbidden", err)
	}
	if _, err := bob.AddUser(t.Context(), request(t, "eve", "drover:admins")); !fault.Is(err, fault.Forbidden) {
		t.Errorf("a viewer makes an admin: got %v, want Forbidden", err)
	}
	if r, err := bob.CanI(t.Context(), remote.Access{Verb: "list", Group: api.Group, Resource: "workloads"}); err != nil || !r.Allowed {
		t.Errorf("may a viewer list workloads: got %+v, %v", r, err)
	}
}

func request(t *testing.T, name string, groups ...string) remote.UserRequest {
	t.Helper()
	q, _ := requestWithKey(t, name, groups...)
	return q
}

func requestWithKey(t *testing.T, name string, groups ...string) (remote.UserRequest, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	check(t, err)
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	check(t, err)
	return remote.UserRequest{User: name, Groups: groups, Request: csr, ExpirationSeconds: 3600}, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// colleague is a client in the name of somebody new.
func (h *running) colleague(maker *remote.Client, name string, groups ...string) *remote.Client {
	h.t.Helper()
	q, key := requestWithKey(h.t, name, groups...)
	made, err := maker.AddUser(h.t.Context(), q)
	check(h.t, err)
	block, _ := pem.Decode(made.Certificate)
	cert, err := x509.ParseCertificate(block.Bytes)
	check(h.t, err)
	if life := time.Until(cert.NotAfter); cert.Subject.CommonName != name || life > time.Hour || life < 50*time.Minute {
		h.t.Errorf("certificate: got %v for %v, want %s for an hour", cert.Subject, life, name)
	}
	c, err := remote.New(&remote.Kubeconfig{Servers: made.Servers, CA: made.CA, Credentials: remote.Credentials{Cert: made.Certificate, Key: key}}, remote.Options{})
	check(h.t, err)
	h.t.Cleanup(c.Close)
	return c
}

// TestTheCertificateOfAMemberThatWasReplacedIsWorthless: h2 loses its directory and comes back under its name with a new key. Who finds the
// old directory has a certificate that the CA has signed, of a name that is a member's.
func TestTheCertificateOfAMemberThatWasReplacedIsWorthless(t *testing.T) {
	h1, admin := found(t, Config{})
	id, path := identity(t, "h2"), t.TempDir()
	check(t, Join(t.Context(), path, id, h1.joining(h1.token(admin, "once"))))
	run(t, Config{Dir: path})
	await(t, "h2 has a vote", func() bool { m := h1.node.Members(); return len(m) == 2 && !m[1].Learner })
	old := memberClient(t, path)
	if code := ask(t, old, "https://"+h1.id.API+"/metrics"); code != http.StatusOK && code != http.StatusServiceUnavailable {
		t.Fatalf("h2 before it is replaced: got %d, want an answer", code)
	}
	records := h1.memberKeys()
	leaf := old.TLSClientConfig.Certificates[0].Leaf
	if !records.Holds(leaf) || records.Superseded(leaf) {
		t.Fatal("h2's key is not the one on record before it is replaced")
	}
	check(t, h1.records().Put(within(t, 5*time.Second), "~member/h2", []byte("sha256:"+strings.Repeat("0", 64))))
	if code := ask(t, old, "https://"+h1.id.API+"/metrics"); code != http.StatusForbidden {
		t.Errorf("h2's old certificate once another key has its place: got %d, want %d", code, http.StatusForbidden)
	}
	if !records.Superseded(leaf) {
		t.Error("h2's old key may still speak for it among members")
	}
}

func memberClient(t *testing.T, dir string) *http.Transport {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, fileCert), filepath.Join(dir, fileKey))
	check(t, err)
	ca, err := os.ReadFile(filepath.Join(dir, fileCA))
	check(t, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	tr := &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots, Certificates: []tls.Certificate{pair}}}
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

func ask(t *testing.T, tr *http.Transport, url string) int {
	t.Helper()
	rq, err := http.NewRequestWithContext(within(t, 10*time.Second), http.MethodGet, url, nil)
	check(t, err)
	rs, err := tr.RoundTrip(rq)
	check(t, err)
	check(t, rs.Body.Close())
	return rs.StatusCode
}
