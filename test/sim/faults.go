package sim

import (
	"fmt"
	"time"

	"github.com/drover-fleet/drover/store"
	"github.com/drover-fleet/drover/test/history"
)

const (
	faultEvery   = 8 * time.Second // mean between two faults; several may be on at once
	faultTime    = 12 * time.Second
	officeEvery  = 3 * time.Second
	compactEvery = 20 * time.Second
)

// startFaults begins everything that goes on by itself: faults, compactions, controllers' writes.
func (w *world) startFaults() {
	w.nextFault()
	for _, m := range w.members {
		w.every(progress, w.rng.Float64(), func() {
			if m.up && !m.stalled {
				m.store.Progress()
			}
		})
		w.nextOffice(m)
	}
	w.every(compactEvery, w.rng.Float64(), w.compact)
}

func (w *world) nextFault() {
	w.after(w.about(faultEvery), func() {
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

// fault makes something go wrong. Members fail independently, so now and then there is no majority for a while.
func (w *world) fault() {
	m := w.members[w.rng.IntN(len(w.members))]
	other := w.members[w.rng.IntN(len(w.members))]
	switch w.rng.IntN(12) {
	case 0, 1:
		if m.up {
			m.crash()
			w.undoLater(m.name+" is down", faultTime, m.restart)
		}
	case 2, 3, 4:
		w.crashInside(m)
	case 5:
		w.undoLater("one way cut "+m.name+" to "+other.name, faultTime, w.net.cut(m.name, other.name))
	case 6:
		w.undoLater(m.name+" is cut off", faultTime, w.cutOff(m))
	case 7:
		w.net.loss = 0.02 + 0.2*w.rng.Float64()
		w.undoLater(fmt.Sprintf("loss %.2f", w.net.loss), faultTime, func() { w.net.loss = 0 })
	case 8:
		w.net.double, w.net.disorder = 0.2*w.rng.Float64(), w.chance(0.5)
		w.undoLater("messages are doubled or out of order", faultTime, func() { w.net.double, w.net.disorder = 0, false })
	case 9:
		m.slow = w.between(50*time.Millisecond, 900*time.Millisecond)
		w.undoLater("the disk of "+m.name+" is slow", faultTime, func() { m.slow = 0 })
	case 10:
		w.stall(m)
	case 11:
		if m.up && !m.stalled {
			m.node.TransferLeader(other.node.Status().ID)
			m.later(0, func() { m.step(0) })
		}
	}
	if w.fleet != nil {
		w.fleet.fault()
	}
}

// crashInside has a member crash at one of its next commits, in the middle of an apply, and come back.
func (w *world) crashInside(m *member) {
	if !m.up || m.crashIn > 0 {
		return
	}
	m.crashIn = 1 + w.rng.IntN(12)
	if w.chance(0.5) {
		m.slow = w.between(20*time.Millisecond, 600*time.Millisecond) // more waits, so more is in one commit
	}
	life := m.life
	w.undoLater(fmt.Sprintf("%s crashes at its commit %d from now", m.name, m.crashIn), faultTime, func() {
		m.slow, m.crashIn = 0, 0
		if m.life == life {
			m.restart()
		}
	})
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
func (w *world) stall(m *member) {
	if !m.up || m.stalled {
		return
	}
	m.stalled = true
	life := m.life
	w.undoLater(m.name+" stalls", 3*time.Second, func() {
		if m.life != life || !m.up {
			return
		}
		m.stalled = false
		held := m.held
		m.held = nil
		for _, do := range held {
			do()
		}
		if m.up {
			m.step(0)
		}
	})
}

// endFaults undoes every fault and starts what is down.
func (w *world) endFaults() {
	w.quiet = true
	for _, undo := range w.undo {
		undo()
	}
	for _, m := range w.members {
		m.crashIn = 0
		m.restart()
	}
	w.logf("quiet from here on")
}

// nextOffice is a controller's loop at one member: if it leads it writes, fenced by its term. Between its look at the leadership
// and its write it may be slow.
func (w *world) nextOffice(m *member) {
	w.after(w.about(officeEvery), func() {
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
