package sim

import (
	"context"
	"crypto/x509"
	"io"
	"slices"
	"time"

	"github.com/drover-fleet/drover/agent"
	"github.com/drover-fleet/drover/agent/link"
	"github.com/drover-fleet/drover/api/await"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/retry"
	"github.com/drover-fleet/drover/api/wire"
	"github.com/drover-fleet/drover/hub/gateway"
	"github.com/drover-fleet/drover/test/history"
)

const (
	exchangeTime = 8 * time.Second  // for an answer, before the link takes the member for dead
	pollHold     = 20 * time.Second // how long a member holds a poll
	lookAgain    = 5 * time.Second  // a held poll looks again though nothing woke it
)

// newLink makes the link of an agent that has just started: agent/link over the simulated network.
func (d *device) newLink() (*link.Session, error) {
	members := make([]string, len(d.w.members))
	for i, at := range d.w.rng.Perm(len(members)) {
		members[i] = d.w.members[at].name
	}
	return link.New(link.Config{
		Source: source{d}, Sink: sink{d}, Transport: transport{d}, ClusterID: clusterID, Device: d.name,
		Roots: func() *x509.CertPool { return d.f.signer.roots }, Now: d.wall, Endpoints: members,
		NextSession: func(above uint64) (uint64, error) {
			d.session = max(d.session, above) + 1
			return d.session, nil
		},
		Random: d.w.rng.Int64N, Waiter: clock{&d.host}, Timeout: exchangeTime, PollMargin: exchangeTime,
		Retry: retry.Policy{Base: time.Second, Max: 15 * time.Second},
	})
}

// source and sink are the agent as its link sees it: what came is taken by the agent's loop a moment later.
type (
	source struct{ d *device }
	sink   struct{ d *device }
)

// Hello implements link.Source.
func (s source) Hello() wire.Hello {
	return wire.Hello{BootID: s.d.runtime.BootID(), WallTime: s.d.now().Wall}
}

// Held implements link.Source.
func (s source) Held() (wire.Position, wire.Hash) { return s.d.core.Held() }

func (s sink) later(ev agent.Event) { s.d.later(0, func() { s.d.step(ev) }) }

// Desired implements link.Sink.
func (s sink) Desired(m wire.Signed) {
	var desired wire.Desired
	if err := wire.Decode(m.Payload, wire.MaxDesired, &desired); err != nil {
		s.d.w.fail(history.NoErrors, "%s: desired: %v", s.d.name, err)
		return
	}
	s.d.w.trace.note(s.d.w.now, s.d.name, m.Payload)
	s.later(agent.DesiredReceived{Signed: m, Desired: desired})
}

// Bodies implements link.Sink.
func (s sink) Bodies(r wire.BodiesReply) { s.later(agent.BodiesReceived{Reply: r}) }

// Command implements link.Sink. Nobody commands here.
func (s sink) Command(wire.Signed) { s.d.w.fail(history.NoErrors, "%s was sent a command", s.d.name) }

// Acked implements link.Sink.
func (s sink) Acked(journal uint64) { s.later(agent.JournalAcked{Sequence: journal}) }

// State implements link.Sink.
func (s sink) State(st link.State) {
	if st.Connected {
		s.d.w.logf("%s has %s", s.d.name, st.Endpoint)
	} else {
		s.d.w.logf("%s loses %s: %v", s.d.name, st.Endpoint, st.Err)
	}
}

// transport reaches members over the simulated network.
type transport struct{ d *device }

// Open implements link.Transport.
func (t transport) Open(endpoint string) (link.Conn, error) {
	return &conn{d: t.d, m: t.d.w.member(endpoint)}, nil
}

type conn struct {
	d *device
	m *member
}

func (c *conn) peer() gateway.Peer {
	return gateway.Peer{Device: c.d.name, Fingerprint: fingerprint(c.d.name), Source: c.d.name}
}

// exchange has the member answer a request. A member that is down refuses the connection, or says nothing; so does one that dies.
func exchange[T any](ctx context.Context, c *conn, serve func(ctx context.Context, g *gate) (T, error)) (T, error) {
	w, m, d := c.d.w, c.m, c.d
	var got T
	var bad error
	settled, done := false, make(chan struct{}, 1)
	settle := func(v T, err error) {
		if !settled {
			got, bad, settled = v, err, true
			done <- struct{}{}
			d.touch()
		}
	}
	answer := func(v T, err error) { w.net.send(m.name, d.name, func() { settle(v, err) }) }
	refuse := func() {
		if w.chance(0.7) {
			var none T
			answer(none, fault.Unreachable.Errorf("%s refuses the connection", m.name))
		}
	}
	w.net.send(d.name, m.name, func() {
		if !m.up || m.gateway == nil {
			refuse()
			return
		}
		m.later(0, func() {
			g := m.gateway
			m.spawn(func(ctx context.Context) {
				v, err := serve(ctx, g)
				if ctx.Err() != nil {
					refuse()
					return
				}
				answer(v, err)
			})
		})
	})
	clock{&d.host}.Wait(ctx, await.Forever, done)
	if !settled {
		return got, fault.Unreachable.Errorf("%s: no answer: %w", m.name, context.Cause(ctx))
	}
	return got, bad
}

// Hello implements link.Conn.
func (c *conn) Hello(ctx context.Context, h wire.Hello) (wire.HelloReply, error) {
	return exchange(ctx, c, func(ctx context.Context, g *gate) (wire.HelloReply, error) { return g.Hello(ctx, c.peer(), h) })
}

// Poll implements link.Conn.
func (c *conn) Poll(ctx context.Context, q wire.Poll) (wire.PollReply, error) {
	return exchange(ctx, c, func(ctx context.Context, g *gate) (wire.PollReply, error) { return g.poll(ctx, c.peer(), q) })
}

// poll holds the poll as the gateway's own Poll does.
func (g *gate) poll(ctx context.Context, p gateway.Peer, q wire.Poll) (wire.PollReply, error) {
	w := g.m.w
	for end := w.now + pollHold; ; {
		r, answered, err := g.PollNow(ctx, p, q)
		if answered || err != nil || w.now >= end || ctx.Err() != nil {
			return r, err
		}
		clock{&g.m.host}.Wait(ctx, min(end-w.now, w.between(lookAgain/2, lookAgain)), g.Woken(p.Device))
	}
}

// Bodies implements link.Conn.
func (c *conn) Bodies(ctx context.Context, q wire.BodiesRequest) (wire.BodiesReply, error) {
	return exchange(ctx, c, func(ctx context.Context, g *gate) (wire.BodiesReply, error) { return g.Bodies(ctx, c.peer(), q) })
}

// Report implements link.Conn.
func (c *conn) Report(ctx context.Context, r wire.Report) (wire.ReportReply, error) {
	return exchange(ctx, c, func(ctx context.Context, g *gate) (wire.ReportReply, error) {
		// The gateway judges the reports of a device one by one; a second one would wait for the first holding a lock, which no
		// task may.
		if g.judging[c.d.name] {
			return wire.ReportReply{}, fault.Unavailable.Errorf("a report is being judged")
		}
		g.judging[c.d.name] = true
		defer delete(g.judging, c.d.name)
		reply, err := g.Report(ctx, c.peer(), r)
		if fault.Is(err, fault.BadRequest, fault.Invalid, fault.TooLarge) {
			c.d.w.fail(history.NoErrors, "report of %s is refused: %v", c.d.name, err)
		}
		return reply, err
	})
}

// Token implements link.Conn. No workload asks for one.
func (c *conn) Token(context.Context, wire.TokenRequest) (wire.TokenReply, error) {
	return wire.TokenReply{}, fault.Unavailable.Errorf("no tokens are made here")
}

// Stream implements link.Conn. No stream is asked for.
func (c *conn) Stream(context.Context, string, io.Reader) error {
	return fault.Unavailable.Errorf("no streams here")
}

// Close implements link.Conn.
func (c *conn) Close() {}

// isCutOff tells whether the device reaches no member.
func (d *device) isCutOff() bool {
	return !slices.ContainsFunc(d.w.members, func(m *member) bool { return d.w.net.open(d.name, m.name) })
}
