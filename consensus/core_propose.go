package consensus

// maxFlights bounds the entries of this member that are proposed and not yet applied here. What arrives meanwhile waits
// and goes into one entry: that is the batching, with no timer. A few rather than one, so that the network, the disk
// and the machine each have one to work on.
const maxFlights = 4

// proposals are this member's commands on their way.
type proposals struct {
	waiting    []proposal // not proposed yet
	flights    []flight   // proposed, in order
	leaderless int        // ticks without a leader
}

// flight is one proposed entry.
type flight struct {
	ids   []uint64
	since uint64 // tick
}

// pumpProposals proposes what waits, in entries of about maxBatch bytes.
func (c *core) pumpProposals() {
	if c.rn == nil || c.lead == 0 {
		return
	}
	for len(c.props.waiting) > 0 && len(c.props.flights) < maxFlights {
		n, size := 0, 0
		for n < len(c.props.waiting) && (n == 0 || size+len(c.props.waiting[n].data) <= maxBatch) {
			size += len(c.props.waiting[n].data)
			n++
		}
		batch := c.props.waiting[:n]
		if err := c.rn.Propose(encodeEnvelope(c.proposer, batch)); err != nil {
			return // a transfer of leadership or too much uncommitted: it stays waiting
		}
		f := flight{since: c.tick}
		for _, p := range batch {
			f.ids = append(f.ids, p.id)
		}
		c.props.flights = append(c.props.flights, f)
		c.out.proposed = append(c.out.proposed, batchSize{commands: n, bytes: int64(size)})
		c.props.waiting = c.props.waiting[n:]
	}
}

// onResult answers the waiters of one applied entry. A flight that was given up already is ignored.
func (c *core) onResult(r applyResult) {
	for i, f := range c.props.flights {
		if len(r.ids) == 0 || len(f.ids) == 0 || f.ids[0] != r.ids[0] {
			continue
		}
		c.props.flights = append(c.props.flights[:i:i], c.props.flights[i+1:]...)
		for j, id := range r.ids {
			c.complete(id, r.values[j], nil)
		}
		return
	}
}

// failFlights gives up on what was proposed: around a change of leader nobody can say what becomes of it.
func (c *core) failFlights() {
	for _, f := range c.props.flights {
		c.failFlight(f)
	}
	c.props.flights = nil
}

func (c *core) failFlight(f flight) {
	for _, id := range f.ids {
		c.complete(id, nil, ErrAmbiguous)
	}
}

func (c *core) tickProposals() {
	for len(c.props.flights) > 0 && c.tick-c.props.flights[0].since > uint64(c.cfg.ProposalTicks) {
		c.failFlight(c.props.flights[0])
		c.props.flights = c.props.flights[1:]
	}
	if c.lead != 0 {
		c.props.leaderless = 0
		return
	}
	if c.props.leaderless++; c.props.leaderless >= c.cfg.NoLeaderTicks {
		c.props.leaderless = 0
		c.failWaiting(ErrNoLeader)
	}
}

// failWaiting fails what has not been sent anywhere.
func (c *core) failWaiting(err error) {
	for _, p := range c.props.waiting {
		c.complete(p.id, nil, err)
	}
	c.props.waiting = nil
	for _, id := range c.reads.takeUnanswered() {
		c.complete(id, nil, err)
	}
}

// cancel forgets waiters whose caller gave up.
func (c *core) cancel(ids []uint64) {
	if len(ids) == 0 {
		return
	}
	gone := make(map[uint64]bool, len(ids))
	for _, id := range ids {
		gone[id] = true
	}
	c.props.waiting = drop(c.props.waiting, func(p proposal) bool { return gone[p.id] })
	c.changes = drop(c.changes, func(w confWait) bool { return gone[w.id] })
	c.reads.cancel(gone)
}

func drop[T any](list []T, gone func(T) bool) []T {
	kept := list[:0]
	for _, v := range list {
		if !gone(v) {
			kept = append(kept, v)
		}
	}
	clear(list[len(kept):])
	return kept
}
