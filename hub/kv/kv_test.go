package kv_test

import (
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
	"log/slog"
	"math/big"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/wire"
	"github.com/drover-fleet/drover/hub/kv"
	"github.com/drover-fleet/drover/hub/registry"
	"github.com/drover-fleet/drover/store"
	"github.com/drover-fleet/drover/store/mvcc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// member is one serving side, and the certificates to reach it with.
type member struct {
	addr   string
	local  *registry.LocalBackend
	config func(org string) *tls.Config
	stop   func() // ends every connection
}

// serve starts a member over a fresh store; wrap may put something between.
func serve(t *testing.T, wrap func(kv.Backend) kv.Backend) *member {
	t.Helper()
	s, err := mvcc.Open(filepath.Join(t.TempDir(), "state"), mvcc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	m := &member{local: registry.Local(s)}
	var backend kv.Backend = m.local
	if wrap != nil {
		backend = wrap(backend)
	}
	issue, roots := authority(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m.addr = l.Addr().String()
	m.config = func(org string) *tls.Config {
		return &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots, ServerName: "h1", Certificates: []tls.Certificate{issue(org, "h2")}}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	m.stop = cancel
	t.Cleanup(func() { cancel(); _ = l.Close(); group.Wait() })
	config := &tls.Config{
		MinVersion: tls.VersionTLS13, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: roots, NextProtos: []string{kv.Protocol},
		Certificates: []tls.Certificate{issue(wire.OrgHubs, "h1")},
	}
	// However slow the machine is, no request of a test ends by its own time.
	server := &kv.Server{Backend: backend, Logger: slog.New(slog.DiscardHandler), Limits: kv.Limits{Request: time.Hour}}
	group.Go(func() {
		for {
			raw, err := l.Accept()
			if err != nil {
				return
			}
			group.Go(func() {
				conn := tls.Server(raw, config)
				if conn.HandshakeContext(ctx) == nil {
					_ = server.Serve(ctx, conn)
				}
				_ = conn.Close()
			})
		}
	})
	return m
}

func authority(t *testing.T) (issue func(org, name string) tls.Certificate, roots *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots = x509.NewCertPool()
	roots.AddCert(parsed)
	return func(org, name string) tls.Certificate {
		leaf := &x509.Certificate{
			SerialNumber: big.NewInt(2), Subject: pkix.Name{Organization: []string{org}, CommonName: name}, DNSNames: []string{name},
			NotBefore: ca.NotBefore, NotAfter: ca.NotAfter, KeyUsage: x509.KeyUsageDigitalSignature,
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		}
		der, err := x509.CreateCertificate(rand.Reader, leaf, parsed, &key.PublicKey, key)
		if err != nil {
			t.Fatal(err)
		}
		return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	}, roots
}

func (m *member) dial(t *testing.T) *kv.Client {
	t.Helper()
	c, err := kv.Dial(within(t), m.addr, m.config(wire.OrgHubs))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func put(key, value string) *store.Command {
	return &store.Command{Actor: "hub:h2", Ops: []store.Op{{Type: store.OpPut, Key: key, Value: []byte(value)}}}
}

func mustPut(t *testing.T, c *kv.Client, key, value string) store.Revision {
	t.Helper()
	r, err := c.Propose(within(t), put(key, value))
	if err != nil || r.Err != nil {
		t.Fatalf("put %s: %v, %v", key, err, r.Err)
	}
	return r.Revisions[0]
}

func TestReadShowsWhatWasWrittenByManyAtOnce(t *testing.T) {
	c := serve(t, nil).dial(t)
	const writers, each = 20, 10
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				key, value := fmt.Sprintf("k/%02d/%02d", w, i), fmt.Sprintf("v%d-%d", w, i)
				if _, err := c.Propose(within(t), put(key, value)); err != nil {
					t.Errorf("put %s: %v", key, err)
					return
				}
				got, err := c.Range(within(t), store.RangeRequest{Start: key}, false)
				if err != nil || len(got.KVs) != 1 || string(got.KVs[0].Value) != value {
					t.Errorf("read %s: got %+v, %v; want %s", key, got, err, value)
				}
			}
		})
	}
	wg.Wait()
	all, err := c.Range(within(t), store.RangeRequest{Start: "k/", End: store.PrefixEnd("k/")}, true)
	if err != nil || len(all.KVs) != writers*each || all.More || all.Count != writers*each {
		t.Fatalf("all: got %d keys of %d, more %v, %v; want %d", len(all.KVs), all.Count, all.More, err, writers*each)
	}
	few, err := c.Range(within(t), store.RangeRequest{Start: "k/", End: store.PrefixEnd("k/"), Limit: 150}, true)
	if err != nil || len(few.KVs) != 150 || !few.More {
		t.Errorf("with a limit of 150: got %d keys, more %v, %v", len(few.KVs), few.More, err)
	}
}

func TestLargeRangeIsCutShortAndContinues(t *testing.T) {
	c := serve(t, nil).dial(t)
	value := string(make([]byte, 900<<10))
	for i := range 8 {
		mustPut(t, c, fmt.Sprintf("k%d", i), value)
	}
	seen, start := 0, "k"
	for answers := 1; ; answers++ {
		got, err := c.Range(within(t), store.RangeRequest{Start: start, End: "l"}, false)
		if err != nil {
			t.Fatal(err)
		}
		seen += len(got.KVs)
		if !got.More {
			if seen != 8 || answers < 2 {
				t.Fatalf("got %d keys in %d answers, want 8 in at least 2", seen, answers)
			}
			return
		}
		start = got.KVs[len(got.KVs)-1].Key + "\x00"
	}
}

func TestErrorsArriveAsIfTheStoreWereHere(t *testing.T) {
	m := serve(t, nil)
	c := m.dial(t)
	first := mustPut(t, c, "k", "1")
	last := mustPut(t, c, "k", "2")
	stale := put("k", "3")
	stale.If = []store.Precondition{{Key: "k", ModRevision: first}}
	r, err := c.Propose(within(t), stale)
	var conflict *store.ConflictError
	if err != nil || !errors.As(r.Err, &conflict) || *conflict != (store.ConflictError{Key: "k", Want: first, Actual: last}) {
		t.Errorf("put on an old version: got %v, %v", r.Err, err)
	}
	fenced := put("k", "3")
	fenced.Term = 7
	if r, err := c.Propose(within(t), fenced); err != nil || !errors.Is(r.Err, store.ErrStaleTerm) {
		t.Errorf("put of another term: got %v, %v; want %v", r.Err, err, store.ErrStaleTerm)
	}
	if err := m.local.Compact(within(t), last); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		at   store.Revision
		want error
	}{{first, store.ErrCompacted}, {last + 10, store.ErrAhead}, {store.MakeRevision(9, 1), store.ErrAhead}, {1, store.ErrOtherEpoch}} {
		if _, err := c.Range(within(t), store.RangeRequest{Start: "k", Revision: tt.at}, true); !errors.Is(err, tt.want) {
			t.Errorf("read at %d: got %v, want %v", tt.at, err, tt.want)
		}
	}
	if _, err := c.Watch(within(t), store.WatchRequest{Start: "k", From: first}, false); !errors.Is(err, store.ErrCompacted) {
		t.Errorf("watch from a compacted revision: got %v, want %v", err, store.ErrCompacted)
	}
	if _, err := c.Range(within(t), store.RangeRequest{Start: "k", Limit: -1}, true); !errors.Is(err, fault.BadRequest) {
		t.Errorf("negative limit: got %v, want %v", err, fault.BadRequest)
	}
}

func TestWatchYieldsEachBatchOnceInOrder(t *testing.T) {
	c := serve(t, nil).dial(t)
	first := mustPut(t, c, "w/a", "0")
	w, err := c.Watch(within(t), store.WatchRequest{Start: "w/", End: store.PrefixEnd("w/"), From: first}, true)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	const n = 40
	for i := 1; i < n; i++ {
		mustPut(t, c, "w/a", fmt.Sprint(i))
		mustPut(t, c, "other", fmt.Sprint(i))
	}
	before := store.Revision(0)
	for i := range n {
		b, err := w.Next(within(t))
		if err != nil || len(b.Events) != 1 {
			t.Fatalf("batch %d: got %+v, %v", i, b, err)
		}
		e := b.Events[0]
		if string(e.KV.Value) != fmt.Sprint(i) || b.Revision <= before {
			t.Fatalf("batch %d: got %q at %d after %d", i, e.KV.Value, b.Revision, before)
		}
		if i > 0 && (e.Prev == nil || string(e.Prev.Value) != fmt.Sprint(i-1)) {
			t.Fatalf("batch %d: got the version before %+v, want %d", i, e.Prev, i-1)
		}
		before = b.Revision
	}
}

// Watchers of one range share their encoding; neither may get what another asked for.
func TestWatchersOfOneRangeEachGetWhatTheyAskedFor(t *testing.T) {
	m := serve(t, nil)
	c := m.dial(t)
	mustPut(t, c, "w/a", "old")
	watch := func(c *kv.Client, key, end string, previous bool) *kv.Watcher {
		w, err := c.Watch(within(t), store.WatchRequest{Start: key, End: end}, previous)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(w.Close)
		return w
	}
	end := store.PrefixEnd("w/")
	plain, second, with := watch(c, "w/", end, false), watch(m.dial(t), "w/", end, false), watch(c, "w/", end, true)
	one := watch(c, "w/a", "", false)
	set := put("w/a", "new")
	set.Ops = append(set.Ops, store.Op{Type: store.OpPut, Key: "w/b", Value: []byte("new")})
	if r, err := c.Propose(within(t), set); err != nil || r.Err != nil {
		t.Fatal(err, r.Err)
	}
	for name, tt := range map[string]struct {
		w        *kv.Watcher
		events   int
		previous bool
	}{"range": {plain, 2, false}, "range on another connection": {second, 2, false}, "range with versions before": {with, 2, true}, "key": {one, 1, false}} {
		b, err := tt.w.Next(within(t))
		if err != nil || len(b.Events) != tt.events || (b.Events[0].Prev != nil) != tt.previous || string(b.Events[0].KV.Value) != "new" {
			t.Errorf("watcher of a %s: got %+v, %v; want %d events, the version before: %v", name, b, err, tt.events, tt.previous)
		}
	}
}

func TestOnlyMembersComeIn(t *testing.T) {
	m := serve(t, nil)
	for _, org := range []string{wire.OrgAdmins, wire.OrgDevices, ""} {
		config := m.config(org)
		if org == "" {
			config.Certificates = nil
		}
		c, err := kv.Dial(within(t), m.addr, config)
		if err != nil {
			continue // cut off at once
		}
		if r, err := c.Propose(within(t), put("k", "v")); err == nil {
			t.Errorf("put with a certificate of %q: got %+v, want it refused", org, r)
		}
		_ = c.Close()
	}
	got, err := m.local.Range(t.Context(), store.RangeRequest{Start: "k"})
	if err != nil || len(got.KVs) != 0 {
		t.Errorf("afterwards: got %+v, %v; want nothing", got, err)
	}
}

// stuck never answers proposals.
type stuck struct {
	kv.Backend
	begun chan struct{}
}

func (s stuck) Propose(ctx context.Context, _ *store.Command) (store.Result, error) {
	close(s.begun)
	<-ctx.Done()
	return store.Result{}, ctx.Err()
}

func TestBrokenConnectionLeavesTheOutcomeUnknown(t *testing.T) {
	begun := make(chan struct{})
	m := serve(t, func(b kv.Backend) kv.Backend { return stuck{b, begun} })
	c := m.dial(t)
	w, err := c.Watch(within(t), store.WatchRequest{Start: "k"}, false)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := c.Propose(within(t), put("k", "v"))
		ended <- err
	}()
	<-begun
	m.stop()
	if err := <-ended; !errors.Is(err, fault.Timeout) {
		t.Errorf("proposal under way: got %v, want %v", err, fault.Timeout)
	}
	if _, err := w.Next(within(t)); !errors.Is(err, fault.Unavailable) {
		t.Errorf("watch under way: got %v, want %v", err, fault.Unavailable)
	}
	if _, err := c.Propose(within(t), put("k", "v")); !errors.Is(err, fault.Unavailable) {
		t.Errorf("proposal afterwards: got %v, want %v", err, fault.Unavailable)
	}
}

func TestFrameBeyondItsLimitEndsTheConnection(t *testing.T) {
	m := serve(t, nil)
	for _, size := range []uint32{0, 8, 1 << 30} {
		config := m.config(wire.OrgHubs)
		config.NextProtos = []string{kv.Protocol}
		conn, err := (&tls.Dialer{Config: config}).DialContext(within(t), "tcp", m.addr)
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(append(binary.BigEndian.AppendUint32(nil, size), make([]byte, 9)...)); err != nil {
			t.Fatal(err)
		}
		if n, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after a frame of %d bytes: got %d bytes, %v; want the end", size, n, err)
		}
		_ = conn.Close()
	}
}
