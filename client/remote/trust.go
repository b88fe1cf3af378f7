package remote

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/wire"
)

// Trust is by what a server is taken for a hub at the first contact: one of the two.
type Trust struct {
	CA          []byte // PEM of the hub's CA
	Fingerprint string // sha256:HEX of the CA certificate; the hub sends the certificate along
}

// Pinned is a hub that was verified: what to write into a kubeconfig.
type Pinned struct {
	CA         []byte // PEM
	ServerName string // the name to expect; "" = the URL's host
}

// UntrustedError tells of a server that nothing vouches for yet, and which CA it shows. Whoever gets this must learn the fingerprint
// from the hub itself before believing it.
type UntrustedError struct{ Server, Fingerprint string }

func (e *UntrustedError) Error() string {
	return fmt.Sprintf("nothing says that %s is your hub: give --ca FILE (a member's ca.crt), or --ca-fingerprint once somebody who can read that file confirms it; the server shows a CA with %s",
		e.Server, e.Fingerprint)
}

// Fingerprint names a certificate by the hash of its DER form.
func Fingerprint(der []byte) string {
	h := sha256.Sum256(der)
	return "sha256:" + hex.EncodeToString(h[:])
}

// parseFingerprint takes upper case and colons too, as openssl prints.
func parseFingerprint(s string) (string, error) {
	algorithm, digits, ok := strings.Cut(strings.ToLower(strings.TrimSpace(s)), ":")
	digits = strings.ReplaceAll(digits, ":", "")
	if b, err := hex.DecodeString(digits); !ok || algorithm != "sha256" || err != nil || len(b) != sha256.Size {
		return "", errors.New("want sha256: and 64 hexadecimal digits")
	}
	return algorithm + ":" + digits, nil
}

// CheckServer refuses what is not https://HOST:PORT, and returns it in that form.
func CheckServer(server string) (string, error) { return checkServer(server) }

// Pin verifies a server by what is trusted, in one TLS handshake and nothing else: no credentials are shown and no request is sent.
// Without any trust the error is an *UntrustedError.
func Pin(ctx context.Context, server string, t Trust, patience time.Duration) (*Pinned, error) {
	base, err := checkServer(server)
	if err != nil {
		return nil, err
	}
	if t.Fingerprint != "" {
		if t.Fingerprint, err = parseFingerprint(t.Fingerprint); err != nil {
			return nil, fmt.Errorf("fingerprint: %w", err)
		}
	}
	u, err := url.Parse(base)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	addr := u.Host
	if u.Port() == "" {
		addr = net.JoinHostPort(u.Hostname(), "443")
	}
	var pinned *Pinned
	d := tls.Dialer{Config: &tls.Config{
		MinVersion: tls.VersionTLS13, ServerName: u.Hostname(),
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection verifies by what the caller trusts, which the default cannot
		VerifyConnection: func(s tls.ConnectionState) error {
			var err error
			pinned, err = t.verify(base, u.Hostname(), s.PeerCertificates)
			return err
		},
	}}
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		var untrusted *UntrustedError
		var judged *fault.Error
		if errors.As(err, &untrusted) || errors.As(err, &judged) {
			return nil, err
		}
		return nil, fault.Unreachable.Errorf("%s does not answer: %w", base, err)
	}
	return pinned, conn.Close()
}

func (t Trust) verify(server, host string, chain []*x509.Certificate) (*Pinned, error) {
	ca, err := t.root(server, chain)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, fault.BadRequest.Errorf("the CA file holds no certificate in PEM form")
	}
	for _, name := range []string{"", wire.HubServerName} {
		want := name
		if want == "" {
			want = host
		}
		_, err = chain[0].Verify(x509.VerifyOptions{Roots: roots, DNSName: want, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
		var otherName x509.HostnameError
		if err == nil {
			return &Pinned{CA: ca, ServerName: name}, nil
		}
		if !errors.As(err, &otherName) {
			break
		}
	}
	return nil, fault.Unreachable.Errorf("%s is not the hub that you trust: %w", server, err)
}

// root is the CA that is trusted, as PEM.
func (t Trust) root(server string, chain []*x509.Certificate) ([]byte, error) {
	if len(t.CA) > 0 {
		return t.CA, nil
	}
	shown := slices.IndexFunc(chain, func(c *x509.Certificate) bool { return c.IsCA })
	if shown < 0 {
		return nil, fault.Unreachable.Errorf("%s shows no CA of its own, as no hub member does: is it one?", server)
	}
	found := Fingerprint(chain[shown].Raw)
	switch t.Fingerprint {
	case "":
		return nil, &UntrustedError{Server: server, Fingerprint: found}
	case found:
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: chain[shown].Raw}), nil
	}
	return nil, fault.Unreachable.Errorf("%s is not the hub that you trust: its CA is %s, not %s", server, found, t.Fingerprint)
}
