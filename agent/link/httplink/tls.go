package httplink

import (
	"crypto/tls"
	"crypto/x509"
	"slices"
	"time"

	"github.com/drover-fleet/drover/agent/link"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/wire"
)

// Identity is what a handshake needs, asked anew each time.
type Identity struct {
	// Certificate is the device's; nil connects without one (enrollment, and renewal after the end of the certificate).
	Certificate func() (*tls.Certificate, error)
	// Roots finds the CA to trust, given the certificates that the member shows. An error refuses the member.
	Roots func(shown []*x509.Certificate) (*x509.CertPool, error)
	// Now is the wall clock, never before the time floor; nil = time.Now.
	Now func() time.Time
}

// Pinned trusts one pool.
func Pinned(roots func() *x509.CertPool) func([]*x509.Certificate) (*x509.CertPool, error) {
	return func([]*x509.Certificate) (*x509.CertPool, error) { return roots(), nil }
}

// config makes the TLS side of a connection. The standard verification is replaced, not left out: it would fail on a board whose
// clock is behind, and it would tie members to their addresses.
func (i Identity) config() *tls.Config {
	now := i.Now
	if now == nil {
		now = time.Now
	}
	c := &tls.Config{
		MinVersion: tls.VersionTLS13, ServerName: wire.HubServerName, NextProtos: []string{"http/1.1"},
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection below does it
		VerifyConnection:   func(cs tls.ConnectionState) error { return i.verify(cs.PeerCertificates, now()) },
	}
	if i.Certificate != nil {
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return i.Certificate() }
	}
	return c
}

func (i Identity) verify(shown []*x509.Certificate, now time.Time) error {
	if len(shown) == 0 {
		return fault.Forbidden.Errorf("the hub shows no certificate")
	}
	roots, err := i.Roots(shown)
	if err != nil {
		return err
	}
	if roots == nil {
		return fault.Forbidden.Errorf("no CA is trusted")
	}
	leaf, between := shown[0], x509.NewCertPool()
	for _, c := range shown[1:] {
		between.AddCert(c)
	}
	_, err = leaf.Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: between, CurrentTime: link.CertificateTime(now, leaf),
		DNSName: wire.HubServerName, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return fault.Forbidden.Errorf("the hub's certificate: %w", err)
	}
	if !slices.Equal(leaf.Subject.Organization, []string{wire.OrgHubs}) {
		return fault.Forbidden.Errorf("%q is no hub member: it is of %q", leaf.Subject.CommonName, leaf.Subject.Organization)
	}
	return nil
}
