package sim

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"math/big"
	"sync"
	"time"

	"github.com/drover-fleet/drover/api/wire"
)

// signer is the cluster's CA and the key with which all members sign.
type signer struct {
	key   *ecdsa.PrivateKey
	cert  []byte
	roots *x509.CertPool
}

// theSigner is made once a process, before anything is seeded: no run depends on its key.
var theSigner = sync.OnceValues(newSigner)

func newSigner() (*signer, error) {
	ca, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the CA: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a hub's key: %w", err)
	}
	const century = 100 * 365 * 24 * time.Hour
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: began().Add(-24 * time.Hour), NotAfter: began().Add(century), KeyUsage: x509.KeyUsageCertSign,
	}
	hub := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "hub", Organization: []string{wire.OrgHubs}},
		NotBefore: root.NotBefore, NotAfter: root.NotAfter, KeyUsage: x509.KeyUsageDigitalSignature,
	}
	rootDER, err := x509.CreateCertificate(rand.Reader, root, root, ca.Public(), ca)
	if err != nil {
		return nil, fmt.Errorf("sign the CA: %w", err)
	}
	parsed, err := x509.ParseCertificate(rootDER)
	if err != nil {
		return nil, fmt.Errorf("read the CA: %w", err)
	}
	s := &signer{key: key, roots: x509.NewCertPool()}
	s.roots.AddCert(parsed)
	if s.cert, err = x509.CreateCertificate(rand.Reader, hub, parsed, key.Public(), ca); err != nil {
		return nil, fmt.Errorf("sign a hub's key: %w", err)
	}
	return s, nil
}

// Sign is gateway.Options.Sign.
func (s *signer) Sign(context string, payload []byte) (wire.Signed, error) {
	return wire.Sign(unseeded{s.key}, s.cert, context, payload)
}

// unseeded takes no random numbers: how many a signature takes differs from one time to the next.
type unseeded struct{ key *ecdsa.PrivateKey }

// Public implements crypto.Signer.
func (u unseeded) Public() crypto.PublicKey { return u.key.Public() }

// Sign implements crypto.Signer.
func (u unseeded) Sign(_ io.Reader, digest []byte, o crypto.SignerOpts) ([]byte, error) {
	return u.key.Sign(nil, digest, o)
}
