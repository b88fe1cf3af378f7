package apiserver_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/wire"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/client/remote"
	"github.com/drover-fleet/drover/hub/access"
	"github.com/drover-fleet/drover/hub/admission"
	"github.com/drover-fleet/drover/hub/apiserver"
	"github.com/drover-fleet/drover/hub/registry"
	"github.com/drover-fleet/drover/store/mvcc"
)

// authority signs the certificates of one test.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	next int64
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, next: 1}
	a.key = a.newKey()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.next), Subject: pkix.Name{CommonName: "test CA"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.cert = a.sign(template, template, &a.key.PublicKey)
	return a
}

func (a *authority) newKey() *ecdsa.PrivateKey {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	return key
}

func (a *authority) sign(template, parent *x509.Certificate, pub *ecdsa.PublicKey) *x509.Certificate {
	a.t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, pub, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert
}

// issue makes a certificate and key of a subject, as PEM.
func (a *authority) issue(name string, orgs ...string) (certPEM, keyPEM []byte) {
	a.t.Helper()
	a.next++
	key := a.newKey()
	cert := a.sign(&x509.Certificate{
		SerialNumber: big.NewInt(a.next), Subject: pkix.Name{CommonName: name, Organization: orgs},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		DNSNames: []string{"localhost"}, IPAddresses: loopback(),
	}, a.cert, &key.PublicKey)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

func (a *authority) rootPEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// clientTLS is the configuration of a client with a certificate of the subject; no orgs: without a certificate.
func (a *authority) clientTLS(name string, orgs ...string) *tls.Config {
	a.t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	cfg := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}
	if len(orgs) > 0 {
		pair, err := tls.X509KeyPair(a.issue(name, orgs...))
		if err != nil {
			a.t.Fatal(err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg
}

// hub is one member's API server over a real registry.
type hub struct {
	t       *testing.T
	ca      *authority
	backend *registry.LocalBackend
	reg     *registry.Registry
	sealer  *registry.Sealer
	access  *access.Policy
	images  *fakeImages
	logs    *syncBuffer
	server  *httptest.Server
}

// fakeImages knows digests by name; a name that it does not know is unreachable.
type fakeImages struct {
	mu    sync.Mutex
	known map[string]error
}

func (f *fakeImages) Resolve(_ context.Context, image string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	ref, err := admission.ParseReference(image)
	if err != nil {
		return "", fault.Invalid.Wrap(err)
	}
	if err := f.known[image]; err != nil {
		return "", err
	}
	if ref.Digest != "" {
		return ref.String(), nil
	}
	return ref.At("sha256:" + strings.Repeat("a", 64)), nil
}

// syncBuffer is a log that a test can read while it is written.
type syncBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// startHub serves a fresh hub; change may alter the configuration first.
func startHub(t *testing.T, change func(*apiserver.Config)) *hub {
	t.Helper()
	h := &hub{t: t, ca: newAuthority(t), access: access.NewPolicy(), images: &fakeImages{known: map[string]error{}}, logs: new(syncBuffer)}
	h.openRegistry()
	cfg := apiserver.Config{Clients: h.reg, Why: h.reg, Access: h.access, Version: "0.1.0", Member: "h1", Logger: slog.New(slog.NewTextHandler(h.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	if change != nil {
		change(&cfg)
	}
	h.server = h.serve(cfg)
	return h
}

func (h *hub) openRegistry() {
	t := h.t
	t.Helper()
	s, err := mvcc.Open(filepath.Join(t.TempDir(), "state"), mvcc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	h.backend = registry.Local(s)
	key := sha256.Sum256([]byte(t.Name()))
	sealer, err := registry.NewSealer(key[:])
	if err != nil {
		t.Fatal(err)
	}
	h.sealer = sealer
	admit, err := admission.New(admission.Config{Images: h.images, Access: h.access, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if h.reg, err = registry.New(h.backend, registry.Options{Sealer: sealer, Admit: admit}); err != nil {
		t.Fatal(err)
	}
	if err := registry.EnsureNamespace(t.Context(), h.own(), api.DefaultNS); err != nil {
		t.Fatal(err)
	}
}

// serve starts a listener as the hub's assembly does: TLS 1.3, client certificates verified where they are given.
func (h *hub) serve(cfg apiserver.Config) *httptest.Server {
	h.t.Helper()
	handler, err := apiserver.New(cfg)
	if err != nil {
		h.t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(handler)
	pair, err := tls.X509KeyPair(h.ca.issue("h1", wire.OrgHubs))
	if err != nil {
		h.t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(h.ca.cert)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: roots, ClientAuth: tls.VerifyClientCertIfGiven, MinVersion: tls.VersionTLS13}
	server.EnableHTTP2 = true
	server.StartTLS()
	h.t.Cleanup(server.Close)
	return server
}

// own is a client in the name of a part of the hub.
func (h *hub) own() client.Client { return h.reg.As(registry.Actor{Name: "controller:test"}) }

func (h *hub) kubeconfig(user string) *remote.Kubeconfig {
	h.t.Helper()
	cert, key := h.ca.issue(user, wire.OrgAdmins)
	return &remote.Kubeconfig{Servers: []string{h.server.URL}, CA: h.ca.rootPEM(), Credentials: remote.Credentials{Cert: cert, Key: key}}
}

func (h *hub) remote(user string) *remote.Client {
	h.t.Helper()
	c, err := remote.New(h.kubeconfig(user), remote.Options{})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(c.Close)
	return c
}

// browser is a plain HTTP client of a subject.
type browser struct {
	t    *testing.T
	base string
	http *http.Client
}

func (h *hub) as(name string, orgs ...string) *browser {
	h.t.Helper()
	tr := &http.Transport{TLSClientConfig: h.ca.clientTLS(name, orgs...), ForceAttemptHTTP2: true, DisableCompression: true}
	h.t.Cleanup(tr.CloseIdleConnections)
	return &browser{t: h.t, base: h.server.URL, http: &http.Client{Transport: tr}}
}

func (h *hub) admin() *browser { return h.as("alice", wire.OrgAdmins) }

// reply is an answer, read whole.
type reply struct {
	code   int
	header http.Header
	body   string
}

// send makes a request; headers are given as pairs.
func (b *browser) send(method, path, body string, headers ...string) reply {
	b.t.Helper()
	rq, err := http.NewRequestWithContext(b.t.Context(), method, b.base+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		rq.Header.Set(headers[i], headers[i+1])
	}
	resp, err := b.http.Do(rq)
	if err != nil {
		b.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatalf("%s %s: %v", method, path, err)
	}
	return reply{resp.StatusCode, resp.Header, string(got)}
}

func (b *browser) get(path string, headers ...string) reply {
	b.t.Helper()
	return b.send(http.MethodGet, path, "", headers...)
}

// want fails unless the answer has the code, and returns it.
func (b *browser) want(code int, r reply) reply {
	b.t.Helper()
	if r.code != code {
		b.t.Fatalf("code: got %d, want %d; body %s", r.code, code, r.body)
	}
	return r
}
