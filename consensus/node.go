package consensus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drover-fleet/drover/consensus/raftlog"
)

// maxInbox bounds what other members' frames may occupy before the loop takes them, in bytes. More is dropped: raft
// repeats itself.
const maxInbox = 64 << 20

// Node is one member. Open makes it, Run drives it, everything else may be called from any goroutine at any time.
type Node struct {
	cfg      Config
	log      StoredLog
	core     *core // of the loop's goroutine only, once Run runs
	proposer uint64
	observe  Observer
	view     map[uint64]Progress // of the loop's goroutine; replaced, never changed, so that readers may keep it
	viewed   uint64              // tick at which view was made

	wake chan struct{} // one slot: the inbox has something

	proposals atomic.Int64  // between Propose and its answer
	pending   atomic.Int64  // bytes of their commands
	stopped   chan struct{} // closed when Run returns
	appender  *queue[persistWork]
	applier   *queue[applyJob]
	receiver  receiver
	pace      pacer // of outgoing copies

	mu         sync.Mutex // guards all below
	inbox      input
	inboxBytes int
	ran        bool
	nextID     uint64
	waiters    map[uint64]chan completion
	applied    uint64
	reached    []appliedWait // by arrival
	status     Status
	conf       raftlog.Conf
	led        bool
	ledTerm    uint64
	leadership chan struct{} // closed and replaced when leadership changes
	sending    map[uint64]sending
	pings      map[uint64]sentPing // the last one to each member, until it is answered
	trips      map[uint64]time.Duration
}

type sentPing struct {
	seq uint64
	at  time.Time
}

type appliedWait struct {
	index uint64
	done  chan struct{}
}

// Run takes part in the group until ctx ends (then it returns nil) or the disk fails. It returns when everything it
// started has ended, and closes raft.db. A node runs once.
func (n *Node) Run(ctx context.Context) error {
	n.mu.Lock()
	again := n.ran
	n.ran = true
	n.mu.Unlock()
	if again {
		return errors.New("consensus: a node runs once")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var group sync.WaitGroup
	start := func(what string, f func(context.Context) error) {
		group.Go(func() {
			err := f(ctx)
			if err != nil && ctx.Err() == nil {
				err = fmt.Errorf("%s: %w", what, err)
			}
			cancel(err) // one part cannot go on without the others; the first cause is kept
		})
	}
	start("transport", func(ctx context.Context) error { return n.cfg.Transport.Run(ctx, handler{n}) })
	start("log", n.runAppender)
	start("state", n.runApplier)
	start("consensus", func(ctx context.Context) error { return n.runLoop(ctx, &group) })
	group.Wait()
	n.stop()
	n.dropPart(n.receiver.expired(time.Now(), 0))
	err := context.Cause(ctx)
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		err = nil
	}
	return errors.Join(err, n.log.Close())
}

// Close releases a node that was opened and not run. After Run it does nothing.
func (n *Node) Close() error {
	n.mu.Lock()
	again := n.ran
	n.ran = true
	n.mu.Unlock()
	if again {
		return nil
	}
	n.stop()
	return n.log.Close()
}

// stop fails everyone who waits.
func (n *Node) stop() {
	n.mu.Lock()
	defer n.mu.Unlock()
	close(n.stopped)
	n.setLeadershipLocked(n.ledTerm, false)
}

// runLoop owns the core. snapshots counts the transfers it starts.
func (n *Node) runLoop(ctx context.Context, transfers *sync.WaitGroup) error {
	ticker := time.NewTicker(n.cfg.Tick) // drops ticks while the loop is late: a slow member accuses more slowly
	defer ticker.Stop()
	for {
		ticks := 0
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
			ticks = 1
		case <-n.wake:
		}
		in := n.takeInbox()
		in.ticks = ticks
		out, err := n.core.step(in)
		if err != nil {
			return err
		}
		n.dispatch(ctx, out, transfers)
		if ticks > 0 {
			n.endTransfers()
			n.expireParts()
		}
	}
}

func (n *Node) takeInbox() input {
	n.mu.Lock()
	defer n.mu.Unlock()
	in := n.inbox
	n.inbox, n.inboxBytes = input{}, 0
	return in
}

// post adds to the inbox and wakes the loop.
func (n *Node) post(add func(*input)) {
	n.mu.Lock()
	add(&n.inbox)
	n.mu.Unlock()
	signal(n.wake)
}

// dispatch does what the core asked for. The membership is published before entries go to the machine: a copy of the
// machine taken later is thus never newer than the membership that goes with it.
func (n *Node) dispatch(ctx context.Context, out output, transfers *sync.WaitGroup) {
	n.publish(out)
	for _, m := range out.send {
		n.send(m)
	}
	n.appender.put(out.persist...)
	for _, w := range out.apply {
		n.applier.put(applyJob{apply: &w})
	}
	for _, o := range out.snapshots {
		n.startTransfer(ctx, o, transfers)
	}
	n.discard(out.discard)
	n.finish(out.done)
	n.report(out)
}

// report tells the observer what the core decided.
func (n *Node) report(out output) {
	for _, b := range out.proposed {
		n.observe.Proposed(b.commands, b.bytes)
	}
	for _, s := range out.slow {
		n.observe.SlowDisk(s.part, s.slow)
	}
	for _, name := range out.handedOver {
		n.observe.HandedOver(name)
	}
}

func (n *Node) send(m outMessage) {
	var frame []byte
	var err error
	if m.raft != nil {
		frame, err = encodeRaft(m.raft)
	} else {
		frame, err = encodeControl(m.ctl)
	}
	if err != nil {
		n.cfg.Logger.Error("frame to member", "member", m.to.Name, "err", err)
		return
	}
	if m.ctl != nil && m.ctl.Ping != nil {
		n.mu.Lock()
		n.pings[m.to.ID] = sentPing{seq: m.ctl.Ping.Seq, at: time.Now()}
		n.mu.Unlock()
	}
	n.cfg.Transport.Send(m.to, frame)
}

// publish lets callers see the core's state.
func (n *Node) publish(out output) {
	c := n.core
	s := Status{
		ID: c.id, Name: n.cfg.Self.Name, Leader: c.lead, Term: c.term, Applied: c.applied, Committed: c.commit, Last: c.last,
		Fenced: c.phase.String(), Removed: c.phase == phaseRemoved, Progress: n.progressNow(), Lag: time.Duration(c.health.lag(c.tick)) * n.cfg.Tick,
	}
	leads := c.rn != nil && c.leads()
	n.mu.Lock()
	moved, turned := s.Term != n.status.Term || s.Leader != n.status.Leader, leads != n.led || (leads && c.term != n.ledTerm)
	n.publishLocked(s, out.confMoved, leads)
	n.mu.Unlock()
	if moved {
		n.observe.LeaderChanged(s.Term, s.Leader)
	}
	if turned {
		n.observe.Led(s.Term, leads)
	}
}

func (n *Node) publishLocked(s Status, confMoved, leads bool) {
	c := n.core
	if confMoved {
		n.conf = c.conf
		s.Members = sortedMembers(c.members)
	} else {
		s.Members = n.status.Members
	}
	n.status = s
	n.advanceLocked(c.applied)
	n.setLeadershipLocked(c.term, leads)
}

// progressNow is rebuilt at most once a tick: it allocates, and nobody reads it more often.
func (n *Node) progressNow() map[uint64]Progress {
	if n.core.rn == nil || !n.core.isLead {
		return nil
	}
	if n.viewed != n.core.tick || n.view == nil {
		n.viewed, n.view = n.core.tick, n.withTrips(n.core.view())
	}
	return n.view
}

func (n *Node) withTrips(view map[uint64]Progress) map[uint64]Progress {
	n.mu.Lock()
	defer n.mu.Unlock()
	for id, p := range view {
		p.RoundTrip = n.trips[id]
		view[id] = p
	}
	return view
}

func (n *Node) advanceLocked(applied uint64) {
	n.applied = applied
	n.reached = drop(n.reached, func(w appliedWait) bool {
		if w.index > applied {
			return false
		}
		close(w.done)
		return true
	})
}

func (n *Node) setLeadershipLocked(term uint64, leader bool) {
	if n.led == leader && (!leader || n.ledTerm == term) {
		n.ledTerm = term
		return
	}
	n.led, n.ledTerm = leader, term
	close(n.leadership)
	n.leadership = make(chan struct{})
}

func (n *Node) finish(done []completion) {
	if len(done) == 0 {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, d := range done {
		if w, ok := n.waiters[d.id]; ok {
			delete(n.waiters, d.id)
			w <- d // has a slot, and is sent to once
		}
	}
}

// handler is the node as its transport sees it.
type handler struct{ n *Node }

func (h handler) Receive(name string, frame []byte) {
	m, ctl, err := decodeFrame(frame)
	if err != nil {
		h.n.cfg.Logger.Warn("frame refused", "from", name, "err", err)
		return
	}
	h.n.mu.Lock()
	full := h.n.inboxBytes+len(frame) > maxInbox
	if !full {
		h.n.inboxBytes += len(frame)
		h.n.inbox.messages = append(h.n.inbox.messages, inMessage{name: name, raft: m, ctl: ctl})
	}
	h.n.mu.Unlock()
	signal(h.n.wake)
	if full {
		h.n.observe.FramesLost(name, 1)
	}
	if ctl != nil && ctl.Pong != nil {
		h.answered(name, ctl)
	}
}

// answered measures the way to a member and back, including what both loops had to do first.
func (h handler) answered(name string, ctl *control) {
	n, id := h.n, ctl.From.ID
	n.mu.Lock()
	sent, asked := n.pings[id]
	if asked = asked && ctl.From.Name == name && sent.seq == ctl.Pong.Seq; !asked {
		n.mu.Unlock()
		return
	}
	delete(n.pings, id)
	took := time.Since(sent.at)
	n.trips[id] = took
	n.mu.Unlock()
	n.observe.RoundTrip(name, took)
}

func (h handler) Unreachable(id uint64, frames int) {
	if frames > 0 {
		if m, ok := h.n.memberByID(id); ok {
			h.n.observe.FramesLost(m.Name, frames)
		}
	}
	h.n.post(func(in *input) { in.unreachable = append(in.unreachable, id) })
}

func (n *Node) memberByID(id uint64) (Member, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, m := range n.status.Members {
		if m.ID == id {
			return m, true
		}
	}
	return Member{}, false
}
