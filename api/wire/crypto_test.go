package wire

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/drover-fleet/drover/api/fault"
)

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// authority is a CA of tests, valid from 2026 to 2028.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pool *x509.CertPool
}

func year(y int) time.Time { return time.Date(y, 1, 1, 0, 0, 0, 0, time.UTC) }

func newAuthority(t *testing.T) authority {
	t.Helper()
	key := newKey(t)
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotBefore: year(2026), NotAfter: year(2028),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	a := authority{key: key, cert: cert, pool: x509.NewCertPool()}
	a.pool.AddCert(cert)
	return a
}

// member makes a key and certificate of an organization.
func (a authority) member(t *testing.T, orgs ...string) (*ecdsa.PrivateKey, []byte) {
	t.Helper()
	key := newKey(t)
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "h1", Organization: orgs}, NotBefore: year(2026), NotAfter: year(2027),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return key, der
}

func TestOnlyAHubMemberOfTheClusterCanSign(t *testing.T) {
	ca, now, payload := newAuthority(t), year(2026).AddDate(0, 6, 0), []byte("payload")
	key, cert := ca.member(t, OrgHubs)
	good, err := Sign(key, cert, ContextDesired, payload)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Verify(good, ca.pool, ContextDesired, now); err != nil || !bytes.Equal(got, payload) {
		t.Fatalf("a good signature: %q, %v", got, err)
	}
	deviceKey, deviceCert := ca.member(t, OrgDevices)
	byDevice, _ := Sign(deviceKey, deviceCert, ContextDesired, payload)
	mixedKey, mixedCert := ca.member(t, OrgHubs, OrgDevices)
	byMixed, _ := Sign(mixedKey, mixedCert, ContextDesired, payload)
	strange := newAuthority(t)
	strangeKey, strangeCert := strange.member(t, OrgHubs)
	byStranger, _ := Sign(strangeKey, strangeCert, ContextDesired, payload)
	otherKey, _ := ca.member(t, OrgHubs)
	byOtherKey, _ := Sign(otherKey, cert, ContextDesired, payload)
	altered := good
	altered.Payload = []byte("Payload")
	shifted := Signed{Payload: append([]byte("1"), payload...), Certificate: cert, Signature: good.Signature}
	for name, c := range map[string]struct {
		s       Signed
		roots   *x509.CertPool
		context string
		now     time.Time
	}{
		"a device's certificate":        {byDevice, ca.pool, ContextDesired, now},
		"two organizations":             {byMixed, ca.pool, ContextDesired, now},
		"another cluster's hub":         {byStranger, ca.pool, ContextDesired, now},
		"another key":                   {byOtherKey, ca.pool, ContextDesired, now},
		"another context":               {good, ca.pool, ContextCommand, now},
		"context and payload shifted":   {shifted, ca.pool, strings.TrimSuffix(ContextDesired, "1"), now},
		"a changed payload":             {altered, ca.pool, ContextDesired, now},
		"no signature":                  {Signed{Payload: payload, Certificate: cert}, ca.pool, ContextDesired, now},
		"no certificate":                {Signed{Payload: payload, Signature: good.Signature}, ca.pool, ContextDesired, now},
		"before the certificate's time": {good, ca.pool, ContextDesired, year(2025)},
		"after the certificate's time":  {good, ca.pool, ContextDesired, year(2027).Add(time.Second)},
		"no roots":                      {good, nil, ContextDesired, now},
		"empty roots":                   {good, x509.NewCertPool(), ContextDesired, now},
	} {
		if got, err := Verify(c.s, c.roots, c.context, c.now); !errors.Is(err, fault.Forbidden) || got != nil {
			t.Errorf("%s: got %q, %v; want Forbidden", name, got, err)
		}
	}
	if got := NotBefore(year(1970), year(2026)); !got.Equal(year(2026)) {
		t.Errorf("a clock before the floor gives %v, want the floor", got)
	}
	if got := NotBefore(year(2027), year(2026)); !got.Equal(year(2027)) {
		t.Errorf("a clock after the floor gives %v, want the clock", got)
	}
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Sign(ed, cert, ContextDesired, payload); err == nil {
		t.Error("a key that is not ECDSA signs")
	}
}

func TestOnlyTheDeviceOpensWhatIsSealedToIt(t *testing.T) {
	device, other := newKey(t), newKey(t)
	ref, plain := SecretRef{Name: "default/s/k", ID: hash(1)}, []byte("canary value")
	s, err := Seal(&device.PublicKey, ref, plain)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(); err != nil {
		t.Errorf("what Seal makes is not valid: %v", err)
	}
	if got, err := Unseal(device, s); err != nil || !bytes.Equal(got, plain) {
		t.Errorf("got %q, %v; want the value", got, err)
	}
	if bytes.Contains(s.Ciphertext, plain[:6]) {
		t.Error("the value is in the sealed form")
	}
	twin, err := Seal(&device.PublicKey, ref, plain)
	if err != nil || bytes.Equal(twin.Ciphertext, s.Ciphertext) {
		t.Errorf("sealing twice gives the same bytes (%v)", err)
	}
	if _, err := Unseal(other, s); !errors.Is(err, fault.Forbidden) {
		t.Errorf("with another key: %v, want Forbidden", err)
	}
	for name, change := range map[string]func(*Sealed){
		"another name":   func(s *Sealed) { s.Ref.Name = "default/s/other" },
		"another id":     func(s *Sealed) { s.Ref.ID = hash(2) },
		"a changed byte": func(s *Sealed) { s.Ciphertext = append([]byte{s.Ciphertext[0] ^ 1}, s.Ciphertext[1:]...) },
		"cut":            func(s *Sealed) { s.Ciphertext = s.Ciphertext[:3] },
		"another point":  func(s *Sealed) { s.Ephemeral = twin.Ephemeral },
		"not a point":    func(s *Sealed) { s.Ephemeral = make([]byte, 65) },
	} {
		bad := s
		change(&bad)
		if got, err := Unseal(device, bad); !errors.Is(err, fault.Forbidden) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: got %q, %v; want Forbidden", name, got, err)
		}
	}
	if s, err := Seal(&device.PublicKey, ref, nil); err != nil {
		t.Errorf("an empty value: %v", err)
	} else if got, err := Unseal(device, s); err != nil || len(got) != 0 {
		t.Errorf("an empty value comes back as %q, %v", got, err)
	}
}

func TestTokensSurviveTheirTextAndDoNotPrintTheirSecret(t *testing.T) {
	ca := []byte("the CA's certificate")
	tok, err := NewToken(rand.Reader, ca, "site.north")
	if err != nil {
		t.Fatal(err)
	}
	text := string(tok.Reveal())
	got, err := ParseToken(" " + text + "\n")
	if err != nil || got.Name != "site.north" || !got.TrustsCA(ca) || got.TrustsCA([]byte("x")) || !got.HasSecret(tok.SecretHash()) {
		t.Fatalf("%v reads as %v, %v", tok, got, err)
	}
	secret := text[strings.LastIndexByte(text, '.')+1:]
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "token", tok, "pointer", &tok, "revealed", tok.Reveal())
	out := log.String() + fmt.Sprintf("%v %+v %#v %s %x %v %v", tok, tok, tok, tok, tok, &tok, struct{ T Token }{tok})
	if strings.Contains(out, secret) || strings.Contains(out, fmt.Sprintf("%x", tok.secret[:8])) || !strings.Contains(out, "site.north") {
		t.Errorf("printed: %s", out)
	}
	other, err := NewToken(rand.Reader, ca, "site.north")
	if err != nil || tok.HasSecret(other.SecretHash()) || tok.HasSecret("") {
		t.Errorf("another token's secret fits (%v)", err)
	}
	parts := strings.Split(text, ".")
	for name, bad := range map[string]string{
		"nothing": "", "another version": strings.Replace(text, "drover1", "drover2", 1), "cut": text[:len(text)-4], "no name": parts[0] + "." + parts[1] + "." + secret,
		"name as a path": parts[0] + "." + parts[1] + ".a/b." + secret, "bad hash": parts[0] + ".xx.a." + secret, "long": strings.Repeat("a", 513),
		"padding": text + "=",
	} {
		_, err := ParseToken(bad)
		if !errors.Is(err, fault.BadRequest) && !errors.Is(err, fault.TooLarge) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: got %v, want BadRequest without the secret", name, err)
		}
	}
	if _, err := NewToken(strings.NewReader("short"), ca, "a"); err == nil {
		t.Error("too little randomness makes a token")
	}
	if _, err := NewToken(rand.Reader, ca, "a/b"); err == nil {
		t.Error("a token has a name that is none")
	}
}
