package gateway

import (
	"context"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/wire"
)

// What a simulator drives in place of Run and Poll, so that it owns the order of everything: the feeds one by one, and polls that
// are not held. The rest of the Gateway is called as ever.

// InputKinds are the kinds that are fed.
func InputKinds() []*api.Kind { return inputKinds() }

// Feed keeps the view of one kind up to date until ctx ends. Run does so for all of InputKinds.
func (g *Gateway) Feed(ctx context.Context, k *api.Kind) { g.feed(ctx, k) }

// PollNow is one look of a Poll: it answers what is to be said now, or does what has to be done first; answered is false then, and
// the device asks again. Errors are Poll's.
func (g *Gateway) PollNow(ctx context.Context, p Peer, q wire.Poll) (reply wire.PollReply, answered bool, err error) {
	g.mu.Lock()
	d, err := g.authorize(p)
	var s *session
	if err == nil {
		s, err = g.current(d, q.Session)
	}
	g.mu.Unlock()
	if err != nil {
		return wire.PollReply{}, false, err
	}
	g.o.Contacts.Touch(p.Device, q.Session)
	st, err := g.look(p, s, q)
	if err != nil {
		return wire.PollReply{}, false, err
	}
	if st.desired != nil || len(st.commands) > 0 {
		reply, err = g.answer(st)
		return reply, err == nil, err
	}
	g.note(ctx, st)
	switch st.verdict {
	case decide:
		if err = g.record(ctx, st); fault.Is(err, fault.Conflict) {
			err = nil
		}
	case wait:
		g.o.MarkProgress()
	case behind:
		err = fault.Ahead.Errorf("member %s is behind device %s, which holds revision %d: try another member", g.o.Member, p.Device, q.Held.Revision)
	case otherCluster:
		err = fault.Forbidden.Errorf("device %s belongs to another cluster (%s); it is left alone", p.Device, q.Held.ClusterID)
	}
	return wire.PollReply{}, false, err
}

// Woken signals that PollNow may have more to say to the device; nil when it has no session here.
func (g *Gateway) Woken(device string) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s := g.sessions[device]; s != nil {
		return s.dirty
	}
	return nil
}
