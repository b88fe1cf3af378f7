package consensus

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fxamacker/cbor/v2"
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
	"google.golang.org/protobuf/proto"

	"github.com/drover-fleet/drover/consensus/raftlog"
)

// Operations of a confChange.
const (
	opAdd     = "add"
	opPromote = "promote"
	opRemove  = "remove"
	opReplace = "replace"
	opUpdate  = "update"
)

// promoteLag is how many entries a learner may miss and still become a voter.
const promoteLag = 64

// confWait is a caller's wish about the membership. It is proposed again until it is seen fulfilled: raft drops
// proposals silently, and turns a second change before the first is applied into an empty entry.
type confWait struct {
	id       uint64 // waiter
	change   confChange
	transfer uint64 // not 0: make this member the leader instead
	next     uint64 // tick of the next attempt
}

// learnerWatch tells whether a learner makes progress.
type learnerWatch struct {
	match uint64
	since uint64 // tick of the last progress
}

func (c *core) pumpChanges() {
	c.changes = drop(c.changes, func(w confWait) bool {
		value, done, err := c.fulfilled(w)
		if done {
			c.complete(w.id, value, err)
		}
		return done
	})
	if c.rn == nil || c.lead == 0 {
		return
	}
	for i := range c.changes {
		if c.tick >= c.changes[i].next {
			c.changes[i].next = c.tick + uint64(c.cfg.ElectionTicks)
			c.attempt(c.changes[i])
		}
	}
}

// fulfilled judges a wish by the membership as this member has applied it.
func (c *core) fulfilled(w confWait) (value any, done bool, err error) {
	if w.transfer != 0 {
		switch m, ok := c.members[w.transfer]; {
		case !ok:
			return nil, true, ErrUnknown
		case m.Learner:
			return nil, true, ErrLearner
		}
		return nil, c.lead == w.transfer, nil
	}
	switch w.change.Op {
	case opAdd:
		m, ok := c.memberNamed(w.change.Member.Name)
		if ok && m.PeerAddr != w.change.Member.PeerAddr {
			return nil, true, fmt.Errorf("add %s at %s: %w (at %s)", m.Name, w.change.Member.PeerAddr, ErrNameTaken, m.PeerAddr)
		}
		return m, ok, nil
	case opUpdate:
		return c.updated(w.change.Member)
	default:
		id := w.change.Member.ID
		if _, ok := c.members[id]; !ok {
			return nil, true, nil
		}
		if c.lastVoter(id) {
			return nil, true, ErrLastVoter
		}
		return nil, false, nil
	}
}

// updated tells whether a member has the addresses that somebody wants it to have.
func (c *core) updated(want Member) (value any, done bool, err error) {
	m, ok := c.members[want.ID]
	if !ok {
		return nil, true, ErrUnknown
	}
	for _, o := range c.members {
		if o.ID != m.ID && o.PeerAddr == want.PeerAddr {
			return nil, true, fmt.Errorf("move %s to %s: %w: %s", m.Name, want.PeerAddr, ErrAddrTaken, o.Name)
		}
	}
	return m, m.PeerAddr == want.PeerAddr && m.APIAddr == want.APIAddr, nil
}

func (c *core) attempt(w confWait) {
	target := w.change.Member.ID
	switch {
	case w.transfer != 0:
		c.rn.TransferLeader(w.transfer)
	case w.change.Op == opRemove && target == c.lead:
		// A leader that removes itself takes the news of it along: hand over first.
		for _, id := range c.conf.State.GetVoters() {
			if id != target {
				c.rn.TransferLeader(id)
				return
			}
		}
	default:
		c.propose(w.change)
	}
}

// propose puts a change of membership into the log, perhaps.
func (c *core) propose(change confChange) {
	context, err := cbor.Marshal(change)
	if err != nil {
		panic(fmt.Sprintf("consensus: encode %+v: %v", change, err)) // plain strings and numbers
	}
	one := func(t pb.ConfChangeType, id uint64) *pb.ConfChangeSingle {
		return &pb.ConfChangeSingle{Type: t.Enum(), NodeId: new(id)}
	}
	cc := &pb.ConfChangeV2{Context: context}
	switch id := change.Member.ID; change.Op {
	case opAdd:
		cc.Changes = append(cc.Changes, one(pb.ConfChangeAddLearnerNode, id))
	case opPromote:
		cc.Changes = append(cc.Changes, one(pb.ConfChangeAddNode, id))
	case opRemove:
		cc.Changes = append(cc.Changes, one(pb.ConfChangeRemoveNode, id))
	case opUpdate: // raft knows no addresses; the entry orders the change among the others
		cc.Changes = append(cc.Changes, one(pb.ConfChangeUpdateNode, id))
	case opReplace: // two changes at once pass through a joint configuration, which raft leaves by itself
		cc.Changes = append(cc.Changes, one(pb.ConfChangeRemoveNode, change.Old), one(pb.ConfChangeAddLearnerNode, id))
	}
	_ = c.rn.ProposeConfChange(cc) // dropped: whoever wants it tries again
}

// applyConf lets a committed change of membership take effect. A change that does not fit any more is refused, by every
// member alike.
func (c *core) applyConf(e *pb.Entry) error {
	if e.GetType() == pb.EntryNormal || e.GetIndex() <= c.conf.Index {
		return nil
	}
	cc := &pb.ConfChangeV2{}
	if err := proto.Unmarshal(e.GetData(), cc); err != nil || e.GetType() != pb.EntryConfChangeV2 {
		return fmt.Errorf("membership entry %d of type %s: %w", e.GetIndex(), e.GetType(), err)
	}
	var change confChange
	if len(cc.GetChanges()) > 0 {
		if err := decodeStrict(cc.GetContext(), &change); err != nil {
			return fmt.Errorf("membership entry %d: %w", e.GetIndex(), err)
		}
	}
	if !c.fits(cc, change) {
		c.cfg.Logger.Info("change of membership does not fit any more", "op", change.Op, "of", change.Member.Name)
		c.publish(raftlog.Conf{Index: e.GetIndex(), State: c.conf.State})
		return nil
	}
	state := c.rn.ApplyConfChange(cc)
	switch change.Op {
	case opAdd:
		c.members[change.Member.ID] = change.Member
	case opRemove:
		delete(c.members, change.Member.ID)
	case opUpdate:
		m := c.members[change.Member.ID]
		m.PeerAddr, m.APIAddr = change.Member.PeerAddr, change.Member.APIAddr
		c.members[m.ID] = m
	case opReplace:
		delete(c.members, change.Old)
		c.members[change.Member.ID] = change.Member
	}
	c.publish(raftlog.Conf{Index: e.GetIndex(), State: state})
	c.cfg.Logger.Info("membership changed", "op", change.Op, "of", change.Member.Name, "index", e.GetIndex())
	if _, ok := c.members[c.id]; !ok {
		c.leave()
	}
	return nil
}

// fits judges a change against the membership it meets.
func (c *core) fits(cc *pb.ConfChangeV2, change confChange) bool {
	joint := len(c.conf.State.GetVotersOutgoing()) > 0
	if len(cc.GetChanges()) == 0 {
		return joint
	}
	_, exists := c.members[change.Member.ID]
	named, nameTaken := c.memberNamed(change.Member.Name)
	switch {
	case joint:
		return false
	case change.Op == opAdd:
		return !exists && !nameTaken
	case change.Op == opUpdate:
		return exists
	case change.Op == opPromote:
		return exists && slices.Contains(c.conf.State.GetLearners(), change.Member.ID)
	case change.Op == opRemove:
		return exists && !c.lastVoter(change.Member.ID)
	case change.Op == opReplace:
		return !exists && nameTaken && named.ID == change.Old && !c.lastVoter(change.Old)
	}
	return false
}

// publish makes a membership the current one and lets it ride on the next durable step: the log keeps the entries that
// lead to it until then.
func (c *core) publish(conf raftlog.Conf) {
	for id, m := range c.members {
		m.Learner = slices.Contains(conf.State.GetLearners(), id) || slices.Contains(conf.State.GetLearnersNext(), id)
		c.members[id] = m
		delete(c.hints, id)
	}
	conf.Members = encodeMembers(sortedMembers(c.members))
	c.conf = conf
	c.out.confMoved = true
	c.out.persist = append(c.out.persist, persistWork{gen: c.gen, batch: raftlog.Batch{Conf: &conf}})
}

// adopt takes a membership over from a snapshot; the snapshot's installation makes it durable.
func (c *core) adopt(conf raftlog.Conf) error {
	members, err := decodeMembers(conf.Members)
	if err != nil {
		return err
	}
	clear(c.members)
	for _, m := range members {
		c.members[m.ID] = m
		delete(c.hints, m.ID)
	}
	c.conf = conf
	c.out.confMoved = true
	return nil
}

// leave ends this member's part in the group.
func (c *core) leave() {
	c.stopRaft(phaseRemoved)
	c.failEverything(ErrRemoved)
	c.cfg.Logger.Warn("removed from the group", "id", c.id)
}

func (c *core) stopRaft(p phase) {
	c.rn, c.phase = nil, p
	c.gen++
	c.lead, c.isLead = 0, false
	c.failFlights()
	c.reads.restart()
}

func (c *core) memberNamed(name string) (Member, bool) {
	for _, m := range sortedMembers(c.members) {
		if m.Name == name {
			return m, true
		}
	}
	return Member{}, false
}

func (c *core) lastVoter(id uint64) bool {
	voters := c.conf.State.GetVoters()
	return len(voters) == 1 && voters[0] == id
}

// tickLeader does what the leader owes the group between its heartbeats.
func (c *core) tickLeader() {
	c.maybeCompact()
	if !c.isLead {
		if c.lead == 0 && c.props.leaderless%(2*c.cfg.ElectionTicks) == 2*c.cfg.ElectionTicks-1 {
			c.askAll() // perhaps we were removed while away: nobody else would tell
		}
		return
	}
	progress := c.progress()
	c.recordProgress(progress)
	if c.tick%2 == 0 {
		c.spreadRecords()
	}
	if c.leads() {
		c.tendLearners(progress)
		c.tickOffice(progress)
	}
}

// progress is the leader's view of all members including itself.
func (c *core) progress() map[uint64]tracker.Progress {
	out := map[uint64]tracker.Progress{}
	c.rn.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) { out[id] = pr })
	return out
}

// tendLearners promotes who has caught up and removes who makes no progress.
func (c *core) tendLearners(progress map[uint64]tracker.Progress) {
	for _, id := range c.conf.State.GetLearners() {
		pr := progress[id]
		w, seen := c.learners[id]
		if !seen || pr.Match > w.match || (pr.State == tracker.StateSnapshot && c.alive(id)) {
			w = learnerWatch{match: pr.Match, since: c.tick}
			c.learners[id] = w
		}
		due := (c.tick-w.since)%uint64(c.cfg.ElectionTicks) == 0
		switch {
		case pr.State == tracker.StateReplicate && c.alive(id) && pr.Match+promoteLag >= c.commit:
			if c.tick >= c.promoteAt { // one at a time: raft has room for one change
				c.promoteAt = c.tick + uint64(c.cfg.ElectionTicks)/2
				c.propose(confChange{Op: opPromote, Member: c.members[id]})
			}
		case due && c.tick-w.since >= uint64(c.cfg.LearnerTicks):
			c.cfg.Logger.Warn("learner makes no progress and is removed", "of", c.members[id].Name)
			c.propose(confChange{Op: opRemove, Member: c.members[id]})
		}
	}
}

func sortedMembers(members map[uint64]Member) []Member {
	out := make([]Member, 0, len(members))
	for _, m := range members {
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b Member) int {
		if d := strings.Compare(a.Name, b.Name); d != 0 {
			return d
		}
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	return out
}
