package gateway

import (
	"context"
	"math/rand/v2"
	"reflect"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/wire"
	"github.com/drover-fleet/drover/client"
)

const (
	maxCommands = 16 // waiting for one device; more are refused
	maxConflict = 6  // times a write is planned anew after a conflict
)

// session is a device's link to this member. Its fields are guarded by Gateway.mu, save the channels.
type session struct {
	number uint64
	ended  chan struct{} // closed when a newer session takes over
	dirty  chan struct{} // one slot: something that concerns the device changed
	report chan struct{} // one slot: held while a report is judged, so that reports of a device are judged one at a time

	poll     context.CancelCauseFunc // ends the newest poll; nil before the first
	polls    int                     // in progress
	idle     time.Time               // when the last poll ended
	last     uint64                  // sequence of the last report accepted here
	commands []pendingCommand
}

type pendingCommand struct {
	signed  wire.Signed
	expires time.Time
}

func newSession(number uint64) *session {
	return &session{number: number, ended: make(chan struct{}), dirty: make(chan struct{}, 1), report: make(chan struct{}, 1)}
}

func (s *session) wake() {
	select {
	case s.dirty <- struct{}{}:
	default:
	}
}

// Hello opens a session, or says by a higher Session in the reply that the device must number anew.
func (g *Gateway) Hello(ctx context.Context, p Peer, h wire.Hello) (wire.HelloReply, error) {
	select {
	case g.hellos <- struct{}{}:
		defer func() { <-g.hellos }()
	default:
		return wire.HelloReply{}, fault.SlowDown(time.Second+rand.N(10*time.Second), "too many devices connect at once")
	}
	if h.Session == 0 {
		return wire.HelloReply{}, fault.Invalid.Errorf("hello: session is 0, want at least 1")
	}
	g.mu.Lock()
	d, err := g.authorize(p)
	g.mu.Unlock()
	if err != nil {
		return wire.HelloReply{}, err
	}
	for try := 0; ; try++ {
		if known := uint64(max(d.Status.Identity.Session, 0)); known > h.Session {
			return g.helloReply(d, known), nil
		}
		n := planHello(d, h, g.o.Now())
		if reflect.DeepEqual(d.Status, n.Status) {
			break
		}
		tx := client.Transaction{Items: []client.TxItem{{Verb: client.TxStatus, Object: n}}}
		if _, err = g.o.AsDevice(p.Device).Transact(ctx, tx); err == nil {
			break
		}
		if !fault.Is(err, fault.Conflict) || try == maxConflict {
			return wire.HelloReply{}, err
		}
		if d, err = g.fresh(ctx, p); err != nil {
			return wire.HelloReply{}, err
		}
	}
	if known := g.open(p.Device, h.Session); known > h.Session {
		return g.helloReply(d, known), nil // the view has not shown it yet
	}
	g.o.Contacts.Touch(p.Device, h.Session)
	g.o.Logger.Debug("device connected", "device", p.Device, "session", h.Session, "source", p.Source)
	return g.helloReply(d, h.Session), nil
}

// fresh reads the device as it is in the whole hub, after a conflict showed that the view is older.
func (g *Gateway) fresh(ctx context.Context, p Peer) (*api.Device, error) {
	o, err := g.o.Client.Get(ctx, api.Ref{Kind: api.KindDevice, Name: p.Device}, client.GetOptions{})
	if fault.Is(err, fault.NotFound) {
		return nil, unknownDevice(p.Device)
	}
	if err != nil {
		return nil, err
	}
	d, ok := o.(*api.Device)
	if !ok {
		return nil, fault.Internal.Errorf("read device %s: got a %T", p.Device, o)
	}
	return d, checkKey(d, p)
}

func (g *Gateway) helloReply(d *api.Device, session uint64) wire.HelloReply {
	return wire.HelloReply{
		Capability: wire.CapabilityNow, PollSeconds: uint32(g.o.PollHold / time.Second), WallTime: g.o.Now().UnixNano(),
		Endpoints: g.o.Endpoints(), Acked: uint64(d.Status.Identity.JournalAcked), Session: session,
	}
}

// open makes the session current and returns the number of the one that is: a higher one stays. The same number again is the
// same agent on a new connection: its session goes on.
func (g *Gateway) open(device string, number uint64) uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	old := g.sessions[device]
	switch {
	case old == nil:
	case old.number > number:
		return old.number
	case old.number == number:
		if old.poll != nil {
			old.poll(errReplaced)
		}
		return number
	default:
		close(old.ended)
	}
	g.sessions[device] = newSession(number)
	return number
}

// end closes the device's session at this member. Called with mu held.
func (g *Gateway) end(device string) {
	if s := g.sessions[device]; s != nil {
		close(s.ended)
	}
	delete(g.sessions, device)
	delete(g.bundles, device)
	delete(g.lagging, device)
}

var errReplaced = fault.Conflict.Errorf("a newer poll of the same session took over")

func superseded(device string, number uint64) error {
	return fault.Conflict.Errorf("device %s has a newer session (%d): say hello again", device, number)
}

// current finds the device's session and checks that it is the one the peer speaks of. Called with mu held.
func (g *Gateway) current(d *api.Device, number uint64) (*session, error) {
	name := d.Metadata.Name
	if known := uint64(max(d.Status.Identity.Session, 0)); known > number {
		if s := g.sessions[name]; s != nil && s.number < known {
			g.end(name)
		}
		return nil, superseded(name, known)
	}
	s := g.sessions[name]
	switch {
	case s == nil || s.number < number:
		return nil, fault.Conflict.Errorf("device %s has no session %d at this member: say hello first", name, number)
	case s.number > number:
		return nil, superseded(name, s.number)
	}
	return s, nil
}

// Report judges a device's report and writes what is new in it, in one transaction.
func (g *Gateway) Report(ctx context.Context, p Peer, r wire.Report) (wire.ReportReply, error) {
	g.mu.Lock()
	d, err := g.authorize(p)
	var s *session
	if err == nil {
		s, err = g.current(d, r.Session)
	}
	g.mu.Unlock()
	if err != nil {
		return wire.ReportReply{}, err
	}
	g.o.Contacts.Touch(p.Device, r.Session)
	select {
	case s.report <- struct{}{}:
		defer func() { <-s.report }()
	case <-ctx.Done():
		return wire.ReportReply{}, ctx.Err()
	}
	return g.judgeReport(ctx, p, s, r)
}

// caughtUp waits until this member's view has what the device answers to: statuses of assignments that the view does not have
// yet would be lost. Ahead when that takes too long: another member may have it.
func (g *Gateway) caughtUp(ctx context.Context, p Peer, held wire.Position) error {
	limit := time.Now().Add(g.o.BehindWait)
	for {
		id, ok := g.o.Identity()
		if !ok {
			return starting()
		}
		g.mu.Lock()
		d, err := g.authorize(p)
		v := nothing
		if err == nil {
			v = judge(id, d, g.view.seen(), held, nil, &Bundle{})
		}
		g.mu.Unlock()
		switch {
		case err != nil:
			return err
		case v != wait && v != behind:
			return nil
		case time.Now().After(limit):
			return fault.Ahead.Errorf("member %s is behind device %s, which answers to revision %d: try another member", g.o.Member, p.Device, held.Revision)
		}
		if !g.o.Sleep(ctx, g.o.BehindWait/16) {
			return ctx.Err()
		}
	}
}

func (g *Gateway) judgeReport(ctx context.Context, p Peer, s *session, r wire.Report) (wire.ReportReply, error) {
	if err := g.caughtUp(ctx, p, r.Held); err != nil {
		return wire.ReportReply{}, err
	}
	g.mu.Lock()
	in, err := g.reportInputs(p, s, r)
	last := s.last
	g.mu.Unlock()
	if err != nil {
		return wire.ReportReply{}, err
	}
	if r.Sequence <= last {
		return wire.ReportReply{Acked: uint64(in.device.Status.Identity.JournalAcked)}, nil
	}
	for try := 0; ; try++ {
		plan := planReport(in, r)
		if plan.stale {
			return wire.ReportReply{Acked: plan.acked}, nil
		}
		err := g.write(ctx, p.Device, plan, r)
		switch {
		case err == nil:
			g.mu.Lock()
			s.last = max(s.last, r.Sequence)
			g.mu.Unlock()
			return wire.ReportReply{Accepted: true, Acked: plan.acked}, nil
		case try == maxConflict:
			return wire.ReportReply{}, err
		case fault.Is(err, fault.AlreadyExists, fault.Invalid, fault.Forbidden) && !in.noEvents && len(r.Journal) > 0:
			// The events were kept before, or their namespace takes none any more. The device's word on the present must not
			// wait for them.
			g.o.Logger.Warn("journal records are not kept as events", "device", p.Device, "err", err)
			in.noEvents = true
		case fault.Is(err, fault.Conflict, fault.NotFound):
			in.noEvents = in.noEvents || try >= maxConflict/2 && fault.Is(err, fault.NotFound)
			if in, err = g.refresh(ctx, p, in, r); err != nil {
				return wire.ReportReply{}, err
			}
		default:
			return wire.ReportReply{}, err
		}
	}
}

func (g *Gateway) write(ctx context.Context, device string, plan reportPlan, r wire.Report) error {
	if len(plan.items) == 0 {
		return nil
	}
	tx := client.Transaction{Items: plan.items}
	if r.Held.Revision != 0 {
		tx.Cause = decimal(r.Held.Revision)
	}
	_, err := g.o.AsDevice(device).Transact(ctx, tx)
	return err
}

// reportInputs takes everything from the view. Called with mu held.
func (g *Gateway) reportInputs(p Peer, s *session, r wire.Report) (reportInputs, error) {
	d, err := g.authorize(p)
	if err != nil {
		return reportInputs{}, err
	}
	in := reportInputs{
		device: d, assignments: map[string]*api.Assignment{}, tombstones: map[string]*api.Tombstone{},
		now: g.o.Now(), gap: r.Sequence != s.last+1,
	}
	in.id, _ = g.o.Identity() // caughtUp has asked for it
	for _, a := range g.view.byDevice[p.Device] {
		in.assignments[a.Metadata.UID] = a
	}
	for _, t := range g.view.tombstones[p.Device] {
		in.tombstones[t.Spec.UID] = t
	}
	return in, nil
}

// refresh reads what the report speaks of as it is in the whole hub.
func (g *Gateway) refresh(ctx context.Context, p Peer, in reportInputs, r wire.Report) (reportInputs, error) {
	d, err := g.fresh(ctx, p)
	if err != nil {
		return in, err
	}
	in.device = d
	for uid, a := range in.assignments {
		o, err := g.o.Client.Get(ctx, refOf(api.KindAssignment, a), client.GetOptions{})
		switch n, ok := o.(*api.Assignment); {
		case fault.Is(err, fault.NotFound), err == nil && (!ok || n.Metadata.UID != uid):
			delete(in.assignments, uid)
		case err != nil:
			return in, err
		default:
			in.assignments[uid] = n
		}
	}
	for _, uid := range r.Gone {
		t := in.tombstones[uid]
		if t == nil {
			continue
		}
		o, err := g.o.Client.Get(ctx, refOf(api.KindTombstone, t), client.GetOptions{})
		switch n, ok := o.(*api.Tombstone); {
		case fault.Is(err, fault.NotFound), err == nil && !ok:
			delete(in.tombstones, uid)
		case err != nil:
			return in, err
		default:
			in.tombstones[uid] = n
		}
	}
	return in, nil
}

func refOf(k *api.Kind, o api.Object) api.Ref {
	return api.Ref{Kind: k, Namespace: o.Meta().Namespace, Name: o.Meta().Name}
}
