package agent

import (
	"fmt"
	"time"

	"github.com/drover-fleet/drover/agent/state"
	"github.com/drover-fleet/drover/agent/workload"
	"github.com/drover-fleet/drover/api/retry"
	"github.com/drover-fleet/drover/api/wire"
)

// Bounds of what runs at once, so that a small board is not drowned at boot (F11).
const (
	maxStarts = 2
	maxPulls  = 2
	maxOther  = 8 // stops and removals
	maxChecks = 4
)

// resync is how often containers are listed although nothing said that they changed: so a runtime that hangs is found, which ends no
// stream of events.
const resync = 2 * time.Minute

// CoreConfig are the fixed inputs of a Core.
type CoreConfig struct {
	Device string // name; part of every container's id
	Codec  *state.Codec
	Random retry.Random
	Facts  wire.Facts
	// Loaded is what was found on disk.
	Loaded Loaded
}

// Loaded is what was found on disk at the start.
type Loaded struct {
	Bundle     *Bundle  // nil: none
	BundleLost bool     // Bundle is not the newest, or there is none: the runtime may hold what is newer
	Kept       *Bundle  // the previous copy; nil: none
	Runtime    *Runtime // nil: none
	Problems   []string // what was wrong, for the journal
}

// Core is the agent's stepped heart. Not safe for concurrent use.
type Core struct {
	cfg    CoreConfig
	now    workload.Now
	rt     *Runtime
	bundle *Bundle
	kept   *Bundle // the copy that a bad bundle file falls back to; nil: none, or equal to bundle
	pend   *pending

	runtime  runtimeView
	images   map[string]*image
	probes   workload.Probes
	started  map[string]uint32      // container id to the run whose start this life completed
	statuses map[string]wire.Status // last known, by uid
	gone     map[string]bool        // tombstones that are carried out
	// forbidden says by uid why the device's pool does not allow an assignment.
	forbidden map[string]string

	tokens     tokenFiles
	facts      wire.Facts
	refused    string           // why the last Desired was refused
	notSaved   string           // why the last save failed
	strays     []string         // ids of containers of ours that no bundle knows
	recover    bool             // the newest bundle is lost: look at the next list for what it had
	saveAt     time.Duration    // since boot: nothing is saved before; 0: the last save went well
	unsaved    bool             // the bundle was rebuilt and is not on disk yet
	waiting    []waitingCommand // until the ledger is on disk
	lastReport []byte

	ops     map[uint64]Op
	nextOp  uint64
	wake    time.Duration
	dirty   bool // rt changed
	saves   []Effect
	effects []Effect
}

// runtimeView is what is known of the container runtime.
type runtimeView struct {
	listed  bool // at least once
	up      bool
	message string
	seen    map[string][]workload.Container // by uid
	seq     uint64                          // of the last list
	actions uint64                          // counts completed actions
	stale   map[string]uint64               // uid to the action that a list must have seen
	want    bool                            // list again
	flying  bool
	nextAt  time.Duration // next list at the latest
	fails   int
}

type image struct {
	workload.ImageState
	checking, pulling bool
	op                uint64
	fails             int
	nextAt            time.Duration
}

// NewCore makes a Core. The first event is Tick.
func NewCore(cfg CoreConfig) *Core {
	c := &Core{cfg: cfg, rt: cfg.Loaded.Runtime, bundle: cfg.Loaded.Bundle, kept: cfg.Loaded.Kept, facts: cfg.Facts,
		images: map[string]*image{}, started: map[string]uint32{}, statuses: map[string]wire.Status{}, gone: map[string]bool{}, forbidden: map[string]string{},
		tokens: tokenFiles{files: map[workload.TokenID]*tokenFile{}}, ops: map[uint64]Op{}, recover: cfg.Loaded.BundleLost}
	if c.rt == nil {
		c.rt = &Runtime{}
	}
	c.runtime.want = true
	c.runtime.stale = map[string]uint64{}
	c.runtime.seen = map[string][]workload.Container{}
	return c
}

// Held is the position and hash of the bundle that is stored.
func (c *Core) Held() (wire.Position, wire.Hash) {
	if c.bundle == nil {
		return wire.Position{}, nil
	}
	return c.bundle.desired.Position, c.bundle.desired.BundleHash
}

// Step takes one event at one moment and gives what to do.
func (c *Core) Step(now workload.Now, ev Event) []Effect {
	first := c.now.BootID == ""
	c.now, c.wake, c.saves, c.effects = now, 0, nil, nil
	if first {
		c.begin()
	}
	c.take(ev)
	c.saveLater()
	c.reconcile()
	return c.finish()
}

// begin notes how the agent found things.
func (c *Core) begin() {
	for _, p := range c.cfg.Loaded.Problems {
		c.journal(wire.JournalRecord{Reason: "StateRecovered", Message: p})
	}
	if c.rt.BootID != c.now.BootID {
		if c.rt.BootID != "" {
			c.journal(wire.JournalRecord{Reason: "Booted", Message: "the device started anew"})
		}
		c.rt.BootID, c.dirty = c.now.BootID, true
	}
}

func (c *Core) take(ev Event) {
	switch e := ev.(type) {
	case DesiredReceived:
		c.takeDesired(e)
	case BodiesReceived:
		if c.pend != nil && !c.pend.saving {
			c.pend.take(e.Reply)
			c.advance()
		}
	case BundleSaved:
		c.bundleSaved(e)
	case CommandReceived:
		c.takeCommand(e.Command)
	case RuntimeSaved:
		c.runtimeSaved(e.Err)
	case JournalAcked:
		c.dirty = c.rt.Journal.Acked(e.Sequence) || c.dirty
	case RuntimeChanged:
		c.runtime.want = true
	case FactsChanged:
		c.facts = e.Facts
	case HubChanged:
		c.hubChanged(e.Connected)
	case OpDone:
		c.opDone(e)
	case Tick:
	}
}

// takeDesired keeps to the rule of positions, and starts to gather what the new bundle needs.
func (c *Core) takeDesired(e DesiredReceived) {
	held := c.bundle.position()
	err := held.Accept(e.Desired.Position)
	if err == nil && c.pend != nil {
		err = c.pend.desired.Position.Accept(e.Desired.Position)
	}
	if err == nil && e.Desired.Device != c.cfg.Device {
		err = fmt.Errorf("it is for device %q; this is %q", e.Desired.Device, c.cfg.Device)
	}
	if err != nil {
		if c.refused != err.Error() {
			c.refused = err.Error()
			c.journal(wire.JournalRecord{Reason: "DesiredRefused", Message: c.refused})
		}
		return
	}
	c.refused = ""
	if c.bundle != nil && held == e.Desired.Position && c.bundle.desired.BundleHash.Equal(e.Desired.BundleHash) {
		return
	}
	c.pend = newPending(e.Signed, e.Desired, c.pend, c.bundle)
	c.advance()
}

// advance asks for what is missing, or stores the bundle once nothing is.
func (c *Core) advance() {
	rq, complete := c.pend.missing()
	if !complete {
		c.effects = append(c.effects, WantBodies{rq})
		return
	}
	b, err := c.pend.bundle(c.bundle, func(uid string) string {
		if m := c.rt.Assignments[uid]; m != nil {
			return m.RunHash
		}
		return ""
	})
	if err != nil {
		c.refused = err.Error()
		c.journal(wire.JournalRecord{Reason: "DesiredRefused", Message: c.refused})
		c.pend = nil
		return
	}
	c.pend.saving = true
	c.saves = append(c.saves, SaveBundle{Bundle: b})
}

// bundleSaved acts on a bundle once it is on disk, and not before.
func (c *Core) bundleSaved(e BundleSaved) {
	if e.Err != nil {
		c.notSaved = e.Err.Error()
		c.saveAt = c.now.Boot + saveAgain
		if c.pend != nil {
			c.pend.saving = false
		}
		return
	}
	c.notSaved, c.unsaved = "", false
	if e.Bundle == c.bundle { // rotated or rebuilt: the kept copy, if any, is of it
		c.kept = nil
		return
	}
	c.kept, c.bundle = c.bundle, e.Bundle
	if c.pend != nil && c.pend.desired.Position == e.Bundle.desired.Position {
		c.pend = nil
	}
	for uid := range c.gone {
		delete(c.gone, uid)
	}
	c.recover = false
	c.forget()
}

// forget drops the memory of what is in no bundle and no tombstone.
func (c *Core) forget() {
	for uid := range c.rt.Assignments {
		if !c.bundle.holds(uid) && !c.buried(uid) && len(c.runtime.seen[uid]) == 0 {
			delete(c.rt.Assignments, uid)
			c.dirty = true
		}
	}
	for uid := range c.forbidden {
		if !c.bundle.holds(uid) {
			delete(c.forbidden, uid)
		}
	}
	for uid := range c.statuses {
		if !c.bundle.holds(uid) && !c.buried(uid) {
			delete(c.statuses, uid)
		}
	}
}

func (c *Core) buried(uid string) bool { return c.bundle.buries(uid) }

// takeCommand enters the command in the ledger; it is carried out once that is on disk.
func (c *Core) takeCommand(cmd wire.Command) {
	if cmd.Device != c.cfg.Device {
		return
	}
	if p := c.bundle.position(); p.ClusterID != "" && p.ClusterID != cmd.ClusterID {
		return
	}
	if !c.rt.Done.Enter(cmd.ID) {
		return
	}
	c.dirty = true
	if isStream(cmd) && c.saveAt > 0 {
		c.effects = append(c.effects, c.openStream(cmd))
		return
	}
	c.waiting = append(c.waiting, waitingCommand{cmd, c.now.Boot + time.Duration(cmd.TTLSecs)*time.Second})
}

// waitingCommand is a command and when it expires, since boot.
type waitingCommand struct {
	wire.Command
	until time.Duration
}

func isStream(cmd wire.Command) bool { return cmd.Verb == wire.VerbOpenStream && cmd.Stream != nil }

func (c *Core) runtimeSaved(err error) {
	if err != nil {
		c.notSaved, c.dirty = err.Error(), true
		c.saveAt = c.now.Boot + saveAgain
	} else {
		c.notSaved = ""
	}
	// A stream only shows a log: it does not wait for a disk that is full, and a second one does no harm.
	keep := c.waiting[:0]
	for _, cmd := range c.waiting {
		switch {
		case c.now.Boot > cmd.until:
		case isStream(cmd.Command):
			c.effects = append(c.effects, c.openStream(cmd.Command))
		case err != nil:
			keep = append(keep, cmd)
		}
	}
	c.waiting = keep
}

// saveAgain is how long after a failed save the next one is tried.
const saveAgain = 30 * time.Second

func (c *Core) openStream(cmd wire.Command) OpenStream {
	l := cmd.Stream
	name := l.Container
	if w := c.bundle.wantedOf(l.UID); name == "" && w != nil && len(w.Assignment.Containers) > 0 {
		name = w.Assignment.Containers[0].Name
	}
	return OpenStream{ID: cmd.ID, UID: l.UID, Container: name,
		Options: workload.LogOptions{Follow: l.Follow, Tail: l.TailLines, Previous: l.Previous}}
}

func (b *Bundle) wantedOf(uid string) *workload.Wanted {
	if b == nil {
		return nil
	}
	return b.wanted[uid]
}

func (c *Core) journal(r wire.JournalRecord) {
	r.Revision = c.bundle.position().Revision
	r.Message = workload.Plain(r.Message)
	c.rt.Journal.Add(r, c.now.Wall)
	c.dirty = true
}

func (c *Core) wakeAt(at time.Duration) {
	if at > 0 && (c.wake == 0 || at < c.wake) {
		c.wake = at
	}
}

// saveLater tries again what could not be saved, once that is due. A rotation follows from the next reconcile.
func (c *Core) saveLater() {
	if c.saveAt == 0 || c.now.Boot < c.saveAt {
		return
	}
	c.saveAt = 0
	switch {
	case c.pend != nil && !c.pend.saving:
		c.advance()
	case c.pend == nil && c.unsaved:
		c.saves = append(c.saves, SaveBundle{Bundle: c.bundle})
	}
}

// finish puts the effects in order: what must be on disk comes first.
func (c *Core) finish() []Effect {
	c.wakeAt(c.saveAt)
	if c.dirty && c.saveAt == 0 {
		c.dirty = false
		c.saves = append(c.saves, SaveRuntime{c.rt})
	}
	out := append(c.saves, c.effects...)
	if r, changed := c.report(); changed {
		out = append(out, SendReport{r})
	}
	return append(out, Wake{c.wake})
}
