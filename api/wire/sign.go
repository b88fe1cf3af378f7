package wire

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"slices"
	"time"

	"github.com/drover-fleet/drover/api/fault"
)

// Contexts of signatures: a signature for one is worth nothing in the other.
const (
	ContextDesired = "drover/desired/1"
	ContextCommand = "drover/command/1"
)

// Sign signs payload in a context with a hub member's P-256 key; certDER is that member's certificate.
func Sign(key crypto.Signer, certDER []byte, context string, payload []byte) (Signed, error) {
	if _, ok := key.Public().(*ecdsa.PublicKey); !ok {
		return Signed{}, fault.Internal.Errorf("sign: key is %T, want ECDSA", key.Public())
	}
	sig, err := key.Sign(rand.Reader, signedDigest(context, payload), crypto.SHA256)
	if err != nil {
		return Signed{}, fault.Internal.Errorf("sign: %w", err)
	}
	return Signed{Payload: payload, Certificate: certDER, Signature: sig}, nil
}

// Verify returns the payload when a hub member signed it in this context: the certificate chains to a root, is valid at now and
// names O=drover:hubs, and the signature holds. A device gives a now that is never before its time floor (see [NotBefore]).
// Every refusal is Forbidden.
func Verify(s Signed, roots *x509.CertPool, context string, now time.Time) ([]byte, error) {
	if roots == nil {
		return nil, fault.Forbidden.Errorf("signature: no roots to trust")
	}
	cert, err := x509.ParseCertificate(s.Certificate)
	if err != nil {
		return nil, fault.Forbidden.Errorf("signer's certificate: %w", err)
	}
	o := x509.VerifyOptions{Roots: roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}
	if _, err := cert.Verify(o); err != nil {
		return nil, fault.Forbidden.Errorf("signer's certificate: %w", err)
	}
	if !slices.Equal(cert.Subject.Organization, []string{OrgHubs}) {
		return nil, fault.Forbidden.Errorf("signer %q is of %q, want %s", cert.Subject.CommonName, cert.Subject.Organization, OrgHubs)
	}
	pub, ok := cert.PublicKey.(*ecdsa.PublicKey)
	if !ok || !ecdsa.VerifyASN1(pub, signedDigest(context, s.Payload), s.Signature) {
		return nil, fault.Forbidden.Errorf("signature of %q does not hold", cert.Subject.CommonName)
	}
	return s.Payload, nil
}

// NotBefore is the later of the clock and the time floor.
func NotBefore(clock, floor time.Time) time.Time {
	if clock.Before(floor) {
		return floor
	}
	return clock
}

func signedDigest(context string, payload []byte) []byte {
	h := sha256.New()
	h.Write([]byte(context))
	h.Write([]byte{0})
	h.Write(payload)
	return h.Sum(nil)
}
