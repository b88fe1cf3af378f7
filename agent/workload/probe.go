package workload

import (
	"fmt"
	"time"

	"github.com/drover-fleet/drover/api/wire"
)

// Probes runs the readiness probes' thresholds. It is stepped like the rest and runs nothing itself. What it finds is kept
// in Memory, so that a restart of the agent does not make a ready container unready.
type Probes struct {
	byID map[string]*probing
}

type probing struct {
	run       uint32
	name      string
	at        time.Duration // since boot: next due
	inFlight  bool
	successes uint32
	failures  uint32
	why       string // of the last failure
}

// ProbeRun is one probe to run now.
type ProbeRun struct {
	UID     string
	ID      string
	Run     uint32
	Command []string
	Timeout time.Duration
	of      wire.Probe
}

// Due returns the probe of c when it should run now, and when it is due otherwise (since boot).
func (p *Probes) Due(seen Container, probe *wire.Probe, m *Memory, now Now) (*ProbeRun, time.Duration) {
	if p.byID == nil {
		p.byID = map[string]*probing{}
	}
	st := p.byID[seen.ID]
	if st == nil || st.run != seen.Run.Number || st.name != probeName(probe) {
		// A container that is ready already is looked at after one period, a new one after its delay.
		first := now.Boot + time.Duration(probe.DelaySecs)*time.Second
		if cm := m.of(seen.ID); cm.Ready && cm.ReadyRun == seen.Run.Number {
			first = now.Boot + time.Duration(probe.PeriodSecs)*time.Second
		}
		st = &probing{run: seen.Run.Number, name: probeName(probe), at: first}
		p.byID[seen.ID] = st
	}
	if st.inFlight || st.at > now.Boot {
		return nil, st.at
	}
	st.inFlight = true
	return &ProbeRun{UID: seen.UID, ID: seen.ID, Run: seen.Run.Number, Command: probe.Command,
		Timeout: time.Duration(max(probe.TimeoutSecs, 1)) * time.Second, of: *probe}, 0
}

// Result takes a probe's outcome, with why it failed, and tells whether the container's readiness changed.
func (p *Probes) Result(r ProbeRun, ok bool, why string, m *Memory, now Now) bool {
	st := p.byID[r.ID]
	if st == nil || st.run != r.Run || st.name != probeName(&r.of) {
		return false
	}
	st.inFlight = false
	st.at = now.Boot + time.Duration(max(r.of.PeriodSecs, 1))*time.Second
	if ok {
		st.successes, st.failures, st.why = st.successes+1, 0, ""
	} else {
		st.successes, st.failures, st.why = 0, st.failures+1, Plain(why)
	}
	cm := m.of(r.ID)
	ready := cm.Ready && cm.ReadyRun == r.Run && cm.ReadyBy == st.name
	next := ready
	switch {
	case st.successes >= max(r.of.Successes, 1):
		next = true
	case st.failures >= max(r.of.Failures, 1):
		next = false
	}
	if next == ready {
		return false
	}
	cm.Ready, cm.ReadyRun, cm.ReadyBy = next, r.Run, st.name
	return true
}

// Lost takes that a probe could not be run, which tells nothing: it is run again after a period.
func (p *Probes) Lost(r ProbeRun, now Now) {
	if st := p.byID[r.ID]; st != nil && st.run == r.Run {
		st.inFlight, st.at = false, now.Boot+time.Duration(max(r.of.PeriodSecs, 1))*time.Second
	}
}

// Why is why the last probe of a container failed, "" when it did not.
func (p *Probes) Why(id string) string {
	if st := p.byID[id]; st != nil {
		return st.why
	}
	return ""
}

// Forget drops the probes of containers that are not kept.
func (p *Probes) Forget(keep func(id string) bool) {
	for id := range p.byID {
		if !keep(id) {
			delete(p.byID, id)
		}
	}
}

// probeName tells probes apart: a container that runs on under a changed probe must show its readiness again.
func probeName(p *wire.Probe) string {
	return fmt.Sprintf("%q/%d/%d", p.Command, p.Successes, p.Failures)
}
