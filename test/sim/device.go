package sim

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/drover-fleet/drover/agent"
	"github.com/drover-fleet/drover/agent/link"
	"github.com/drover-fleet/drover/agent/state"
	"github.com/drover-fleet/drover/agent/workload"
	"github.com/drover-fleet/drover/agent/workload/fakedriver"
	"github.com/drover-fleet/drover/api/wire"
	"github.com/drover-fleet/drover/test/history"
)

// device is a board: its runtime and files outlive its agent, its files outlive its power.
type device struct {
	host    // the agent's process
	f       *fleet
	dir     string
	runtime *fakedriver.Runtime
	booted  time.Duration

	core    *agent.Core // nil while the agent does not run
	files   *agent.Store
	driver  *fakedriver.Driver
	faults  int  // counts what was done to it
	tearIn  int  // saves until the power goes away in the middle of one; 0: none is planned
	full    bool // its disk is
	wakeups int  // counts alarms that were set: only the newest rings
	link    *link.Session
	session uint64        // number of the link's last one, as kept on disk
	holds   wire.Position // the highest that it ever held
}

func runtimeChanged() agent.Event { return agent.RuntimeChanged{} }

func newDevice(f *fleet, i int) (*device, error) {
	d := &device{host: host{w: f.w, name: deviceName(i)}, f: f, dir: filepath.Join(f.w.cfg.Dir, deviceName(i))}
	if err := os.MkdirAll(d.dir, 0o700); err != nil {
		return nil, err
	}
	d.runtime = fakedriver.New(func() int64 { return d.wall().UnixNano() })
	for image := range f.images {
		d.runtime.Publish(image, nil)
	}
	d.start()
	return d, nil
}

// start starts the agent on what is on disk.
func (d *device) start() {
	codec, err := state.NewCodec()
	if err != nil {
		d.w.fail(history.NoErrors, "%s: %v", d.name, err)
		return
	}
	d.files = agent.OpenStore(d.dir, codec)
	loaded, err := d.files.Load()
	if err != nil {
		d.w.fail(history.NoErrors, "%s: %v", d.name, err)
		return
	}
	d.life++
	d.up = true
	d.driver = d.runtime.Connect(0)
	d.core = agent.NewCore(agent.CoreConfig{Device: d.name, Codec: codec, Random: d.w.rng.Int64N, Loaded: loaded})
	if d.link, err = d.newLink(); err != nil {
		d.w.fail(history.NoErrors, "%s: %v", d.name, err)
		return
	}
	d.later(d.w.about(3*time.Second), func() { d.spawn(func(ctx context.Context) { _ = d.link.Run(ctx) }) }) // ends with ctx only
	d.step(agent.Tick{})
}

// stop ends the agent's process.
func (d *device) stop() {
	d.up = false
	d.endTasks()
	d.core = nil
}

func (d *device) now() workload.Now {
	return workload.Now{BootID: d.runtime.BootID(), Boot: d.w.now - d.booted + time.Second, Wall: d.wall().UnixNano()}
}

// step steps the core and carries out the effects, as agent.Agent does: answers of saves come before anything else.
func (d *device) step(ev agent.Event) {
	for queue := []agent.Event{ev}; len(queue) > 0 && d.core != nil; queue = queue[1:] {
		for _, e := range d.core.Step(d.now(), queue[0]) {
			if answer := d.do(e); answer != nil {
				queue = append(queue, answer)
			}
			if d.core == nil {
				return // the power went away
			}
		}
	}
	d.checkHeld()
	d.touch()
}

// checkHeld holds I5: the position never falls.
func (d *device) checkHeld() {
	if d.core == nil {
		return
	}
	held, _ := d.core.Held()
	if held.Older(d.holds) {
		d.w.fail(history.NeverBack, "%s holds revision %d after %d", d.name, held.Revision, d.holds.Revision)
	}
	d.holds = held
}

func (d *device) do(e agent.Effect) agent.Event {
	switch e := e.(type) {
	case agent.SaveBundle:
		return d.saveBundle(e)
	case agent.SaveRuntime:
		return d.saveRuntime(e)
	case agent.StartOp:
		d.begin(e.Op)
	case agent.SendReport:
		d.link.Report(e.Report)
	case agent.WantBodies:
		d.link.Want(e.Request)
	case agent.Wake:
		d.wake(e.At)
	}
	return nil
}

// begin has a driver call take effect some time later. If the agent dies meanwhile the call may still have taken effect.
func (d *device) begin(op agent.Op) {
	life, boot := d.life, d.runtime.BootID()
	took := d.w.about(30 * time.Millisecond)
	if op.Kind == agent.OpPull {
		took = d.w.about(2 * time.Second)
	}
	driver := d.driver
	d.w.after(took, func() {
		alive := d.core != nil && d.life == life
		if d.runtime.BootID() != boot || !alive && d.w.chance(0.5) {
			return
		}
		d.checkStop(op)
		done := agent.Hands{Driver: driver}.Perform(context.Background(), op)
		if alive {
			d.step(done)
		}
	})
}

// checkStop holds I4: a container is only stopped for what was ordered after its template.
func (d *device) checkStop(op agent.Op) {
	if op.Kind != agent.OpAct || op.Action.Kind != workload.Stop {
		return
	}
	for _, k := range d.runtime.Containers() {
		if k.ID != op.Action.ID || k.State != workload.Running {
			continue
		}
		if t := d.f.images[k.Image]; !d.f.orders.mayStop(d.name, k.UID, t) {
			d.w.fail(history.NeverStops, "%s stops template %d of %s, and nothing newer was ordered", d.name, t, k.Object)
		}
	}
}

func (d *device) wake(at time.Duration) {
	d.wakeups++
	n, life := d.wakeups, d.life
	if at == 0 {
		return
	}
	d.w.after(at-d.now().Boot, func() {
		if d.core != nil && d.life == life && d.wakeups == n {
			d.step(agent.Tick{})
		}
	})
}

// killAgent ends the agent's process; containers run on. It comes back.
func (d *device) killAgent() bool {
	if d.core == nil {
		return false
	}
	d.w.logf("the agent of %s is killed", d.name)
	d.stop()
	d.w.after(d.w.about(3*time.Second), d.revive)
	return true
}

func (d *device) revive() {
	if d.core == nil {
		d.start()
	}
}

// powerCut takes the power away for a while. Half the time there is no network either when it is back: then everything that ran
// must run again within half a minute.
func (d *device) powerCut() bool {
	if d.core == nil {
		return false
	}
	d.w.logf("%s loses power", d.name)
	before := d.runningNow()
	d.stop()
	d.runtime.Reboot()
	alone := d.w.chance(0.5)
	if alone {
		d.cutOff()
	}
	d.w.after(d.w.between(time.Second, 20*time.Second), func() {
		d.booted = d.w.now
		d.revive()
		life, faults := d.life, d.faults
		d.w.after(30*time.Second, func() {
			if alone && d.life == life && d.faults == faults && d.isCutOff() {
				d.checkReboot(before)
			}
		})
	})
	return true
}

// checkReboot holds I8. A template that ran may have made way for a newer one that was on disk already, or for a removal.
func (d *device) checkReboot(before map[string]int) {
	got := d.runningNow()
	for uid, template := range before {
		if _, err := d.driver.List(context.Background()); err == nil && got[uid] < template && !d.f.orders.mayStop(d.name, uid, template) {
			d.w.fail(history.Reboots, "%s ran %v before the power was cut, and without a network %v half a minute after it came back", d.name, before, got)
			return
		}
	}
}

// runningNow are the templates that run, by uid of their assignment.
func (d *device) runningNow() map[string]int {
	out := map[string]int{}
	for _, k := range d.runtime.Containers() {
		if k.State == workload.Running {
			out[k.UID] = max(out[k.UID], d.f.images[k.Image])
		}
	}
	return out
}

// cutOff cuts the device off from every member for a while.
func (d *device) cutOff() {
	var mends []func()
	for _, m := range d.w.members {
		mends = append(mends, d.w.net.cut(d.name, m.name), d.w.net.cut(m.name, d.name))
	}
	d.w.undoLater(d.name+" is offline", 4*faultTime, func() {
		for _, f := range mends {
			f()
		}
	})
}
