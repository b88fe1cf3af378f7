package remote

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
)

// identity is a self-signed certificate for loopback, good for both ends.
func identity(t *testing.T) (certPEM, keyPEM []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
}

// members is a hub of fake members behind one certificate.
type members struct {
	t         *testing.T
	cert, key []byte
	urls      []string
}

func newMembers(t *testing.T) *members {
	m := &members{t: t}
	m.cert, m.key = identity(t)
	return m
}

func (m *members) add(h http.HandlerFunc) *httptest.Server {
	m.t.Helper()
	pair, err := tls.X509KeyPair(m.cert, m.key)
	if err != nil {
		m.t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(h)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	m.t.Cleanup(s.Close)
	m.urls = append(m.urls, s.URL)
	return s
}

// addDead adds a member that refuses connections.
func (m *members) addDead() { m.urls = append(m.urls, "https://127.0.0.1:1") }

func (m *members) client(o Options) *Client {
	m.t.Helper()
	c, err := New(&Kubeconfig{Servers: m.urls, CA: m.cert, Credentials: Credentials{Cert: m.cert, Key: m.key}}, o)
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(c.Close)
	return c
}

func answer(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v)
}

func configMap(name string) *api.ConfigMap {
	return &api.ConfigMap{TypeMeta: api.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, Metadata: api.ObjectMeta{Name: name, Namespace: "default"}}
}

func refOfMap(name string) api.Ref {
	return api.Ref{Kind: api.KindConfigMap, Namespace: "default", Name: name}
}

// TestCallGoesToTheNextMemberAndStaysThere: a dead member costs one attempt, not one for each call.
func TestCallGoesToTheNextMemberAndStaysThere(t *testing.T) {
	m := newMembers(t)
	var mu sync.Mutex
	asked := map[string]int{}
	count := func(name string, code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			mu.Lock()
			asked[name]++
			mu.Unlock()
			if code != 200 {
				answer(w, code, fault.StatusOf(fault.NoQuorum("starting")))
				return
			}
			answer(w, 200, configMap("a"))
		}
	}
	m.addDead()
	m.add(count("starting", 503))
	m.add(count("good", 200))
	c := m.client(Options{})
	for range 3 {
		obj, err := c.Get(t.Context(), refOfMap("a"), client.GetOptions{})
		if err != nil || obj.Meta().Name != "a" {
			t.Fatalf("got %v, %v", obj, err)
		}
	}
	if asked["starting"] != 1 || asked["good"] != 3 {
		t.Errorf("asked: got %v, want the starting one once and the good one three times", asked)
	}
}

// TestWriteIsSentAgainUnderItsID: a member dies with the request in hand; the next gets the same id.
func TestWriteIsSentAgainUnderItsID(t *testing.T) {
	m := newMembers(t)
	var mu sync.Mutex
	var ids []string
	note := func(r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		ids = append(ids, r.Header.Get(HeaderRequestID))
	}
	m.add(func(w http.ResponseWriter, r *http.Request) {
		note(r)
		panic(http.ErrAbortHandler)
	})
	m.add(func(w http.ResponseWriter, r *http.Request) {
		note(r)
		answer(w, 201, configMap("a"))
	})
	c := m.client(Options{})
	for range 2 {
		if _, err := c.Create(t.Context(), configMap("a"), client.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if len(ids) != 3 || ids[0] == "" || ids[0] != ids[1] || ids[2] == ids[1] {
		t.Errorf("ids: got %q, want the first write's twice and another for the second", ids)
	}
}

func TestRefusalIsFinalAndKeepsItsClass(t *testing.T) {
	m := newMembers(t)
	refused := fault.InvalidObject("ConfigMap", "a", []fault.Cause{{Field: "data", Message: "too odd"}})
	m.add(func(w http.ResponseWriter, _ *http.Request) { answer(w, 422, fault.StatusOf(refused)) })
	m.add(func(http.ResponseWriter, *http.Request) { t.Error("the second member was asked") })
	_, err := m.client(Options{}).Create(t.Context(), configMap("a"), client.WriteOptions{})
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "data: too odd") {
		t.Errorf("got %v, want Invalid with the field", err)
	}
}

func TestNoMemberAnsweringIsUnreachableAndNamesEach(t *testing.T) {
	m := newMembers(t)
	m.addDead()
	m.urls = append(m.urls, "https://127.0.0.1:2")
	_, err := m.client(Options{Patience: 100 * time.Millisecond}).Get(t.Context(), refOfMap("a"), client.GetOptions{})
	if fault.ExitCode(err) != fault.ExitNoHub || !strings.Contains(err.Error(), "127.0.0.1:1") || !strings.Contains(err.Error(), "127.0.0.1:2") {
		t.Errorf("got %v with exit code %d, want %d and both members", err, fault.ExitCode(err), fault.ExitNoHub)
	}
}

func TestServerOfAnotherHubIsNotTrusted(t *testing.T) {
	m, other := newMembers(t), newMembers(t)
	other.add(func(http.ResponseWriter, *http.Request) { t.Error("a request reached the other hub") })
	m.urls = other.urls
	start := time.Now()
	_, err := m.client(Options{Patience: time.Hour}).Get(t.Context(), refOfMap("a"), client.GetOptions{})
	if time.Since(start) > time.Minute {
		t.Errorf("a stranger was asked again for %s", time.Since(start))
	}
	if !fault.Is(err, fault.Unreachable) || !strings.Contains(err.Error(), "not a member of this hub") {
		t.Errorf("got %v, want Unreachable, not a member", err)
	}
}

// TestADeviceWithoutALinkIsAnsweredAtOnce: asking again would only make the operator wait.
func TestADeviceWithoutALinkIsAnsweredAtOnce(t *testing.T) {
	m := newMembers(t)
	asked := 0
	m.add(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		answer(w, 503, fault.StatusOf(fault.Unavailable.Errorf("device pi-1 has no link")))
	})
	_, err := m.client(Options{Patience: time.Hour}).Logs(t.Context(), "default", "hello.pi-1", LogOptions{})
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "pi-1 has no link") || asked != 1 {
		t.Errorf("got %v after %d requests, want Unavailable after 1", err, asked)
	}
}

func TestHungMemberCostsItsAttemptOnly(t *testing.T) {
	m := newMembers(t)
	release := make(chan struct{})
	defer close(release)
	m.add(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	m.add(func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, configMap("a")) })
	if _, err := m.client(Options{Attempt: 100 * time.Millisecond}).Get(t.Context(), refOfMap("a"), client.GetOptions{}); err != nil {
		t.Errorf("got %v, want the second member's answer", err)
	}
}

func TestEndedContextEndsTheCall(t *testing.T) {
	m := newMembers(t)
	m.addDead()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	start := time.Now()
	_, err := m.client(Options{Patience: time.Minute}).Get(ctx, refOfMap("a"), client.GetOptions{})
	if err == nil || time.Since(start) > 10*time.Second {
		t.Errorf("got %v after %s, want an error at once", err, time.Since(start))
	}
}

func TestWarningsReachTheCaller(t *testing.T) {
	m := newMembers(t)
	m.add(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Add("Warning", `299 - "say \"no\" to \\ that"`)
		w.Header().Add("Warning", "garbage")
		answer(w, 201, configMap("a"))
	})
	var got []string
	if _, err := m.client(Options{Warn: func(s string) { got = append(got, s) }}).Create(t.Context(), configMap("a"), client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0] != `say "no" to \ that` {
		t.Errorf("got %q", got)
	}
}

// TestWatchEndsAsTheStreamDoes: what each end of a stream means to the caller.
func TestWatchEndsAsTheStreamDoes(t *testing.T) {
	for _, tt := range []struct {
		name, stream string
		want         fault.Class
	}{
		{"clean end", `{"type":"ADDED","object":{"metadata":{"name":"a"}}}` + "\n", fault.Unavailable},
		{"cut in the middle", `{"type":"ADDED","object":{"metadata":{"name":"a"}}}` + "\n" + `{"type":"MOD`, fault.Unavailable},
		{"expired", `{"type":"ADDED","object":{"metadata":{"name":"a"}}}` + "\n" + `{"type":"ERROR","object":{"kind":"Status","status":"Failure","reason":"Expired","code":410}}` + "\n", fault.Expired},
		{"unknown event", `{"type":"ADDED","object":{"metadata":{"name":"a"}}}` + "\n" + `{"type":"NEWS","object":{}}` + "\n", fault.Internal},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newMembers(t)
			m.add(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, tt.stream) })
			w, err := m.client(Options{}).Watch(t.Context(), api.KindConfigMap, client.WatchOptions{ResourceVersion: "5"})
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			e, err := w.Next(t.Context())
			if err != nil || e.Type != client.Added || e.Object.Meta().Name != "a" {
				t.Fatalf("first: got %+v, %v; want a added", e, err)
			}
			for range 2 { // the watcher stays dead
				if _, err := w.Next(t.Context()); !fault.Is(err, tt.want) {
					t.Errorf("end: got %v, want class %s", err, tt.want)
				}
			}
		})
	}
}

func TestClosedWatchLeavesNothingRunning(t *testing.T) {
	m := newMembers(t)
	s := m.add(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	before := goleak.IgnoreCurrent()
	c := m.client(Options{})
	w, err := c.Watch(t.Context(), api.KindConfigMap, client.WatchOptions{ResourceVersion: "5"})
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	w.Close()
	if _, err := w.Next(t.Context()); err == nil {
		t.Error("an event after Close")
	}
	c.Close()
	s.CloseClientConnections()
	goleak.VerifyNone(t, before)
}

func TestNamesCannotReachOtherPaths(t *testing.T) {
	m := newMembers(t)
	m.add(func(w http.ResponseWriter, r *http.Request) {
		if want := "/api/v1/namespaces/default/configmaps/a%2F..%2Fb%3Fx"; r.URL.EscapedPath() != want {
			t.Errorf("path: got %s, want %s", r.URL.EscapedPath(), want)
		}
		answer(w, 404, fault.StatusOf(fault.NotFound.Errorf("none")))
	})
	c := m.client(Options{})
	if _, err := c.Get(t.Context(), refOfMap("a/../b?x"), client.GetOptions{}); !fault.Is(err, fault.NotFound) {
		t.Errorf("got %v, want NotFound", err)
	}
	for _, bad := range []api.Ref{refOfMap(""), refOfMap(".."), {Kind: api.KindConfigMap, Name: "a"}, {Kind: api.KindDevice, Namespace: "x", Name: "a"}} {
		if _, err := c.Get(t.Context(), bad, client.GetOptions{}); !fault.Is(err, fault.BadRequest) {
			t.Errorf("%v: got %v, want BadRequest", bad, err)
		}
	}
}
