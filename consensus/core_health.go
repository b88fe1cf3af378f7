package consensus

import (
	"path/filepath"
	"time"

	"go.etcd.io/raft/v3/tracker"
)

// A leader whose disk is slow makes everybody wait who talks to it, while the others commit without it. The rule:
//
//   - A member is slow while a write to its log, or a call of its machine, has lasted SlowTicks or longer.
//   - Every member tells the leader its lag: the longest write of late, or the present one.
//   - A slow leader hands over to a voter that is heard of, has all but the newest entries, and whose lag is below half of
//     SlowTicks, if such voters are a majority without it. Of them it is the one with the least lag. If they are none, a slow
//     disk is part of every majority, so nothing would be gained, and an election, which waits for disks itself, might not end.
//   - A leader that took office less than restFactor times SlowTicks ago stays too. With what members remember of each other's
//     lag this makes it at most one change in an episode.
//
// Ages are counted in ticks, which a member that gets no processor does not count either: it is not its disk that is slow.

const (
	// restFactor times SlowTicks is how long a leader leads before it hands over, and how long a slow write is remembered at least.
	restFactor = 10
	// reportsPerSlow is how many times a leader asks for the others' lag while it becomes slow itself.
	reportsPerSlow = 5
)

// health is what a member knows of its own disk and of the others'.
type health struct {
	log, state diskWatch
	reports    map[uint64]report // by member, of the present leadership
	ledSince   uint64            // tick at which this member became leader
	nextOffer  uint64            // tick before which it is not offered to others again
	seq        uint64            // of the last ping
}

// report is the lag of a member as it said itself.
type report struct {
	lag  uint64 // in own ticks
	tick uint64 // when it arrived
}

// diskWatch knows what has been handed out and is not done. It is done in the order in which it was handed out.
type diskWatch struct {
	handed []handedOut
	worst  [2]uint64 // ticks; of the present window and the one before
	turned uint64    // tick at which the present window began
	slow   bool
	peak   uint64 // ticks; since it is slow
}

type handedOut struct {
	gen, index, tick uint64 // index is of no meaning for the log
	// long: replacing everything by a copy takes what it takes, and says nothing of the disk.
	long bool
}

func (d *diskWatch) age(now uint64) uint64 {
	if len(d.handed) == 0 || d.handed[0].long {
		return 0
	}
	return now - d.handed[0].tick
}

func (d *diskWatch) lag(now uint64) uint64 { return max(d.age(now), d.worst[0], d.worst[1]) }

// done drops the oldest of what was handed out.
func (d *diskWatch) done(now uint64) {
	if len(d.handed) == 0 {
		return
	}
	d.worst[0] = max(d.worst[0], d.age(now))
	long := d.handed[0].long
	d.handed = d.handed[1:]
	for i := range d.handed {
		if long { // what waited behind it begins now
			d.handed[i].tick = now
		}
	}
}

// turn begins a new window when the present one is over.
func (d *diskWatch) turn(now, window uint64) {
	if now-d.turned >= window {
		d.worst, d.turned = [2]uint64{0, d.worst[0]}, now
	}
}

func (h *health) lag(now uint64) uint64 { return max(h.log.lag(now), h.state.lag(now)) }

// noteAck takes notice of log steps that are done, of whatever raft node they were.
func (c *core) noteAck(ack persistAck) {
	if len(ack.acks) > 0 || ack.installed != 0 || ack.reset {
		c.health.log.done(c.tick)
	}
}

func (c *core) noteApplied(ack applyAck) {
	d := &c.health.state
	for len(d.handed) > 0 && (d.handed[0].gen < ack.gen || (d.handed[0].gen == ack.gen && d.handed[0].index <= ack.index)) {
		d.done(c.tick)
	}
}

// hand gives a step to the log and remembers when, if its end will be told.
func (c *core) hand(w persistWork) {
	if len(w.acks) > 0 || w.install != nil || w.reset != nil {
		c.health.log.handed = append(c.health.log.handed, handedOut{gen: w.gen, tick: c.tick, long: w.install != nil})
	}
	c.out.persist = append(c.out.persist, w)
}

// tickDisk notices when this member becomes slow and when it no longer is.
func (c *core) tickDisk() {
	c.watchDisk(DiskLog, &c.health.log)
	c.watchDisk(DiskState, &c.health.state)
}

func (c *core) watchDisk(part DiskPart, d *diskWatch) {
	limit := uint64(c.cfg.SlowTicks)
	d.turn(c.tick, restFactor*limit)
	lag := d.lag(c.tick)
	d.peak = max(d.peak, lag)
	if slow := lag >= limit; slow != d.slow {
		d.slow = slow
		c.out.slow = append(c.out.slow, slowChange{part: part, slow: slow})
		c.logSlow(part, d)
		d.peak = lag
	}
}

func (c *core) logSlow(part DiskPart, d *diskWatch) {
	file := filepath.Join(c.cfg.Dir, logFile)
	if part == DiskState {
		file = c.cfg.StateFile
	}
	log := c.cfg.Logger.With("part", string(part), "file", file, "took", time.Duration(d.peak)*c.cfg.Tick,
		"limit", time.Duration(c.cfg.SlowTicks)*c.cfg.Tick)
	if d.slow {
		log.Warn("disk is slow")
	} else {
		log.Info("disk is quick again")
	}
}

// tickPings asks the others how they are: a leader often enough to know when it has to, others for their metrics.
func (c *core) tickPings() {
	every := 2 * uint64(c.cfg.ElectionTicks)
	if c.isLead {
		every = max(uint64(c.cfg.SlowTicks)/reportsPerSlow, 1)
	}
	if c.tick%every != 0 {
		return
	}
	c.health.seq++
	for _, m := range c.others() {
		c.tell(m, control{Ping: &ping{Seq: c.health.seq}})
	}
}

func (c *core) onPing(from Member, p ping) {
	c.tell(from, control{Pong: &pong{Seq: p.Seq, Lag: c.health.lag(c.tick)}})
}

func (c *core) onPong(from uint64, p pong) {
	if _, ok := c.members[from]; ok {
		c.health.reports[from] = report{lag: p.Lag, tick: c.tick}
	}
}

// tickOffice hands leadership over if this member's disk is slow and another's is not.
func (c *core) tickOffice(progress map[uint64]tracker.Progress) {
	h, limit := &c.health, uint64(c.cfg.SlowTicks)
	age := max(h.log.age(c.tick), h.state.age(c.tick))
	if age < limit || c.tick-h.ledSince < restFactor*limit || c.tick < h.nextOffer {
		return
	}
	to, ok := c.healthiest(progress)
	if !ok {
		return
	}
	h.nextOffer = c.tick + 2*uint64(c.cfg.ElectionTicks)
	c.cfg.Logger.Warn("leadership is handed over: this member's disk is slow", "to", to.Name,
		"took", time.Duration(age)*c.cfg.Tick, "lag_of_other", time.Duration(h.reports[to.ID].lag)*c.cfg.Tick)
	c.out.handedOver = append(c.out.handedOver, to.Name)
	c.rn.TransferLeader(to.ID)
}

// healthiest is the voter to hand over to, if there is one.
func (c *core) healthiest(progress map[uint64]tracker.Progress) (best Member, ok bool) {
	limit := uint64(c.cfg.SlowTicks)
	quick := map[uint64]bool{}
	for _, m := range c.others() {
		r, said := c.health.reports[m.ID]
		pr := progress[m.ID]
		fit := !m.Learner && said && c.tick-r.tick <= limit/2 && 2*r.lag < limit &&
			c.alive(m.ID) && pr.State == tracker.StateReplicate && pr.Match+promoteLag >= c.last
		if fit {
			quick[m.ID] = true
		}
		if fit && (!ok || r.lag < c.health.reports[best.ID].lag) {
			best, ok = m, true
		}
	}
	enough := majority(c.conf.State.GetVoters(), quick) && len(c.conf.State.GetVotersOutgoing()) == 0
	return best, ok && enough
}
