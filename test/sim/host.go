package sim

import (
	"context"
	"slices"
	"time"

	"github.com/drover-fleet/drover/api/await"
)

// wakeTime is the mean time from a signal to the task that waits for it.
const wakeTime = 2 * time.Millisecond

// host is a process: a member's or an agent's. What belongs to an earlier life of it does nothing.
type host struct {
	w    *world
	name string

	up      bool
	life    int           // counts starts
	stalled bool          // nothing is taken
	held    []func()      // what comes due while it is stalled
	skew    time.Duration // of its wall clock

	tasks   []*task // in the order in which they began
	waits   []*pause
	touched bool // pump is due
}

// wall is the host's wall clock; it may step.
func (h *host) wall() time.Time { return began().Add(h.w.now + h.skew) }

// later has do called unless the host has died by then; while it is stalled, do waits.
func (h *host) later(d time.Duration, do func()) {
	life := h.life
	h.w.after(d, func() { h.wake(life, do) })
}

func (h *host) wake(life int, do func()) {
	switch {
	case !h.up || h.life != life:
	case h.stalled:
		h.held = append(h.held, func() { h.wake(life, do) })
	default:
		do()
	}
}

// resume ends a stall.
func (h *host) resume() {
	h.stalled = false
	held := h.held
	h.held = nil
	for _, do := range held {
		do()
	}
	h.touch()
}

// touch has the host's tasks look at their signals once the present event is over.
func (h *host) touch() {
	if !h.touched {
		h.touched = true
		h.w.touched = append(h.w.touched, h)
	}
}

// pause is a task that waits.
type pause struct {
	t      *task
	done   <-chan struct{} // of its context
	signal <-chan struct{}
	over   bool
}

func yields(c <-chan struct{}) bool {
	if c == nil {
		return false
	}
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (p *pause) ready() bool { return yields(p.done) || yields(p.signal) }

// end resumes the task, once.
func (p *pause) end() {
	if !p.over {
		p.over = true
		p.t.resume()
	}
}

// pump finds the tasks whose signals have come. They go on a little later.
func (h *host) pump() {
	h.touched = false
	if !h.up || len(h.waits) == 0 {
		return
	}
	h.waits = slices.DeleteFunc(h.waits, func(p *pause) bool {
		if p.over {
			return true
		}
		if !p.ready() {
			return false
		}
		h.later(h.w.about(wakeTime), p.end)
		return true
	})
}

func (w *world) pumpTouched() {
	for len(w.touched) > 0 {
		hosts := w.touched
		w.touched = nil
		for _, h := range hosts {
			h.pump()
		}
	}
}

// spawn begins a task. It ends with the host's life.
func (h *host) spawn(do func(ctx context.Context)) {
	t := newTask(h, do)
	h.tasks = append(h.tasks, t)
	t.resume()
}

// endTasks ends all tasks, those that others wait for first. What they wait for fails.
func (h *host) endTasks() {
	tasks := h.tasks
	h.tasks, h.waits, h.held, h.stalled = nil, nil, nil, false
	for _, t := range tasks {
		t.over = true
		t.cancel()
	}
	for _, t := range slices.Backward(tasks) {
		t.end()
	}
}

// clock is how code of the host waits.
type clock struct{ h *host }

var _ await.Waiter = clock{}

// Now implements await.Waiter: it never steps.
func (c clock) Now() time.Time { return began().Add(c.h.w.now) }

// Wait implements await.Waiter.
func (c clock) Wait(ctx context.Context, d time.Duration, signal <-chan struct{}) {
	t := c.h.w.current
	if t.over || ctx.Err() != nil || yields(signal) {
		return
	}
	p := &pause{t: t, done: ctx.Done(), signal: signal}
	c.h.waits = append(c.h.waits, p)
	if d >= 0 {
		c.h.later(d, p.end)
	}
	t.wait()
	p.over = true
}

// Within implements await.Waiter.
func (c clock) Within(ctx context.Context, d time.Duration, cause error) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	c.h.later(d, func() {
		cancel(cause)
		c.h.touch()
	})
	return ctx, func() {
		cancel(context.Canceled)
		c.h.touch()
	}
}

// All implements await.Waiter.
func (c clock) All(fns ...func()) {
	left := len(fns)
	ended := make(chan struct{}, 1)
	for _, fn := range fns {
		c.h.later(c.h.w.about(wakeTime), func() {
			c.h.spawn(func(context.Context) {
				fn()
				if left--; left == 0 {
					ended <- struct{}{}
					c.h.touch()
				}
			})
		})
	}
	for t := c.h.w.current; left > 0 && !t.over; {
		c.Wait(context.Background(), await.Forever, ended)
	}
}
