package attack

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/wire"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/client/auditlog"
	"github.com/drover-fleet/drover/client/remote"
	"github.com/drover-fleet/drover/hub"
	"github.com/drover-fleet/drover/hub/apiserver"
	"github.com/drover-fleet/drover/hub/enroll"
	"github.com/drover-fleet/drover/hub/fair"
	"github.com/drover-fleet/drover/hub/kv"
	"github.com/drover-fleet/drover/hub/registry"
	"github.com/drover-fleet/drover/hub/tokens"
	"github.com/drover-fleet/drover/store"
)

// Times after which slow clients are cut off here; a member of a fleet is more patient.
const (
	headerTime = 3 * time.Second
	bodyGrace  = time.Second
	strangers  = 64 // connections without a certificate, of one address
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// target is a member under attack, and the keys to it.
type target struct {
	t      *testing.T
	dir    string
	addr   string
	ca     *x509.CertPool
	admin  *remote.Client
	web    *http.Client // an admin's
	store  *kv.Client
	sealer *registry.Sealer

	operator *tls.Certificate // of who goes on working
}

func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	check(t, err)
	check(t, l.Close())
	return l.Addr().String()
}

// start founds and runs a member.
func start(t *testing.T) *target {
	t.Helper()
	g := &target{t: t, dir: t.TempDir(), addr: freeAddr(t)}
	check(t, hub.Init(g.dir, hub.Identity{Name: "h1", API: g.addr, Peer: freeAddr(t)}))
	h, err := hub.Open(hub.Config{
		Dir: g.dir, HeaderTime: headerTime, Limits: apiserver.Limits{BodyGrace: bodyGrace}, Conns: fair.ConnLimits{OfSource: strangers, FromSource: strangers},
	})
	check(t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the member: %v", err)
		}
	})
	var config *remote.Kubeconfig
	await(t, "an admin's kubeconfig", func() bool {
		config, err = remote.LoadKubeconfig(filepath.Join(g.dir, "admin.kubeconfig"), "")
		return err == nil
	})
	g.ca = x509.NewCertPool()
	g.ca.AppendCertsFromPEM(config.CA)
	pair, err := tls.X509KeyPair(config.Cert, config.Key)
	check(t, err)
	g.web = g.client(&pair)
	g.admin, err = remote.New(config, remote.Options{Patience: 30 * time.Second})
	check(t, err)
	t.Cleanup(g.admin.Close)
	await(t, "a member that is ready", func() bool { return g.get(g.web, "/readyz") == http.StatusOK })
	g.store, err = hub.DialStore(t.Context(), g.dir, "")
	check(t, err)
	t.Cleanup(func() { _ = g.store.Close() })
	g.sealer, err = registry.OpenSealer(filepath.Join(g.dir, "sealing.key"))
	check(t, err)
	return g
}

// await asks again until it is so. The time is for a machine with much else to do.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(60 * time.Second)
	for !is() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("no %s after 60 s", what)
		}
	}
}

func (g *target) tls(pair *tls.Certificate) *tls.Config {
	c := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: g.ca, ServerName: wire.HubServerName}
	if pair != nil {
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return pair, nil }
	}
	return c
}

func (g *target) client(pair *tls.Certificate) *http.Client {
	tr := &http.Transport{TLSClientConfig: g.tls(pair), ForceAttemptHTTP2: true, DisableCompression: true}
	g.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func (g *target) get(web *http.Client, path string) int {
	rq, err := http.NewRequestWithContext(g.t.Context(), http.MethodGet, "https://"+g.addr+path, nil)
	check(g.t, err)
	resp, err := web.Do(rq)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// counters are what the member has counted, by metric and label value.
func (g *target) counters(metric, label string) map[string]float64 {
	g.t.Helper()
	out := map[string]float64{}
	for _, m := range g.scrape()[metric].GetMetric() {
		for _, l := range m.GetLabel() {
			if l.GetName() == label {
				out[l.GetValue()] += m.GetCounter().GetValue()
			}
		}
	}
	return out
}

// gauges are what stands now, by class.
func (g *target) gauges(metric string) map[string]float64 {
	g.t.Helper()
	out := map[string]float64{}
	for _, m := range g.scrape()[metric].GetMetric() {
		for _, l := range m.GetLabel() {
			out[l.GetValue()] = m.GetGauge().GetValue()
		}
	}
	return out
}

func (g *target) scrape() map[string]*dto.MetricFamily {
	g.t.Helper()
	rq, err := http.NewRequestWithContext(g.t.Context(), http.MethodGet, "https://"+g.addr+"/metrics", nil)
	check(g.t, err)
	resp, err := g.web.Do(rq)
	check(g.t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	check(g.t, err)
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(body))
	check(g.t, err)
	return families
}

// recorded are the audit's records after a number.
func (g *target) recorded(after uint64) ([]auditlog.Record, uint64) {
	g.t.Helper()
	found, err := auditlog.Newest(g.t.Context(), filepath.Join(g.dir, "audit"), auditlog.Query{After: after}, 1<<20, 1<<30)
	check(g.t, err)
	var out []auditlog.Record
	for _, line := range found.Lines {
		r, err := auditlog.Decode(line)
		check(g.t, err)
		out = append(out, r)
	}
	return out, max(after, found.Last)
}

// Read, Create and Put are enroll's Records over the store's own service.
func (g *target) Read(ctx context.Context, key string) ([]byte, bool, error) {
	res, err := g.Range(ctx, store.RangeRequest{Start: key})
	if err != nil || len(res.KVs) == 0 {
		return nil, false, err
	}
	return res.KVs[0].Value, true, nil
}

func (g *target) Create(context.Context, map[string][]byte) error { return errReadOnly }
func (g *target) Put(context.Context, string, []byte) error       { return errReadOnly }

var errReadOnly = errors.New("the attacker's records are read only")

// Range, Barrier and Propose are tokens' Backend.
func (g *target) Range(ctx context.Context, r store.RangeRequest) (*store.RangeResult, error) {
	return g.store.Range(ctx, r, false)
}

func (g *target) Barrier(context.Context) error { return nil }

func (g *target) Propose(ctx context.Context, c *store.Command) (store.Result, error) {
	return g.store.Propose(ctx, c)
}

func (g *target) Revision() store.Revision  { return 0 }
func (g *target) Compacted() store.Revision { return 0 }

// authority is the hub's own CA.
func (g *target) authority() *enroll.Authority {
	g.t.Helper()
	a, err := enroll.Open(g.t.Context(), enroll.Options{Records: g, Sealer: g.sealer})
	check(g.t, err)
	return a
}

// pair makes a key and has a certificate signed for it.
func (g *target) pair(sign func(csr []byte) (*x509.Certificate, error)) *tls.Certificate {
	g.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(g.t, err)
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	check(g.t, err)
	cert, err := sign(csr)
	check(g.t, err)
	return &tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}
}

// expired is a certificate that the hub's CA signed and that is over since an hour. The hub itself signs none by a clock that is wrong, so
// the test signs with its key.
func (g *target) expired(name, org string) *tls.Certificate {
	g.t.Helper()
	var ca struct {
		Certificate []byte `cbor:"1,keyasint"`
		SealedKey   []byte `cbor:"2,keyasint"`
	}
	record, ok, err := g.Read(g.t.Context(), "~ca")
	if err != nil || !ok {
		g.t.Fatalf("the CA's record: %t, %v", ok, err)
	}
	check(g.t, wire.Decode(record, 64<<10, &ca))
	der, err := g.sealer.Open(ca.SealedKey, "~ca")
	check(g.t, err)
	key, err := x509.ParsePKCS8PrivateKey(der)
	check(g.t, err)
	parent, err := x509.ParseCertificate(ca.Certificate)
	check(g.t, err)
	return g.pair(func(csr []byte) (*x509.Certificate, error) {
		rq, err := x509.ParseCertificateRequest(csr)
		if err != nil {
			return nil, err
		}
		signed, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
			SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name, Organization: []string{org}},
			NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(-time.Hour),
			KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		}, parent, rq.PublicKey, key)
		if err != nil {
			return nil, err
		}
		return x509.ParseCertificate(signed)
	})
}

func (g *target) person(name string, groups ...string) *tls.Certificate {
	g.t.Helper()
	return g.pair(func(csr []byte) (*x509.Certificate, error) {
		return g.authority().SignPerson(csr, name, groups, time.Hour)
	})
}

// enroll makes a device, as a board does.
func (g *target) enroll(name string) *tls.Certificate {
	g.t.Helper()
	a := g.authority()
	token, err := wire.NewToken(rand.Reader, a.CA(), name)
	check(g.t, err)
	g.create(&api.JoinToken{
		TypeMeta: api.TypeMeta{APIVersion: api.FleetV1, Kind: "JoinToken"}, Metadata: api.ObjectMeta{Name: name},
		Spec: api.JoinTokenSpec{For: api.TokenForDevice, Uses: 1, Expires: api.TimeOf(time.Now().Add(time.Hour)), SecretHash: token.SecretHash()},
	})
	return g.pair(func(csr []byte) (*x509.Certificate, error) {
		body, err := wire.Encode(wire.EnrollRequest{Token: token.Reveal(), Name: name, CSR: csr, Facts: wire.Facts{Platform: "linux/arm64/v8"}})
		check(g.t, err)
		resp, err := g.client(nil).Post("https://"+g.addr+wire.PathEnroll, "application/cbor", bytes.NewReader(body)) //nolint:noctx // of a helper that ends with its test
		check(g.t, err)
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		check(g.t, err)
		var reply wire.EnrollReply
		check(g.t, wire.Decode(answer, wire.MaxEnroll, &reply))
		if reply.State != wire.EnrollApproved {
			g.t.Fatalf("device %s: got %s %s, want it approved", name, reply.State, reply.Message)
		}
		return x509.ParseCertificate(reply.Certificate)
	})
}

func (g *target) create(o api.Object) api.Object {
	g.t.Helper()
	made, err := g.admin.Create(g.t.Context(), o, client.WriteOptions{})
	check(g.t, err)
	return made
}

// apply makes objects of manifests.
func (g *target) apply(manifests string) {
	g.t.Helper()
	items, err := api.DecodeManifests("set.yaml", []byte(manifests))
	check(g.t, err)
	var tx client.Transaction
	for _, item := range items {
		tx.Items = append(tx.Items, client.TxItem{Verb: client.TxApply, Object: item.Object})
	}
	tx.FieldManager = "attack"
	_, err = g.admin.Transact(g.t.Context(), tx)
	check(g.t, err)
}

// token makes a token of account default/ci as the hub would have made it at another time.
func (g *target) token(now time.Time, audiences ...string) string {
	g.t.Helper()
	id := g.authority().ClusterID()
	a, err := tokens.New(tokens.Config{
		Member: "h1", Backend: g, Sealer: g.sealer, Client: g.admin, Cluster: func() (string, bool) { return id, true }, Now: func() time.Time { return now },
	})
	check(g.t, err)
	t, err := a.Issue(g.t.Context(), tokens.Request{Namespace: "default", Account: "ci", Audiences: audiences})
	check(g.t, err)
	return string(t.Text)
}

func unsigned(token string) string {
	parts := strings.Split(token, ".")
	return "eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0." + parts[1] + "." // {"alg":"none","typ":"JWT"}
}
