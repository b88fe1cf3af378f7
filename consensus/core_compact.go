package consensus

import (
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/drover-fleet/drover/consensus/raftlog"
)

// holdFactor is how far beyond its bounds the log may grow for a living member that still needs it, or for one that is
// being sent a snapshot.
const holdFactor = 4

// compactor knows how many entries and bytes the log keeps. Marks give the running size at some indexes.
type compactor struct {
	begin uint64 // last index dropped, or asked to be dropped
	bytes uint64 // running size of everything noted
	marks []mark // by rising index
}

type mark struct {
	index uint64
	bytes uint64 // running size up to and including index
}

func (c *compactor) reset(begin uint64) { *c = compactor{begin: begin} }

// note counts a committed entry. Entries are noted in order; a mark is set every 256 entries or 1 MiB.
func (c *compactor) note(e *pb.Entry) {
	c.bytes += entrySize(e)
	prev := mark{index: c.begin}
	if n := len(c.marks); n > 0 {
		prev = c.marks[n-1]
	}
	if e.GetIndex()-prev.index >= 256 || c.bytes-prev.bytes >= maxBatch {
		c.marks = append(c.marks, mark{index: e.GetIndex(), bytes: c.bytes})
	}
}

// target is the index up to which the log has to go for its bounds, given the index up to which the machine's own file goes.
func (c *compactor) target(synced, applied, entries, bytes uint64) uint64 {
	var t uint64
	if applied > entries {
		t = applied - entries
	}
	for _, m := range c.marks {
		if c.bytes-m.bytes < bytes {
			break
		}
		t = max(t, m.index)
	}
	return min(t, synced)
}

func (c *compactor) dropped(index uint64) {
	c.begin = index
	c.marks = drop(c.marks, func(m mark) bool { return m.index <= index })
}

// maybeCompact drops entries that this machine has in its file, within the bounds; a member that is alive and needs them may
// stretch the bounds.
func (c *core) maybeCompact() {
	target := c.compactor.target(c.synced, c.applied, c.cfg.KeepEntries, c.cfg.KeepBytes)
	if floor := c.needed(); floor < target {
		hard := c.compactor.target(c.synced, c.applied, holdFactor*c.cfg.KeepEntries, holdFactor*c.cfg.KeepBytes)
		target = max(floor, hard)
	}
	byBytes := len(c.compactor.marks) > 0 && target >= c.compactor.marks[0].index && c.compactor.bytes > c.cfg.KeepBytes
	if target <= c.compactor.begin || (target-c.compactor.begin < c.cfg.CompactInterval && !byBytes) {
		return
	}
	c.compactor.dropped(target)
	c.conf.Index = max(c.conf.Index, c.applied)
	conf := c.conf
	c.out.persist = append(c.out.persist, persistWork{gen: c.gen, batch: raftlog.Batch{Compact: target, Conf: &conf}})
}

// needed is the lowest index after which a living member still needs the log.
func (c *core) needed() uint64 {
	floor := c.applied
	if !c.isLead {
		return floor
	}
	for id, pr := range c.progress() {
		if c.alive(id) && pr.Match > 0 && id != c.id {
			floor = min(floor, pr.Match)
		}
	}
	for _, s := range c.snapSent {
		if s.running {
			floor = min(floor, s.index)
		}
	}
	return floor
}

// snapOrder asks the shell to send a copy of the machine to a member.
type snapOrder struct {
	to  Member
	msg *pb.Message // the copy's own index goes into the metadata when it is opened
}

type snapResult struct {
	to  uint64
	err error
}

// snapState is the last copy sent to a member.
type snapState struct {
	running bool
	index   uint64
	ended   uint64 // tick
}

// orderSnapshot starts a transfer, one at a time to a member and not at once after another: a member that cannot use
// the copy would be sent it in a hot loop.
func (c *core) orderSnapshot(m *pb.Message) {
	id := m.GetTo()
	to, known := c.address(id)
	s, before := c.snapSent[id]
	if !known || s.running || (before && c.tick-s.ended < uint64(c.cfg.ElectionTicks)) {
		c.rn.ReportSnapshot(id, raft.SnapshotFailure)
		return
	}
	c.snapSent[id] = snapState{running: true, index: m.GetSnapshot().GetMetadata().GetIndex()}
	c.out.snapshots = append(c.out.snapshots, snapOrder{to: to, msg: m})
}

// onSnapshotSent tells raft how it went; success only after the receiver's raft has been offered the copy.
func (c *core) onSnapshotSent(r snapResult) {
	c.snapSent[r.to] = snapState{ended: c.tick}
	status := raft.SnapshotFinish
	if r.err != nil {
		status = raft.SnapshotFailure
	}
	c.rn.ReportSnapshot(r.to, status)
}
