package hub

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mrand "math/rand/v2"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/retry"
	"github.com/drover-fleet/drover/api/wire"
	"github.com/drover-fleet/drover/consensus"
	"github.com/drover-fleet/drover/hub/enroll"
	"github.com/drover-fleet/drover/hub/registry"
)

const (
	maxJoinReply = 1 << 20         // bytes that a hub may answer to a join
	joinPatience = 2 * time.Minute // how long a hub is asked that cannot be reached or has no majority; then whoever asks decides
)

// Init prepares a directory for the first member of a new hub. The rest (epoch, CA) is founded through the log when it first
// runs. It may be repeated until it has succeeded once.
func Init(path string, id Identity) (err error) {
	if err := id.Validate(); err != nil {
		return err
	}
	d := dir(path)
	lock, err := d.prepare("--init", fileSealing, fileLog)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if _, err := os.Stat(d.path(fileSealing)); errors.Is(err, os.ErrNotExist) {
		if _, err := registry.CreateSealer(d.path(fileSealing)); err != nil {
			return err
		}
	}
	// An earlier attempt may have been made under another name.
	if err := consensus.Discard(path); err != nil {
		return err
	}
	if err := consensus.Bootstrap(consensus.Config{Dir: path, Self: id.member()}); err != nil {
		return err
	}
	return d.saveIdentity(id)
}

// Joining is what a new member knows of the hub it joins.
type Joining struct {
	Token  string // as drover token create --for hub printed it
	Server string // https://host:port of any member
}

// Join asks the hub to take this member in and prepares its directory. It may be repeated with the same directory and token
// until it has succeeded: the member's key is made once, and the hub knows it again.
func Join(ctx context.Context, path string, id Identity, j Joining) (err error) {
	if err := id.Validate(); err != nil {
		return err
	}
	token, err := wire.ParseToken(j.Token)
	if err != nil {
		return err
	}
	d := dir(path)
	keeps := []string{fileKey}
	if _, err := os.Stat(d.path(fileKey)); err == nil { // the first thing that a join writes
		keeps = append(keeps, fileSealing, fileCA, fileCert, fileLog)
	}
	lock, err := d.prepare("--join", keeps...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	key, err := d.joinKey()
	if err != nil {
		return err
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return fmt.Errorf("make certificate request: %w", err)
	}
	rq := enroll.JoinRequest{
		Token: token.Reveal(), CSR: csr, Hosts: id.hosts(),
		Member: enroll.Member{Name: id.Name, Peer: id.Peer, URL: "https://" + id.API},
	}
	reply, err := askToJoin(ctx, j.Server, token, rq)
	if err != nil {
		return fmt.Errorf("join the hub at %s: %w", j.Server, err)
	}
	return d.becomeMember(id, key, reply)
}

// joinKey is made once, so that a repeated join is known by it.
func (d dir) joinKey() (*ecdsa.PrivateKey, error) {
	key, err := d.loadKey()
	if !errors.Is(err, os.ErrNotExist) {
		return key, err
	}
	key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make member key: %w", err)
	}
	return key, d.saveKey(key)
}

func askToJoin(ctx context.Context, server string, token wire.Token, rq enroll.JoinRequest) (enroll.JoinReply, error) {
	var reply enroll.JoinReply
	body, err := wire.Encode(rq)
	if err != nil {
		return reply, err
	}
	c := &http.Client{
		Timeout: 30 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{
			MinVersion:         tls.VersionTLS13,
			InsecureSkipVerify: true, //nolint:gosec // VerifyConnection checks the chain against the CA that the token pins
			VerifyConnection:   func(s tls.ConnectionState) error { return verifyPinned(s, token) },
		}},
	}
	defer c.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, joinPatience)
	defer cancel()
	err = retry.Do(ctx, retry.Policy{Base: 200 * time.Millisecond, Max: 5 * time.Second}, mrand.Int64N, func(ctx context.Context) error {
		post, err := http.NewRequestWithContext(ctx, http.MethodPost, server+enroll.PathJoin, bytes.NewReader(body))
		if err != nil {
			return fault.BadRequest.Errorf("server %q: %w", server, err)
		}
		post.Header.Set("Content-Type", "application/cbor")
		resp, err := c.Do(post)
		if errors.Is(err, errStranger) {
			return fault.Forbidden.Errorf("%w", errStranger)
		}
		if err != nil {
			return fault.Unreachable.Errorf("%w", err)
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(io.LimitReader(resp.Body, maxJoinReply+1))
		if err != nil {
			return fault.Unreachable.Errorf("read the answer: %w", err)
		}
		if resp.StatusCode != http.StatusOK {
			return refusal(resp.StatusCode, answer)
		}
		return wire.Decode(answer, maxJoinReply, &reply)
	})
	return reply, err
}

// refusal reads the Status of an answer that is none.
func refusal(code int, body []byte) error {
	var st fault.Status
	if json.Unmarshal(body, &st) == nil && st.Status == "Failure" {
		return fault.FromStatus(st)
	}
	return fault.OfHTTP(code).Errorf("it answers HTTP %d: is it a hub member?", code)
}

// verifyPinned accepts a chain that ends at the CA whose hash the token carries and whose leaf is a hub member's.
func verifyPinned(s tls.ConnectionState, token wire.Token) error {
	for _, ca := range s.PeerCertificates {
		if !token.TrustsCA(ca.Raw) {
			continue
		}
		roots := x509.NewCertPool()
		roots.AddCert(ca)
		leaf := s.PeerCertificates[0]
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}); err != nil {
			return fmt.Errorf("the server's certificate: %w", err)
		}
		return checkOrg(leaf, wire.OrgHubs)
	}
	return errStranger
}

// errStranger is no passing trouble: to ask again cannot help.
var errStranger = errors.New("the server does not show the CA that the token pins: wrong server, or a token of another hub")

// becomeMember writes what the hub answered; member.json comes last and makes it so.
func (d dir) becomeMember(id Identity, key *ecdsa.PrivateKey, reply enroll.JoinReply) (err error) {
	if len(reply.CA) == 0 || len(reply.Certificate) == 0 {
		return errors.New("the hub's answer holds no certificate")
	}
	var self enroll.Member
	var members []consensus.Member
	for _, m := range reply.Members {
		if m.Name == id.Name {
			self = m
		}
		known := consensus.Member{ID: m.ID, Name: m.Name, PeerAddr: m.Peer}
		if known.APIAddr, err = hostOf(m.URL); err != nil {
			return fmt.Errorf("the hub's answer: member %s: %w", m.Name, err)
		}
		members = append(members, known)
	}
	if self.ID == 0 {
		return fmt.Errorf("the hub's answer does not list %s as a member", id.Name)
	}
	if err := d.installSealer(reply.SealingKey); err != nil {
		return err
	}
	cert := tls.Certificate{Certificate: [][]byte{reply.Certificate}, PrivateKey: key}
	if err := d.saveCredentials(reply.CA[0], cert); err != nil {
		return err
	}
	// The hub may know this member by another id than at an earlier attempt: who does not come is struck off in the end.
	if err := consensus.Discard(string(d)); err != nil {
		return err
	}
	if err := consensus.Join(consensus.Config{Dir: string(d), Self: id.member()}, self.ID, members); err != nil {
		return err
	}
	id.ClusterID = reply.ClusterID
	return d.saveIdentity(id)
}

// installSealer writes the hub's sealing keys, unless an earlier attempt did. Between two attempts the hub may have got another key.
func (d dir) installSealer(exported []byte) error {
	path := d.path(fileSealing)
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		_, err := registry.InstallSealer(path, exported)
		return err
	}
	have, err := registry.OpenSealer(path)
	if err != nil {
		return err
	}
	if subtle.ConstantTimeCompare(have.Export(), exported) == 1 {
		return nil
	}
	now, err := registry.ParseSealer(exported)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(now.IDs(), have.Has) {
		return fmt.Errorf("%s is the key of another hub: join in an empty directory", path)
	}
	return d.write(fileSealing, exported)
}
