package sim

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/drover-fleet/drover/consensus"
	"github.com/drover-fleet/drover/test/history"
)

const (
	checkpointEvery = 15 * time.Second // mean between two checkpoints of a member's store
	superviseTime   = 2 * time.Second  // mean until a supervisor starts a member again that has ended
	copyEvery       = 4 * time.Minute  // between two copies of a member's directory that somebody keeps
	maxCopies       = 3
	healTime        = time.Minute // by which an old copy takes part again
)

// A member's log and its store's file are committed apart: a crash leaves each of them at its own last commit.

func (m *member) statePath() string { return filepath.Join(m.dir, "state") }

func (m *member) logPath() string { return filepath.Join(m.dir, "raft.db") }

// openNode opens the core over raft.db, or over a log in memory.
func (m *member) openNode(cfg consensus.Config) (*consensus.Stepped, error) {
	if m.w.onFiles {
		return consensus.OpenStepped(cfg)
	}
	if m.log == nil {
		var err error
		if m.log, err = takeLog(m.logPath()); err != nil {
			return nil, err
		}
	}
	return consensus.OpenSteppedOn(cfg, m.log)
}

// dies counts what a planned crash waits for, and tells whether it comes at this one.
func (m *member) dies() bool {
	if m.crashIn == 0 {
		return false
	}
	m.crashIn--
	return m.crashIn == 0
}

// write makes durable what waits for the log, one commit at a time. A crash before its end loses it; now and then it is durable
// and nobody heard.
func (m *member) write() {
	if m.writing {
		return
	}
	work, ok := m.node.TakeLog()
	if !ok {
		return
	}
	m.writing = true
	m.later(diskTime+m.w.about(diskTime)+m.slow, func() {
		m.writing = false
		dies := m.dies()
		if m.broken {
			if m.w.chance(m.written) {
				_ = m.node.Write(work, func() bool { return m.w.chance(0.5) }) // it has failed already
			}
			m.end("a write of its log failed")
			return
		}
		between := func() bool { return !dies || m.w.chance(0.5) }
		if dies && m.w.chance(0.3) {
			m.crash()
			return
		}
		if err := m.node.Write(work, between); err != nil {
			m.w.fail(history.NoErrors, "log of %s: %v", m.name, err)
			return
		}
		if dies {
			m.crash()
			return
		}
		m.step(0)
	})
}

// apply gives the machine what waits for it. What is applied is durable only from the next checkpoint on.
func (m *member) apply() {
	if m.applying {
		return
	}
	work, ok := m.node.TakeApply()
	if !ok {
		return
	}
	m.applying = true
	m.later(diskTime+m.w.about(diskTime)+m.slow, func() {
		m.applying = false
		if err := m.node.Apply(work); err != nil {
			m.w.fail(history.NoErrors, "state of %s: %v", m.name, err)
			return
		}
		if m.dies() {
			m.crash()
			return
		}
		m.step(0)
	})
}

func (m *member) nextCheckpoint() {
	m.later(m.w.about(m.w.usual(checkpointEvery)), func() {
		m.checkpoint()
		if m.up {
			m.nextCheckpoint()
		}
	})
}

// checkpoint brings the store's file up to what was applied. A crash comes before it, after it, or between its commits if it
// should have several.
func (m *member) checkpoint() {
	dies := m.crashIn > 0 && m.w.chance(0.5)
	if m.broken && !m.w.chance(m.written) {
		m.end("a checkpoint failed")
		return
	}
	if dies && m.w.chance(0.3) {
		m.crash()
		return
	}
	m.watched = dies
	if err := m.store.Checkpoint(); err != nil {
		m.w.fail(history.NoErrors, "checkpoint of %s: %v", m.name, err)
		return
	}
	m.watched = false
	m.w.others["checkpoints"]++
	switch {
	case dies:
		m.crash()
	case m.broken:
		m.end("a checkpoint failed, and is on the disk")
	}
}

// committed runs after the first commit of a checkpoint in which the member is to crash.
func (m *member) committed() {
	if !m.watched {
		return
	}
	m.watched = false
	var err error
	if m.image, err = os.ReadFile(m.statePath()); err != nil {
		m.w.fail(history.NoErrors, "image of %s: %v", m.name, err)
	}
}

// end is a process that ends by itself, since it cannot go on. Its supervisor starts it again.
func (m *member) end(why string) {
	m.w.logf("%s ends: %s", m.name, why)
	m.crash()
	m.w.after(m.w.about(superviseTime), m.restart)
}

// dirCopy is a copy of a member's directory that somebody keeps.
type dirCopy struct {
	state, raft []byte
	log         *memoryLog // in place of raft
}

// keepCopy takes one, as a backup of a running machine would at its best: of one moment.
func (m *member) keepCopy() {
	if !m.up || m.node.Status().Fenced != "" || m.w.quiet {
		return
	}
	var c dirCopy
	var err, err2 error
	c.state, err = os.ReadFile(m.statePath())
	if m.log != nil {
		c.log = m.log.clone()
	} else {
		c.raft, err2 = os.ReadFile(m.logPath())
	}
	if err = errors.Join(err, err2); err != nil {
		m.w.fail(history.NoErrors, "copy of %s: %v", m.name, err)
		return
	}
	if m.copies = append(m.copies, c); len(m.copies) > maxCopies {
		m.copies = m.copies[1:]
	}
}

// becomeOld has a member come back on an older copy of its directory, while all others are well.
func (m *member) becomeOld() bool {
	w := m.w
	if len(m.copies) == 0 || !w.sound() {
		return false
	}
	c := m.copies[w.rng.IntN(len(m.copies))]
	m.crash()
	err := os.WriteFile(m.statePath(), c.state, 0o600)
	if m.log != nil {
		m.log = c.log
	} else {
		err = errors.Join(err, os.WriteFile(m.logPath(), c.raft, 0o600))
	}
	if err != nil {
		w.fail(history.NoErrors, "old copy of %s: %v", m.name, err)
		return false
	}
	w.fragile = true
	w.logf("fault: %s comes back on an old copy of its directory", m.name)
	w.after(w.about(superviseTime), func() {
		m.restart()
		m.heal(w.now + healTime)
	})
	m.copies = nil // of the old identity
	return true
}

// heal waits until a member that came back on an old copy takes part again, as a voter that has what the group has.
func (m *member) heal(until time.Duration) {
	w := m.w
	s := m.node.Status()
	voter := false
	for _, o := range s.Members {
		voter = voter || o.ID == s.ID && !o.Learner
	}
	switch {
	case m.up && s.Fenced == "" && voter && s.Leader != 0 && s.Applied+50 > w.applied:
		w.logf("%s takes part again", m.name)
		w.others["old copies replaced"]++
		w.fragile = false
	case w.now > until:
		w.fail(history.NoErrors, "%s came back on an old copy and does not take part after %v: %+v", m.name, healTime, s)
	default:
		w.after(time.Second, func() { m.heal(until) })
	}
}

// sound tells whether every member is there and sees every other, with nothing planned for any.
func (w *world) sound() bool {
	for _, m := range w.members {
		if !m.up || m.stalled || m.crashIn > 0 || m.broken || m.node.Status().Fenced != "" {
			return false
		}
		for _, o := range w.members {
			if !w.net.open(m.name, o.name) {
				return false
			}
		}
	}
	return !w.fragile
}

// crash ends a member. What was not committed is lost; with an image, what was committed after it too.
func (m *member) crash() {
	if !m.up {
		return
	}
	m.w.crashes++
	m.w.logf("%s crashes at entry %d, its file goes to %d", m.name, m.store.Applied(), m.store.Synced())
	if err := m.close(); err != nil {
		m.w.fail(history.NoErrors, "close %s: %v", m.name, err)
	}
	if m.image != nil {
		if err := os.WriteFile(m.statePath(), m.image, 0o600); err != nil {
			m.w.fail(history.NoErrors, "image of %s: %v", m.name, err)
		}
	}
	m.image, m.watched, m.crashIn = nil, false, 0
	m.gateway, m.office = nil, nil
}

// restart starts a member that is down.
func (m *member) restart() {
	if m.up {
		return
	}
	if err := m.start(); err != nil {
		m.w.fail(history.NoErrors, "%v", err)
	}
}

func (m *member) close() error {
	if !m.up {
		return nil
	}
	m.up = false
	m.endTasks()
	if err := errors.Join(m.node.Close(), m.store.Close()); err != nil {
		return fmt.Errorf("close %s: %w", m.name, err)
	}
	return nil
}
