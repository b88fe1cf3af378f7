package workload

import (
	"fmt"
	"strings"

	"github.com/drover-fleet/drover/api/wire"
)

// Phases as package api names them; this package does not link api.
const (
	phasePulling   = "Pulling"
	phaseStarting  = "Starting"
	phaseRunning   = "Running"
	phaseCrashLoop = "CrashLoop"
	phaseStopping  = "Stopping"
	phaseCompleted = "Completed"
	phaseFailed    = "Failed"
)

const (
	stateWaiting = "Waiting"
	stateRunning = "Running"
	stateExited  = "Exited"
)

// status fills in what to report of what runs, and of what is waited for.
func (s *stepper) status(missing []string) {
	w := s.part.of
	st := wire.Status{UID: s.UID, SpecHash: s.Memory.SpecHash, Revision: s.Memory.Revision, Ready: true}
	crash, done, failed, running, begun := false, 0, false, 0, true
	for i, c := range w.Assignment.Containers {
		id := s.part.ids[i]
		cs := s.oneStatus(c, id)
		m := s.Memory.of(id)
		switch {
		case m.Done:
			done++
			failed = failed || m.Last != nil && m.Last.Code != 0
		case s.up(id):
			running++
			begun = begun && (cs.Ready || m.Ready || m.ReadyRun == m.Began)
		case m.Failures > 0:
			crash = true
		}
		st.Ready = st.Ready && cs.Ready
		st.Containers = append(st.Containers, cs)
		if cs.Message != "" && st.Message == "" {
			st.Message = c.Name + ": " + cs.Message
		}
	}
	n := len(w.Assignment.Containers)
	switch {
	case done == n && failed:
		st.Phase = phaseFailed
	case done == n:
		st.Phase = phaseCompleted
	case crash:
		st.Phase = phaseCrashLoop
	case running+done == n && begun:
		st.Phase = phaseRunning
	default:
		st.Phase = phaseStarting
	}
	if s.Awaits != "" && st.Message == "" && st.Phase != phaseRunning && st.Phase != phaseCompleted {
		st.Message = s.Awaits
	}
	s.out.Status = st
	if len(missing) > 0 {
		s.pulling(missing)
	}
}

// pulling says that images are fetched. What ran before may still run and be ready.
func (s *stepper) pulling(missing []string) {
	st := &s.out.Status
	if s.part.of != s.Before && len(s.part.current) == 0 {
		st.Ready = false
		for i := range s.part.old { // not known how to restart them, but they run
			st.Containers = append(st.Containers, s.containerStatus(s.part.old[i].Name, s.part.old[i]))
		}
	}
	st.Phase, st.Message = phasePulling, "fetching "+strings.Join(missing, ", ")
	for _, ref := range missing {
		switch im := s.Images(ref); {
		case im.Fatal:
			st.Phase, st.Message = phaseFailed, fmt.Sprintf("image %s: %s", ref, im.Message)
			return
		case im.Message != "":
			st.Message = fmt.Sprintf("image %s: %s; trying again", ref, im.Message)
		}
	}
}

// up tells whether a container runs and has lasted as long as its failures ask for.
func (s *stepper) up(id string) bool {
	c := s.part.current[id]
	if c == nil || c.State != Running {
		return false
	}
	m := s.Memory.of(id)
	return m.Failures == 0 || s.age(c) >= m.settle() || c.Run.BootID != s.Now.BootID
}

func (s *stepper) oneStatus(c wire.Container, id string) wire.ContainerStatus {
	seen := s.part.current[id]
	m := s.Memory.of(id)
	if seen == nil {
		seen = &Container{ID: id, Name: c.Name}
	}
	cs := s.containerStatus(c.Name, seen)
	if s.part.current[id] == nil {
		cs.ID = ""
	}
	cs.Digest = digestOf(c.Image)
	cs.Message = m.Message
	if at, waits := m.waiting(s.Now); waits && seen.State != Running {
		cs.NextStart = m.NextWall
		if cs.Message == "" && m.Last != nil {
			cs.Message = fmt.Sprintf("ended with exit code %d, starts again in at most %s", m.Last.Code, (at - s.Now.Boot).Round(1e9))
		}
	}
	if cs.State == stateRunning {
		cs.Ready = s.up(id)
		if c.Readiness != nil {
			cs.Ready = m.Ready && m.ReadyRun == seen.Run.Number && m.ReadyBy == probeName(c.Readiness)
			if why := s.unready(id); !cs.Ready && cs.Message == "" && why != "" {
				cs.Message = "not ready: " + why
			}
		}
	}
	return cs
}

func (s *stepper) unready(id string) string {
	if s.Unready == nil {
		return ""
	}
	return s.Unready(id)
}

// containerStatus is the part that is told by what was seen and remembered alone.
func (s *stepper) containerStatus(name string, seen *Container) wire.ContainerStatus {
	m := s.Memory.of(seen.ID)
	cs := wire.ContainerStatus{Name: name, ID: seen.ID, Digest: digestOf(seen.Image), State: stateWaiting,
		Restarts: m.restarts(max(seen.Run.Number, m.Began))}
	switch seen.State {
	case Running, Paused:
		cs.State, cs.StartedAt = stateRunning, seen.Run.Wall
	case Exited:
		cs.State, cs.StartedAt = stateExited, seen.Run.Wall
	}
	if m.Last != nil {
		cs.Exited, cs.ExitCode, cs.ExitReason, cs.ExitedAt = true, m.Last.Code, m.Last.Reason, m.Last.At
	}
	return cs
}

func digestOf(ref string) string {
	if i := strings.LastIndexByte(ref, '@'); i >= 0 {
		return ref[i+1:]
	}
	return ref
}
