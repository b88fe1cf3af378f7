package sim

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/drover-fleet/drover/api/await"
	"github.com/drover-fleet/drover/consensus"
	"github.com/drover-fleet/drover/hub/replica"
	"github.com/drover-fleet/drover/store"
	"github.com/drover-fleet/drover/store/watch"
)

// task is code that waits (a request to a gateway, a controller, a device's link), run as a coroutine: it goes on only when the
// queue resumes it, and the queue goes on only when it waits or has ended. So it is in the one order of everything.
type task struct {
	h      *host
	cancel context.CancelFunc
	next   func() (struct{}, bool)
	stop   func()
	yield  func(struct{}) bool
	over   bool
	failed int // attempts of the proposal under way
}

func newTask(h *host, do func(ctx context.Context)) *task {
	ctx, cancel := context.WithCancel(context.Background())
	t := &task{h: h, cancel: cancel}
	t.next, t.stop = iter.Pull(func(yield func(struct{}) bool) {
		t.yield = yield
		do(ctx)
	})
	return t
}

// resume lets the task go on until it waits again or has ended.
func (t *task) resume() {
	if t.over {
		return
	}
	w := t.h.w
	before := w.current
	w.current = t
	_, more := t.next()
	w.current = before
	t.h.touch()
	if !more && !t.over {
		t.over = true
		t.cancel()
		t.h.tasks = slices.DeleteFunc(t.h.tasks, func(o *task) bool { return o == t })
	}
}

// end has the task unwind: whatever it waits for fails at once.
func (t *task) end() {
	before := t.h.w.current
	t.h.w.current = t
	t.stop()
	t.h.w.current = before
}

// wait suspends the task until resume; false says that its host has died.
func (t *task) wait() bool { return !t.over && t.yield(struct{}{}) }

// sleep suspends the task for some time.
func (t *task) sleep(d time.Duration) bool {
	t.h.later(d, t.resume)
	return t.wait()
}

// node is the member's core as hub/replica needs it, for tasks.
type node struct{ m *member }

var _ replica.Node = node{}

// Propose waits for the outcome, and before it reports a failure, for a while. After some failures the task gives up.
func (n node) Propose(ctx context.Context, cmd []byte) (any, error) {
	a, alive := n.call(func() uint64 { return n.m.node.Propose(cmd) })
	if !alive {
		return nil, consensus.ErrStopped
	}
	return a.Value, n.settle(a.Err)
}

// ReadIndex waits for the member to be current.
func (n node) ReadIndex(context.Context) error {
	a, alive := n.call(n.m.node.ReadIndex)
	if !alive {
		return consensus.ErrStopped
	}
	return n.settle(a.Err)
}

func (n node) call(begin func() uint64) (a consensus.Answer, alive bool) {
	t := n.m.w.current
	if t.over {
		return a, false
	}
	n.m.calls[begin()] = func(got consensus.Answer) {
		a = got
		t.resume()
	}
	n.m.later(0, func() { n.m.step(0) })
	return a, t.wait() && !t.over
}

func (n node) settle(err error) error {
	t := n.m.w.current
	if err == nil {
		t.failed = 0
		return nil
	}
	if t.failed++; t.failed >= 4 || !t.sleep(n.m.w.about(200*time.Millisecond)) {
		t.cancel()
	}
	return err
}

// Leadership is the core's.
func (n node) Leadership() (uint64, bool) { return n.m.node.Leadership() }

// LeadershipChanged never signals: nobody in the simulation waits for it.
func (n node) LeadershipChanged() <-chan struct{} { return nil }

// backend is the member's replica with watches that wait as tasks do.
type backend struct {
	*replica.Replica
	m *member
}

// Watch implements store.Watchable.
func (b backend) Watch(ctx context.Context, r store.WatchRequest) (store.Watcher, error) {
	in, err := b.Replica.Watch(ctx, r)
	if err != nil {
		return nil, err
	}
	return waiting{in.(*watch.Watcher), b.m}, nil
}

// waiting is a watcher for tasks.
type waiting struct {
	*watch.Watcher
	m *member
}

// Next waits for a batch. Now and then it comes late.
func (x waiting) Next(ctx context.Context) (store.Batch, error) {
	for {
		b, ok, err := x.Try(ctx)
		if ok || err != nil {
			return b, err
		}
		clock{&x.m.host}.Wait(ctx, await.Forever, x.Ready())
		if ctx.Err() == nil && x.m.w.chance(0.2) {
			clock{&x.m.host}.Wait(ctx, x.m.w.between(50*time.Millisecond, 900*time.Millisecond), nil)
		}
		if ctx.Err() != nil {
			x.Close()
			return store.Batch{}, ctx.Err()
		}
	}
}
