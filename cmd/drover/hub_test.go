package main

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
	"fmt"
	"io"
	"log"
	"log/slog"
	"math/big"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/wire"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/client/remote"
	"github.com/drover-fleet/drover/hub/admission"
	"github.com/drover-fleet/drover/hub/apiserver"
	"github.com/drover-fleet/drover/hub/audit"
	"github.com/drover-fleet/drover/hub/registry"
	"github.com/drover-fleet/drover/store/mvcc"
)

// authority signs the certificates of one hub.
type authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	next int64
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{t: t}
	a.key = a.newKey()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA"}, NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.cert = template
	a.cert = a.sign(template, &a.key.PublicKey)
	return a
}

func (a *authority) newKey() *ecdsa.PrivateKey {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(a.t, err)
	return key
}

func (a *authority) sign(template *x509.Certificate, pub *ecdsa.PublicKey) *x509.Certificate {
	a.t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, pub, a.key)
	must(a.t, err)
	cert, err := x509.ParseCertificate(der)
	must(a.t, err)
	return cert
}

// issue makes a certificate and key, as PEM, that end after a while.
func (a *authority) issue(name, org string, life time.Duration) (certPEM, keyPEM []byte) {
	a.t.Helper()
	a.next++
	key := a.newKey()
	cert := a.sign(&x509.Certificate{
		SerialNumber: big.NewInt(a.next + 1), Subject: pkix.Name{CommonName: name, Organization: []string{org}},
		NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(life),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}, &key.PublicKey)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	must(a.t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

func (a *authority) rootPEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// hub is one member: a real registry over a real store behind the real API server, on loopback. What devices and controllers would
// write, tests write in their name.
type hub struct {
	t      testing.TB
	ca     *authority
	reg    *registry.Registry
	audit  *audit.Log
	server *httptest.Server
	config string // path of an administrator's kubeconfig
	cause  string // revision that the last write with a cause gave
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func startHub(t testing.TB) *hub {
	t.Helper()
	dir := t.TempDir()
	s, err := mvcc.Open(filepath.Join(dir, "state"), mvcc.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	key := sha256.Sum256([]byte("test"))
	sealer, err := registry.NewSealer(key[:])
	must(t, err)
	admit, err := admission.New(admission.Config{Images: images{}, Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	h := &hub{t: t, ca: newAuthority(t), config: filepath.Join(dir, "admin.kubeconfig")}
	h.reg, err = registry.New(registry.Local(s), registry.Options{Sealer: sealer, Admit: admit})
	must(t, err)
	must(t, registry.EnsureNamespace(t.Context(), h.as("hub:h1"), api.DefaultNS))
	h.audit, err = audit.Open(audit.Config{Dir: t.TempDir(), Member: "h1"})
	must(t, err)
	t.Cleanup(func() { must(t, h.audit.Close()) })
	handler, err := apiserver.New(apiserver.Config{
		Audit: h.audit, AuditFiles: h.audit,
		Clients: h.reg, Why: h.reg, Logs: deviceLogs{}, Contacts: contacts{}, Members: apiserver.MembersFunc(h.members), Operations: h.operations(),
		Member: "h1", Version: "0.1.0", Logger: slog.New(slog.DiscardHandler),
	})
	must(t, err)
	h.server = httptest.NewUnstartedServer(h.withReviews(handler))
	certPEM, keyPEM := h.ca.issue("h1", wire.OrgHubs, time.Hour)
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	must(t, err)
	pair.Certificate = append(pair.Certificate, h.ca.cert.Raw) // as a hub member shows it
	roots := x509.NewCertPool()
	roots.AddCert(h.ca.cert)
	h.server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: roots, ClientAuth: tls.VerifyClientCertIfGiven, MinVersion: tls.VersionTLS13}
	h.server.EnableHTTP2 = true
	h.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	h.server.StartTLS()
	t.Cleanup(h.server.Close)
	h.writeConfig(h.config, h.ca.rootPEM(), "admin", wire.OrgAdmins, time.Hour, h.server.URL)
	return h
}

// writeConfig writes the kubeconfig of somebody.
func (h *hub) writeConfig(path string, ca []byte, name, org string, life time.Duration, servers ...string) {
	h.t.Helper()
	k := remote.Kubeconfig{Servers: servers, CA: ca}
	k.Cert, k.Key = h.ca.issue(name, org, life)
	b, err := renderKubeconfig(&k, nil)
	must(h.t, err)
	must(h.t, os.WriteFile(path, b, 0o600))
}

func (h *hub) as(actor string) client.Client { return h.reg.As(registry.Actor{Name: actor}) }

func (h *hub) members(context.Context) ([]remote.Member, error) {
	return []remote.Member{
		{Name: "h1", URL: h.server.URL, Leader: true, Healthy: true},
		{Name: "h2", URL: "https://127.0.0.1:1", Message: "not heard of for 5m"},
	}, nil
}

// images has every image but the tag "missing", and no registry answers for names of "away".
type images struct{}

func (images) Resolve(_ context.Context, image string) (string, error) {
	ref, err := admission.ParseReference(image)
	switch {
	case err != nil:
		return "", fault.Invalid.Wrap(err)
	case strings.HasSuffix(image, ":missing"):
		return "", fault.Invalid.Errorf("image %s does not exist", image)
	case strings.HasPrefix(image, "away"):
		return "", fault.Unavailable.Errorf("the registry does not answer")
	case ref.Digest != "":
		return ref.String(), nil
	}
	return ref.At(fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(image)))), nil
}

// deviceLogs answers for every device but pi-3, whose link is just gone.
type deviceLogs struct{}

func (deviceLogs) Logs(_ context.Context, device string, q wire.Logs) (io.ReadCloser, error) {
	if device == "pi-3" {
		return nil, fault.Unavailable.Errorf("the link is not here")
	}
	text := fmt.Sprintf("one from %s\ntwo from %s", device, device)
	if q.TailLines == 1 {
		text = "two from " + device
	}
	return io.NopCloser(strings.NewReader(text)), nil
}

// contacts heard of every device three hours ago.
type contacts struct{}

func (contacts) Last(string) (time.Duration, bool) { return 3 * time.Hour, true }
