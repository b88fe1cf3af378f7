package enroll

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/wire"
)

// memory is Records without a hub.
type memory struct {
	mu sync.Mutex
	m  map[string][]byte
}

func (r *memory) Read(_ context.Context, key string) ([]byte, bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v, ok := r.m[key]
	return v, ok, nil
}

func (r *memory) Create(_ context.Context, records map[string][]byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for k := range records {
		if _, ok := r.m[k]; ok {
			return fault.AlreadyExists.Errorf("%s", k)
		}
	}
	for k, v := range records {
		r.m[k] = v
	}
	return nil
}

func (r *memory) Put(_ context.Context, key string, value []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.m[key] = value
	return nil
}

// plainSealer marks what it sealed, and with which context.
type plainSealer struct{}

func (plainSealer) Seal(plain []byte, context string) ([]byte, error) {
	return append([]byte("sealed:"+context+":"), plain...), nil
}

func (plainSealer) Open(sealed []byte, context string) ([]byte, error) {
	plain, ok := strings.CutPrefix(string(sealed), "sealed:"+context+":")
	if !ok {
		return nil, fmt.Errorf("not sealed for %s", context)
	}
	return []byte(plain), nil
}

func authorityAt(t *testing.T, now time.Time) *Authority {
	t.Helper()
	a, err := Open(t.Context(), Options{Records: &memory{m: map[string][]byte{}}, Sealer: plainSealer{}, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func requestOf(t *testing.T, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{Organization: []string{wire.OrgAdmins}, CommonName: "root"}}, key)
	if err != nil {
		t.Fatal(err)
	}
	return csr
}

func newKey(t *testing.T, c elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(c, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestOfMembersThatMakeTheCAAtOnceOneWinsAndAllHaveIt(t *testing.T) {
	r := &memory{m: map[string][]byte{}}
	all := make([]*Authority, 8)
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() {
			a, err := Open(t.Context(), Options{Records: r, Sealer: plainSealer{}})
			if err != nil {
				t.Error(err)
				return
			}
			all[i] = a
		})
	}
	wg.Wait()
	for _, a := range all {
		if a == nil || a.ClusterID() != all[0].ClusterID() || !slices.Equal(a.CA(), all[0].CA()) || !a.key.Equal(all[0].key) {
			t.Fatalf("authority %v differs from %v", a, all[0])
		}
	}
}

func TestNoCAIsMadeByAClockBeforeTheBuild(t *testing.T) {
	_, err := Open(t.Context(), Options{Records: &memory{m: map[string][]byte{}}, Sealer: plainSealer{},
		Now: func() time.Time { return time.Unix(0, 0) }, Built: time.Unix(1e9, 0)})
	if err == nil || !strings.Contains(err.Error(), "set the clock") {
		t.Errorf("error %v; want one that says to set the clock", err)
	}
}

func TestARequestGivesItsKeyAndNothingElse(t *testing.T) {
	a := authorityAt(t, time.Now())
	cert, err := a.SignDevice(requestOf(t, newKey(t, elliptic.P256())), "pi-07")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(cert.Subject.Organization, []string{wire.OrgDevices}) || cert.Subject.CommonName != "pi-07" {
		t.Errorf("subject %v; the request asked for %s, want %s", cert.Subject, wire.OrgAdmins, wire.OrgDevices)
	}
	if cert.IsCA || slices.Contains(cert.ExtKeyUsage, x509.ExtKeyUsageServerAuth) {
		t.Errorf("CA %v, usage %v; want a client's certificate", cert.IsCA, cert.ExtKeyUsage)
	}
}

func TestARequestThatDoesNotProveAP256KeyIsRefused(t *testing.T) {
	good := requestOf(t, newKey(t, elliptic.P256()))
	forged := slices.Clone(good)
	forged[len(forged)-1] ^= 1
	for name, csr := range map[string][]byte{"not a request": []byte("x"), "another curve": requestOf(t, newKey(t, elliptic.P384())), "a signature that does not hold": forged} {
		if _, err := CheckRequest(csr); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v, want Invalid", name, err)
		}
	}
}

func TestCertificatesBeginADayAgoAndNeverOutliveTheCA(t *testing.T) {
	now := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	a := authorityAt(t, now)
	sign := func(at time.Time) (*x509.Certificate, error) {
		a.now = func() time.Time { return at }
		return a.SignDevice(requestOf(t, newKey(t, elliptic.P256())), "d")
	}
	later := now.Add(30 * 24 * time.Hour)
	c, err := sign(later)
	if err != nil {
		t.Fatal(err)
	}
	if !c.NotBefore.Equal(later.Add(-24*time.Hour)) || !c.NotAfter.Equal(later.Add(365*24*time.Hour)) {
		t.Errorf("valid from %v to %v", c.NotBefore, c.NotAfter)
	}
	if c, err = sign(a.cert.NotAfter.Add(-time.Hour)); err != nil || !c.NotAfter.Equal(a.cert.NotAfter) {
		t.Errorf("at the end of the CA: %v, until %v; want %v", err, c.NotAfter, a.cert.NotAfter)
	}
	if _, err = sign(now.Add(-100 * 24 * time.Hour)); err == nil || !strings.Contains(err.Error(), "set the clock") {
		t.Errorf("by a clock before the cluster was made: %v; want a refusal", err)
	}
}

func TestSealingKeysDoNotPrint(t *testing.T) {
	r := JoinReply{SealingKey: Key("canary")}
	for _, f := range []string{"%v", "%+v", "%s", "%x", "%q"} {
		if got := fmt.Sprintf(f, r.SealingKey); strings.Contains(got, "canary") || strings.Contains(got, "63616e617279") {
			t.Errorf("%s prints %s", f, got)
		}
	}
	if got := fmt.Sprintf("%+v", r); strings.Contains(got, "canary") {
		t.Errorf("the reply prints %s", got)
	}
}
