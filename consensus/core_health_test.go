package consensus

import (
	"fmt"
	"strings"
	"testing"
)

// settled is a rig whose leader has been in office long enough to hand over.
func settled(t *testing.T, n int) (r *rig, lead uint64) {
	t.Helper()
	r = newRig(t, n)
	lead = r.leader()
	r.tick(restFactor*r.cores[lead].cfg.SlowTicks + 1)
	if got := r.leader(); got != lead {
		t.Fatalf("leader = %d after a quiet time, want still %d", got, lead)
	}
	return r, lead
}

func (r *rig) propose(id, waiter uint64) {
	r.step(id, input{proposals: []proposal{{id: waiter, data: fmt.Appendf(nil, "c%d", waiter)}}})
	r.settle()
}

func (r *rig) terms() string {
	var b strings.Builder
	for id := uint64(1); id <= uint64(len(r.cores)); id++ {
		fmt.Fprintf(&b, "%d:%d ", id, r.cores[id].term)
	}
	return b.String()
}

func TestF28SlowLeaderHandsOverToAQuickMemberOnce(t *testing.T) {
	r, old := settled(t, 3)
	before := r.cores[old].term
	r.slow[old] = true
	r.propose(old, 1)
	r.tick(r.cores[old].cfg.SlowTicks - 1)
	if !r.cores[old].isLead {
		t.Fatal("handed over before the write took too long")
	}
	r.tick(5)
	next := r.leader()
	if next == old || r.cores[next].term != before+1 {
		t.Fatalf("leader = %d in term %d, want another than %d in term %d", next, r.cores[next].term, old, before+1)
	}
	r.tick(10 * r.cores[old].cfg.SlowTicks)
	r.propose(next, 2)
	if got := r.done[2]; got.err != nil || got.value == nil {
		t.Errorf("command to the new leader: %v, %v; want it applied while the old one's disk stands still", got.value, got.err)
	}
	r.quicken(old)
	r.tick(3 * restFactor * r.cores[old].cfg.SlowTicks)
	if got := r.leader(); got != next || r.cores[got].term != before+1 {
		t.Errorf("leader = %d, terms %s; want still %d in term %d: one change in an episode", got, r.terms(), next, before+1)
	}
}

func TestF28LeaderStaysWhenNobodyIsBetter(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(r *rig, other uint64)
	}{
		{"one other disk is quick, which is no majority", func(r *rig, other uint64) { r.slow[other] = len(r.slow) == 0 }},
		{"all disks are slow", func(r *rig, other uint64) { r.slow[other] = true }},
		{"the others do not say how they are", func(r *rig, other uint64) { r.mute[other] = true }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, lead := settled(t, 3)
			before := r.terms()
			for id := range r.cores {
				if id != lead {
					tc.spoil(r, id)
				}
			}
			r.slow[lead] = true
			r.propose(lead, 1)
			r.tick(5 * r.cores[lead].cfg.SlowTicks)
			if got := r.leader(); got != lead || r.terms() != before {
				t.Errorf("leader = %d, terms %s; want %d, %s", got, r.terms(), lead, before)
			}
		})
	}
}

func TestF28OfFiveLeadershipGoesToOneOfTheQuickThree(t *testing.T) {
	r, lead := settled(t, 5)
	alsoSlow := lead%5 + 1
	r.slow[lead], r.slow[alsoSlow] = true, true
	r.propose(lead, 1)
	r.tick(r.cores[lead].cfg.SlowTicks + 5)
	if got := r.leader(); got == lead || got == alsoSlow {
		t.Errorf("leader = %d, want neither %d nor %d, whose disks are slow", got, lead, alsoSlow)
	}
}

func TestF28ANewLeaderDoesNotHandOverAtOnce(t *testing.T) {
	r, old := settled(t, 5)
	r.slow[old] = true
	r.propose(old, 1)
	r.tick(r.cores[old].cfg.SlowTicks + 5)
	next := r.leader()
	r.quicken(old)
	r.slow[next] = true
	r.propose(next, 2)
	r.tick((restFactor - 2) * r.cores[old].cfg.SlowTicks)
	if got := r.leader(); got != next {
		t.Errorf("leader = %d, want still %d: disks that are slow by turns must not pass leadership round", got, next)
	}
}

func TestF28HeartbeatsDoNotWaitForADisk(t *testing.T) {
	r, lead := settled(t, 3)
	for id := range r.cores {
		r.slow[id] = true
	}
	r.propose(lead, 1)
	clear(r.sent)
	r.tick(10)
	if got := r.sent[fmt.Sprintf("%d MsgHeartbeat", lead)]; got < 20 {
		t.Errorf("%d heartbeats in 10 ticks with all disks standing still, want 20", got)
	}
	if got := r.sent[fmt.Sprintf("%d MsgHeartbeatResp", lead%3+1)]; got < 10 {
		t.Errorf("%d answers in 10 ticks, want 10", got)
	}
}

func TestLagRemembersTheWorstForAWhileAndForgetsIt(t *testing.T) {
	var d diskWatch
	const window = 100
	at := func(now uint64) uint64 { d.turn(now, window); return d.lag(now) }
	d.handed = append(d.handed, handedOut{tick: 10})
	if got := at(40); got != 30 {
		t.Errorf("lag of a write on its way = %d, want 30", got)
	}
	d.done(40)
	for _, now := range []uint64{41, 99, 101, 180} {
		if got := at(now); got != 30 {
			t.Errorf("lag at %d = %d, want 30: it is of late", now, got)
		}
	}
	if got := at(301); got != 0 {
		t.Errorf("lag at 301 = %d, want 0: it is long ago", got)
	}
}

func TestReplacingEverythingByACopyIsNoSlowDisk(t *testing.T) {
	d := diskWatch{handed: []handedOut{{tick: 0, long: true}, {tick: 1}}}
	if got := d.lag(100); got != 0 {
		t.Errorf("lag while a copy is installed = %d, want 0", got)
	}
	d.done(100)
	if got := d.lag(103); got != 3 {
		t.Errorf("lag of what waited behind it = %d, want 3 since it could begin", got)
	}
	d.done(103)
	if got := d.lag(104); got != 3 {
		t.Errorf("lag afterwards = %d, want 3", got)
	}
}
