package consensus

import (
	"encoding/binary"
	"fmt"
	"slices"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/drover-fleet/drover/consensus/raftlog"
)

// phase is how far a member takes part.
//
//	probation --cleared--> active --removed from the group--> removed
//	    |                    | told of a commit beyond its log
//	    +--- old copy <------+
//	            | the leader replaced the old id by a new one
//	            v
//	         wiping --log is empty--> active, as a learner
//
// Only in active is there a raft node: in every other phase no vote, no append and no acknowledgement can happen.
type phase int

const (
	phaseProbation phase = iota
	phaseActive
	phaseOldCopy
	phaseWiping
	phaseRemoved
)

func (p phase) String() string {
	return [...]string{
		"probation: asking the other members whether this directory is current", "",
		"old copy of its directory: waiting to be given the state again", "old copy of its directory: starting over",
		"removed from the group",
	}[p]
}

// core is a member without disk, network, clock and goroutines: it is stepped. It reads the durable log through
// storage and is told when what it asked to persist or apply has happened.
type core struct {
	cfg      Config
	storage  raft.Storage
	logger   raft.Logger
	proposer uint64 // random number of this run, in envelopes and read contexts

	id       uint64
	identity raftlog.Identity
	phase    phase
	gen      uint64        // counts raft nodes of this run; acks of an older one are dropped
	rn       *raft.RawNode // nil unless active
	tick     uint64

	conf    raftlog.Conf // membership; Members is what members encodes
	members map[uint64]Member
	hints   map[uint64]Member // senders that are not members as far as we know, for their addresses

	last    uint64 // last index handed out for persisting
	applied uint64 // the machine has applied up to here
	synced  uint64 // and has in its file up to here
	appTerm uint64 // term of the entry at applied, 0 if unknown
	commit  uint64
	term    uint64
	lead    uint64
	isLead  bool

	props     proposals
	reads     readers
	changes   []confWait
	records   map[uint64]raftlog.Record
	recDirty  bool // records changed since they were last handed out for persisting
	recSent   map[uint64]raftlog.Record
	probe     probe
	compactor compactor
	learners  map[uint64]learnerWatch
	promoteAt uint64            // tick before which no promotion is proposed again
	heard     map[uint64]uint64 // leader: tick of the last raft message from each member
	snapSent  map[uint64]snapState
	snapRetry map[uint64]snapRetry
	health    health

	out output
}

// newCore makes a core over a log whose meta is given. applied is what the machine holds.
func newCore(cfg Config, storage raft.Storage, meta raftlog.Meta, proposer uint64) (*core, error) {
	c := &core{
		cfg: cfg, storage: storage, logger: raftLogger{cfg.Logger}, proposer: proposer,
		id: meta.Identity.ID, identity: meta.Identity, conf: meta.Conf,
		members: map[uint64]Member{}, hints: map[uint64]Member{}, records: map[uint64]raftlog.Record{},
		recSent: map[uint64]raftlog.Record{}, learners: map[uint64]learnerWatch{}, snapSent: map[uint64]snapState{}, snapRetry: map[uint64]snapRetry{}, heard: map[uint64]uint64{},
		health:  health{reports: map[uint64]report{}},
		applied: cfg.Applied, synced: cfg.Applied, term: meta.Hard.GetTerm(), commit: meta.Hard.GetCommit(),
	}
	members, err := decodeMembers(meta.Conf.Members)
	if err != nil {
		return nil, err
	}
	for _, m := range members {
		c.members[m.ID] = m
	}
	for _, r := range meta.Records {
		c.records[r.ID] = r
	}
	if c.last, err = storage.LastIndex(); err != nil {
		return nil, err
	}
	c.appTerm = c.termOf(c.applied)
	if len(c.others()) > 0 {
		c.startProbation(meta)
		return c, nil
	}
	return c, c.activate()
}

// activate makes the raft node from what storage holds.
func (c *core) activate() error {
	begin, err := c.storage.FirstIndex()
	if err != nil {
		return err
	}
	// Entries after the membership's index are handed out again: their conf changes have to be replayed. The machine's
	// side skips what it has.
	applied := max(min(c.applied, c.conf.Index, c.last), begin-1)
	rn, err := raft.NewRawNode(&raft.Config{
		ID: c.id, ElectionTick: c.cfg.ElectionTicks, HeartbeatTick: c.cfg.HeartbeatTicks,
		Storage: coreStorage{c}, Applied: applied, AsyncStorageWrites: true,
		MaxSizePerMsg: maxBatch, MaxCommittedSizePerReady: 4 << 20, MaxUncommittedEntriesSize: 64 << 20,
		MaxInflightMsgs: 256, MaxInflightBytes: 16 << 20,
		CheckQuorum: !c.cfg.withoutCheckQuorum, PreVote: !c.cfg.withoutPreVote, StepDownOnRemoval: true, Logger: c.logger,
	})
	if err != nil {
		return fmt.Errorf("start raft: %w", err)
	}
	c.rn, c.phase = rn, phaseActive
	c.gen++
	c.compactor.reset(begin - 1)
	if voters := c.conf.State.GetVoters(); len(voters) == 1 && voters[0] == c.id {
		return c.rn.Campaign() // nobody else to wait for
	}
	return nil
}

// step takes what happened and returns what is to be done.
func (c *core) step(in input) (output, error) {
	c.out = output{}
	for _, ack := range in.persisted {
		if err := c.onPersisted(ack); err != nil {
			return output{}, err
		}
	}
	for _, ack := range in.applied {
		c.onApplied(ack)
	}
	for range in.ticks {
		c.onTick()
	}
	for _, m := range in.messages {
		if err := c.onMessage(m); err != nil {
			return output{}, err
		}
	}
	for _, s := range in.snapshots {
		if err := c.onSnapshot(s); err != nil {
			return output{}, err
		}
	}
	c.onReports(in)
	c.cancel(in.cancelled)
	c.props.waiting = append(c.props.waiting, in.proposals...)
	c.reads.queue = append(c.reads.queue, in.reads...)
	c.changes = append(c.changes, in.changes...)
	c.pump()
	if err := c.drain(); err != nil {
		return output{}, err
	}
	// What raft reported while it was drained (a new leader, a read index) may let more go out.
	c.pump()
	err := c.drain()
	return c.out, err
}

// pump starts what can be started now.
func (c *core) pump() {
	c.refresh()
	c.pumpProposals()
	c.pumpReads()
	c.pumpChanges()
}

func (c *core) onPersisted(ack persistAck) error {
	c.noteAck(ack)
	if ack.reset {
		return c.onReset()
	}
	if ack.gen != c.gen || c.rn == nil {
		return nil
	}
	if ack.installed != 0 {
		c.applied, c.synced, c.appTerm = ack.installed, ack.installed, c.termOf(ack.installed)
		c.compactor.reset(ack.installed)
	}
	c.release(ack.acks)
	return nil
}

// release says what became true: to raft here or to other members.
func (c *core) release(acks []*pb.Message) {
	for _, m := range acks {
		if m.GetTo() == c.id {
			_ = c.rn.Step(m) // only errors for dropped proposals and unknown peers, neither of which these are
			continue
		}
		c.sendRaft(m)
	}
}

func (c *core) onApplied(ack applyAck) {
	c.noteApplied(ack)
	if ack.gen != c.gen || c.rn == nil {
		return
	}
	c.applied, c.synced, c.appTerm = max(c.applied, ack.index), max(c.synced, ack.synced), ack.term
	c.release(ack.acks)
	for _, r := range ack.results {
		c.onResult(r)
	}
	c.finishReads()
}

func (c *core) onTick() {
	c.tick++
	c.tickDisk()
	if c.rn == nil {
		c.tickFenced()
		return
	}
	c.rn.Tick()
	c.refresh()
	c.tickProposals()
	c.tickReads()
	c.tickLeader()
	c.tickPings()
}

func (c *core) onMessage(m inMessage) error {
	if m.ctl != nil {
		return c.onControl(m.name, m.ctl)
	}
	msg := m.raft
	if msg.GetTo() != c.id || c.rn == nil || !c.knows(m.name, msg) {
		return nil // meant for a former self, or not for a member in this phase
	}
	if msg.GetType() == pb.MsgHeartbeat && msg.GetTerm() >= c.term && msg.GetCommit() > c.last {
		// A leader never sends a commit index that this member has not acknowledged: something acknowledged is gone.
		c.cfg.Logger.Error("leader knows of entries that are missing here", "commit", msg.GetCommit(), "last", c.last)
		c.fence()
		return nil
	}
	c.heard[msg.GetFrom()] = c.tick
	if msg.GetType() == pb.MsgReadIndex && len(c.conf.State.GetVoters()) == 1 && c.isLead && !c.leads() {
		return nil // see pumpReads; the asker asks again
	}
	_ = c.rn.Step(msg) // errors: a proposal that the proposer will repeat, or a response from a member that left
	if msg.GetType() == pb.MsgSnap || msg.GetType() == pb.MsgApp {
		return c.drain()
	}
	return nil
}

// knows tells whether the name on the stream goes with the message's sender. Ids we have not heard of yet are let
// through: a leader may be newer than our membership, and the transport has checked that the name is a hub's.
func (c *core) knows(name string, m *pb.Message) bool {
	if c.stranger(name) {
		return false
	}
	known, ok := c.members[m.GetFrom()]
	return !ok || known.Name == name || m.GetType() == pb.MsgTransferLeader
}

// stranger tells whether a name is no member's while this member follows one that is: somebody who was removed, and whose certificate
// is good still. A member that is newer than our membership has to wait until we follow nobody, which is so before we could follow it.
func (c *core) stranger(name string) bool {
	if _, follows := c.members[c.lead]; !follows {
		return false
	}
	for _, m := range c.members {
		if m.Name == name {
			return false
		}
	}
	return true
}

// onSnapshot offers a received copy to raft and drops the file if raft has no use for it.
func (c *core) onSnapshot(s inSnapshot) error {
	c.complete(s.waiter, nil, nil)
	if c.rn == nil || s.msg.GetTo() != c.id || !c.knows(s.name, s.msg) {
		c.out.discard = append(c.out.discard, s.file)
		return nil
	}
	before := len(c.out.persist)
	_ = c.rn.Step(s.msg)
	if err := c.drain(); err != nil {
		return err
	}
	index := s.msg.GetSnapshot().GetMetadata().GetIndex()
	for i := before; i < len(c.out.persist); i++ {
		if in := c.out.persist[i].install; in != nil && in.seed.Begin.Index == index {
			in.seed.Conf, in.file = s.conf, s.file
			return c.adopt(s.conf)
		}
	}
	c.out.discard = append(c.out.discard, s.file)
	return nil
}

func (c *core) onReports(in input) {
	if c.rn == nil {
		return
	}
	if in.reseed != 0 && len(c.others()) > 0 {
		c.cfg.freshID = in.reseed
		c.fence()
		return
	}
	for _, id := range in.unreachable {
		c.rn.ReportUnreachable(id)
	}
	for _, r := range in.sent {
		c.onTransferEnded(r)
	}
}

// drain turns raft's Readys into output.
func (c *core) drain() error {
	for c.rn != nil && c.rn.HasReady() {
		rd := c.rn.Ready()
		for _, rs := range rd.ReadStates {
			c.onReadState(rs)
		}
		for _, m := range rd.Messages {
			switch m.GetTo() {
			case raft.LocalAppendThread:
				c.persist(m)
			case raft.LocalApplyThread:
				if err := c.handOut(m); err != nil {
					return err
				}
			default:
				c.sendRaft(m)
			}
		}
	}
	c.refresh()
	return nil
}

func (c *core) persist(m *pb.Message) {
	w := persistWork{gen: c.gen, acks: m.GetResponses()}
	w.batch.Entries = m.GetEntries()
	if m.Term != nil {
		w.batch.Hard = &pb.HardState{Term: new(m.GetTerm()), Vote: new(m.GetVote()), Commit: new(m.GetCommit())}
	}
	if n := len(m.GetEntries()); n > 0 {
		c.last = m.GetEntries()[n-1].GetIndex()
		if c.recDirty {
			w.batch.Records, c.recDirty = c.recordList(), false
		}
	}
	if s := m.GetSnapshot().GetMetadata(); s.GetIndex() != 0 {
		w.install = &install{seed: raftlog.Seed{Begin: raftlog.EntryID{Index: s.GetIndex(), Term: s.GetTerm()}}}
		c.last = s.GetIndex()
	}
	c.hand(w)
}

// handOut gives committed entries to the machine. Conf changes take effect here, before the machine has recorded their
// index: they are committed, and a published membership is thus never older than the machine.
func (c *core) handOut(m *pb.Message) error {
	for _, e := range m.GetEntries() {
		if err := c.applyConf(e); err != nil {
			return err
		}
		c.compactor.note(e)
	}
	c.out.apply = append(c.out.apply, applyWork{gen: c.gen, entries: m.GetEntries(), acks: m.GetResponses()})
	if n := len(m.GetEntries()); n > 0 {
		last := handedOut{gen: c.gen, index: m.GetEntries()[n-1].GetIndex(), tick: c.tick}
		c.health.state.handed = append(c.health.state.handed, last)
	}
	return nil
}

// refresh takes over what raft says of itself and reacts to a change of leader.
func (c *core) refresh() {
	if c.rn == nil {
		return
	}
	s := c.rn.BasicStatus()
	changed := s.GetTerm() != c.term || s.Lead != c.lead
	c.term, c.lead, c.commit = s.GetTerm(), s.Lead, s.GetCommit()
	c.isLead = s.RaftState == raft.StateLeader
	if changed {
		c.onLeaderChange()
	}
}

func (c *core) onLeaderChange() {
	c.failFlights()
	c.reads.restart()
	c.reads.asker = nil
	if !c.isLead {
		clear(c.snapSent)
		clear(c.snapRetry)
		clear(c.learners)
		return
	}
	clear(c.recSent)
	clear(c.health.reports)
	c.health.ledSince = c.tick
	for id := range c.members {
		c.heard[id] = c.tick // a new leader gives everyone the full time
	}
}

// alive tells whether a member was heard of within an election time-out. Raft's own flag will not do: it is cleared
// once every time-out, for whoever looks just then.
func (c *core) alive(id uint64) bool {
	return id == c.id || c.tick-c.heard[id] <= uint64(c.cfg.ElectionTicks)
}

// leads tells whether this member leads and has applied an entry of its own term.
func (c *core) leads() bool { return c.isLead && c.appTerm == c.term }

func (c *core) sendRaft(m *pb.Message) {
	if m.GetType() == pb.MsgSnap {
		c.wantSnapshot(m)
		return
	}
	to, ok := c.address(m.GetTo())
	if !ok {
		return
	}
	c.out.send = append(c.out.send, outMessage{to: to, raft: m})
}

func (c *core) address(id uint64) (Member, bool) {
	if m, ok := c.members[id]; ok {
		return m, true
	}
	m, ok := c.hints[id]
	return m, ok
}

func (c *core) self() Member {
	m := c.cfg.Self
	m.ID = c.id
	m.Learner = slices.Contains(c.conf.State.GetLearners(), c.id)
	return m
}

// others lists the other members by id.
func (c *core) others() []Member {
	var out []Member
	for _, m := range sortedMembers(c.members) {
		if m.ID != c.id {
			out = append(out, m)
		}
	}
	return out
}

// termOf is the term of an entry, 0 if it is not kept.
func (c *core) termOf(index uint64) uint64 {
	term, err := c.storage.Term(index)
	if err != nil {
		return 0
	}
	return term
}

func (c *core) failEverything(err error) {
	for _, p := range c.props.waiting {
		c.complete(p.id, nil, err)
	}
	c.props.waiting = nil
	c.failFlights()
	for _, id := range c.reads.all() {
		c.complete(id, nil, err)
	}
	c.reads = readers{seq: c.reads.seq}
	for _, w := range c.changes {
		c.complete(w.id, nil, err)
	}
	c.changes = nil
}

func (c *core) complete(id uint64, value any, err error) {
	c.out.done = append(c.out.done, completion{id: id, value: value, err: err})
}

// entrySize is what an entry costs in the log, in bytes.
func entrySize(e *pb.Entry) uint64 { return uint64(proto.Size(e)) }

// context makes a read context that no other member's run uses: raft keys pending reads by it.
func (c *core) context(kind byte, n uint64) []byte {
	b := binary.BigEndian.AppendUint64([]byte{kind}, c.proposer)
	return binary.BigEndian.AppendUint64(b, n)
}
