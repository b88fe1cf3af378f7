package consensus

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

// raftModes are the four combinations; the first is the product's, the others show what it would be without.
var raftModes = []struct {
	preVote, checkQuorum bool
}{{true, true}, {true, false}, {false, true}, {false, false}}

// inAllModes runs a test in each of the four combinations. both says that it is the product's.
func inAllModes(t *testing.T, test func(t *testing.T, w *watched, preVote, checkQuorum bool)) {
	for _, m := range raftModes {
		t.Run(fmt.Sprintf("PreVote %v CheckQuorum %v", m.preVote, m.checkQuorum), func(t *testing.T) {
			r := newTunedRig(t, 3, func(cfg *Config) { cfg.withoutPreVote, cfg.withoutCheckQuorum = !m.preVote, !m.checkQuorum })
			w := &watched{rig: r, led: map[uint64]uint64{}}
			w.old = r.leader()
			w.next, w.last = w.old%3+1, (w.old+1)%3+1
			test(t, w, m.preVote, m.checkQuorum)
			clear(r.cut)
			w.mustCommit(w.next, "after the fault has ended")
			w.mustBecomeEqual()
		})
	}
}

// watched is a rig of three whose old leader is known, and in which safety is checked after every tick.
type watched struct {
	*rig
	old, next, last uint64 // the leader to begin with, and the other two
	led             map[uint64]uint64
	waiter          uint64
}

// run lets time pass, in which no term may have two leaders.
func (w *watched) run(ticks int) {
	w.t.Helper()
	for range ticks {
		w.tick(1)
		for id, c := range w.cores {
			if !c.isLead {
				continue
			}
			if other, ok := w.led[c.term]; ok && other != id {
				w.t.Fatalf("term %d is led by %d and %d", c.term, other, id)
			}
			w.led[c.term] = id
		}
	}
}

// commits tells whether a command through a member is applied there within so many ticks, whatever may become of earlier attempts.
func (w *watched) commits(via uint64, ticks int) bool {
	w.t.Helper()
	for range ticks / 10 {
		w.waiter++
		w.propose(via, 1000+w.waiter)
		w.run(10)
		if d, ok := w.done[1000+w.waiter]; ok && d.err == nil {
			return true
		}
	}
	return false
}

func (w *watched) mustCommit(via uint64, when string) {
	w.t.Helper()
	if !w.commits(via, 400) {
		w.t.Fatalf("member %d commits nothing in 400 ticks %s; terms %s", via, when, w.terms())
	}
}

func (w *watched) mustBecomeEqual() {
	w.t.Helper()
	for range 40 {
		if slices.Equal(w.lines[1], w.lines[2]) && slices.Equal(w.lines[1], w.lines[3]) {
			return
		}
		w.run(10)
	}
	for id, c := range w.cores {
		w.t.Errorf("member %d in term %d %q applied %d to %d of %d: %q", id, c.term, c.phase, len(w.lines[id]), c.applied, c.last, w.lines[id])
	}
}

func (w *watched) deafen(id uint64) {
	for other := range w.cores {
		w.cut[[2]uint64{other, id}] = true
	}
}

func (w *watched) silence(id uint64) {
	for other := range w.cores {
		w.cut[[2]uint64{id, other}] = true
	}
}

// tenMinutes is what it says, in ticks of 50 ms.
const tenMinutes = 12000

func TestF38MemberThatHearsNothingDisturbsNobody(t *testing.T) {
	inAllModes(t, func(t *testing.T, w *watched, preVote, checkQuorum bool) {
		before := w.cores[w.old].term
		w.deafen(w.last)
		w.run(600)
		if preVote && (w.cores[w.last].term != before || !w.cores[w.old].isLead) {
			t.Errorf("terms %s, want all %d and %d still leading", w.terms(), before, w.old)
		}
		if !preVote && w.cores[w.last].term == before {
			t.Errorf("terms %s: the test shows nothing, since without PreVote the deaf member's grows", w.terms())
		}
		w.mustCommit(w.next, "with a deaf member")
		clear(w.cut)
		w.run(100)
		if got := w.cores[w.old].term; preVote && got != before {
			t.Errorf("term after its return = %d, want %d: nobody is disturbed", got, before)
		}
	})
}

func TestF38LeaderThatHearsNothingStepsDownAndAnswersNoRead(t *testing.T) {
	inAllModes(t, func(t *testing.T, w *watched, preVote, checkQuorum bool) {
		w.deafen(w.old)
		w.step(w.old, input{reads: []uint64{1}})
		electionTimeouts := 2 * w.cores[w.old].cfg.ElectionTicks
		w.run(electionTimeouts + 1)
		if got := w.cores[w.old].isLead; got == checkQuorum {
			t.Fatalf("deaf leader leads = %v after %d ticks, want %v", got, electionTimeouts, !checkQuorum)
		}
		if got := w.commits(w.next, 100); got != checkQuorum {
			t.Errorf("the others commit = %v, want %v: they do not elect while they hear a leader", got, checkQuorum)
		}
		w.step(w.old, input{reads: []uint64{2}})
		w.run(2 * w.cores[w.old].cfg.NoLeaderTicks)
		for id := uint64(1); id <= 2; id++ {
			if d, ok := w.done[id]; ok && !errors.Is(d.err, ErrNoLeader) {
				t.Errorf("read %d through the deaf leader: %v, want %v or nothing", id, d.err, ErrNoLeader)
			}
		}
	})
}

func TestF38LeaderThatCannotBeHeardIsReplaced(t *testing.T) {
	inAllModes(t, func(t *testing.T, w *watched, preVote, checkQuorum bool) {
		w.silence(w.old)
		w.mustCommit(w.next, "with a leader that cannot be heard")
	})
}

func TestF38CutBetweenTwoThatBothSeeTheThirdStopsNobody(t *testing.T) {
	inAllModes(t, func(t *testing.T, w *watched, preVote, checkQuorum bool) {
		before := w.cores[w.old].term
		w.cut[[2]uint64{w.old, w.last}], w.cut[[2]uint64{w.last, w.old}] = true, true
		for range 10 {
			w.mustCommit(w.next, "with a cut between the leader and another")
			w.run(60)
		}
		if preVote && checkQuorum && (!w.cores[w.old].isLead || w.cores[w.old].term != before) {
			t.Errorf("terms %s, want %d to lead on in term %d: leadership must not go to and fro", w.terms(), w.old, before)
		}
	})
}

func TestF38MemberAloneForTenMinutesComesBackInTheSameTerm(t *testing.T) {
	inAllModes(t, func(t *testing.T, w *watched, preVote, checkQuorum bool) {
		before := w.cores[w.old].term
		w.deafen(w.last)
		w.silence(w.last)
		alone := tenMinutes
		if !preVote || !checkQuorum {
			alone /= 10 // enough to show what the other combinations do
		}
		w.run(alone)
		if got := w.cores[w.last].term; preVote && got != before {
			t.Errorf("term while alone = %d, want %d", got, before)
		}
		clear(w.cut)
		w.mustCommit(w.last, "after it came back")
		if got := w.cores[w.last].term; (got == before) != preVote {
			t.Errorf("term after the return = %d, began in %d; want it unchanged with PreVote and only then", got, before)
		}
	})
}
