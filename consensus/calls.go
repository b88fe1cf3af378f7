package consensus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/raft/v3/tracker"
)

// Propose puts a command into the log and returns its result once this member has applied it. Any member may propose.
// Errors: ErrNoLeader (nothing was proposed), ErrAmbiguous (it may or may not be applied), ErrBusy, ErrTooLarge,
// ErrRemoved, ErrStopped (nothing was proposed), or ctx's error, which is as ambiguous as ErrAmbiguous. The command must not be
// changed afterwards.
func (n *Node) Propose(ctx context.Context, cmd []byte) (any, error) {
	if len(cmd) > n.cfg.MaxCommand {
		return nil, fmt.Errorf("propose %d bytes: %w: the limit is %d", len(cmd), ErrTooLarge, n.cfg.MaxCommand)
	}
	size := int64(len(cmd)) + 64
	defer n.pending.Add(-size)
	if n.pending.Add(size) > n.cfg.MaxPendingBytes {
		return nil, ErrBusy
	}
	n.proposals.Add(1)
	defer n.proposals.Add(-1)
	select {
	case <-n.stopped:
		return nil, ErrStopped // nothing was proposed
	default:
	}
	value, err := n.await(ctx, func(in *input, id uint64) {
		in.proposals = append(in.proposals, proposal{id: id, data: cmd})
	})
	if errors.Is(err, ErrStopped) {
		err = fmt.Errorf("%w (%w)", ErrAmbiguous, err) // others may have it already, and commit it
	}
	return value, err
}

// ReadIndex returns nil when this member has applied everything that was acknowledged before the call. Lost requests
// are repeated; readers that wait share one. Errors: ErrNoLeader, ErrRemoved, ErrStopped, ctx's error.
func (n *Node) ReadIndex(ctx context.Context) error {
	_, err := n.await(ctx, func(in *input, id uint64) { in.reads = append(in.reads, id) })
	return err
}

// WaitApplied returns nil when this member has applied the entry.
func (n *Node) WaitApplied(ctx context.Context, index uint64) error {
	n.mu.Lock()
	if n.applied >= index {
		n.mu.Unlock()
		return nil
	}
	w := appliedWait{index: index, done: make(chan struct{})}
	n.reached = append(n.reached, w)
	n.mu.Unlock()
	select {
	case <-w.done:
		return nil
	case <-n.stopped:
		return ErrStopped
	case <-ctx.Done():
		n.mu.Lock()
		n.reached = drop(n.reached, func(o appliedWait) bool { return o.done == w.done })
		n.mu.Unlock()
		return ctx.Err()
	}
}

// Leadership tells whether this member leads, and in which term. It says so only after an entry of that term has been
// applied here, so everything acknowledged by earlier leaders is in the machine.
func (n *Node) Leadership() (term uint64, leader bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ledTerm, n.led
}

// LeadershipChanged returns a channel that is closed at the next change of Leadership. Take it before asking.
func (n *Node) LeadershipChanged() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.leadership
}

// Status tells what this member knows.
func (n *Node) Status() Status {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.status
	s.Members = slices.Clone(s.Members)
	first, _ := n.log.FirstIndex()
	last, _ := n.log.LastIndex()
	s.Entries = last + 1 - first
	s.Waiting, s.WaitingBytes = int(n.proposals.Load()), n.pending.Load()
	s.LogPath, s.LogBytes = n.log.Path(), n.log.Size()
	return s
}

// Members lists the members that this one knows of, by name.
func (n *Node) Members() []Member { return n.Status().Members }

// AddMember adds a learner with a fresh id and returns it as added; the leader makes it a voter once it has caught up.
// Repeating it for the same name and address returns the member that is there. ErrNameTaken: the name is at another
// address.
func (n *Node) AddMember(ctx context.Context, m Member) (Member, error) {
	if m.Name == "" || m.PeerAddr == "" {
		return Member{}, fmt.Errorf("add member %q at %q: name and peer address are required", m.Name, m.PeerAddr)
	}
	var err error
	if m.ID, err = randomID(); err != nil {
		return Member{}, err
	}
	m.Learner = true
	value, err := n.awaitChange(ctx, confWait{change: confChange{Op: opAdd, Member: m}})
	if err != nil {
		return Member{}, err
	}
	added, ok := value.(Member)
	if !ok {
		return Member{}, fmt.Errorf("add member %q: got %T", m.Name, value)
	}
	return added, nil
}

// RemoveMember takes a member out. A leader hands over first. Removing who is no member is no error.
func (n *Node) RemoveMember(ctx context.Context, id uint64) error {
	_, err := n.awaitChange(ctx, confWait{change: confChange{Op: opRemove, Member: Member{ID: id}}})
	return err
}

// UpdateMember gives the member with m's ID, or name if the ID is 0, other addresses, and returns it as it is then. An empty
// address stays what it was. The member itself must be started with them: before or after makes no difference, since members
// find it again when both agree. ErrUnknown, ErrAddrTaken.
func (n *Node) UpdateMember(ctx context.Context, m Member) (Member, error) {
	members := n.Members()
	i := slices.IndexFunc(members, func(o Member) bool { return o.ID == m.ID || (m.ID == 0 && o.Name == m.Name) })
	if i < 0 {
		return Member{}, fmt.Errorf("update member %q: %w", m.Name, ErrUnknown)
	}
	want := members[i]
	if m.PeerAddr != "" {
		want.PeerAddr = m.PeerAddr
	}
	if m.APIAddr != "" {
		want.APIAddr = m.APIAddr
	}
	value, err := n.awaitChange(ctx, confWait{change: confChange{Op: opUpdate, Member: want}})
	if err != nil {
		return Member{}, err
	}
	got, ok := value.(Member)
	if !ok {
		return Member{}, fmt.Errorf("update member %q: got %T", m.Name, value)
	}
	return got, nil
}

// TransferLeader makes a voter the leader, and tries until ctx ends. ErrUnknown, ErrLearner.
func (n *Node) TransferLeader(ctx context.Context, id uint64) error {
	_, err := n.awaitChange(ctx, confWait{transfer: id})
	return err
}

// Reseed gives this member's copy up: it takes part in nothing until the leader has given it the state again under a new id. It is for
// a member whose contents are found to differ from the others'. A lone member has nobody to be seeded by, and goes on.
func (n *Node) Reseed() error {
	id, err := randomID()
	if err != nil {
		return err
	}
	n.post(func(in *input) { in.reseed = id })
	return nil
}

func (n *Node) awaitChange(ctx context.Context, w confWait) (any, error) {
	return n.await(ctx, func(in *input, id uint64) {
		w.id = id
		in.changes = append(in.changes, w)
	})
}

// await posts a request under a new waiter id and waits for its answer.
func (n *Node) await(ctx context.Context, add func(*input, uint64)) (any, error) {
	done := make(chan completion, 1)
	n.mu.Lock()
	n.nextID++
	id := n.nextID
	n.waiters[id] = done
	add(&n.inbox, id)
	n.mu.Unlock()
	signal(n.wake)
	select {
	case d := <-done:
		return d.value, d.err
	case <-ctx.Done():
		n.mu.Lock()
		delete(n.waiters, id)
		n.inbox.cancelled = append(n.inbox.cancelled, id)
		n.mu.Unlock()
		return nil, ctx.Err()
	case <-n.stopped:
		return nil, ErrStopped
	}
}

// view is the leader's progress in the terms of Status.
func (c *core) view() map[uint64]Progress {
	if c.rn == nil || !c.isLead {
		return nil
	}
	out := map[uint64]Progress{}
	for id, pr := range c.progress() {
		p := Progress{Match: pr.Match, Lag: c.last - min(pr.Match, c.last), Active: c.alive(id), State: "probe",
			DiskLag: time.Duration(c.health.reports[id].lag) * c.cfg.Tick}
		switch pr.State {
		case tracker.StateReplicate:
			p.State = "replicate"
		case tracker.StateSnapshot:
			p.State = "snapshot"
		}
		out[id] = p
	}
	return out
}
