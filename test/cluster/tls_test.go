package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/drover-fleet/drover/consensus"
	"github.com/drover-fleet/drover/consensus/peer"
)

// tlsFor makes a certificate for each name, each its own authority: what names prove is for the tests of consensus/peer.
func tlsFor(t *testing.T, names ...string) func(name string) *tls.Config {
	t.Helper()
	pool, byName := x509.NewCertPool(), map[string]tls.Certificate{}
	for i, name := range names {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		template := &x509.Certificate{
			SerialNumber: big.NewInt(int64(i + 1)), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
			KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		}
		der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
		if err != nil {
			t.Fatal(err)
		}
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		pool.AddCert(cert)
		byName[name] = tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	}
	return func(name string) *tls.Config {
		return &tls.Config{
			Certificates: []tls.Certificate{byName[name]}, RootCAs: pool, ClientCAs: pool,
			ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS13,
		}
	}
}

// The real transport under the same group: join, snapshot to a new member, leader death, restart.
func TestGroupOverMutualTLS(t *testing.T) {
	t.Parallel()
	conf := tlsFor(t, "h1", "h2", "h3")
	addrs := map[string]string{}
	addr := func(name string) string {
		if addrs[name] == "" {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			addrs[name] = l.Addr().String()
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		}
		return addrs[name]
	}
	transport := func(m *Member) (consensus.Transport, error) {
		l, err := net.Listen("tcp", m.Addr)
		if err != nil {
			return nil, err
		}
		get := func() (*tls.Config, error) { return conf(m.Name), nil }
		return peer.New(peer.Config{
			Name: m.Name, Listener: l, ServerTLS: get, ClientTLS: get,
			PeerName: func(s tls.ConnectionState) (string, error) { return s.PeerCertificates[0].Subject.CommonName, nil },
		})
	}
	c := Start(t, 3, Options{Addr: addr, Transport: transport, Tick: 25 * time.Millisecond})
	leader := c.Leader()
	writeMany(t, c, c.Followers(leader)[0], "before", 10)
	c.Stop(leader.Name)
	next := c.Leader()
	writeMany(t, c, next, "after", 10)
	c.Up(leader.Name)
	c.WaitVoters(3)
	c.WaitEqual()
	if got := len(leader.lines()); got != 20 {
		t.Errorf("lines = %d, want 20", got)
	}
}
