package conventions

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/wire"
	"github.com/drover-fleet/drover/hub/apiserver"
	"github.com/drover-fleet/drover/hub/registry"
	"github.com/drover-fleet/drover/store"
	"github.com/drover-fleet/drover/store/mvcc"
)

// house is one member's API over its own store.
type house struct {
	backend *registry.LocalBackend
	base    string
	http    *http.Client
}

func startHouse(t *testing.T) *house {
	t.Helper()
	s, err := mvcc.Open(filepath.Join(t.TempDir(), "state"), mvcc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	h := &house{backend: registry.Local(s)}
	sealer, err := registry.NewSealer(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	reg, err := registry.New(h.backend, registry.Options{Sealer: sealer})
	if err != nil {
		t.Fatal(err)
	}
	if err := registry.EnsureNamespace(t.Context(), reg.As(registry.Actor{Name: "controller:test"}), api.DefaultNS); err != nil {
		t.Fatal(err)
	}
	handler, err := apiserver.New(apiserver.Config{Clients: reg, Version: "0.0.0", Member: "h1", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(handler)
	pair, roots := admin(t)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: roots, ClientAuth: tls.VerifyClientCertIfGiven, MinVersion: tls.VersionTLS13}
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	tr := &http.Transport{TLSClientConfig: &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots, MinVersion: tls.VersionTLS13}, ForceAttemptHTTP2: true}
	t.Cleanup(tr.CloseIdleConnections)
	h.base, h.http = server.URL, &http.Client{Transport: tr}
	return h
}

// admin is a certificate, signed by itself, of a server on loopback and of an administrator.
func admin(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "alice", Organization: []string{wire.OrgAdmins}}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: cert}, roots
}

// compact drops every version superseded before now.
func (h *house) compact(ctx context.Context) error {
	_, err := h.backend.Propose(ctx, &store.Command{Actor: "hub:test", RequestID: "compaction-of-the-test", Compact: h.backend.Revision()})
	return err
}

type doc map[string]any

// reply is an answer, read whole.
type reply struct {
	code   int
	header http.Header
	raw    string
	body   doc // nil where it is no JSON object
}

func (h *house) request(ctx context.Context, method, path string, body any, headers ...string) (*http.Response, error) {
	var in io.Reader = http.NoBody
	switch b := body.(type) {
	case nil:
	case string:
		in = strings.NewReader(b)
	default:
		raw, err := json.Marshal(b)
		if err != nil {
			return nil, err
		}
		in = strings.NewReader(string(raw))
	}
	rq, err := http.NewRequestWithContext(ctx, method, h.base+path, in)
	if err != nil {
		return nil, err
	}
	for i := 0; i < len(headers); i += 2 {
		rq.Header.Set(headers[i], headers[i+1])
	}
	return h.http.Do(rq)
}

func (h *house) do(ctx context.Context, method, path string, body any, headers ...string) (reply, error) {
	resp, err := h.request(ctx, method, path, body, headers...)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return reply{}, err
	}
	r := reply{code: resp.StatusCode, header: resp.Header, raw: string(raw)}
	if json.Unmarshal(raw, &r.body) != nil {
		r.body = nil
	}
	return r, nil
}

// event is one line of a watch.
type event struct {
	Type   string
	Object doc
}

// watch reads events until one is the last.
func (h *house) watch(ctx context.Context, path string, last func(event) bool) ([]event, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	resp, err := h.request(ctx, http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		raw, _ := io.ReadAll(resp.Body)
		return nil, fmt.Errorf("watch answered %d: %s", resp.StatusCode, raw)
	}
	var out []event
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return out, err
		}
		if out = append(out, e); last(e) {
			return out, nil
		}
	}
	return out, fmt.Errorf("the watch ended after %d events: %w", len(out), lines.Err())
}

// at follows a path of map keys; "" where there is nothing, numbers as they print.
func (d doc) at(path string) string {
	var v any = map[string]any(d)
	for part := range strings.SplitSeq(path, ".") {
		m, ok := v.(map[string]any)
		if !ok {
			return ""
		}
		v = m[part]
	}
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}
