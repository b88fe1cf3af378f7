package link

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/wire"
)

// authority signs what the fake hub says.
type authority struct {
	roots *x509.CertPool
	key   *ecdsa.PrivateKey
	leaf  []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	now := time.Now()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(1e4 * time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(caDER)
	if err != nil {
		t.Fatal(err)
	}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(1e4 * time.Hour), Subject: pkix.Name{Organization: []string{wire.OrgHubs}, CommonName: "h1"}}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, parsed, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return &authority{pool, key, leafDER}
}

func (a *authority) desired(t *testing.T, d wire.Desired) *wire.Signed {
	t.Helper()
	h, err := d.ComputeBundleHash()
	if err != nil {
		t.Fatal(err)
	}
	d.BundleHash = h
	payload, err := wire.Encode(d)
	if err != nil {
		t.Fatal(err)
	}
	s, err := wire.Sign(a.key, a.leaf, wire.ContextDesired, payload)
	if err != nil {
		t.Fatal(err)
	}
	return &s
}

// fakeHub is a transport whose members are written by the test. A nil function answers nothing until ctx ends.
type fakeHub struct {
	mu      sync.Mutex
	hellos  []string // endpoints, in order
	at      []time.Time
	polls   []wire.Poll
	reports []wire.Report
	hello   func(endpoint string, n int, m wire.Hello) (wire.HelloReply, error)
	poll    func(n int, m wire.Poll) (wire.PollReply, error, bool)
	report  func(n int, m wire.Report) error
	closed  int
}

type fakeConn struct {
	h        *fakeHub
	endpoint string
}

func (h *fakeHub) Open(endpoint string) (Conn, error) { return &fakeConn{h, endpoint}, nil }

func (c *fakeConn) Hello(_ context.Context, m wire.Hello) (wire.HelloReply, error) {
	c.h.mu.Lock()
	c.h.hellos, c.h.at = append(c.h.hellos, c.endpoint), append(c.h.at, time.Now())
	n := len(c.h.hellos)
	c.h.mu.Unlock()
	if c.h.hello != nil {
		return c.h.hello(c.endpoint, n, m)
	}
	return wire.HelloReply{PollSeconds: 60, Session: m.Session}, nil
}

func (c *fakeConn) Poll(ctx context.Context, m wire.Poll) (wire.PollReply, error) {
	c.h.mu.Lock()
	c.h.polls = append(c.h.polls, m)
	n := len(c.h.polls)
	c.h.mu.Unlock()
	if c.h.poll != nil {
		if r, err, ok := c.h.poll(n, m); ok {
			return r, err
		}
	}
	<-ctx.Done()
	return wire.PollReply{}, ctx.Err()
}

func (c *fakeConn) Report(_ context.Context, m wire.Report) (wire.ReportReply, error) {
	c.h.mu.Lock()
	c.h.reports = append(c.h.reports, m)
	n := len(c.h.reports)
	c.h.mu.Unlock()
	if c.h.report != nil {
		return wire.ReportReply{}, c.h.report(n, m)
	}
	return wire.ReportReply{Accepted: true}, nil
}

func (c *fakeConn) Bodies(context.Context, wire.BodiesRequest) (wire.BodiesReply, error) {
	return wire.BodiesReply{}, nil
}

func (c *fakeConn) Token(context.Context, wire.TokenRequest) (wire.TokenReply, error) {
	return wire.TokenReply{}, nil
}

func (c *fakeConn) Stream(context.Context, string, io.Reader) error { return nil }

func (c *fakeConn) Close() {
	c.h.mu.Lock()
	defer c.h.mu.Unlock()
	c.h.closed++
}

// fakeAgent notes what it is told and holds what the test says.
type fakeAgent struct {
	mu     sync.Mutex
	held   wire.Position
	told   []wire.Signed
	states []State
}

func (a *fakeAgent) Hello() wire.Hello { return wire.Hello{} }
func (a *fakeAgent) Held() (wire.Position, wire.Hash) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.held, nil
}
func (a *fakeAgent) Desired(s wire.Signed) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.told = append(a.told, s)
}
func (a *fakeAgent) Bodies(wire.BodiesReply) {}
func (a *fakeAgent) Command(wire.Signed)     {}
func (a *fakeAgent) Acked(uint64)            {}
func (a *fakeAgent) State(s State) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.states = append(a.states, s)
}

func (a *fakeAgent) last() State { return a.states[len(a.states)-1] }

// run runs a link in a bubble for the given time, then stops it and returns.
func run(t *testing.T, h *fakeHub, a *fakeAgent, change func(*Config), for_ time.Duration, with func(*Session)) {
	t.Helper()
	var session uint64
	c := Config{
		Source: a, Sink: a, Transport: h, ClusterID: "c", Device: "d", Endpoints: []string{"a", "b", "c"}, Roots: func() *x509.CertPool { return nil },
		NextSession: func(above uint64) (uint64, error) { session = max(session, above) + 1; return session, nil },
		Random:      func(n int64) int64 { return n - 1 }, // the longest wait
	}
	if change != nil {
		change(&c)
	}
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	synctest.Wait()
	if with != nil {
		with(s)
	}
	time.Sleep(for_) // the bubble's clock
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Run ended with %v, want only the end of its context", err)
	}
}

func TestEveryMemberIsTriedAndTheWaitGrowsToItsCap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, a := &fakeHub{}, &fakeAgent{}
		h.hello = func(string, int, wire.Hello) (wire.HelloReply, error) {
			return wire.HelloReply{}, fault.Unreachable.Errorf("no route")
		}
		run(t, h, a, nil, 30*time.Minute, nil)
		if d := cmp.Diff([]string{"a", "b", "c", "a", "b", "c"}, h.hellos[:6]); d != "" {
			t.Errorf("endpoints (-want +got):\n%s", d)
		}
		first, last := h.at[1].Sub(h.at[0]), h.at[len(h.at)-1].Sub(h.at[len(h.at)-2])
		if first > time.Second+time.Microsecond || last < 2*time.Minute || last > 2*time.Minute+time.Microsecond {
			t.Errorf("first wait %s, last %s; want at most 1s, and 2m", first, last)
		}
		if s := a.last(); s.Connected {
			t.Errorf("state %+v", s)
		}
		if i := slices.IndexFunc(a.states, func(s State) bool { return s.Err != nil && s.NextTry > 0 }); i < 0 {
			t.Error("no state says why it is not connected and when the next try is")
		}
	})
}

func TestRetryAfterIsObeyed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, a := &fakeHub{}, &fakeAgent{}
		h.hello = func(string, int, wire.Hello) (wire.HelloReply, error) {
			return wire.HelloReply{}, fault.SlowDown(10*time.Minute, "too many")
		}
		run(t, h, a, nil, 11*time.Minute, nil)
		if len(h.at) != 2 || h.at[1].Sub(h.at[0]) < 10*time.Minute {
			t.Errorf("tries at %v; want the second after 10 minutes", h.at)
		}
	})
}

func TestAPollWithoutAnAnswerIsGivenUpSoonAfterTheHoldTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, a := &fakeHub{}, &fakeAgent{}
		run(t, h, a, nil, 90*time.Second, nil)
		if len(h.at) != 2 || h.at[1].Sub(h.at[0]) > 82*time.Second || h.closed == 0 {
			t.Errorf("hellos after %v, %d closed; want a second one within hold 60s + margin 20s + a wait", h.at, h.closed)
		}
	})
}

func TestAReportThatWasNotSentIsReplacedByANewerOneAndSentAfterAReconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, a := &fakeHub{}, &fakeAgent{}
		h.report = func(n int, _ wire.Report) error {
			if n == 1 {
				return fault.Unreachable.Errorf("cut")
			}
			return nil
		}
		run(t, h, a, nil, 10*time.Second, func(s *Session) {
			s.Report(wire.Report{WallTime: 1})
			synctest.Wait() // it fails, and waits for the next connection
			s.Report(wire.Report{WallTime: 2})
			s.Report(wire.Report{WallTime: 3})
		})
		var got []string
		for _, r := range h.reports {
			got = append(got, fmt.Sprintf("%d: session %d sequence %d", r.WallTime, r.Session, r.Sequence))
		}
		want := []string{"1: session 1 sequence 1", "3: session 1 sequence 2"}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("reports (-want +got):\n%s", d)
		}
	})
}

func TestAReportThatTheHubRefusesForeverDoesNotCutTheLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, a := &fakeHub{}, &fakeAgent{}
		h.report = func(int, wire.Report) error { return fault.TooLarge.Errorf("too large") }
		run(t, h, a, nil, 30*time.Second, func(s *Session) { s.Report(wire.Report{}) })
		if len(h.hellos) != 1 || len(h.reports) != 1 {
			t.Errorf("%d hellos, %d reports; want one of each", len(h.hellos), len(h.reports))
		}
	})
}

func TestASessionIsNumberedAboveWhatTheHubKnows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, a := &fakeHub{}, &fakeAgent{}
		h.hello = func(_ string, _ int, m wire.Hello) (wire.HelloReply, error) {
			return wire.HelloReply{PollSeconds: 60, Session: max(m.Session, 41)}, nil
		}
		run(t, h, a, nil, time.Second, nil)
		if len(h.polls) != 1 || h.polls[0].Session != 42 {
			t.Errorf("polls %+v; want one of session 42", h.polls)
		}
	})
}

func TestWhatWasToldIsNotAskedForAgainWhileItsBodiesAreFetched(t *testing.T) {
	ca := newAuthority(t)
	signed := ca.desired(t, wire.Desired{Device: "d", Position: wire.Position{ClusterID: "c", Epoch: 1, EpochID: "e", Revision: 1<<40 | 5}})
	synctest.Test(t, func(t *testing.T) {
		h, a := &fakeHub{}, &fakeAgent{}
		h.poll = func(n int, m wire.Poll) (wire.PollReply, error, bool) {
			if m.Held.Revision == 0 {
				return wire.PollReply{Desired: signed}, nil, true
			}
			time.Sleep(59 * time.Second)
			return wire.PollReply{}, nil, true
		}
		run(t, h, a, func(c *Config) { c.Roots = func() *x509.CertPool { return ca.roots }; c.Now = afterNow }, 130*time.Second, nil)
		// Told at once; not again while it may be fetching (a minute); then again, since it is still not stored.
		if len(a.told) < 2 || len(a.told) > 3 || len(h.polls) > 6 {
			t.Errorf("told %d times in %d polls; want again only after a minute", len(a.told), len(h.polls))
		}
	})
}

// afterNow is past the test certificates' beginning: the bubble's clock starts in 2000.
func afterNow() time.Time { return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) }

func TestWhatIsNotForThisDeviceOrGoesBackNeverReachesTheAgent(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	good := wire.Position{ClusterID: "c", Epoch: 1, EpochID: "e", Revision: 1<<40 | 5}
	held := good
	lower := good
	lower.Revision--
	forced := good
	forced.EpochID = "other"
	elsewhere := good
	elsewhere.ClusterID = "x"
	for name, s := range map[string]*wire.Signed{
		"another device":  ca.desired(t, wire.Desired{Device: "e", Position: good}),
		"another cluster": ca.desired(t, wire.Desired{Device: "d", Position: elsewhere}),
		"lower":           ca.desired(t, wire.Desired{Device: "d", Position: lower}),
		"another history": ca.desired(t, wire.Desired{Device: "d", Position: forced}),
		"another CA":      other.desired(t, wire.Desired{Device: "d", Position: good}),
		"changed":         {Payload: []byte{0xa0}, Certificate: ca.leaf, Signature: ca.desired(t, wire.Desired{Device: "d", Position: good}).Signature},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, a := &fakeHub{}, &fakeAgent{held: held}
				h.poll = func(int, wire.Poll) (wire.PollReply, error, bool) { return wire.PollReply{Desired: s}, nil, true }
				run(t, h, a, func(c *Config) { c.Roots = func() *x509.CertPool { return ca.roots } }, 10*time.Second, nil)
				if len(a.told) != 0 {
					t.Errorf("the agent was told %d times", len(a.told))
				}
				if i := slices.IndexFunc(a.states, func(s State) bool { return s.Err != nil }); i < 0 {
					t.Error("nothing says that the hub's word was refused")
				}
			})
		})
	}
}

func TestLearnedEndpointsComeFirstAndConfiguredOnesAreNeverForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, a := &fakeHub{}, &fakeAgent{}
		h.hello = func(_ string, _ int, m wire.Hello) (wire.HelloReply, error) {
			return wire.HelloReply{PollSeconds: 60, Session: m.Session, Endpoints: []string{"x", "a", "", "x"}}, nil
		}
		var kept []string
		run(t, h, a, func(c *Config) { c.Learn = func(e []string) error { kept = e; return nil } }, time.Second, nil)
		if d := cmp.Diff([]string{"x", "a"}, kept); d != "" {
			t.Errorf("kept (-want +got):\n%s", d)
		}
		if d := cmp.Diff([]string{"x", "a", "b", "c"}, a.last().Endpoints); d != "" {
			t.Errorf("known (-want +got):\n%s", d)
		}
	})
}

func TestAHubThatAnswersEmptyPollsAtOnceIsNotAskedInABusyLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, a := &fakeHub{}, &fakeAgent{}
		h.poll = func(int, wire.Poll) (wire.PollReply, error, bool) { return wire.PollReply{}, nil, true }
		run(t, h, a, nil, time.Minute, nil)
		if len(h.polls) > 61 {
			t.Errorf("%d polls in a minute", len(h.polls))
		}
	})
}
