package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/drover-fleet/drover/agent/link"
	"github.com/drover-fleet/drover/agent/state"
	"github.com/drover-fleet/drover/agent/workload"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/retry"
	"github.com/drover-fleet/drover/api/wire"
)

// Config of an Agent. Device, Dir, BootID, Driver, Clock and Random are required.
type Config struct {
	Device  string // name of this device
	Dir     string // of the agent's files; owned by one agent
	Version string // of the agent
	BootID  string
	Driver  workload.Driver
	Unseal  Unseal // nil: there is no key; containers with secrets do not start
	Facts   wire.Facts
	Clock   func() (boot time.Duration, wall time.Time) // time since boot, suspension included; the device's clock
	Random  retry.Random
	Log     *slog.Logger // nil: discard
}

func (c *Config) validate() error {
	var errs []error
	for _, f := range []struct {
		name string
		ok   bool
	}{{"Device", c.Device != ""}, {"Dir", c.Dir != ""}, {"BootID", c.BootID != ""}, {"Driver", c.Driver != nil},
		{"Clock", c.Clock != nil}, {"Random", c.Random != nil}} {
		if !f.ok {
			errs = append(errs, fmt.Errorf("agent config: %s is not set", f.name))
		}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return errors.Join(errs...)
}

// Agent is the loop around a Core.
type Agent struct {
	cfg   Config
	core  *Core
	store *Store
	inbox *inbox

	// Owned by Run.
	timer   *time.Timer
	cancels map[uint64]context.CancelFunc
	listed  bool           // the runtime has told once what there is
	work    sync.WaitGroup // driver calls and streams
	streams chan struct{}  // one for each open stream

	mu     sync.Mutex
	link   link.Link // nil until Attach
	report *wire.Report
	want   *wire.BodiesRequest
	held   wire.Position
	hash   wire.Hash
	facts  wire.Facts
	state  link.State
}

const maxStreams = 8

var (
	_ link.Source = (*Agent)(nil)
	_ link.Sink   = (*Agent)(nil)
)

// New reads what is on disk and makes an Agent. It starts nothing. Bad files do not fail it.
func New(cfg Config) (*Agent, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	codec, err := state.NewCodec()
	if err != nil {
		return nil, err
	}
	store := OpenStore(cfg.Dir, codec)
	loaded, err := store.Load()
	if err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	for _, p := range loaded.Problems {
		cfg.Log.Warn("state file was bad", "problem", p)
	}
	a := &Agent{cfg: cfg, store: store, inbox: newInbox(), cancels: map[uint64]context.CancelFunc{}, facts: cfg.Facts,
		streams: make(chan struct{}, maxStreams)}
	a.core = NewCore(CoreConfig{Device: cfg.Device, Codec: codec, Random: cfg.Random, Facts: cfg.Facts, Loaded: loaded})
	a.held, a.hash = a.core.Held()
	return a, nil
}

// Attach gives the agent its link to a hub; it works without one. What was to be said before is said now.
func (a *Agent) Attach(l link.Link) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.link = l
	if a.report != nil {
		l.Report(*a.report)
	}
	if a.want != nil {
		l.Want(*a.want)
	}
}

// Run keeps the device as its bundle says until ctx ends, and returns once all it started has ended. Containers run on.
func (a *Agent) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer a.work.Wait()
	defer cancel()
	a.timer = time.NewTimer(0)
	defer a.timer.Stop()
	a.work.Go(func() { a.watch(ctx) })
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-a.timer.C:
			a.step(ctx, Tick{})
		case <-a.inbox.ready:
			for _, ev := range a.inbox.drain() {
				a.step(ctx, ev)
			}
		}
	}
}

// step steps the core and carries out the effects; the answers of saves are stepped before anything else.
func (a *Agent) step(ctx context.Context, ev Event) {
	for queue := []Event{ev}; len(queue) > 0; queue = queue[1:] {
		if d, ok := queue[0].(OpDone); ok {
			a.ended(d)
		}
		for _, e := range a.core.Step(a.now(), queue[0]) {
			if answer := a.do(ctx, e); answer != nil {
				queue = append(queue, answer)
			}
		}
	}
	a.mu.Lock()
	a.held, a.hash = a.core.Held()
	a.mu.Unlock()
}

func (a *Agent) now() workload.Now {
	boot, wall := a.cfg.Clock()
	return workload.Now{BootID: a.cfg.BootID, Boot: boot, Wall: wall.UnixNano()}
}

func (a *Agent) do(ctx context.Context, e Effect) Event {
	switch e := e.(type) {
	case SaveBundle:
		return a.saved(a.store.SaveBundle(e))
	case SaveRuntime:
		saved := a.store.SaveRuntime(e)
		if saved.Err != nil {
			a.cfg.Log.Warn("state not saved", "err", saved.Err)
		}
		return saved
	case StartOp:
		a.begin(ctx, e.Op)
	case CancelOp:
		if cancel := a.cancels[e.ID]; cancel != nil {
			cancel()
		}
	case SendReport:
		a.tell(func() { a.report = &e.Report }, func(l link.Link) { l.Report(e.Report) })
	case WantBodies:
		a.tell(func() { a.want = &e.Request }, func(l link.Link) { l.Want(e.Request) })
	case OpenStream:
		a.openStream(ctx, e)
	case Wake:
		a.setTimer(e.At)
	}
	return nil
}

func (a *Agent) saved(s BundleSaved) Event {
	if s.Err != nil {
		a.cfg.Log.Warn("bundle not saved", "err", s.Err)
		return s
	}
	a.mu.Lock()
	a.want = nil
	a.mu.Unlock()
	p := s.Bundle.position()
	a.cfg.Log.Info("bundle stored", "rev", p.Revision, "assignments", len(s.Bundle.Entries))
	return s
}

func (a *Agent) tell(note func(), say func(link.Link)) {
	a.mu.Lock()
	note()
	l := a.link
	a.mu.Unlock()
	if l != nil {
		say(l)
	}
}

func (a *Agent) setTimer(at time.Duration) {
	if at == 0 {
		a.timer.Stop()
		return
	}
	boot, _ := a.cfg.Clock()
	a.timer.Reset(max(at-boot, 0))
}

func (a *Agent) begin(ctx context.Context, op Op) {
	ctx, cancel := context.WithCancel(ctx)
	a.cancels[op.ID] = cancel
	if op.Kind == OpAct {
		a.cfg.Log.Info("container", "action", op.Action.Kind.String(), "id", op.Action.ID, "uid", op.Action.UID)
	}
	a.work.Go(func() {
		defer cancel()
		a.inbox.putDone(Hands{Driver: a.cfg.Driver, Unseal: a.cfg.Unseal, Token: a.askToken}.Perform(ctx, op))
	})
}

func (a *Agent) askToken(ctx context.Context, q wire.TokenRequest) (wire.TokenReply, error) {
	a.mu.Lock()
	l := a.link
	a.mu.Unlock()
	if l == nil {
		return wire.TokenReply{}, fault.Unreachable.Errorf("no hub is known yet")
	}
	return l.Token(ctx, q)
}

func (a *Agent) ended(d OpDone) {
	delete(a.cancels, d.Op.ID)
	if d.Err == nil {
		if d.Op.Kind == OpList && !a.listed {
			a.listed = true
			a.cfg.Log.Info("runtime listed", "containers", len(d.Containers))
		}
		return
	}
	if d.Op.Kind == OpToken { // a condition tells, as of probes
		a.cfg.Log.Debug("token", "uid", d.Op.Token.UID, "volume", d.Op.Token.Volume, "path", d.Op.Token.Path, "err", d.Err)
		return
	}
	if d.Op.Kind == OpProbe { // the status tells why; a line for each would wear the card
		a.cfg.Log.Debug("probe", "id", d.Op.Probe.ID, "err", d.Err)
		return
	}
	a.cfg.Log.Warn("runtime call", "kind", d.Op.Kind, "action", d.Op.Action.Kind.String(), "id", d.Op.Action.ID, "ref", d.Op.Ref, "err", d.Err)
}

// watch hears of changes in the runtime, and comes back when the runtime went away.
func (a *Agent) watch(ctx context.Context) {
	tries := retry.Attempts{Policy: retry.Policy{Base: time.Second, Max: 30 * time.Second}, Random: a.cfg.Random}
	for ctx.Err() == nil {
		err := a.cfg.Driver.Watch(ctx, func() {
			tries.Succeeded()
			a.inbox.putChanged()
		})
		a.inbox.putChanged() // a list tells whether it is gone
		wait := time.NewTimer(tries.Failed(err))
		select {
		case <-wait.C:
		case <-ctx.Done():
		}
		wait.Stop()
	}
}

// openStream sends a log over the link. When it cannot be read, the reason is what is sent.
func (a *Agent) openStream(ctx context.Context, e OpenStream) {
	a.mu.Lock()
	l := a.link
	a.mu.Unlock()
	if l == nil {
		return
	}
	select {
	case a.streams <- struct{}{}:
	default:
		a.cfg.Log.Warn("stream refused: too many are open", "id", e.ID, "limit", maxStreams)
		return
	}
	a.work.Go(func() {
		defer func() { <-a.streams }()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		if err := a.sendLog(ctx, l, e); err != nil && ctx.Err() == nil {
			a.cfg.Log.Info("stream ended", "id", e.ID, "err", err)
		}
	})
}

func (a *Agent) sendLog(ctx context.Context, l link.Link, e OpenStream) error {
	r, err := a.cfg.Driver.Logs(ctx, e.UID, e.Container, e.Options)
	if err != nil {
		return l.OpenStream(ctx, e.ID, failedReader{err})
	}
	defer r.Close()
	return l.OpenStream(ctx, e.ID, r)
}

// failedReader makes the stream fail with the reason.
type failedReader struct{ err error }

func (f failedReader) Read([]byte) (int, error) { return 0, f.err }

var _ io.Reader = failedReader{}
