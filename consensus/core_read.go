package consensus

import (
	"bytes"
	"encoding/binary"

	"go.etcd.io/raft/v3"
)

// Kinds of read contexts.
const (
	readWaiters = 'r' // n is the sequence of a batch of readers
	readQuery   = 'q' // n is the asker's id: a member in probation wants a confirmed verdict
)

// readers are this member's linearizable reads. One request is out at a time; who comes later waits for the next one,
// since an index asked for before a read began proves nothing for it.
type readers struct {
	queue   []uint64 // waiter ids, no request covers them yet
	asked   []uint64 // covered by the request that is out
	seq     uint64   // of that request
	since   uint64   // tick at which it was sent
	out     bool
	pending []readWait       // index known, not applied yet; by rising index
	asker   map[uint64]asker // members in probation that wait for a confirmed answer, by id
}

type readWait struct {
	index uint64
	ids   []uint64
}

// pumpReads sends a request for all that wait. A leader waits for an entry of its own term: before that it does not know what was
// committed, and raft, which holds such requests back in a group of several voters, answers at once in a group of one.
func (c *core) pumpReads() {
	if c.rn == nil || c.lead == 0 || c.reads.out || len(c.reads.queue)+len(c.reads.asked) == 0 || c.isLead && !c.leads() {
		return
	}
	r := &c.reads
	r.asked, r.queue = append(r.asked, r.queue...), nil
	r.seq++
	r.out, r.since = true, c.tick
	c.rn.ReadIndex(c.context(readWaiters, r.seq))
}

// tickReads asks again for what got lost: raft drops requests silently.
func (c *core) tickReads() {
	if c.reads.out && c.tick-c.reads.since >= uint64(c.cfg.ElectionTicks) {
		c.reads.restart()
	}
}

// restart lets the next pump ask again, for everyone who waits.
func (r *readers) restart() { r.out = false }

func (c *core) onReadState(rs raft.ReadState) {
	if len(rs.RequestCtx) != 17 || !bytes.Equal(rs.RequestCtx[1:9], c.context(0, 0)[1:9]) {
		return
	}
	n := binary.BigEndian.Uint64(rs.RequestCtx[9:])
	switch rs.RequestCtx[0] {
	case readWaiters:
		if c.reads.out && n == c.reads.seq {
			c.reads.pending = append(c.reads.pending, readWait{index: rs.Index, ids: c.reads.asked})
			c.reads.asked, c.reads.out = nil, false
			c.finishReads()
		}
	case readQuery:
		c.answerConfirmed(n)
	}
}

// finishReads completes reads whose index has been applied.
func (c *core) finishReads() {
	r := &c.reads
	for len(r.pending) > 0 && r.pending[0].index <= c.applied {
		for _, id := range r.pending[0].ids {
			c.complete(id, nil, nil)
		}
		r.pending = r.pending[1:]
	}
}

// takeUnanswered removes and returns the readers whose index is not known.
func (r *readers) takeUnanswered() []uint64 {
	ids := append(r.asked, r.queue...)
	r.asked, r.queue, r.out = nil, nil, false
	return ids
}

func (r *readers) all() []uint64 {
	ids := append(append([]uint64(nil), r.asked...), r.queue...)
	for _, w := range r.pending {
		ids = append(ids, w.ids...)
	}
	return ids
}

func (r *readers) cancel(gone map[uint64]bool) {
	match := func(id uint64) bool { return gone[id] }
	r.queue, r.asked = drop(r.queue, match), drop(r.asked, match)
	for i := range r.pending {
		r.pending[i].ids = drop(r.pending[i].ids, match)
	}
}
