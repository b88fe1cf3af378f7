package gateway

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/wire"
	"github.com/drover-fleet/drover/client"
)

// recordAgain is how long to wait for the view to show another member's record before trying again.
const recordAgain = 500 * time.Millisecond

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }

// step is what one look at the view tells a poll to do.
type step struct {
	verdict  verdict
	desired  *wire.Desired // to sign and say
	commands []wire.Signed
	device   *api.Device
	record   api.DeviceBundle
	cause    uint64
	problems []Problem
	notes    []*api.Assignment // statuses to write because of problems come or gone
}

// Poll answers when there is something for the device, or when the hold time is over: with a signed Desired newer than what the
// device holds, and with commands. Errors: NotFound (unknown device: it changes nothing), Forbidden (not its key), Conflict (no
// such session, or a newer poll took over), Ahead (this member is behind the device: try another), Unavailable.
func (g *Gateway) Poll(ctx context.Context, p Peer, q wire.Poll) (wire.PollReply, error) {
	ctx, s, done, err := g.beginPoll(ctx, p, q)
	if err != nil {
		return wire.PollReply{}, err
	}
	defer done()
	hold := time.NewTimer(g.o.PollHold)
	defer hold.Stop()
	var patience <-chan time.Time // runs while this member is behind the device
	for {
		st, err := g.look(p, s, q)
		if err != nil {
			return wire.PollReply{}, err
		}
		if st.desired != nil || len(st.commands) > 0 {
			return g.answer(st)
		}
		g.note(ctx, st)
		var again <-chan time.Time
		switch st.verdict {
		case decide:
			if err := g.record(ctx, st); err != nil && !fault.Is(err, fault.Conflict) {
				g.o.Logger.Debug("bundle not recorded", "device", p.Device, "err", err)
				if fault.Is(err, fault.Unavailable, fault.Unreachable) {
					return wire.PollReply{}, err
				}
			}
			again = time.After(recordAgain)
		case wait:
			g.o.MarkProgress()
			again = time.After(recordAgain)
		case behind:
			if patience == nil {
				patience = time.After(g.o.BehindWait)
			}
			again = time.After(g.o.BehindWait / 8)
		case otherCluster:
			return wire.PollReply{}, fault.Forbidden.Errorf("device %s belongs to another cluster (%s); it is left alone", p.Device, q.Held.ClusterID)
		}
		if st.verdict != behind {
			patience = nil
		}
		select {
		case <-s.dirty:
		case <-again:
		case <-patience:
			return wire.PollReply{}, fault.Ahead.Errorf("member %s is behind device %s, which holds revision %d: try another member", g.o.Member, p.Device, q.Held.Revision)
		case <-s.ended:
			_, err := g.look(p, s, q)
			if err == nil {
				err = superseded(p.Device, s.number+1)
			}
			return wire.PollReply{}, err
		case <-g.stopped:
			return wire.PollReply{}, fault.Unavailable.Errorf("member %s stops: try another", g.o.Member)
		case <-hold.C:
			return wire.PollReply{}, nil
		case <-ctx.Done():
			return wire.PollReply{}, context.Cause(ctx)
		}
	}
}

// beginPoll makes this the session's one poll; an older one, probably of a connection that died, ends.
func (g *Gateway) beginPoll(ctx context.Context, p Peer, q wire.Poll) (context.Context, *session, func(), error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	d, err := g.authorize(p)
	if err != nil {
		return nil, nil, nil, err
	}
	s, err := g.current(d, q.Session)
	if err != nil {
		return nil, nil, nil, err
	}
	g.o.Contacts.Touch(p.Device, q.Session)
	if s.poll != nil {
		s.poll(errReplaced)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	s.poll = cancel
	s.polls++
	return ctx, s, func() { g.endPoll(s, cancel) }, nil
}

func (g *Gateway) endPoll(s *session, cancel context.CancelCauseFunc) {
	cancel(nil)
	g.mu.Lock()
	defer g.mu.Unlock()
	s.polls--
	s.idle = time.Now()
}

// look judges the device's position and prepares what to do. It does no I/O.
func (g *Gateway) look(p Peer, s *session, q wire.Poll) (step, error) {
	id, ok := g.o.Identity()
	if !ok {
		return step{}, starting()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	d, err := g.authorize(p)
	if err != nil {
		return step{}, err
	}
	if _, err := g.current(d, s.number); err != nil {
		return step{}, err
	}
	b, err := g.bundle(p.Device)
	if err != nil {
		return step{}, err
	}
	seen := g.view.seen()
	st := step{device: d, problems: b.Problems, verdict: judge(id, d, seen, q.Held, q.BundleHash, b)}
	delete(g.lagging, p.Device)
	if st.verdict == wait || st.verdict == behind {
		g.lagging[p.Device] = true
	}
	st.commands = s.take(time.Now())
	switch st.verdict {
	case say:
		st.desired = &wire.Desired{
			Position: wire.Position{ClusterID: id.ClusterID, Epoch: id.Epoch, EpochID: id.EpochID, Revision: recordOf(d).revision},
			Device:   p.Device, Assignments: b.Entries, Tombstones: b.Tombstones, BundleHash: b.Hash, Grant: b.Grant,
		}
	case decide:
		st.record, st.cause = nextRecord(id, d, seen, b), b.Newest
	}
	if st.verdict != wait && st.verdict != behind {
		st.notes = planNotes(g.view.byDevice[p.Device], b.Problems, g.o.Now())
	}
	return st, nil
}

func (v *view) seen() map[string]progress {
	out := make(map[string]progress, len(v.progress))
	for k, p := range v.progress {
		out[k.Plural] = *p
	}
	return out
}

// answer signs what a look came to.
func (g *Gateway) answer(st step) (wire.PollReply, error) {
	reply := wire.PollReply{Commands: st.commands}
	if st.desired == nil {
		return reply, nil
	}
	payload, err := wire.Encode(*st.desired)
	if err != nil {
		return wire.PollReply{}, err
	}
	if len(payload) > wire.MaxDesired {
		return wire.PollReply{}, fault.SizeLimit(fmt.Sprintf("the index of device %s", st.desired.Device), int64(len(payload)), wire.MaxDesired)
	}
	signed, err := g.o.Sign(wire.ContextDesired, payload)
	if err != nil {
		return wire.PollReply{}, err
	}
	reply.Desired = &signed
	return reply, nil
}

// record writes what is about to be said. The device's resourceVersion is the precondition, so of two members one wins.
func (g *Gateway) record(ctx context.Context, st step) error {
	n := api.Copy(st.device)
	n.Status.Bundle = st.record
	tx := client.Transaction{Items: []client.TxItem{{Verb: client.TxStatus, Object: n}}}
	if st.cause != 0 {
		tx.Cause = decimal(st.cause)
	}
	_, err := g.o.Client.Transact(ctx, tx)
	return err
}

// note writes conditions: assignments that cannot be resolved (any more, or now can), a device that is ahead of the hub. Losing a
// race is fine: the winner's write wakes the poll, which looks again.
func (g *Gateway) note(ctx context.Context, st step) {
	var tx client.Transaction
	for _, a := range st.notes {
		tx.Items = append(tx.Items, client.TxItem{Verb: client.TxStatus, Object: a})
	}
	if n := planAhead(st.device, st.verdict == aheadOfHub, g.o.Now()); n != nil && st.verdict != wait && st.verdict != behind {
		tx.Items = append(tx.Items, client.TxItem{Verb: client.TxStatus, Object: n})
	}
	if len(tx.Items) == 0 {
		return
	}
	if _, err := g.o.Client.Transact(ctx, tx); err != nil && !fault.Is(err, fault.Conflict, fault.NotFound) {
		g.o.Logger.Debug("conditions not written", "device", st.device.Metadata.Name, "err", err)
	}
}

// planAhead is the device with the condition as it should be, or nil when it is.
func planAhead(d *api.Device, ahead bool, now time.Time) *api.Device {
	if api.ConditionIs(d.Status.Conditions, ConditionAheadOfHub, api.True) == ahead {
		return nil
	}
	n := api.Copy(d)
	if !ahead {
		api.RemoveCondition(&n.Status.Conditions, ConditionAheadOfHub)
		return n
	}
	api.SetCondition(&n.Status.Conditions, api.Condition{
		Type: ConditionAheadOfHub, Status: api.True, Reason: "UnknownHistory",
		Message: "the device holds a state that this hub's history does not have (a restored or new hub); it keeps running it and is left alone",
	}, api.TimeOf(now))
	return n
}

// planNotes are the assignments whose condition ConfigMissing differs from what the bundle's builder found.
func planNotes(assignments map[name]*api.Assignment, problems []Problem, now time.Time) []*api.Assignment {
	why := map[string]Problem{}
	for _, p := range problems {
		why[p.Assignment.Metadata.UID] = p
	}
	var out []*api.Assignment
	for _, a := range assignments {
		p, bad := why[a.Metadata.UID]
		missing, forbidden := bad && !p.Forbidden, bad && p.Forbidden
		if noted(a, ConditionConfigMissing, p.Message, missing) && noted(a, ConditionPoolRefuses, p.Message, forbidden) {
			continue
		}
		n := api.Copy(a)
		planNote(n, ConditionConfigMissing, "Unresolved", p.Message, missing, now)
		planNote(n, ConditionPoolRefuses, "PoolRefuses", p.Message, forbidden, now)
		out = append(out, n)
	}
	slices.SortFunc(out, func(a, b *api.Assignment) int { return cmp.Compare(a.Metadata.UID, b.Metadata.UID) })
	return out
}

// noted reports whether a condition stands as it should.
func noted(a *api.Assignment, condition, message string, holds bool) bool {
	have := api.FindCondition(a.Status.Conditions, condition)
	return holds == (have != nil) && (!holds || have.Message == message)
}

func planNote(a *api.Assignment, condition, reason, message string, holds bool, now time.Time) {
	if holds {
		api.SetCondition(&a.Status.Conditions, api.Condition{Type: condition, Status: api.True, Reason: reason, Message: message}, api.TimeOf(now))
		return
	}
	api.RemoveCondition(&a.Status.Conditions, condition)
}

// Bodies answers with the bodies and sealed secrets that the device's present bundle has. What it has no more is left out: the
// device learns of a newer bundle by its next poll.
func (g *Gateway) Bodies(_ context.Context, p Peer, q wire.BodiesRequest) (wire.BodiesReply, error) {
	g.mu.Lock()
	_, err := g.authorize(p)
	var b *Bundle
	if err == nil {
		b, err = g.bundle(p.Device)
	}
	g.mu.Unlock()
	if err != nil {
		return wire.BodiesReply{}, err
	}
	var out wire.BodiesReply
	for _, h := range q.Bodies {
		if body, ok := b.Bodies[h.String()]; ok {
			out.Bodies = append(out.Bodies, body)
		}
	}
	for _, r := range q.Secrets {
		plain, ok := b.secret(r)
		if !ok {
			continue
		}
		sealed, err := wire.Seal(p.Key, r, plain)
		if err != nil {
			return wire.BodiesReply{}, err
		}
		out.Secrets = append(out.Secrets, sealed)
	}
	return out, nil
}
