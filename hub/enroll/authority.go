package enroll

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"time"

	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/wire"
)

// Lives of certificates.
const (
	caLife   = 20 * 365 * 24 * time.Hour
	leafLife = 365 * 24 * time.Hour
	backdate = 24 * time.Hour
	// renewGrace is how long after the end of its certificate a known key may still renew.
	renewGrace = 365 * 24 * time.Hour
)

// Authority signs identities under the cluster's CA. It is immutable and safe for concurrent use.
type Authority struct {
	clusterID string
	cert      *x509.Certificate
	key       *ecdsa.PrivateKey
	now       func() time.Time
}

// newAuthority makes a CA with a cluster id of its own. notBefore is the time before which this build cannot run: a clock that is
// behind it is wrong, and nothing is issued by it.
func newAuthority(now func() time.Time, notBefore time.Time) (*Authority, error) {
	t := now()
	if t.Before(notBefore) {
		return nil, fault.Unavailable.Errorf("the clock says %s, which is before this program was built (%s): set the clock, then start again",
			t.UTC().Format(time.RFC3339), notBefore.UTC().Format(time.RFC3339))
	}
	id := rand.Text()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the CA's key: %w", err)
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, caTemplate(id, serial, t), caTemplate(id, serial, t), key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make the CA's certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("read back the CA's certificate: %w", err)
	}
	return &Authority{clusterID: id, cert: cert, key: key, now: now}, nil
}

func caTemplate(id string, serial *big.Int, t time.Time) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "Drover cluster " + id, SerialNumber: id},
		NotBefore: t.Add(-backdate), NotAfter: t.Add(caLife), IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
}

func newSerial() (*big.Int, error) {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("draw a serial number: %w", err)
	}
	return n.Add(n, big.NewInt(1)), nil
}

// ClusterID is the random id of the cluster.
func (a *Authority) ClusterID() string { return a.clusterID }

// CA is the CA certificate, DER.
func (a *Authority) CA() []byte { return a.cert.Raw }

// Roots holds the CA.
func (a *Authority) Roots() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

// SignDevice signs a device's request under a name the caller has checked; only the request's key is taken over.
func (a *Authority) SignDevice(csr []byte, device string) (*x509.Certificate, error) {
	key, err := CheckRequest(csr)
	if err != nil {
		return nil, err
	}
	return a.sign(key, pkix.Name{Organization: []string{wire.OrgDevices}, CommonName: device}, nil, x509.ExtKeyUsageClientAuth)
}

// SignHub signs a member's request. Hosts are the names and addresses by which it is reached; the name that every member has
// is added.
func (a *Authority) SignHub(csr []byte, member string, hosts []string) (*x509.Certificate, error) {
	key, err := CheckRequest(csr)
	if err != nil {
		return nil, err
	}
	return a.signHub(key, member, hosts)
}

func (a *Authority) signHub(key *ecdsa.PublicKey, member string, hosts []string) (*x509.Certificate, error) {
	return a.sign(key, pkix.Name{Organization: []string{wire.OrgHubs}, CommonName: member}, hosts,
		x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth)
}

// SignPerson signs a person's request under a name and groups that the caller has checked, for a time that is never longer than the CA's own.
func (a *Authority) SignPerson(csr []byte, name string, groups []string, life time.Duration) (*x509.Certificate, error) {
	key, err := CheckRequest(csr)
	if err != nil {
		return nil, err
	}
	return a.signFor(life, key, pkix.Name{Organization: groups, CommonName: name}, nil, x509.ExtKeyUsageClientAuth)
}

// ServerCertificate makes a key and a certificate for a hub member.
func (a *Authority) ServerCertificate(member string, hosts []string) (tls.Certificate, error) {
	return a.newPair(func(key *ecdsa.PublicKey) (*x509.Certificate, error) { return a.signHub(key, member, hosts) })
}

// AdminCertificate makes a key and a certificate for a person with full rights.
func (a *Authority) AdminCertificate(user string) (tls.Certificate, error) {
	return a.newPair(func(key *ecdsa.PublicKey) (*x509.Certificate, error) {
		return a.sign(key, pkix.Name{Organization: []string{wire.OrgAdmins}, CommonName: user}, nil, x509.ExtKeyUsageClientAuth)
	})
}

func (a *Authority) newPair(sign func(*ecdsa.PublicKey) (*x509.Certificate, error)) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make a key: %w", err)
	}
	cert, err := sign(&key.PublicKey)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{cert.Raw, a.cert.Raw}, PrivateKey: key, Leaf: cert}, nil
}

func (a *Authority) sign(key *ecdsa.PublicKey, subject pkix.Name, hosts []string, use ...x509.ExtKeyUsage) (*x509.Certificate, error) {
	return a.signFor(leafLife, key, subject, hosts, use...)
}

func (a *Authority) signFor(life time.Duration, key *ecdsa.PublicKey, subject pkix.Name, hosts []string, use ...x509.ExtKeyUsage) (*x509.Certificate, error) {
	now := a.now()
	if now.Before(a.cert.NotBefore) {
		return nil, fault.Unavailable.Errorf("the clock of this hub member says %s, which is before the cluster was made: set the clock",
			now.UTC().Format(time.RFC3339))
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	t := &x509.Certificate{
		SerialNumber: serial, Subject: subject, NotBefore: now.Add(-backdate), NotAfter: now.Add(life),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: use, BasicConstraintsValid: true,
	}
	if t.NotBefore.Before(a.cert.NotBefore) {
		t.NotBefore = a.cert.NotBefore
	}
	if t.NotAfter.After(a.cert.NotAfter) {
		t.NotAfter = a.cert.NotAfter
	}
	if use[0] == x509.ExtKeyUsageServerAuth {
		t.DNSNames = []string{wire.HubServerName}
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else if h != "" && h != wire.HubServerName {
			t.DNSNames = append(t.DNSNames, h)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, t, a.cert, key, a.key)
	if err != nil {
		return nil, fmt.Errorf("sign %s: %w", subject.CommonName, err)
	}
	return x509.ParseCertificate(der)
}

// CheckRequest reads a PKCS#10 request, whose signature shows that the sender has the key, and returns that key. Invalid when it
// is not a P-256 key or the signature does not hold.
func CheckRequest(der []byte) (*ecdsa.PublicKey, error) {
	csr, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return nil, fault.Invalid.Errorf("certificate request: %w", err)
	}
	key, ok := csr.PublicKey.(*ecdsa.PublicKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, fault.Invalid.Errorf("certificate request: want an ECDSA key on P-256")
	}
	if err := csr.CheckSignature(); err != nil {
		return nil, fault.Invalid.Errorf("certificate request: %w", err)
	}
	return key, nil
}

// Fingerprint names a public key: sha256:HEX of its SubjectPublicKeyInfo.
func Fingerprint(key *ecdsa.PublicKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return "", fault.Invalid.Errorf("public key: %w", err)
	}
	return wire.HashOf(der).String(), nil
}
