package peer

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/drover-fleet/drover/consensus"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// authority is a CA that lives for one test.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, pool: x509.NewCertPool()}
	a.cert, a.key, _ = a.sign("ca", nil)
	a.pool.AddCert(a.cert)
	return a
}

func (a *authority) sign(name string, parent *authority) (*x509.Certificate, *ecdsa.PrivateKey, []byte) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		IsCA:        parent == nil, BasicConstraintsValid: true,
	}
	issuer, issuerKey := template, key
	if parent != nil {
		issuer, issuerKey = parent.cert, parent.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer, &key.PublicKey, issuerKey)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key, der
}

func (a *authority) tls(name string) *tls.Config {
	_, key, der := a.sign(name, a)
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		RootCAs:      a.pool, ClientCAs: a.pool, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS13,
	}
}

func commonName(s tls.ConnectionState) (string, error) {
	return s.PeerCertificates[0].Subject.CommonName, nil
}

// inbox records what a transport delivers.
type inbox struct {
	frames      chan string
	unreachable chan uint64
	stream      func(name string, s io.ReadWriteCloser)
}

func newInbox() *inbox {
	return &inbox{frames: make(chan string, 10000), unreachable: make(chan uint64, 10000)}
}

func (i *inbox) Receive(name string, frame []byte) { i.frames <- name + ":" + string(frame) }
func (i *inbox) Unreachable(id uint64, _ int)      { i.unreachable <- id }
func (i *inbox) ServeStream(_ context.Context, name string, s io.ReadWriteCloser) {
	i.stream(name, s)
}

func (i *inbox) next(t *testing.T) string {
	t.Helper()
	select {
	case f := <-i.frames:
		return f
	case <-time.After(10 * time.Second):
		t.Fatal("no frame in 10 s")
		return ""
	}
}

type end struct {
	*Transport
	in     *inbox
	member consensus.Member
}

func run(t *testing.T, name string, id uint64, cfg Config) *end {
	t.Helper()
	l, err := net.Listen("tcp", "[::1]:0") // IPv6: host:port must be split and joined as such everywhere
	if err != nil {
		l, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil {
		t.Fatal(err)
	}
	cfg.Name, cfg.Listener, cfg.PeerName = name, l, commonName
	tr, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	e := &end{Transport: tr, in: newInbox(), member: consensus.Member{ID: id, Name: name, PeerAddr: l.Addr().String()}}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- tr.Run(ctx, e.in) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("%s ended with %v, want %v", name, err, context.Canceled)
		}
	})
	return e
}

func with(c *tls.Config) Config {
	get := func() (*tls.Config, error) { return c, nil }
	return Config{ServerTLS: get, ClientTLS: get}
}

// refused sends until the transport reports that it could not.
func refused(t *testing.T, from *end, to consensus.Member) uint64 {
	t.Helper()
	for range 200 {
		from.Send(to, []byte("x"))
		select {
		case id := <-from.in.unreachable:
			return id
		case <-time.After(50 * time.Millisecond):
		}
	}
	t.Fatal("not reported as unreachable")
	return 0
}

// until repeats an action, which may be lost, until a frame arrives.
func until(t *testing.T, in *inbox, action func()) string {
	t.Helper()
	for range 200 {
		action()
		select {
		case f := <-in.frames:
			return f
		case <-time.After(50 * time.Millisecond):
		}
	}
	t.Fatal("no frame")
	return ""
}

func TestFramesArriveInOrderUnderTheProvenName(t *testing.T) {
	ca := newAuthority(t)
	a, b := run(t, "a", 1, with(ca.tls("a"))), run(t, "b", 2, with(ca.tls("b")))
	until(t, b.in, func() { a.Send(b.member, []byte("first")) })
	for i := range 1000 {
		a.Send(b.member, fmt.Appendf(nil, "%d", i))
	}
	got := b.in.next(t)
	for strings.HasSuffix(got, "first") {
		got = b.in.next(t)
	}
	for i := range 1000 {
		if want := fmt.Sprintf("a:%d", i); got != want {
			t.Fatalf("frame = %q, want %q", got, want)
		}
		if i < 999 {
			got = b.in.next(t)
		}
	}
}

func TestStrangersAreHeardByNobody(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	b := run(t, "b", 2, with(ca.tls("b")))
	cfg := with(other.tls("a"))
	trusting := other.tls("a")
	trusting.RootCAs = ca.pool // it accepts b; b must not accept it
	cfg.ClientTLS = func() (*tls.Config, error) { return trusting, nil }
	a := run(t, "a", 1, cfg)
	if got := refused(t, a, b.member); got != 2 {
		t.Errorf("unreachable = %d, want 2", got)
	}
	if len(b.in.frames) != 0 {
		t.Errorf("heard %q from a stranger", <-b.in.frames)
	}
}

func TestVerifyRefusesNamesThatMayNotSpeak(t *testing.T) {
	ca := newAuthority(t)
	cfg := with(ca.tls("b"))
	cfg.Verify = func(name string) error {
		if name != "a" {
			return errors.New("not a hub")
		}
		return nil
	}
	b := run(t, "b", 2, cfg)
	device := run(t, "pi-07", 9, with(ca.tls("pi-07")))
	refused(t, device, b.member)
	a := run(t, "a", 1, with(ca.tls("a")))
	if got := until(t, b.in, func() { a.Send(b.member, []byte("y")) }); got != "a:y" {
		t.Errorf("frame = %q, want a:y and nothing of pi-07", got)
	}
}

// An address that has been given to another hub must not get what was meant for the first.
func TestFramesGoToTheNamedMemberOnly(t *testing.T) {
	ca := newAuthority(t)
	skip := ca.tls("a")
	a, c := run(t, "a", 1, with(skip)), run(t, "c", 3, with(ca.tls("c")))
	meant := c.member
	meant.Name, meant.ID = "b", 2
	if got := refused(t, a, meant); got != 2 {
		t.Errorf("unreachable = %d, want 2", got)
	}
	if len(c.in.frames) != 0 {
		t.Errorf("c got %q", <-c.in.frames)
	}
}

func TestCertificatesAreFetchedForEachConnection(t *testing.T) {
	ca := newAuthority(t)
	var current atomic.Pointer[tls.Config]
	current.Store(newAuthority(t).tls("a")) // of no use here
	get := func() (*tls.Config, error) { return current.Load(), nil }
	a, b := run(t, "a", 1, Config{ServerTLS: get, ClientTLS: get}), run(t, "b", 2, with(ca.tls("b")))
	refused(t, a, b.member)
	current.Store(ca.tls("a"))
	if got := until(t, b.in, func() { a.Send(b.member, []byte("y")) }); got != "a:y" {
		t.Errorf("frame = %q, want a:y", got)
	}
}

// raw opens a verified connection and greets, to say things the transport never would.
func raw(t *testing.T, ca *authority, to consensus.Member, kind byte) net.Conn {
	t.Helper()
	cfg := ca.tls("a")
	cfg.ServerName = to.Name
	conn, err := tls.Dial("tcp", to.PeerAddr, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := conn.Write(append([]byte(magic), kind)); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return conn
}

func TestLengthAboveTheLimitEndsTheConnectionUnread(t *testing.T) {
	ca := newAuthority(t)
	b := run(t, "b", 2, with(ca.tls("b")))
	conn := raw(t, ca, b.member, kindFrames)
	if _, err := conn.Write(binary.BigEndian.AppendUint32(nil, 1<<31)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("read = %v, want the end of the connection", err)
	}
}

func TestReadBlockChecksTheLengthBeforeItAllocates(t *testing.T) {
	client, server := net.Pipe()
	defer client.Close()
	defer server.Close()
	go func() { _, _ = client.Write([]byte{0xff, 0xff, 0xff, 0xff}) }()
	if _, err := readBlock(server, 1<<20, time.Second); !errors.Is(err, errFrameSize) {
		t.Errorf("read = %v, want %v", err, errFrameSize)
	}
}

func TestStreamCarriesBytesBothWaysUnderTheProvenName(t *testing.T) {
	ca := newAuthority(t)
	a, b := run(t, "a", 1, with(ca.tls("a"))), run(t, "b", 2, with(ca.tls("b")))
	want := bytes.Repeat([]byte("0123456789abcdef"), 300_000/16)
	b.in.stream = func(name string, s io.ReadWriteCloser) {
		got := make([]byte, len(want))
		if _, err := io.ReadFull(s, got); err != nil || name != "a" || !bytes.Equal(got, want) {
			t.Errorf("from %q: %d bytes, %v; want %d equal ones from a", name, len(got), err, len(want))
		}
		if _, err := s.Write([]byte("thanks")); err != nil {
			t.Errorf("answer: %v", err)
		}
	}
	s, err := a.Stream(t.Context(), b.member)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write(want); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(s); string(got) != "thanks" || err != nil {
		t.Errorf("answer = %q, %v; want thanks, and the end when the handler returns", got, err)
	}
	if err := errors.Join(s.Close(), ignoreClosed(s.Close())); err != nil {
		t.Errorf("close twice: %v", err)
	}
}

func TestStreamBreaksForBothWhenOneCloses(t *testing.T) {
	ca := newAuthority(t)
	a, b := run(t, "a", 1, with(ca.tls("a"))), run(t, "b", 2, with(ca.tls("b")))
	ended := make(chan error, 1)
	b.in.stream = func(_ string, s io.ReadWriteCloser) {
		_, err := s.Read(make([]byte, 1))
		ended <- err
	}
	s, err := a.Stream(t.Context(), b.member)
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	if err := <-ended; err == nil {
		t.Error("the receiver's read succeeded after the sender closed")
	}
	nobody := b.member
	nobody.Name = "c"
	if _, err := a.Stream(t.Context(), nobody); err == nil {
		t.Error("a stream to c was served by b")
	}
}

func TestFullQueueDropsTheNewestAndSaysSo(t *testing.T) {
	l := &outLink{ready: make(chan struct{}, 1)}
	if !l.put(7, []byte("12345"), 8) || l.put(7, []byte("6789"), 8) || !l.put(7, []byte("abc"), 8) {
		t.Error("want the second frame, beyond the limit, refused alone")
	}
	frames, id := l.take()
	if got := string(bytes.Join(frames, []byte(","))); got != "12345,abc" || id != 7 {
		t.Errorf("queue = %q of %d, want 12345,abc of 7", got, id)
	}
}
