package consensus

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"testing"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/drover-fleet/drover/consensus/raftlog"
)

// rig steps several cores from one queue: no goroutine, no disk, no clock. What is "durable" is what persist has put
// into a member's memory storage.
type rig struct {
	t     *testing.T
	cores map[uint64]*core
	disks map[uint64]*disk
	queue []func() // deliveries, in order
	cut   map[[2]uint64]bool
	lines map[uint64][]string // commands applied
	done  map[uint64]completion
	sent  map[string]int   // raft messages by "from type"
	slow  map[uint64]bool  // disks that do not say that a write has ended
	held  map[uint64]input // what they will say
	mute  map[uint64]bool  // members whose control messages are lost
	tune  func(*Config)
}

type disk struct {
	*raft.MemoryStorage
	meta raftlog.Meta
}

func (d *disk) InitialState() (*pb.HardState, *pb.ConfState, error) {
	return d.meta.Hard, d.meta.Conf.State, nil
}

func newRig(t *testing.T, n int) *rig { return newTunedRig(t, n, func(*Config) {}) }

func newTunedRig(t *testing.T, n int, tune func(*Config)) *rig {
	t.Helper()
	r := &rig{t: t, cores: map[uint64]*core{}, disks: map[uint64]*disk{}, cut: map[[2]uint64]bool{},
		lines: map[uint64][]string{}, done: map[uint64]completion{}, sent: map[string]int{}, slow: map[uint64]bool{}, held: map[uint64]input{}, mute: map[uint64]bool{}, tune: tune}
	var members []Member
	state := &pb.ConfState{}
	for id := uint64(1); id <= uint64(n); id++ {
		members = append(members, Member{ID: id, Name: fmt.Sprintf("h%d", id), PeerAddr: fmt.Sprintf("h%d:1", id)})
		state.Voters = append(state.Voters, id)
	}
	for id := uint64(1); id <= uint64(n); id++ {
		storage := raft.NewMemoryStorage()
		snap := &pb.Snapshot{Metadata: &pb.SnapshotMetadata{Index: new(uint64(1)), Term: new(uint64(1)), ConfState: state}}
		if err := storage.ApplySnapshot(snap); err != nil {
			t.Fatal(err)
		}
		r.disks[id] = &disk{MemoryStorage: storage, meta: raftlog.Meta{
			Identity: raftlog.Identity{ID: id, Name: fmt.Sprintf("h%d", id)},
			Hard:     &pb.HardState{Term: new(uint64(1)), Commit: new(uint64(1))},
			Conf:     raftlog.Conf{Index: 1, State: state, Members: encodeMembers(members)},
			Begin:    raftlog.EntryID{Index: 1, Term: 1},
		}}
		r.start(id)
	}
	return r
}

func (r *rig) start(id uint64) {
	r.t.Helper()
	d := r.disks[id]
	cfg := Config{Dir: "-", Self: Member{Name: d.meta.Identity.Name, PeerAddr: d.meta.Identity.Name + ":1"}, freshID: 1000 + id,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}.withDefaults()
	r.tune(&cfg)
	c, err := newCore(cfg, d, d.meta, 77*id)
	if err != nil {
		r.t.Fatal(err)
	}
	r.cores[id], r.lines[id] = c, nil
}

// step feeds a core and carries out what it says, at once for disk and machine, by the queue for messages.
func (r *rig) step(id uint64, in input) {
	r.t.Helper()
	c := r.cores[id]
	out, err := c.step(in)
	if err != nil {
		r.t.Fatalf("step %d: %v", id, err)
	}
	for _, m := range out.send {
		r.post(id, m)
	}
	var next input
	for _, w := range out.persist {
		r.persist(id, w)
		ack := persistAck{gen: w.gen, acks: w.acks}
		if r.slow[id] {
			held := r.held[id]
			held.persisted = append(held.persisted, ack)
			r.held[id] = held
			continue
		}
		next.persisted = append(next.persisted, ack)
	}
	for _, w := range out.apply {
		next.applied = append(next.applied, r.apply(id, w))
	}
	for _, d := range out.done {
		r.done[d.id] = d
	}
	if len(next.persisted)+len(next.applied) > 0 {
		r.queue = append(r.queue, func() {
			if r.cores[id] == c {
				r.step(id, next)
			}
		})
	}
}

func (r *rig) post(from uint64, m outMessage) {
	if m.raft != nil {
		r.sent[fmt.Sprintf("%d %s", from, m.raft.GetType())]++
		m.raft = proto.Clone(m.raft).(*pb.Message)
	}
	name := r.disks[from].meta.Identity.Name
	r.queue = append(r.queue, func() {
		if !r.cut[[2]uint64{from, m.to.ID}] && (m.ctl == nil || !r.mute[from]) && r.cores[m.to.ID] != nil {
			r.step(m.to.ID, input{messages: []inMessage{{name: name, raft: m.raft, ctl: m.ctl}}})
		}
	})
}

func (r *rig) persist(id uint64, w persistWork) {
	d := r.disks[id]
	if err := d.Append(w.batch.Entries); err != nil {
		r.t.Fatal(err)
	}
	if w.batch.Hard != nil {
		d.meta.Hard = w.batch.Hard
	}
	if w.batch.Records != nil {
		d.meta.Records = w.batch.Records
	}
	if w.batch.Conf != nil {
		d.meta.Conf = *w.batch.Conf
	}
}

func (r *rig) apply(id uint64, w applyWork) applyAck {
	ack := applyAck{gen: w.gen, acks: w.acks}
	for _, e := range w.entries {
		ack.index, ack.term = e.GetIndex(), e.GetTerm()
		if e.GetType() != pb.EntryNormal || len(e.GetData()) == 0 {
			continue
		}
		env, err := decodeEnvelope(e.GetData())
		if err != nil {
			r.t.Fatal(err)
		}
		var values []any
		for _, cmd := range env.commands {
			r.lines[id] = append(r.lines[id], string(cmd))
			values = append(values, len(r.lines[id]))
		}
		if env.proposer == r.cores[id].proposer {
			ack.results = append(ack.results, applyResult{ids: env.ids, values: values})
		}
	}
	return ack
}

// wantSnapshot has a core's raft ask for a copy to a member.
func (r *rig) wantSnapshot(c *core, to uint64) {
	c.wantSnapshot(&pb.Message{Type: pb.MsgSnap.Enum(), To: new(to)})
}

// quicken ends what a slow disk has held back.
func (r *rig) quicken(id uint64) {
	r.slow[id] = false
	in := r.held[id]
	delete(r.held, id)
	r.step(id, in)
	r.settle()
}

func (r *rig) settle() {
	for n := 0; len(r.queue) > 0; n++ {
		if n > 100000 {
			r.t.Fatal("messages go round for ever")
		}
		next := r.queue[0]
		r.queue = r.queue[1:]
		next()
	}
}

func (r *rig) tick(n int) {
	for range n {
		for id := uint64(1); id <= uint64(len(r.disks)); id++ {
			if r.cores[id] != nil {
				r.step(id, input{ticks: 1})
			}
		}
		r.settle()
	}
}

func (r *rig) leader() uint64 {
	r.t.Helper()
	for range 200 {
		for id, c := range r.cores {
			if c != nil && c.leads() {
				return id
			}
		}
		r.tick(1)
	}
	r.t.Fatal("no leader in 200 ticks")
	return 0
}

func TestCommandsThatWaitTogetherGoIntoOneEntryInOrder(t *testing.T) {
	r := newRig(t, 3)
	lead := r.leader()
	follower := lead%3 + 1
	before, _ := r.disks[lead].LastIndex()
	var in input
	for i := range 100 {
		in.proposals = append(in.proposals, proposal{id: uint64(i + 1), data: fmt.Appendf(nil, "c%d", i)})
	}
	r.step(follower, in)
	r.settle()
	r.tick(2)
	after, _ := r.disks[lead].LastIndex()
	if after != before+1 {
		t.Errorf("100 commands took %d entries, want 1", after-before)
	}
	for i := range 100 {
		if got := r.done[uint64(i+1)]; got.err != nil || got.value != i+1 {
			t.Fatalf("command %d: %v, %v; want place %d", i, got.value, got.err, i+1)
		}
	}
}

func TestProposalOnItsWayIsAmbiguousWhenTheLeaderChanges(t *testing.T) {
	r := newRig(t, 3)
	lead := r.leader()
	for id := uint64(1); id <= 3; id++ {
		r.cut[[2]uint64{lead, id}] = true
	}
	r.step(lead, input{proposals: []proposal{{id: 1, data: []byte("x")}}})
	r.tick(60)
	if got := r.done[1]; !errors.Is(got.err, ErrAmbiguous) {
		t.Errorf("proposal: %v, want %v", got.err, ErrAmbiguous)
	}
}

func TestWithoutALeaderNothingIsProposedAndTheCallerIsTold(t *testing.T) {
	r := newRig(t, 3)
	lead := r.leader()
	for id := range r.cores {
		if id != lead {
			r.cores[id] = nil
		}
	}
	r.tick(25)
	r.step(lead, input{proposals: []proposal{{id: 1, data: []byte("x")}}, reads: []uint64{2}})
	r.tick(120)
	for id := uint64(1); id <= 2; id++ {
		if got := r.done[id]; !errors.Is(got.err, ErrNoLeader) {
			t.Errorf("call %d: %v, want %v", id, got.err, ErrNoLeader)
		}
	}
}

func TestMemberInProbationSaysNothingToRaft(t *testing.T) {
	r := newRig(t, 3)
	lead := r.leader()
	away := lead%3 + 1
	r.cores[away] = nil
	r.tick(5)
	for id := uint64(1); id <= 3; id++ { // it hears all and is heard by none
		r.cut[[2]uint64{away, id}] = true
	}
	r.start(away)
	clear(r.sent)
	r.tick(100)
	for what, n := range r.sent {
		if what[0] == byte('0'+away) {
			t.Errorf("%d times %q in probation, want silence", n, what)
		}
	}
	if got := r.cores[away].phase; got != phaseProbation {
		t.Errorf("phase = %v, want probation without an answer", got)
	}
	clear(r.cut)
	r.tick(5)
	if got := r.cores[away].phase; got != phaseActive {
		t.Errorf("phase = %v, want active once the leader has answered", got)
	}
}

func TestLogBelowItsRecordIsAnOldCopy(t *testing.T) {
	for _, tc := range []struct {
		name   string
		term   uint64 // of the record; the log has (term 5, last 50)
		index  uint64
		oldOne bool
	}{
		{"more in the same term", 5, 51, true},
		{"a newer term", 6, 3, true},
		{"exactly as recorded", 5, 50, false},
		{"overwritten by a newer leader since", 4, 90, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, 3)
			c := r.cores[1]
			c.probe.term, c.probe.last = 5, 50
			a := answer{Nonce: c.probe.nonce, Term: tc.term, Index: tc.index}
			if err := c.onAnswer(2, a); err != nil {
				t.Fatal(err)
			}
			if got := c.phase == phaseOldCopy; got != tc.oldOne {
				t.Errorf("old copy = %v, want %v", got, tc.oldOne)
			}
		})
	}
}

func TestWhoKnowsAMemberByAnIDOfBeforeIsAnswered(t *testing.T) {
	r := newRig(t, 3)
	c := r.cores[2]
	c.out = output{}
	from := Member{ID: 1, Name: "h1", PeerAddr: "h1:1"}
	if err := c.onControl("h1", &control{From: from, To: 99, Query: &query{Nonce: 7}}); err != nil {
		t.Fatal(err)
	}
	answered := false
	for _, m := range c.out.send {
		answered = answered || m.to.ID == 1 && m.ctl != nil && m.ctl.Answer != nil && m.ctl.Answer.Nonce == 7
	}
	if !answered {
		t.Errorf("got %+v, want an answer to h1", c.out.send)
	}
}

func TestOldCopyAsksALeaderThatCameUnderAnotherIDSince(t *testing.T) {
	r := newRig(t, 3)
	c := r.cores[1]
	c.phase = phaseOldCopy
	leader := Member{ID: 77, Name: "h3", PeerAddr: "h3:1"}
	if err := c.onControl("h3", &control{From: leader, To: c.id, Answer: &answer{}}); err != nil {
		t.Fatal(err)
	}
	asked := map[uint64]bool{}
	for range 2 * c.cfg.ElectionTicks {
		out, err := c.step(input{ticks: 1})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range out.send {
			asked[m.to.ID] = asked[m.to.ID] || m.ctl != nil && m.ctl.Replace != nil
		}
	}
	if !asked[77] || !asked[2] || !asked[3] {
		t.Errorf("asked to be replaced: got %v, want the ids that it knows, and 77", asked)
	}
}

func TestCommitBeyondTheLogFencesInsteadOfPanicking(t *testing.T) {
	r := newRig(t, 3)
	lead := r.leader()
	victim := lead%3 + 1
	c := r.cores[victim]
	m := &pb.Message{Type: pb.MsgHeartbeat.Enum(), From: new(lead), To: new(victim), Term: new(c.term), Commit: new(c.last + 100)}
	r.step(victim, input{messages: []inMessage{{name: fmt.Sprintf("h%d", lead), raft: m}}})
	if c.phase != phaseOldCopy || c.rn != nil {
		t.Errorf("phase = %v, want old copy without a raft node", c.phase)
	}
}

func TestMessageUnderAnotherMembersNameIsIgnored(t *testing.T) {
	r := newRig(t, 3)
	lead := r.leader()
	victim := lead%3 + 1
	c := r.cores[victim]
	before := c.term
	m := &pb.Message{Type: pb.MsgHeartbeat.Enum(), From: new(lead), To: new(victim), Term: new(c.term + 7)}
	r.step(victim, input{messages: []inMessage{{name: "h9", raft: m}}})
	if c.term != before {
		t.Errorf("term = %d, want still %d", c.term, before)
	}
}

// TestRemovedMemberIsHeardByNobodyButAnsweredWhatItIs: its certificate is good for a year.
func TestRemovedMemberIsHeardByNobodyButAnsweredWhatItIs(t *testing.T) {
	r := newRig(t, 3)
	r.tick(40)
	lead := r.leader()
	term := r.cores[lead].term
	for id := uint64(1); id <= 3; id++ {
		for _, kind := range []pb.MessageType{pb.MsgHeartbeat, pb.MsgVote, pb.MsgApp} {
			r.step(id, input{messages: []inMessage{{name: "removed", raft: &pb.Message{
				Type: kind.Enum(), From: new(uint64(99)), To: new(id), Term: new(term + 1000), Index: new(uint64(1 << 40)), LogTerm: new(term + 1000),
			}}}})
		}
		r.step(id, input{messages: []inMessage{{name: "removed", ctl: &control{
			From: Member{ID: 99, Name: "removed", PeerAddr: "removed:1"}, To: id, Records: []raftlog.Record{{ID: id, Term: term + 1000, Index: 1 << 40}},
		}}}})
	}
	r.settle()
	r.tick(40)
	for id, c := range r.cores {
		if c.term != term || c.lead != lead || c.phase != r.cores[lead].phase {
			t.Errorf("member %d: got term %d, leader %d, want %d and %d as before", id, c.term, c.lead, term, lead)
		}
	}
	out, err := r.cores[lead].step(input{messages: []inMessage{{name: "removed", ctl: &control{
		From: Member{ID: 99, Name: "removed", PeerAddr: "removed:1"}, To: lead, Query: &query{Nonce: 1},
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	told := false
	for _, m := range out.send {
		told = told || m.to.ID == 99 && m.ctl != nil && m.ctl.Answer != nil
	}
	if !told {
		t.Errorf("its question got no answer: %+v", out.send)
	}
}

func TestSnapshotIsNotSentInAHotLoop(t *testing.T) {
	r := newRig(t, 3)
	lead := r.leader()
	c, to := r.cores[lead], lead%3+1
	order := func() int {
		c.out = output{}
		c.orderSnapshot(&pb.Message{Type: pb.MsgSnap.Enum(), To: new(to)})
		return len(c.out.snapshots)
	}
	if order() != 1 || order() != 0 {
		t.Error("want one transfer at a time")
	}
	c.onSnapshotSent(snapResult{to: to})
	if order() != 0 {
		t.Error("want a pause after a transfer")
	}
	c.tick += uint64(c.cfg.ElectionTicks)
	if order() != 1 {
		t.Error("want another transfer after the pause")
	}
}

func TestCompactionKeepsTheWindow(t *testing.T) {
	var c compactor
	c.reset(0)
	for i := uint64(1); i <= 3000; i++ {
		c.note(&pb.Entry{Index: new(i), Data: make([]byte, 1000)})
	}
	if got := c.target(3000, 3000, 1000, 1<<30); got != 2000 {
		t.Errorf("by count: %d, want 2000", got)
	}
	got := c.target(3000, 3000, 10000, 1<<20)
	if kept := (3000 - got) * 1000; kept < 1<<20 || kept > 2<<20 {
		t.Errorf("by bytes: %d kept behind %d, want 1 to 2 MiB", kept, got)
	}
	if got := c.target(500, 500, 10, 1); got > 500 {
		t.Errorf("target = %d, beyond the applied 500", got)
	}
	if got := c.target(400, 3000, 10, 1); got != 400 {
		t.Errorf("target = %d, want the 400 that the machine has in its file", got)
	}
}
