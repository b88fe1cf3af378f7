package hub

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/drover-fleet/drover/api/wire"
	"github.com/drover-fleet/drover/hub/kv"
)

// errUnborn is answered while the first member has not founded the cluster yet.
var errUnborn = errors.New("this member has no certificate yet: the hub is being founded")

// keyring holds the member's credentials, which connections ask for anew each time.
type keyring struct {
	mu   sync.RWMutex
	now  *credentials  // guarded by mu; nil before birth
	born chan struct{} // closed once there are some
}

func newKeyring(c *credentials) *keyring {
	k := &keyring{born: make(chan struct{})}
	if c != nil {
		k.set(c)
	}
	return k
}

func (k *keyring) set(c *credentials) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.now == nil {
		close(k.born)
	}
	k.now = c
}

func (k *keyring) get() (*credentials, error) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if k.now == nil {
		return nil, errUnborn
	}
	return k.now, nil
}

// peerServer and peerClient are for Raft traffic: both sides show certificates.
func (k *keyring) peerServer() (*tls.Config, error) {
	c, err := k.get()
	if err != nil {
		return nil, err
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{c.cert}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: c.roots}, nil
}

func (k *keyring) peerClient() (*tls.Config, error) {
	c, err := k.get()
	if err != nil {
		return nil, err
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{c.cert}, RootCAs: c.roots}, nil
}

// apiServer is for operators and devices. Who has no certificate may still enroll. The CA is sent along, because who joins
// by a token knows it by its hash only.
// known hears of each connection that has shown who it is; "" = it has no certificate.
func (k *keyring) apiServer(known func(conn net.Conn, identity string, device bool)) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		c, err := k.get()
		if err != nil {
			return nil, err
		}
		shown := c.cert
		shown.Certificate = append(slices.Clone(shown.Certificate), c.ca)
		return &tls.Config{
			MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{shown},
			ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: c.roots, NextProtos: []string{"h2", "http/1.1", kv.Protocol},
			VerifyConnection: func(s tls.ConnectionState) error {
				identity, device := connIdentity(s)
				known(hello.Conn, identity, device)
				return nil
			},
		}, nil
	}}
}

// toMembers carries requests to other members' API with this member's certificate.
func (k *keyring) toMembers() *http.Transport {
	dialer := &net.Dialer{Timeout: 3 * time.Second}
	return &http.Transport{
		DialContext:         dialer.DialContext,
		TLSHandshakeTimeout: 3 * time.Second,
		IdleConnTimeout:     time.Minute,
		TLSClientConfig: &tls.Config{
			MinVersion: tls.VersionTLS13, ServerName: wire.HubServerName,
			InsecureSkipVerify: true, //nolint:gosec // VerifyConnection checks against the roots of now, which may be replaced
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				c, err := k.get()
				if err != nil {
					return nil, err
				}
				return &c.cert, nil
			},
			VerifyConnection: k.verifyMember,
		},
	}
}

func (k *keyring) verifyMember(s tls.ConnectionState) error {
	c, err := k.get()
	if err != nil {
		return err
	}
	leaf := s.PeerCertificates[0]
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: c.roots, DNSName: wire.HubServerName, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}); err != nil {
		return fmt.Errorf("verify member: %w", err)
	}
	return checkOrg(leaf, wire.OrgHubs)
}

// connIdentity is whose connection it is, for counting.
func connIdentity(s tls.ConnectionState) (name string, device bool) {
	if len(s.VerifiedChains) == 0 {
		return "", false
	}
	subject := s.VerifiedChains[0][0].Subject
	switch {
	case slices.Contains(subject.Organization, wire.OrgDevices):
		return "device:" + subject.CommonName, true
	case slices.Contains(subject.Organization, wire.OrgHubs):
		return "hub:" + subject.CommonName, false
	}
	return "user:" + subject.CommonName, false
}

// sign signs for devices with this member's key.
func (k *keyring) sign(context string, payload []byte) (wire.Signed, error) {
	c, err := k.get()
	if err != nil {
		return wire.Signed{}, err
	}
	signer, err := c.signer()
	if err != nil {
		return wire.Signed{}, err
	}
	return wire.Sign(signer, c.cert.Certificate[0], context, payload)
}

func checkOrg(cert *x509.Certificate, org string) error {
	if !slices.Equal(cert.Subject.Organization, []string{org}) {
		return fmt.Errorf("certificate of %q is of %q, not of %q", cert.Subject.CommonName, cert.Subject.Organization, org)
	}
	return nil
}

// peerName is whose certificate a verified connection between members has shown.
func peerName(s tls.ConnectionState) (string, error) {
	if len(s.PeerCertificates) == 0 {
		return "", errors.New("the other side shows no certificate")
	}
	leaf := s.PeerCertificates[0]
	return leaf.Subject.CommonName, checkOrg(leaf, wire.OrgHubs)
}
