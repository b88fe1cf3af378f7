package consensus

import (
	"go.etcd.io/raft/v3/tracker"

	"github.com/drover-fleet/drover/consensus/raftlog"
)

// A member that starts does not know whether its directory is the one it stopped with or an older copy. An old copy
// must not vote or acknowledge: the group counts on what it has acknowledged before. So every start in a group of more
// than one begins in probation.
//
// Each member keeps a record (term, index) of what every other has acknowledged, made by leaders and spread by them. A
// member's durable (term, last index) never falls below a true record of it: within a term its log only grows, and a
// newer term is made durable before anything of it is acknowledged. So a member with less than a record is an old copy,
// whoever shows the record, and no honest restart is ever taken for one.

// maxHints bounds the addresses kept of senders that are not members.
const maxHints = 64

// probe is what a member in probation has learned.
type probe struct {
	nonce   uint64
	term    uint64 // durable
	last    uint64 // durable
	virgin  bool   // an empty log, which waits for the leader's word
	answers map[uint64]timedAnswer
}

type timedAnswer struct {
	answer
	tick uint64
}

func (c *core) startProbation(meta raftlog.Meta) {
	c.phase = phaseProbation
	if _, member := c.members[c.id]; !member && len(meta.Conf.State.GetVoters()) > 0 {
		c.phase = phaseRemoved
		return
	}
	c.probe = probe{
		term: meta.Hard.GetTerm(), last: c.last, virgin: len(meta.Conf.State.GetVoters()) == 0,
		answers: map[uint64]timedAnswer{},
	}
	if c.probe.virgin {
		c.applied, c.synced, c.appTerm = 0, 0, 0 // whatever the machine holds is replaced by the first snapshot
	} else if c.cfg.Applied > c.last {
		c.cfg.Logger.Error("state is ahead of the log: raft.db is an old copy", "applied", c.cfg.Applied, "last", c.last)
		c.phase = phaseOldCopy
	}
}

// tickFenced drives the phases without raft.
func (c *core) tickFenced() {
	c.tickProposals()
	switch c.phase {
	case phaseProbation:
		if c.tick%2 == 1 {
			c.askAll()
		}
		c.judge()
	case phaseOldCopy:
		if c.tick%uint64(max(c.cfg.ElectionTicks/2, 1)) == 1 {
			// The leader may have come back under another id since this copy was taken: then it is among the hints.
			for _, m := range append(c.others(), sortedMembers(c.hints)...) {
				c.tell(m, control{Replace: &replace{Old: c.id, New: c.cfg.freshID}})
			}
		}
	}
}

// askAll asks every other member what it knows of us.
func (c *core) askAll() {
	c.probe.nonce = c.tick
	q := query{Nonce: c.probe.nonce, Term: c.probe.term, Last: c.probe.last}
	for _, m := range c.others() {
		c.tell(m, control{Query: &q})
	}
	for _, m := range sortedMembers(c.hints) {
		c.tell(m, control{Query: &q})
	}
}

func (c *core) tell(to Member, ctl control) {
	ctl.From, ctl.To = c.self(), to.ID
	c.out.send = append(c.out.send, outMessage{to: to, ctl: &ctl})
}

func (c *core) onControl(name string, ctl *control) error {
	asks := ctl.Query != nil || ctl.Replace != nil // who is old may know us by an id of before
	if ctl.From.Name != name || ctl.To != c.id && !asks || ctl.From.ID == 0 {
		return nil
	}
	if c.stranger(name) {
		if ctl.Query != nil { // how who was removed learns of it
			c.onQuery(ctl.From, *ctl.Query)
		}
		return nil
	}
	if known, ok := c.members[ctl.From.ID]; ok && known.Name != name {
		return nil
	} else if !ok && len(c.hints) < maxHints {
		c.hints[ctl.From.ID] = ctl.From
	}
	switch {
	case ctl.Query != nil:
		c.onQuery(ctl.From, *ctl.Query)
	case ctl.Answer != nil:
		return c.onAnswer(ctl.From.ID, *ctl.Answer)
	case ctl.Records != nil:
		c.mergeRecords(ctl.Records)
	case ctl.Replace != nil:
		c.onReplace(name, ctl.From, *ctl.Replace)
	case ctl.Replaced != nil:
		c.onReplaced(*ctl.Replaced)
	case ctl.Ping != nil:
		c.onPing(ctl.From, *ctl.Ping)
	case ctl.Pong != nil:
		c.onPong(ctl.From.ID, *ctl.Pong)
	}
	return nil
}

// onQuery answers at once with what is recorded, which can convict but not acquit, and asks a majority first for the
// leader's word.
func (c *core) onQuery(from Member, q query) {
	c.tell(from, control{Answer: c.answerTo(from.ID, q.Nonce)})
	if c.rn != nil && c.leads() {
		c.reads.asker = withAsker(c.reads.asker, from, q.Nonce)
		c.rn.ReadIndex(c.context(readQuery, from.ID))
	}
}

func (c *core) answerTo(id, nonce uint64) *answer {
	if c.rn != nil && c.isLead {
		c.recordProgress(c.progress())
	}
	r := c.records[id]
	return &answer{Nonce: nonce, Leader: c.lead, Term: r.Term, Index: r.Index}
}

// answerConfirmed gives the leader's word: a majority has confirmed that it leads since it was asked.
func (c *core) answerConfirmed(id uint64) {
	asker, ok := c.reads.asker[id]
	if !ok || !c.leads() {
		return
	}
	delete(c.reads.asker, id)
	a := c.answerTo(id, asker.nonce)
	a.Confirmed = true
	_, member := c.members[id]
	_, named := c.memberNamed(asker.member.Name)
	a.Removed, a.Superseded = !member && !named, !member && named
	c.tell(asker.member, control{Answer: a})
}

type asker struct {
	member Member
	nonce  uint64
}

func withAsker(m map[uint64]asker, from Member, nonce uint64) map[uint64]asker {
	if m == nil {
		m = map[uint64]asker{}
	}
	if len(m) < maxHints {
		m[from.ID] = asker{member: from, nonce: nonce}
	}
	return m
}

func (c *core) onAnswer(from uint64, a answer) error {
	leaderless := c.phase == phaseActive && c.lead == 0
	if a.Confirmed && a.Removed && a.Nonce == c.probe.nonce && (c.phase == phaseProbation || leaderless) {
		c.leave()
		return nil
	}
	if c.phase != phaseProbation || a.Nonce+uint64(c.cfg.ElectionTicks) < c.probe.nonce {
		return nil
	}
	if a.Superseded || a.Term > c.probe.term || (a.Term == c.probe.term && a.Index > c.probe.last) {
		c.cfg.Logger.Error("this directory is an old copy: more was acknowledged than is in its log",
			"term", c.probe.term, "last", c.probe.last, "acknowledged_term", a.Term, "acknowledged", a.Index)
		c.phase = phaseOldCopy
		return nil
	}
	if a.Confirmed {
		return c.clear("the leader knows of nothing newer")
	}
	c.probe.answers[from] = timedAnswer{answer: a, tick: c.tick}
	c.judge()
	return nil
}

// judge clears this member if no answer speaks against it and nobody knows of a leader whose word it could have.
func (c *core) judge() {
	p := &c.probe
	if c.phase != phaseProbation || p.virgin {
		return
	}
	answered := map[uint64]bool{c.id: true}
	for id, a := range p.answers {
		if c.tick-a.tick > uint64(c.cfg.ElectionTicks) {
			continue
		}
		if a.Leader != 0 && a.Leader != c.id {
			return // wait for that leader's word
		}
		answered[id] = true
	}
	all := true
	for _, m := range c.others() {
		all = all && answered[m.ID]
	}
	waited := c.tick >= uint64(c.cfg.ElectionTicks)
	if all || (waited && majority(c.conf.State.GetVoters(), answered) && majority(c.conf.State.GetVotersOutgoing(), answered)) {
		if err := c.clear("no reachable member knows of anything newer"); err != nil {
			c.cfg.Logger.Error("start after probation", "err", err)
		}
	}
}

func (c *core) clear(why string) error {
	c.cfg.Logger.Info("probation ends", "reason", why, "ticks", c.tick)
	return c.activate()
}

func majority(voters []uint64, answered map[uint64]bool) bool {
	n := 0
	for _, id := range voters {
		if answered[id] {
			n++
		}
	}
	return len(voters) == 0 || n > len(voters)/2
}

// fence stops taking part at once, since something that was acknowledged is missing here.
func (c *core) fence() {
	c.stopRaft(phaseOldCopy)
}

// onReplace is the leader's side: the name, which the transport has authenticated, comes back under a new id.
func (c *core) onReplace(name string, from Member, r replace) {
	if !c.leads() || r.New == 0 {
		return
	}
	current, ok := c.memberNamed(name)
	switch {
	case !ok:
		return // removed meanwhile
	case current.ID == r.New:
		c.tell(from, control{Replaced: &replaced{Old: r.Old, New: r.New, Members: sortedMembers(c.members)}})
	case c.alive(current.ID):
		return // alive under its present id, or heard of a moment ago: the old copy asks again
	default:
		fresh := from
		fresh.ID, fresh.Learner = r.New, true
		c.propose(confChange{Op: opReplace, Member: fresh, Old: current.ID})
	}
}

// onReplaced starts over: the old id is out of the group, so nothing that was acknowledged under it counts any more.
func (c *core) onReplaced(r replaced) {
	if c.phase != phaseOldCopy || r.New != c.cfg.freshID {
		return
	}
	c.phase = phaseWiping
	c.identity.ID = r.New
	c.identity.Generation++
	clear(c.members)
	for _, m := range r.Members {
		c.members[m.ID] = m
	}
	id := c.identity
	c.hand(persistWork{reset: &id, members: encodeMembers(r.Members)})
}

func (c *core) onReset() error {
	c.cfg.Logger.Warn("starting over as a learner", "old_id", c.id, "id", c.identity.ID)
	c.id = c.identity.ID
	c.conf = raftlog.Conf{Members: encodeMembers(sortedMembers(c.members))}
	c.last, c.applied, c.synced, c.appTerm, c.commit, c.term = 0, 0, 0, 0, 0, 0
	clear(c.records)
	c.recDirty = false
	c.out.confMoved = true
	return c.activate()
}

// recordProgress keeps what members have acknowledged to this leader in its term.
func (c *core) recordProgress(progress map[uint64]tracker.Progress) {
	for id, pr := range progress {
		if pr.Match > 0 {
			c.record(raftlog.Record{ID: id, Term: c.term, Index: pr.Match})
		}
	}
}

func (c *core) record(r raftlog.Record) {
	if old := c.records[r.ID]; r.Term > old.Term || (r.Term == old.Term && r.Index > old.Index) {
		c.records[r.ID] = r
		c.recDirty = true
	}
}

// mergeRecords takes over what a leader says, of members only.
func (c *core) mergeRecords(records []raftlog.Record) {
	for _, r := range records {
		if _, ok := c.members[r.ID]; ok {
			c.record(r)
		}
	}
}

// spreadRecords tells the others what has changed since it was told last.
func (c *core) spreadRecords() {
	var news []raftlog.Record
	for _, r := range c.recordList() {
		if c.recSent[r.ID] != r {
			news = append(news, r)
			c.recSent[r.ID] = r
		}
	}
	if len(news) == 0 && c.tick%uint64(2*c.cfg.ElectionTicks) != 0 {
		return
	}
	if c.tick%uint64(2*c.cfg.ElectionTicks) == 0 {
		news = c.recordList() // once in a while everything: control messages may be lost
	}
	if len(news) == 0 {
		return
	}
	for _, m := range c.others() {
		c.tell(m, control{Records: news})
	}
}

// recordList is the records of present members, in the order of their names.
func (c *core) recordList() []raftlog.Record {
	out := []raftlog.Record{}
	for _, m := range sortedMembers(c.members) {
		if r, ok := c.records[m.ID]; ok {
			out = append(out, r)
		}
	}
	return out
}
