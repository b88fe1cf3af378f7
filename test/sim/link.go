package sim

import (
	"context"
	"errors"
	"time"

	"github.com/drover-fleet/drover/agent"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/wire"
	"github.com/drover-fleet/drover/hub/gateway"
	"github.com/drover-fleet/drover/test/history"
)

const (
	exchangeTime = 8 * time.Second // for an answer, before the link is taken for dead
	pollEvery    = 6 * time.Second // mean, after an answer without news
)

// link is the device's end of the protocol, with the rules of agent/link: a session number that grows, the latest report only,
// bodies asked for until they came, another member after any failure.
type link struct {
	d        *device
	session  uint64 // as kept on disk
	sequence uint64
	attempt  int // counts connections; what belongs to an earlier one does nothing
	member   *member
	up       bool

	report    *wire.Report
	unsent    bool
	reporting bool
	want      *wire.BodiesRequest
	fetching  bool
	told      wire.Position
	toldHash  wire.Hash
	toldAt    time.Duration
}

var errNoAnswer = errors.New("no answer")

func newLink(d *device) *link { return &link{d: d} }

// cutOff tells whether the device reaches no member.
func (l *link) cutOff() bool {
	for _, m := range l.d.w.members {
		if l.d.w.net.open(l.d.name, m.name) {
			return false
		}
	}
	return true
}

// start is a new run of the agent: a new session, and nothing to be said yet.
func (l *link) start() {
	l.report, l.want, l.unsent, l.told, l.toldHash = nil, nil, false, wire.Position{}, nil
	l.session++
	l.sequence = 0
	l.connect()
}

func (l *link) drop() {
	l.attempt++
	l.up, l.reporting, l.fetching = false, false, false
}

// broke ends a connection and tries another member later.
func (l *link) broke(attempt int, err error) {
	if attempt != l.attempt {
		return
	}
	l.d.w.logf("%s loses %s: %v", l.d.name, l.member.name, err)
	l.drop()
	l.connect()
}

func (l *link) connect() {
	attempt := l.attempt
	l.d.w.after(l.d.w.about(3*time.Second), func() {
		if attempt != l.attempt || l.d.core == nil {
			return
		}
		l.member = l.d.w.members[l.d.w.rng.IntN(len(l.d.w.members))]
		l.hello()
	})
}

func (l *link) peer() gateway.Peer {
	return gateway.Peer{Device: l.d.name, Fingerprint: fingerprint(l.d.name), Source: l.d.name}
}

// exchange has the member answer a request, and gives the answer to then unless the connection has ended.
func exchange[T any](l *link, serve func(ctx context.Context, g *gate) (T, error), then func(T)) {
	w, m, attempt := l.d.w, l.member, l.attempt
	settled := false
	settle := func(v T, err error) {
		if settled || attempt != l.attempt {
			return
		}
		settled = true
		if err != nil {
			l.broke(attempt, err)
			return
		}
		then(v)
	}
	w.net.send(l.d.name, m.name, func() {
		if !m.up {
			return
		}
		m.later(0, func() {
			g := m.gateway
			m.spawn(func(ctx context.Context) {
				v, err := serve(ctx, g)
				if ctx.Err() == nil {
					w.net.send(m.name, l.d.name, func() { settle(v, err) })
				}
			})
		})
	})
	w.after(exchangeTime, func() {
		var none T
		settle(none, errNoAnswer)
	})
}

func (l *link) hello() {
	h := wire.Hello{Capability: wire.CapabilityNow, BootID: l.d.runtime.BootID(), Session: l.session, WallTime: l.d.now().Wall}
	h.Held, h.BundleHash = l.d.core.Held()
	exchange(l, func(ctx context.Context, g *gate) (wire.HelloReply, error) {
		return g.Hello(ctx, l.peer(), h)
	}, func(r wire.HelloReply) {
		if r.Session > h.Session {
			l.session, l.sequence = r.Session+1, 0
			l.hello()
			return
		}
		l.up, l.unsent = true, l.report != nil
		l.d.step(agent.JournalAcked{Sequence: r.Acked})
		l.poll()
		l.sendReport()
		l.fetch()
	})
}

// poll asks for what is newer than what is held, or than what was told a moment ago.
func (l *link) poll() {
	q := wire.Poll{Session: l.session}
	q.Held, q.BundleHash = l.d.core.Held()
	if q.Held.Older(l.told) && l.d.w.now-l.toldAt < time.Minute {
		q.Held, q.BundleHash = l.told, l.toldHash
	}
	exchange(l, func(ctx context.Context, g *gate) (wire.PollReply, error) {
		r, _, err := g.PollNow(ctx, l.peer(), q)
		return r, err
	}, func(r wire.PollReply) {
		if r.Desired != nil {
			l.take(*r.Desired)
		}
		attempt := l.attempt
		l.d.w.after(l.d.w.about(pollEvery), func() {
			if attempt == l.attempt && l.d.core != nil {
				l.poll()
			}
		})
	})
}

// take checks what the link checks, save the signature, and hands it on.
func (l *link) take(s wire.Signed) {
	var d wire.Desired
	if err := wire.Decode(s.Payload, wire.MaxDesired, &d); err != nil {
		l.d.w.fail(history.NoErrors, "%s: desired: %v", l.d.name, err)
		return
	}
	held, _ := l.d.core.Held()
	if err := held.Accept(d.Position); err != nil {
		l.broke(l.attempt, err)
		return
	}
	l.d.w.trace.note(l.d.w.now, l.d.name, s.Payload)
	l.told, l.toldHash, l.toldAt = d.Position, d.BundleHash, l.d.w.now
	l.d.step(agent.DesiredReceived{Signed: s, Desired: d})
}

func (l *link) putReport(r wire.Report) {
	l.report, l.unsent = &r, true
	l.sendReport()
}

// sendReport sends the latest report, one at a time.
func (l *link) sendReport() {
	if !l.up || !l.unsent || l.reporting {
		return
	}
	l.unsent, l.reporting = false, true
	l.sequence++
	r := *l.report
	r.Session, r.Sequence = l.session, l.sequence
	sent := l.report
	attempt := l.attempt
	exchange(l, func(ctx context.Context, g *gate) (wire.ReportReply, error) {
		// The gateway judges the reports of a device one by one; a second one would wait for the first, which no task can.
		if g.judging[l.d.name] {
			return wire.ReportReply{}, errNoAnswer
		}
		g.judging[l.d.name] = true
		defer delete(g.judging, l.d.name)
		reply, err := g.Report(ctx, l.peer(), r)
		if fault.Is(err, fault.BadRequest, fault.Invalid, fault.TooLarge) {
			l.d.w.fail(history.NoErrors, "report of %s is refused: %v", l.d.name, err)
		}
		return reply, err
	}, func(reply wire.ReportReply) {
		l.reporting = false
		l.d.step(agent.JournalAcked{Sequence: reply.Acked})
		l.sendReport()
	})
	l.d.w.after(exchangeTime, func() { // what was not taken is due again
		if attempt != l.attempt && l.report == sent {
			l.unsent = true
		}
	})
}

func (l *link) putWant(q wire.BodiesRequest) {
	l.want = &q
	l.fetch()
}

func (l *link) fetch() {
	if !l.up || l.want == nil || l.fetching {
		return
	}
	l.fetching = true
	q := l.want
	exchange(l, func(ctx context.Context, g *gate) (wire.BodiesReply, error) {
		return g.Bodies(ctx, l.peer(), *q)
	}, func(r wire.BodiesReply) {
		l.fetching = false
		if l.want == q {
			l.want = nil
		}
		l.d.step(agent.BodiesReceived{Reply: r})
		l.fetch()
	})
}
