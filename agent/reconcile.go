package agent

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/drover-fleet/drover/agent/workload"
	"github.com/drover-fleet/drover/api/grant"
	"github.com/drover-fleet/drover/api/retry"
	"github.com/drover-fleet/drover/api/wire"
)

// opDone takes the answer of a driver call.
func (c *Core) opDone(e OpDone) {
	delete(c.ops, e.Op.ID)
	if errors.Is(e.Err, workload.ErrUnavailable) && e.Op.Kind != OpList {
		c.runtime.want = true // a list will tell
	}
	switch e.Op.Kind {
	case OpList:
		c.listed(e)
	case OpCheck:
		c.imageChecked(e)
	case OpPull:
		c.imagePulled(e)
	case OpAct:
		c.acted(e)
	case OpTokens:
		c.tokensListed(e)
	case OpToken:
		c.tokenDone(e)
	case OpDropToken:
		c.tokenDropped(e)
	case OpProbe:
		if errors.Is(e.Err, workload.ErrUnavailable) {
			c.probes.Lost(e.Op.Probe, c.now)
			return
		}
		m := c.rt.memory(e.Op.Probe.UID)
		c.dirty = c.probes.Result(e.Op.Probe, e.OK && e.Err == nil, e.Why, m, c.now) || c.dirty
	}
}

// listed takes a list of containers. An error is not an empty list: what was known stays.
func (c *Core) listed(e OpDone) {
	r := &c.runtime
	r.flying = false
	if e.Err != nil {
		r.fails++
		r.want, r.nextAt = false, c.now.Boot+retry.Policy{Base: time.Second, Max: 30 * time.Second}.Delay(r.fails, c.cfg.Random)
		if r.up || r.message == "" {
			c.journal(wire.JournalRecord{Reason: "RuntimeUnavailable", Message: e.Err.Error()})
		}
		r.up, r.message = false, workload.Plain(e.Err.Error())
		return
	}
	if !r.up && r.listed {
		c.journal(wire.JournalRecord{Reason: "RuntimeAvailable", Message: fmt.Sprintf("it answers again and holds %d containers", len(e.Containers))})
		clear(c.images) // what it held may be gone
	}
	r.up, r.listed, r.message, r.fails = true, true, "", 0
	r.seq, r.nextAt = e.Op.Seq, c.now.Boot+resync
	clear(r.seen)
	for _, k := range e.Containers {
		r.seen[k.UID] = append(r.seen[k.UID], k)
	}
	for uid, seq := range r.stale {
		if seq <= r.seq {
			delete(r.stale, uid)
		} else {
			r.want = true
		}
	}
	c.recoverBundle(e.Containers)
	c.findStrays(e.Containers)
}

// recoverBundle rebuilds a lost bundle from what the runtime holds, or brings an older copy of it up to what runs: only so does
// nothing that runs go back to an older state.
func (c *Core) recoverBundle(seen []workload.Container) {
	if !c.recover {
		return
	}
	c.recover = false
	b, n := rebuild(c.cfg.Codec, c.bundle, seen)
	if n == 0 {
		return
	}
	c.bundle, c.unsaved = b, true // acted on at once: it is what runs
	c.saves = append(c.saves, SaveBundle{Bundle: b})
	c.journal(wire.JournalRecord{Reason: "StateRecovered",
		Message: fmt.Sprintf("the stored bundle was lost; %d assignments were rebuilt from the container runtime", n)})
}

// findStrays notes containers of ours that no bundle knows. They run on: not knowing is no order to stop.
func (c *Core) findStrays(seen []workload.Container) {
	var strays []string
	for _, k := range seen {
		if !c.bundle.holds(k.UID) && !c.buried(k.UID) {
			strays = append(strays, k.ID)
		}
	}
	slices.Sort(strays)
	if len(strays) > 0 && !slices.Equal(strays, c.strays) {
		c.journal(wire.JournalRecord{Reason: "StrayContainers", Message: "of this device, but in no bundle; left alone: " + strings.Join(strays, ", ")})
	}
	c.strays = strays
}

func (c *Core) imageChecked(e OpDone) {
	im := c.image(e.Op.Ref)
	im.checking = false
	if errors.Is(e.Err, workload.ErrUnavailable) {
		return
	}
	im.Known, im.Ready, im.Message, im.Fatal = true, e.OK && e.Err == nil, "", errors.Is(e.Err, workload.ErrNoPlatform)
	if e.Err != nil {
		im.Message = workload.Plain(e.Err.Error())
	}
}

func (c *Core) imagePulled(e OpDone) {
	im := c.image(e.Op.Ref)
	im.pulling = false
	switch {
	case e.Err == nil:
		im.Known, im.Ready, im.Message, im.fails = true, true, "", 0
		c.journal(wire.JournalRecord{Reason: "Pulled", Message: e.Op.Ref})
	case errors.Is(e.Err, workload.ErrUnavailable):
	default:
		im.fails++
		im.Message, im.Fatal = workload.Plain(e.Err.Error()), errors.Is(e.Err, workload.ErrNoPlatform)
		im.nextAt = c.now.Boot + retry.Policy{Base: 5 * time.Second, Max: 5 * time.Minute}.Delay(im.fails, c.cfg.Random)
		c.journal(wire.JournalRecord{Reason: "PullFailed", Message: im.Message})
	}
}

func (c *Core) image(ref string) *image {
	im := c.images[ref]
	if im == nil {
		im = &image{}
		c.images[ref] = im
	}
	return im
}

// acted takes the answer of an action. The assignment is stepped again once a list has seen the outcome.
func (c *Core) acted(e OpDone) {
	a := e.Op.Action
	r := &c.runtime
	r.actions++
	r.stale[a.UID], r.want = r.actions, true
	m := c.rt.memory(a.UID)
	switch {
	case e.Err == nil:
		m.ActionDone(a)
		switch a.Kind {
		case workload.Start:
			c.started[a.ID] = a.Run
		case workload.Remove:
			delete(c.started, a.ID)
		case workload.Forget:
			m.Forgotten()
			c.dirty = true
		}
	case errors.Is(e.Err, workload.ErrUnavailable):
	case errors.Is(e.Err, workload.ErrImageMissing):
		delete(c.images, a.C.Image)
	default:
		m.ActionFailed(a, e.Err, c.now, c.cfg.Random)
		c.dirty = true
		c.journal(wire.JournalRecord{UID: a.UID, Object: c.objectOf(a.UID), Container: a.C.Name,
			Reason: "ActionFailed", Message: a.Kind.String() + ": " + e.Err.Error()})
	}
}

// reconcile steps every assignment that nothing is under way for.
func (c *Core) reconcile() {
	c.stepList()
	c.stepTokens()
	if !c.runtime.up || c.bundle == nil {
		return
	}
	for i := range c.bundle.Entries {
		c.stepAssignment(c.bundle.Entries[i].UID)
	}
	for _, t := range c.bundle.desired.Tombstones {
		if !c.bundle.holds(t.UID) {
			c.stepAssignment(t.UID)
		}
	}
	c.cancelPulls()
	c.stepProbes()
	c.stepRotation()
	c.stepList()
}

func (c *Core) stepList() {
	r := &c.runtime
	if r.flying {
		return
	}
	if !r.want && (r.nextAt == 0 || r.nextAt > c.now.Boot) {
		c.wakeAt(r.nextAt)
		return
	}
	r.want, r.flying = false, true
	c.start(Op{Kind: OpList, Seq: r.actions})
}

func (c *Core) start(op Op) uint64 {
	c.nextOp++
	op.ID = c.nextOp
	c.ops[op.ID] = op
	c.effects = append(c.effects, StartOp{op})
	return op.ID
}

// stepAssignment steps one assignment, unless an action of it is under way or its outcome was not seen yet.
func (c *Core) stepAssignment(uid string) {
	if c.gone[uid] || c.acting(uid) {
		return
	}
	if _, stale := c.runtime.stale[uid]; stale {
		return
	}
	m := c.rt.memory(uid)
	refused := c.refusal(uid, c.bundle.wanted[uid])
	if refused != c.forbidden[uid] {
		c.noteRefusal(uid, refused)
	}
	out := workload.Step(workload.Input{
		Device: c.cfg.Device, UID: uid, Want: c.bundle.wanted[uid], Refused: refused, Awaits: c.awaitsToken(c.bundle.wanted[uid]), Before: c.bundle.before[uid], Seen: c.runtime.seen[uid],
		Memory: m, Images: c.imageState, Unready: c.probes.Why, Now: c.now, Random: c.cfg.Random,
		Confirmed: func(id string, run uint32) bool { return c.started[id] == run && run > 0 },
	})
	c.dirty = c.dirty || out.Changed
	for _, n := range out.Notes {
		c.journal(wire.JournalRecord{UID: uid, Object: c.objectOf(uid), Container: n.Container, Reason: n.Reason, Message: n.Message})
	}
	c.wakeAt(out.Wake)
	for _, ref := range out.Images {
		c.stepImage(ref)
	}
	if out.Action != nil && c.act(*out.Action) && out.Action.Kind == workload.Stop {
		out.Status.Phase, out.Status.Ready = "Stopping", false
	}
	if out.Gone {
		c.gone[uid] = true
		delete(c.statuses, uid)
		return
	}
	c.statuses[uid] = out.Status
}

// noteRefusal remembers and journals that an assignment is refused, or is no more.
func (c *Core) noteRefusal(uid, why string) {
	if why == "" {
		delete(c.forbidden, uid)
		return
	}
	c.forbidden[uid] = why
	c.journal(wire.JournalRecord{UID: uid, Object: c.objectOf(uid), Reason: "PoolRefuses", Message: why})
}

func (c *Core) acting(uid string) bool {
	for _, op := range c.ops {
		if op.Kind == OpAct && op.Action.UID == uid {
			return true
		}
	}
	return false
}

func (c *Core) count(f func(Op) bool) int {
	n := 0
	for _, op := range c.ops {
		if f(op) {
			n++
		}
	}
	return n
}

// act begins an action if a slot is free, and tells whether it did. A slot that frees itself steps everything again.
func (c *Core) act(a workload.Action) bool {
	starting := func(o Op) bool {
		return o.Kind == OpAct && (o.Action.Kind == workload.Create || o.Action.Kind == workload.Start)
	}
	op := Op{Kind: OpAct, Action: a}
	limit, same := maxOther, func(o Op) bool { return o.Kind == OpAct && !starting(o) }
	if starting(op) {
		limit, same = maxStarts, starting
	}
	if c.count(same) >= limit {
		return false
	}
	var err error
	if a.Kind == workload.Create || a.Kind == workload.Start {
		if why := c.refusal(a.UID, a.Of); why != "" {
			err = errors.New(why) // what ran before is judged here only
		} else {
			op.Spec, err = c.spec(a)
		}
	}
	if err == nil && a.Kind == workload.Start {
		op.Run = workload.Run{Number: a.Run, BootID: c.now.BootID, Boot: c.now.Boot, Wall: c.now.Wall}
		op.Sealed, err = c.secretsOf(a)
	}
	if err != nil {
		c.wakeAt(c.rt.memory(a.UID).ActionFailed(a, err, c.now, c.cfg.Random))
		c.dirty = true
		return false
	}
	c.start(op)
	return true
}

func (c *Core) spec(a workload.Action) (workload.Spec, error) {
	e := c.bundle.entry(a.UID)
	body := e.Body
	if !body.SpecHash.Equal(a.Of.SpecHash) && e.Before != nil {
		body = *e.Before
	}
	allowed := c.allowed(a.UID)
	body.Grant = &allowed
	rec, err := recovery(c.cfg.Codec, body)
	if err != nil {
		return workload.Spec{}, err
	}
	return workload.Spec{ID: a.ID, UID: a.UID, Object: a.Of.Object(), RunHash: a.Of.RunHash, Hostname: c.cfg.Device,
		Grace: time.Duration(a.Of.Assignment.GraceSecs) * time.Second, C: a.C, Volumes: a.Of.Assignment.Volumes, Recovery: rec,
		Grant: allowed}, nil
}

// allowed is what the device's pool allows, as the hub signed it with the bundle; of a bundle that was rebuilt from the runtime, what it
// allowed when the containers were made.
func (c *Core) allowed(uid string) grant.Grant {
	if len(c.bundle.Signed.Payload) > 0 {
		return c.bundle.desired.Allowed()
	}
	if e := c.bundle.entry(uid); e != nil && e.Body.Grant != nil {
		return *e.Body.Grant
	}
	return grant.Grant{}
}

// refusal says why w may not be started here; "" when it may. The hub places nothing that its pools do not allow: this stands against
// a hub that is older or mistaken.
func (c *Core) refusal(uid string, w *workload.Wanted) string {
	if w == nil {
		return ""
	}
	if d := c.allowed(uid).Judge(w.Assignment.Namespace, w.Assignment.Needs()); d != nil {
		return d.String()
	}
	return ""
}

// secretsOf gathers the sealed secrets of a container. The driver's caller opens them, in memory.
func (c *Core) secretsOf(a workload.Action) ([]SealedEnv, error) {
	var out []SealedEnv
	for _, e := range a.C.Env {
		if e.Secret == nil {
			continue
		}
		s, ok := c.bundle.secret(*e.Secret)
		if !ok {
			return nil, fmt.Errorf("secret %s for variable %s is not on the device", e.Secret.Name, e.Name)
		}
		out = append(out, SealedEnv{Name: e.Name, Sealed: s})
	}
	return out, nil
}

func (c *Core) imageState(ref string) workload.ImageState {
	if im := c.images[ref]; im != nil {
		return im.ImageState
	}
	return workload.ImageState{}
}

// stepImage looks for an image on the device, and fetches it when it is not there.
func (c *Core) stepImage(ref string) {
	im := c.image(ref)
	switch {
	case im.Ready || im.checking || im.pulling:
	case !im.Known:
		if c.count(func(o Op) bool { return o.Kind == OpCheck }) < maxChecks {
			im.checking, im.op = true, c.start(Op{Kind: OpCheck, Ref: ref})
		}
	case im.Fatal:
	case im.nextAt > c.now.Boot:
		c.wakeAt(im.nextAt)
	case c.count(func(o Op) bool { return o.Kind == OpPull }) < maxPulls:
		im.pulling, im.op = true, c.start(Op{Kind: OpPull, Ref: ref})
	}
}

// cancelPulls ends pulls that no assignment needs any more, and forgets images that none names.
func (c *Core) cancelPulls() {
	for _, ref := range slices.Sorted(maps.Keys(c.images)) { // in order: a seed replays alike
		im := c.images[ref]
		if c.names(ref) {
			continue
		}
		if im.pulling {
			c.effects = append(c.effects, CancelOp{im.op})
		} else if !im.checking {
			delete(c.images, ref)
		}
	}
}

func (c *Core) names(ref string) bool {
	for _, ws := range []map[string]*workload.Wanted{c.bundle.wanted, c.bundle.before} {
		for _, w := range ws {
			if slices.ContainsFunc(w.Assignment.Containers, func(k wire.Container) bool { return k.Image == ref }) {
				return true
			}
		}
	}
	return false
}

// stepProbes runs the readiness probes that are due, of containers that run what is wanted.
func (c *Core) stepProbes() {
	running := map[string]bool{}
	for _, e := range c.bundle.Entries {
		uid, w := e.UID, c.bundle.wanted[e.UID]
		for _, k := range c.runtime.seen[uid] {
			i := slices.IndexFunc(w.Assignment.Containers, func(x wire.Container) bool { return x.Name == k.Name })
			if k.State != workload.Running || k.RunHash != w.RunHash || i < 0 || w.Assignment.Containers[i].Readiness == nil {
				continue
			}
			running[k.ID] = true
			run, at := c.probes.Due(k, w.Assignment.Containers[i].Readiness, c.rt.memory(uid), c.now)
			if run != nil {
				c.start(Op{Kind: OpProbe, Probe: *run})
			} else {
				c.wakeAt(at)
			}
		}
	}
	c.probes.Forget(func(id string) bool { return running[id] })
}

// stepRotation writes the bundle once more when the kept copy still holds what tombstones have removed: only then is it
// safe to tell the hub that the tombstones are carried out.
func (c *Core) stepRotation() {
	if c.kept == nil || c.saveAt > 0 || c.pend != nil && c.pend.saving {
		return
	}
	for _, t := range c.bundle.desired.Tombstones {
		if c.gone[t.UID] && c.kept.holds(t.UID) {
			c.saves = append(c.saves, SaveBundle{Bundle: c.bundle, Rotate: true})
			return
		}
	}
}

func (c *Core) objectOf(uid string) string {
	if w := c.bundle.wantedOf(uid); w != nil {
		return w.Object()
	}
	if c.bundle != nil {
		for _, t := range c.bundle.desired.Tombstones {
			if t.UID == uid {
				return t.Name
			}
		}
	}
	return ""
}
