package link

import (
	"crypto/x509"
	"time"

	"github.com/drover-fleet/drover/api/wire"
)

// CertificateTime is the moment at which to verify a certificate of the pinned CA: now, or the certificate's own beginning where the
// clock is behind it. The CA's signature shows that the beginning has passed (it is backdated by a day), so a board without a
// clock is never told "not yet valid". The end still counts.
func CertificateTime(now time.Time, cert *x509.Certificate) time.Time {
	if now.Before(cert.NotBefore) {
		return cert.NotBefore
	}
	return now
}

// SignatureTime is CertificateTime of the signer; now when the certificate cannot be read, which Verify then says.
func SignatureTime(now time.Time, m wire.Signed) time.Time {
	cert, err := x509.ParseCertificate(m.Certificate)
	if err != nil {
		return now
	}
	return CertificateTime(now, cert)
}
