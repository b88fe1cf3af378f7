package sim

import (
	"fmt"
	"time"

	"github.com/drover-fleet/drover/store"
	"github.com/drover-fleet/drover/test/history"
)

const (
	faultEvery   = 8 * time.Second // mean between two faults unless the Config says; several may be on at once
	faultTime    = 12 * time.Second
	officeEvery  = 5 * time.Second
	compactEvery = 20 * time.Second
)

// kind is one way in which things go wrong.
type kind[T any] struct {
	name   string
	weight int
	do     func(T) bool // false: not now
}

// pick has one of the kinds happen, by weight, and counts it.
func pick[T any](w *world, prefix string, kinds []kind[T], who T) {
	all := 0
	for _, k := range kinds {
		all += k.weight
	}
	n := w.rng.IntN(all)
	for _, k := range kinds {
		if n -= k.weight; n >= 0 {
			continue
		}
		if k.do(who) {
			w.faults[prefix+k.name]++
		}
		return
	}
}

// startFaults begins everything that goes on by itself: faults, compactions, controllers' writes.
func (w *world) startFaults() {
	w.nextFault()
	for _, m := range w.members {
		w.every(progress, w.rng.Float64(), func() {
			if m.up && !m.stalled {
				m.store.Progress()
			}
		})
		w.every(w.usual(copyEvery), w.rng.Float64(), m.keepCopy)
		w.nextOffice(m)
	}
	w.every(w.usual(compactEvery), w.rng.Float64(), w.compact)
}

func (w *world) nextFault() {
	w.after(w.about(w.cfg.Every), func() {
		if w.quiet {
			return
		}
		w.fault()
		w.nextFault()
	})
}

// undoLater ends a fault after some time, or at the end of all faults.
func (w *world) undoLater(what string, mean time.Duration, undo func()) {
	w.logf("fault: %s", what)
	w.trace.note(w.now, what, nil)
	done := false
	once := func() {
		if !done {
			done = true
			w.logf("fault ends: %s", what)
			undo()
		}
	}
	w.undo = append(w.undo, once)
	w.after(w.about(mean), once)
}

// fault makes something go wrong. Members fail independently, so now and then there is no majority for a while; but while an old
// copy of a member's directory is about, no other member fails: a group of three stands one failure of that kind.
func (w *world) fault() {
	m := w.members[w.rng.IntN(len(w.members))]
	if w.fragile {
		pick(w, "", networkFaults(), m)
	} else {
		pick(w, "", append(networkFaults(), memberFaults()...), m)
	}
	if w.fleet != nil {
		d := w.fleet.devices[w.rng.IntN(len(w.fleet.devices))]
		d.faults++
		pick(w, "device ", deviceFaults(), d)
	}
}

// networkFaults unseat leaders at most.
func networkFaults() []kind[*member] {
	return []kind[*member]{
		{"messages lost", 1, func(m *member) bool {
			n := m.w.net
			n.loss = 0.02 + 0.2*m.w.rng.Float64()
			m.w.undoLater(fmt.Sprintf("loss %.2f", n.loss), faultTime, func() { n.loss = 0 })
			return true
		}},
		{"messages doubled", 1, func(m *member) bool {
			n := m.w.net
			n.double = 0.2 * m.w.rng.Float64()
			m.w.undoLater("messages are doubled", faultTime, func() { n.double = 0 })
			return true
		}},
		{"messages out of order", 1, func(m *member) bool {
			m.w.net.disorder = true
			m.w.undoLater("messages are out of order", faultTime, func() { m.w.net.disorder = false })
			return true
		}},
		{"clock steps", 2, func(m *member) bool {
			m.skew = m.w.step(time.Hour)
			m.w.undoLater(fmt.Sprintf("the clock of %s is off by %v", m.name, m.skew), 2*faultTime, func() { m.skew = 0 })
			return true
		}},
		{"leadership handed over", 1, func(m *member) bool {
			if !m.up || m.stalled {
				return false
			}
			other := m.w.members[m.w.rng.IntN(len(m.w.members))]
			m.node.TransferLeader(other.node.Status().ID)
			m.later(0, func() { m.step(0) })
			return true
		}},
	}
}

// memberFaults take members out of the group for a while.
func memberFaults() []kind[*member] {
	return []kind[*member]{
		{"crash", 2, func(m *member) bool {
			if !m.up {
				return false
			}
			m.crash()
			m.w.undoLater(m.name+" is down", faultTime, m.restart)
			return true
		}},
		{"crash inside a write", 3, (*member).crashInside},
		{"one way cut", 1, func(m *member) bool {
			from, to := m.name, m.w.members[m.w.rng.IntN(len(m.w.members))].name
			m.w.undoLater("one way cut "+from+" to "+to, faultTime, m.w.net.cut(from, to))
			return true
		}},
		{"two members cut off from each other", 1, func(m *member) bool {
			other := m.w.members[m.w.rng.IntN(len(m.w.members))].name
			there, back := m.w.net.cut(m.name, other), m.w.net.cut(other, m.name)
			m.w.undoLater(m.name+" and "+other+" do not see each other", faultTime, func() { there(); back() })
			return true
		}},
		{"member cut off", 1, func(m *member) bool {
			m.w.undoLater(m.name+" is cut off", faultTime, m.w.cutOff(m))
			return true
		}},
		{"slow disk", 1, func(m *member) bool {
			m.slow = m.w.between(50*time.Millisecond, 900*time.Millisecond)
			m.w.undoLater("the disk of "+m.name+" is slow", faultTime, func() { m.slow = 0 })
			return true
		}},
		{"failing sync", 1, func(m *member) bool { return m.badDisk("syncs of "+m.name+" fail", 0.5) }},
		{"full disk", 1, func(m *member) bool { return m.badDisk("the disk of "+m.name+" is full", 0) }},
		{"stall", 1, (*member).stall},
		{"old copy of a directory", 1, (*member).becomeOld},
	}
}

// step is how far a clock goes wrong: by seconds or by up to the most given, in either direction.
func (w *world) step(most time.Duration) time.Duration {
	d := w.about(10 * time.Second)
	if w.chance(0.5) {
		d = w.between(0, most)
	}
	if w.chance(0.5) {
		d = -d
	}
	return d
}

// crashInside has a member crash at one of its next writes or applies, and come back.
func (m *member) crashInside() bool {
	if !m.up || m.crashIn > 0 {
		return false
	}
	m.crashIn = 1 + m.w.rng.IntN(40)
	if m.w.chance(0.5) {
		m.slow = m.w.between(20*time.Millisecond, 600*time.Millisecond) // more waits, so more is in one commit
	}
	m.w.undoLater(fmt.Sprintf("%s crashes at its write %d from now", m.name, m.crashIn), faultTime, func() {
		m.slow, m.crashIn = 0, 0
		m.restart()
	})
	return true
}

// badDisk has writes of a member fail; written is the probability that what failed is on the disk all the same. A member whose
// write fails ends, and its supervisor starts it again.
func (m *member) badDisk(what string, written float64) bool {
	if m.broken {
		return false
	}
	m.broken, m.written = true, written
	m.w.undoLater(what, faultTime, func() {
		m.broken = false
		m.restart()
	})
	return true
}

func (w *world) cutOff(m *member) (mend func()) {
	var mends []func()
	for _, o := range w.members {
		if o != m {
			mends = append(mends, w.net.cut(m.name, o.name), w.net.cut(o.name, m.name))
		}
	}
	if w.chance(0.3) { // from its clients too
		for _, c := range w.clients {
			mends = append(mends, w.net.cut(m.name, c.name), w.net.cut(c.name, m.name))
		}
	}
	return func() {
		for _, f := range mends {
			f()
		}
	}
}

// stall stops a member's process for a while: no ticks, and what arrives waits.
func (m *member) stall() bool {
	if !m.up || m.stalled {
		return false
	}
	m.stalled = true
	life := m.life
	m.w.undoLater(m.name+" stalls", 3*time.Second, func() {
		if m.life != life || !m.up {
			return
		}
		if m.resume(); m.up {
			m.step(0)
		}
	})
	return true
}

// endFaults undoes every fault and starts what is down.
func (w *world) endFaults() {
	w.quiet = true
	for _, undo := range w.undo {
		undo()
	}
	for _, m := range w.members {
		m.crashIn = 0
		if !w.fragile {
			m.restart()
		}
	}
	w.logf("quiet from here on")
}

// nextOffice is a controller's loop at one member: if it leads it writes, fenced by its term. Between its look at the leadership
// and its write it may be slow.
func (w *world) nextOffice(m *member) {
	w.after(w.about(w.usual(officeEvery)), func() {
		defer w.nextOffice(m)
		if !m.up || m.stalled {
			return
		}
		term, leads := m.node.Leadership()
		if !leads {
			return
		}
		w.offices++
		request := fmt.Sprintf("office-%d", w.offices)
		c := &store.Command{
			Term: term, Actor: "controller:sim", RequestID: request,
			Ops: []store.Op{{Type: store.OpPut, Key: "office", Value: []byte(request)}},
		}
		delay := w.about(20 * time.Millisecond)
		if w.chance(0.2) {
			delay = w.about(3 * time.Second)
		}
		m.later(delay, func() { m.propose(c, func(store.Result, error) {}) })
	})
}

// compact drops what is older than a little while ago, through some member.
func (w *world) compact() {
	m := w.members[w.rng.IntN(len(w.members))]
	if !m.up || m.stalled {
		return
	}
	back := store.Revision(w.rng.IntN(30))
	at := m.store.Revision()
	if at.Counter() <= uint64(back) {
		return
	}
	at -= back
	w.compacted = max(w.compacted, at)
	w.compactions++
	c := &store.Command{Actor: "hub:" + m.name, RequestID: fmt.Sprintf("compact-%d", w.compactions), Compact: at}
	m.propose(c, func(r store.Result, err error) {
		if err == nil && r.Err != nil {
			w.fail(history.NoErrors, "compact to %d at %s: %v", at, m.name, r.Err)
		}
	})
}
