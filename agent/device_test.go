package agent

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-fleet/drover/agent/state"
	"github.com/drover-fleet/drover/agent/workload"
	"github.com/drover-fleet/drover/agent/workload/fakedriver"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/grant"
	"github.com/drover-fleet/drover/api/wire"
)

// device is one simulated board: a runtime that outlives the agent, a directory, a clock, and the present life of the agent.
// All runs in the test's goroutine; which of several driver calls answers first is chosen by a seed.
type device struct {
	t     *testing.T
	dir   string
	rt    *fakedriver.Runtime
	boot  time.Duration
	wall  time.Time
	rand  *rand.Rand
	drv   *fakedriver.Driver
	store *Store
	core  *Core

	ops     []Op
	queue   []Event
	wake    time.Duration
	report  wire.Report
	reports int
	want    *wire.BodiesRequest
	streams []OpenStream
	hold    map[OpKind]bool // ops of these kinds do not answer
	tokens  func(wire.TokenRequest) (string, error)
	asked   []wire.TokenRequest
}

func newDevice(t *testing.T, seed uint64) *device {
	d := &device{t: t, dir: memoryDir(t), boot: time.Minute, wall: time.Unix(1_800_000_000, 0), rand: rand.New(rand.NewPCG(seed, 1)),
		hold: map[OpKind]bool{}}
	d.rt = fakedriver.New(func() int64 { return d.wall.UnixNano() })
	return d
}

// memoryDir is a directory in memory where there is one: these tests are about what is written, not about the disk's speed.
func memoryDir(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "drover-agent")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// start begins a life of the agent that dies at kill point killAt (0: never), and runs until nothing is to be done.
func (d *device) start(killAt int) (killed bool) {
	codec, err := state.NewCodec()
	if err != nil {
		d.t.Fatal(err)
	}
	d.store = OpenStore(d.dir, codec)
	loaded, err := d.store.Load()
	if err != nil {
		d.t.Fatal(err)
	}
	d.drv = d.rt.Connect(killAt)
	d.core = NewCore(CoreConfig{Device: "pi-07", Codec: codec, Random: d.rand.Int64N, Facts: wire.Facts{MemoryCgroup: true}, Loaded: loaded})
	d.ops, d.want, d.wake = nil, nil, 0
	d.queue = []Event{Tick{}, RuntimeChanged{}}
	return d.run()
}

// give hands an event to the agent and runs until nothing is to be done.
func (d *device) give(ev Event) (killed bool) {
	d.queue = append(d.queue, ev)
	return d.run()
}

func (d *device) run() (killed bool) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case fakedriver.Killed:
			killed = true
		default:
			panic(p)
		}
	}()
	for steps := 0; ; steps++ {
		if steps > 10000 {
			d.t.Fatal("the agent does not come to rest")
		}
		if len(d.queue) > 0 {
			ev := d.queue[0]
			d.queue = d.queue[1:]
			d.step(ev)
			continue
		}
		ready := d.answerable()
		if len(ready) == 0 {
			return false
		}
		i := ready[d.rand.IntN(len(ready))]
		op := d.ops[i]
		d.ops = slices.Delete(d.ops, i, i+1)
		d.queue = append(d.queue, Hands{Driver: d.drv, Unseal: d.unseal, Token: d.askToken}.Perform(context.Background(), op))
	}
}

func (d *device) answerable() []int {
	var out []int
	for i, op := range d.ops {
		if !d.hold[op.Kind] {
			out = append(out, i)
		}
	}
	return out
}

// askToken answers as the test's hub does.
func (d *device) askToken(_ context.Context, q wire.TokenRequest) (wire.TokenReply, error) {
	d.asked = append(d.asked, q)
	if d.tokens == nil {
		return wire.TokenReply{}, fault.Unreachable.Errorf("no hub")
	}
	text, err := d.tokens(q)
	if err != nil {
		return wire.TokenReply{}, err
	}
	ref, err := q.Ref()
	return wire.TokenReply{Token: wire.Sealed{Ref: ref, Ephemeral: []byte{4}, Ciphertext: []byte(text)}, LifeSecs: q.LifeSecs}, err
}

func (d *device) unseal(s wire.Sealed) ([]byte, error) { return s.Ciphertext, nil }

func (d *device) step(ev Event) {
	now := workload.Now{BootID: d.rt.BootID(), Boot: d.boot, Wall: d.wall.UnixNano()}
	for _, e := range d.core.Step(now, ev) {
		switch e := e.(type) {
		case SaveBundle:
			d.queue = append([]Event{d.store.SaveBundle(e)}, d.queue...)
		case SaveRuntime:
			d.queue = append([]Event{d.store.SaveRuntime(e)}, d.queue...)
		case StartOp:
			d.ops = append(d.ops, e.Op)
		case CancelOp:
			i := slices.IndexFunc(d.ops, func(o Op) bool { return o.ID == e.ID })
			if i >= 0 {
				op := d.ops[i]
				d.ops = slices.Delete(d.ops, i, i+1)
				d.queue = append(d.queue, OpDone{Op: op, Err: context.Canceled})
			}
		case SendReport:
			d.report = e.Report
			d.reports++
		case WantBodies:
			d.want = &e.Request
		case OpenStream:
			d.streams = append(d.streams, e)
		case Wake:
			d.wake = e.At
		}
	}
}

// pass lets time pass, waking the agent whenever it asked for it.
func (d *device) pass(dur time.Duration) {
	for end := d.boot + dur; ; {
		next := end
		if d.wake > d.boot && d.wake < end {
			next = d.wake
		}
		d.wall = d.wall.Add(next - d.boot)
		d.boot = next
		d.give(RuntimeChanged{})
		d.give(Tick{})
		if next == end {
			return
		}
	}
}

// reboot ends every process; the time since boot starts anew.
func (d *device) reboot() {
	d.rt.Reboot()
	d.boot = 5 * time.Second
}

func (d *device) status(uid string) wire.Status {
	d.t.Helper()
	i := slices.IndexFunc(d.report.Statuses, func(s wire.Status) bool { return s.UID == uid })
	if i < 0 {
		d.t.Fatalf("no status of %s in the report: %+v", uid, d.report.Statuses)
	}
	return d.report.Statuses[i]
}

func (d *device) condition(kind string) wire.Condition {
	i := slices.IndexFunc(d.report.Conditions, func(c wire.Condition) bool { return c.Type == kind })
	if i < 0 {
		d.t.Fatalf("no condition %s", kind)
	}
	return d.report.Conditions[i]
}

func (d *device) journaled(reason string) int {
	n := 0
	for _, r := range d.core.rt.Journal.Records {
		if r.Reason == reason {
			n += int(r.Count)
		}
	}
	return n
}

func (d *device) noViolations() {
	d.t.Helper()
	if v := d.rt.Violations(); len(v) > 0 {
		d.t.Fatalf("two copies existed:\n%s\ncalls:\n%s", strings.Join(v, "\n"), strings.Join(d.rt.Calls(), "\n"))
	}
}

// runs checks that exactly these containers ("name=image") run.
func (d *device) runs(want ...string) {
	d.t.Helper()
	got := []string{}
	for _, c := range d.rt.Containers() {
		if c.State == workload.Running {
			got = append(got, c.Name+"="+c.Image)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		d.t.Fatalf("running: got %v, want %v\ncalls:\n%s", got, want, strings.Join(d.rt.Calls(), "\n"))
	}
}

// hub says what is desired, as a real one would, save signatures.
type hub struct {
	t       *testing.T
	cluster string
	epoch   uint32
	rev     uint64
	bodies  map[string]wire.Assignment
	graves  []wire.Tombstone
	drop    map[string]bool // left out of the index
	grant   *grant.Grant
}

func newHub(t *testing.T) *hub {
	return &hub{t: t, cluster: "c1", epoch: 1, rev: 1 << 40, bodies: map[string]wire.Assignment{}, drop: map[string]bool{}}
}

func assignment(uid, image string, change ...func(*wire.Assignment)) wire.Assignment {
	a := wire.Assignment{UID: uid, Namespace: "default", Name: uid + ".pi-07", Workload: uid, Revision: uid + "-" + image[len(image)-4:],
		GraceSecs: 1, Containers: []wire.Container{{Name: uid, Image: image, ImageName: image}}}
	for _, f := range change {
		f(&a)
	}
	return a
}

func img(n string) string {
	return "reg.local/app@sha256:" + strings.Repeat(n, 64/len(n))[:64]
}

func (h *hub) set(a wire.Assignment) {
	h.rev++
	h.bodies[a.UID] = a
}

func (h *hub) remove(uid string) {
	h.rev++
	delete(h.bodies, uid)
	h.graves = append(h.graves, wire.Tombstone{UID: uid, Name: "default/" + uid + ".pi-07", Revision: h.rev})
}

func (h *hub) desired() (DesiredReceived, wire.BodiesReply) {
	h.t.Helper()
	d := wire.Desired{Device: "pi-07", Position: wire.Position{ClusterID: h.cluster, Epoch: h.epoch, EpochID: "e" + string(rune('0'+h.epoch)), Revision: h.rev}, Grant: h.grant}
	var bodies wire.BodiesReply
	uids := []string{}
	for uid := range h.bodies {
		if !h.drop[uid] {
			uids = append(uids, uid)
		}
	}
	slices.Sort(uids)
	for _, uid := range uids {
		b, err := wire.Encode(h.bodies[uid])
		if err != nil {
			h.t.Fatal(err)
		}
		e := wire.Entry{UID: uid, SpecHash: wire.HashOf(b)}
		for _, c := range h.bodies[uid].Containers {
			for _, env := range c.Env {
				if env.Secret != nil {
					e.Secrets = append(e.Secrets, *env.Secret)
					bodies.Secrets = append(bodies.Secrets, wire.Sealed{Ref: *env.Secret, Ephemeral: []byte{4}, Ciphertext: []byte("value of " + env.Secret.Name)})
				}
			}
		}
		d.Assignments = append(d.Assignments, e)
		bodies.Bodies = append(bodies.Bodies, b)
	}
	d.Tombstones = slices.Clone(h.graves)
	slices.SortFunc(d.Tombstones, func(a, b wire.Tombstone) int { return strings.Compare(a.UID, b.UID) })
	hash, err := d.ComputeBundleHash()
	if err != nil {
		h.t.Fatal(err)
	}
	d.BundleHash = hash
	p, err := wire.Encode(d)
	if err != nil {
		h.t.Fatal(err)
	}
	return DesiredReceived{Signed: wire.Signed{Payload: p}, Desired: d}, bodies
}

// tell gives the device what is desired and the bodies it asks for.
func (h *hub) tell(d *device) (killed bool) {
	ev, bodies := h.desired()
	if d.give(ev) {
		return true
	}
	if d.want != nil {
		d.want = nil
		return d.give(BodiesReceived{bodies})
	}
	return false
}

var errScripted = errors.New("scripted failure")
