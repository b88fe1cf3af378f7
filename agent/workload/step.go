package workload

import (
	"fmt"
	"slices"
	"time"

	"github.com/drover-fleet/drover/api/retry"
	"github.com/drover-fleet/drover/api/wire"
)

// Kind of an action.
type Kind uint8

// The actions.
const (
	Create Kind = iota + 1
	Start
	Stop
	Remove
	Forget
)

func (k Kind) String() string {
	return [...]string{"none", "create", "start", "stop", "remove", "forget"}[k]
}

// Action is one idempotent call to make on the Driver.
type Action struct {
	Kind  Kind
	UID   string
	ID    string         // of the container; "" for Forget
	Run   uint32         // Start
	Grace time.Duration  // Stop
	C     wire.Container // Create, Start
	Of    *Wanted        // Create, Start
}

// Note is something that happened, for the journal.
type Note struct {
	Container string
	Reason    string
	Message   string
}

// ImageState is what is known of one image.
type ImageState struct {
	Known   bool   // it was looked for on the device
	Ready   bool   // complete and unpacked
	Fatal   bool   // trying again is no use; Message says why
	Message string // of the last failure; "" when there was none
}

// Input is everything that a step looks at.
type Input struct {
	Device string
	UID    string
	Want   *Wanted // nil: ordered to be removed
	// Before is what ran before Want, when that is known. It is kept running while images of Want are fetched.
	Before *Wanted
	// Refused says why Want may not be started: the device's pool does not allow it. What runs goes on: ending it is the hub's order.
	Refused string
	// Awaits says what a start of Want has to wait for besides images; "" is nothing. What runs goes on meanwhile.
	Awaits string
	Seen   []Container // every container of this assignment in the runtime
	Memory *Memory     // changed in place
	Images func(ref string) ImageState
	// Confirmed tells whether this life of the agent completed that start. A run that an earlier life started may still wait
	// for its secrets.
	Confirmed func(id string, run uint32) bool
	// Unready tells why the last readiness probe of a container failed; nil: not known.
	Unready func(id string) string
	Now     Now
	Random  retry.Random
}

// Output is what a step decided.
type Output struct {
	Action  *Action       // nil: nothing to do now
	Images  []string      // images that are needed and not ready
	Status  wire.Status   //
	Notes   []Note        //
	Changed bool          // Memory changed
	Wake    time.Duration // since boot: step again then, at the latest; 0: no need
	Gone    bool          // removed, nothing is left
}

// Step decides the next step of one assignment.
func Step(in Input) Output {
	s := &stepper{Input: in}
	if in.Want == nil {
		s.remove()
	} else {
		s.run()
	}
	s.forgetContainers()
	return s.out
}

type stepper struct {
	Input
	out  Output
	part struct { // the part that is being run
		of      *Wanted
		ids     []string // by container of of
		current map[string]*Container
		old     []*Container
		missing []string
	}
}

// remove takes everything away: stop, remove, then forget what is on disk.
func (s *stepper) remove() {
	s.out.Status = wire.Status{UID: s.UID, Phase: phaseStopping, SpecHash: s.Memory.SpecHash, Revision: s.Memory.Revision}
	for i := range s.Seen {
		s.out.Status.Containers = append(s.out.Status.Containers, s.containerStatus(s.Seen[i].Name, &s.Seen[i]))
	}
	for i := range s.Seen {
		s.takeAway(&s.Seen[i])
		if s.out.Action != nil {
			return
		}
	}
	if len(s.Seen) > 0 {
		return // waiting to try again
	}
	if m := s.Memory.Containers[""]; m != nil && m.Done {
		s.out.Gone = true
		return
	}
	if s.held(s.Memory.of("")) {
		return
	}
	s.out.Action = &Action{Kind: Forget, UID: s.UID}
}

// Forgotten records that Forget succeeded.
func (m *Memory) Forgotten() { m.of("").Done = true }

// takeAway makes the next step of stopping and removing one container.
func (s *stepper) takeAway(c *Container) {
	m := s.Memory.of(c.ID)
	if s.held(m) {
		return
	}
	s.out.Changed = s.out.Changed || !m.Leaving
	m.Leaving = true
	kind := Remove
	if c.State == Running || c.State == Paused || c.State == Prepared {
		kind = Stop
	}
	s.out.Action = &Action{Kind: kind, UID: s.UID, ID: c.ID, Grace: c.Grace}
}

// held tells whether a stop or removal waits to be tried again.
func (s *stepper) held(m *ContainerMemory) bool {
	if m.retryAt > s.Now.Boot {
		s.wakeAt(m.retryAt)
		return true
	}
	return false
}

// run steps what is wanted; while an image of it is missing, what ran before is stepped instead.
func (s *stepper) run() {
	s.choose(s.Want)
	if s.Refused != "" {
		s.refuse()
		return
	}
	missing := s.part.missing
	if (len(missing) > 0 || s.Awaits != "") && len(s.part.current) == 0 && s.beforeRuns() {
		s.choose(s.Before)
	}
	s.out.Images = append(slices.Clone(missing), s.part.missing...)
	slices.Sort(s.out.Images)
	s.out.Images = slices.Compact(s.out.Images)
	// Nothing of the old goes before all of the new is here.
	if len(s.part.missing) == 0 && !s.awaits() {
		for _, c := range s.part.old {
			s.takeAway(c)
			if s.out.Action != nil {
				break
			}
		}
	}
	if s.out.Action == nil && len(s.part.old) == 0 && !s.undecided(missing) {
		s.stepContainers()
	}
	if len(s.part.old) == 0 {
		s.remember(s.part.of)
	}
	s.status(missing)
}

// refuse begins nothing and ends nothing.
func (s *stepper) refuse() {
	if len(s.part.current) == 0 && s.beforeRuns() {
		s.choose(s.Before)
	}
	s.status(nil)
	st := &s.out.Status
	st.Message = s.Refused
	if st.Phase != phaseRunning {
		st.Phase, st.Ready = phaseFailed, false
	}
}

// choose splits what was seen into the containers of w and others.
func (s *stepper) choose(w *Wanted) {
	r := &s.part
	r.of, r.ids, r.old, r.missing = w, nil, nil, nil
	r.current = map[string]*Container{}
	for _, c := range w.Assignment.Containers {
		r.ids = append(r.ids, w.ID(s.Device, c.Name))
	}
	for i := range s.Seen {
		c := &s.Seen[i]
		id := c.ID
		if plantAdoptAnySpec {
			id = w.ID(s.Device, c.Name)
		}
		if slices.Contains(r.ids, id) && !s.leaves(c) {
			r.current[id] = c
		} else {
			r.old = append(r.old, c)
		}
	}
	s.renew()
	for i, c := range w.Assignment.Containers {
		if r.current[r.ids[i]] == nil && !s.done(r.ids[i]) && !s.Images(c.Image).Ready && !slices.Contains(r.missing, c.Image) {
			r.missing = append(r.missing, c.Image)
		}
	}
}

// leaves tells whether c, though wanted again, was ended by the agent itself: it is removed and made anew. One that still runs is
// kept, and so is one that has to stand in while images are fetched.
func (s *stepper) leaves(c *Container) bool {
	m := s.Memory.Containers[c.ID]
	if m == nil || !m.Leaving {
		return false
	}
	if c.State == Running || c.State == Paused {
		m.Leaving, s.out.Changed = false, true
		return false
	}
	return s.part.of == s.Want
}

// renew gives wanted containers that the agent itself removed a fresh memory.
func (s *stepper) renew() {
	for _, id := range s.part.ids {
		m := s.Memory.Containers[id]
		if m == nil || !m.Leaving || slices.ContainsFunc(s.Seen, func(c Container) bool { return c.ID == id }) {
			continue
		}
		delete(s.Memory.Containers, id)
		s.out.Changed = true
	}
}

// undecided: whether the old or the new is to run shows only once the new one's images were looked for. Starting the old one
// before would start what is about to be stopped.
func (s *stepper) undecided(missing []string) bool {
	return s.part.of == s.Before && slices.ContainsFunc(missing, func(ref string) bool { return !s.Images(ref).Known })
}

// awaits tells whether what is stepped may not be begun yet.
func (s *stepper) awaits() bool { return s.Awaits != "" && s.part.of == s.Want }

// begins tells whether an action makes a container or begins a process, rather than completes or resumes one.
func begins(a *Action, seen *Container) bool {
	up := seen != nil && (seen.State == Running || seen.State == Paused)
	return a.Kind == Create || a.Kind == Start && !up
}

func (s *stepper) done(id string) bool {
	m := s.Memory.Containers[id]
	return m != nil && m.Done
}

func (s *stepper) beforeRuns() bool {
	if s.Before == nil || s.Before.RunHash == s.Want.RunHash {
		return false
	}
	return slices.ContainsFunc(s.Seen, func(c Container) bool { return c.RunHash == s.Before.RunHash })
}

// remember notes what runs now, once all of it was made.
func (s *stepper) remember(w *Wanted) {
	for _, id := range s.part.ids {
		if s.part.current[id] == nil && !s.done(id) {
			return
		}
	}
	m := s.Memory
	if m.RunHash != w.RunHash || !m.SpecHash.Equal(w.SpecHash) || m.Revision != w.Assignment.Revision {
		m.RunHash, m.SpecHash, m.Revision = w.RunHash, w.SpecHash, w.Assignment.Revision
		s.out.Changed = true
	}
}

// stepContainers makes the first step that is due, and notes every end and drift.
func (s *stepper) stepContainers() {
	for i, c := range s.part.of.Assignment.Containers {
		id := s.part.ids[i]
		if a := s.stepContainer(c, id, s.part.current[id]); a != nil && s.out.Action == nil && !(s.awaits() && begins(a, s.part.current[id])) {
			a.UID, a.ID, a.C, a.Of = s.UID, id, c, s.part.of
			s.out.Action = a
		}
	}
}

func (s *stepper) stepContainer(c wire.Container, id string, seen *Container) *Action {
	m := s.Memory.of(id)
	if seen == nil {
		return s.stepMissing(c, m)
	}
	if m.Leaving { // ended to make room for what now cannot be made: it stands in again
		m.Leaving, m.Began, m.Counted, s.out.Changed = false, seen.Run.Number, seen.Run.Number, true
		return &Action{Kind: Start, Run: seen.Run.Number + 1}
	}
	switch seen.State {
	case Running:
		return s.stepRunning(c, m, seen)
	case Paused:
		s.note(c, ReasonDrift, "found paused, though nobody told the agent to pause it; resumed")
		return &Action{Kind: Start, Run: seen.Run.Number}
	case Prepared:
		return s.startUnlessWaiting(m, seen.Run.Number)
	case Exited:
		return s.stepExited(c, m, seen)
	default:
		return s.stepMade(c, m, seen)
	}
}

func (s *stepper) stepMissing(c wire.Container, m *ContainerMemory) *Action {
	if m.Done {
		return nil
	}
	if m.Began > 0 {
		s.note(c, ReasonDrift, "is gone from the runtime, though the agent did not remove it; made anew")
		m.Earlier, m.Began, m.Counted = m.Earlier+m.Began, 0, 0
		s.out.Changed = true
	}
	if s.waits(m) || len(s.part.missing) > 0 {
		return nil // all of it or nothing
	}
	return &Action{Kind: Create}
}

func (s *stepper) stepRunning(c wire.Container, m *ContainerMemory, seen *Container) *Action {
	if run := seen.Run.Number; m.Began != run {
		m.Began, m.Message = run, ""
		s.note(c, ReasonStarted, "started "+c.Image)
		s.out.Changed = true
	}
	if left := m.settle() - s.age(seen); left > 0 && seen.Run.BootID == s.Now.BootID {
		s.wakeAt(s.Now.Boot + left) // then it counts as up
	}
	if hasSecrets(c) && !s.Confirmed(seen.ID, seen.Run.Number) && !s.waits(m) {
		return &Action{Kind: Start, Run: seen.Run.Number}
	}
	return nil
}

// stepMade: no process. Either it never had one, or the process went without a trace.
func (s *stepper) stepMade(c wire.Container, m *ContainerMemory, seen *Container) *Action {
	run := max(seen.Run.Number, 1)
	if m.Done {
		return nil
	}
	if seen.Run.Number > 0 && m.Began >= seen.Run.Number { // it ran
		run = seen.Run.Number + 1
		if m.Counted < seen.Run.Number {
			m.Counted = seen.Run.Number
			s.out.Changed = true
			if seen.Run.BootID == s.Now.BootID {
				s.note(c, ReasonDrift, "its process is gone without an exit code: stopped by hand; started again")
			} else {
				s.note(c, ReasonRebooted, "was running when the device went down; started again")
			}
			if s.part.of.Assignment.Restart == wire.RestartNever {
				m.Done, m.Last = true, &Exit{Code: -1, Reason: "Lost", At: s.Now.Wall}
				return nil
			}
		}
	}
	return s.startUnlessWaiting(m, run)
}

func (s *stepper) stepExited(c wire.Container, m *ContainerMemory, seen *Container) *Action {
	if seen.Run.Number > m.Counted {
		s.countEnd(c, m, seen)
	}
	if m.Done {
		return nil
	}
	return s.startUnlessWaiting(m, seen.Run.Number+1)
}

// countEnd counts the end of one run, once.
func (s *stepper) countEnd(c wire.Container, m *ContainerMemory, seen *Container) {
	m.Counted, m.Began = seen.Run.Number, seen.Run.Number
	m.Last = &Exit{Code: seen.ExitCode, Reason: exitReason(seen), At: seen.ExitedAt}
	s.out.Changed = true
	s.note(c, ReasonExited, exitMessage(seen))
	policy := s.part.of.Assignment.Restart
	if policy == wire.RestartNever || policy == wire.RestartOnFailure && seen.ExitCode == 0 {
		m.Done = true
		return
	}
	if s.lasted(seen) >= StableAfter {
		m.Failures = 0
	}
	m.failed(s.Now, s.Random)
}

// lasted is how long a run was up. Its end may have been seen late and the wall clock may have been set, so the smaller of
// the two measures counts: a back-off is rather kept than forgotten.
func (s *stepper) lasted(c *Container) time.Duration {
	wall := max(time.Duration(c.ExitedAt-c.Run.Wall), 0)
	return min(wall, s.age(c))
}

// age is the time since a run started; 0 when it started in another boot.
func (s *stepper) age(c *Container) time.Duration {
	if c.Run.BootID != s.Now.BootID {
		return 0
	}
	return max(s.Now.Boot-c.Run.Boot, 0)
}

func (s *stepper) startUnlessWaiting(m *ContainerMemory, run uint32) *Action {
	if s.waits(m) {
		return nil
	}
	return &Action{Kind: Start, Run: max(run, 1)}
}

func (s *stepper) waits(m *ContainerMemory) bool {
	at, yes := m.waiting(s.Now)
	if yes {
		s.wakeAt(at)
	}
	return yes
}

func (s *stepper) wakeAt(at time.Duration) {
	if s.out.Wake == 0 || at < s.out.Wake {
		s.out.Wake = at
	}
}

func (s *stepper) note(c wire.Container, reason, message string) {
	s.out.Notes = append(s.out.Notes, Note{Container: c.Name, Reason: reason, Message: message})
}

// forgetContainers drops the memory of containers that are neither wanted nor there.
func (s *stepper) forgetContainers() {
	keep := map[string]bool{"": s.Want == nil}
	for _, w := range []*Wanted{s.Want, s.Before} {
		if w != nil {
			for _, c := range w.Assignment.Containers {
				keep[w.ID(s.Device, c.Name)] = true
			}
		}
	}
	for _, c := range s.Seen {
		keep[c.ID] = true
	}
	for id := range s.Memory.Containers {
		if !keep[id] {
			delete(s.Memory.Containers, id)
			s.out.Changed = true
		}
	}
}

// Reasons of notes.
const (
	ReasonStarted  = "Started"
	ReasonExited   = "Exited"
	ReasonDrift    = "Drift"
	ReasonRebooted = "Rebooted"
)

func exitReason(c *Container) string {
	switch {
	case c.OOM:
		return "OOMKilled"
	case c.ExitCode == 0:
		return "Completed"
	}
	return "Error"
}

func exitMessage(c *Container) string {
	switch {
	case c.OOM:
		return "killed: it used more memory than its limit"
	case c.ExitCode == 128+4:
		return "exit code 132 (SIGILL): the image may be built for another processor"
	case c.ExitCode == 128+9, c.ExitCode == 128+15:
		return fmt.Sprintf("exit code %d: killed by a signal that the agent did not send", c.ExitCode)
	}
	return fmt.Sprintf("exit code %d", c.ExitCode)
}

func hasSecrets(c wire.Container) bool {
	return slices.ContainsFunc(c.Env, func(e wire.Env) bool { return e.Secret != nil })
}
