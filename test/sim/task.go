package sim

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/drover-fleet/drover/consensus"
	"github.com/drover-fleet/drover/hub/replica"
	"github.com/drover-fleet/drover/store"
	"github.com/drover-fleet/drover/store/watch"
)

// task is code that waits (a request to a gateway, a feed, a user's command), run as a coroutine: it goes on only when the queue
// resumes it, and the queue goes on only when it waits or has ended. So it is in the one order of everything.
type task struct {
	m      *member
	cancel context.CancelFunc
	next   func() (struct{}, bool)
	stop   func()
	yield  func(struct{}) bool
	over   bool
	failed int // attempts of the proposal under way
}

// spawn begins a task of a member. It ends with the member's life.
func (m *member) spawn(do func(ctx context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	t := &task{m: m, cancel: cancel}
	t.next, t.stop = iter.Pull(func(yield func(struct{}) bool) {
		t.yield = yield
		do(ctx)
	})
	m.tasks = append(m.tasks, t)
	t.resume()
}

func (t *task) resume() {
	if t.over {
		return
	}
	w := t.m.w
	w.current = t
	_, more := t.next()
	w.current = nil
	if !more {
		t.end()
		t.m.tasks = slices.DeleteFunc(t.m.tasks, func(o *task) bool { return o == t })
	}
}

func (t *task) end() {
	t.over = true
	t.cancel()
	before := t.m.w.current
	t.m.w.current = t
	t.stop()
	t.m.w.current = before
}

// endTasks ends all tasks of a member. What they wait for fails.
func (m *member) endTasks() {
	tasks := m.tasks
	m.tasks = nil
	for _, t := range tasks {
		t.end()
	}
}

// wait suspends the task until resume; false says that the member has died.
func (t *task) wait() bool { return !t.over && t.yield(struct{}{}) }

// sleep suspends the task for some time.
func (t *task) sleep(d time.Duration) bool {
	t.m.later(d, t.resume)
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

// Next looks now and then.
func (x waiting) Next(ctx context.Context) (store.Batch, error) {
	t := x.m.w.current
	for {
		b, ok, err := x.Try(ctx)
		if ok || err != nil {
			return b, err
		}
		if !t.sleep(x.m.w.between(100*time.Millisecond, 900*time.Millisecond)) {
			return store.Batch{}, store.ErrClosed
		}
	}
}
