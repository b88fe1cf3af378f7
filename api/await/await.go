// Package await is how code that runs for long waits: for a time, for a signal, for what it runs beside itself.
//
// In a process it is [Runtime]: the runtime's clock and goroutines, which a synctest bubble replaces. A simulator gives a [Waiter]
// of its own, under which the same code goes on only when one seeded queue says so; such code must wait by nothing else, and must
// hold no lock while it waits.
//
// It promises no order among functions that run at once, nor fairness among those that wait for one signal.
package await

import (
	"context"
	"sync"
	"time"
)

// Forever is no bound to a wait.
const Forever time.Duration = -1

// Waiter is how to wait. Safe for concurrent use.
type Waiter interface {
	// Now is a clock that never steps. Only differences of its times mean anything.
	Now() time.Time
	// Wait blocks until signal yields (nil never does), until d has passed (Forever never does), or until ctx has ended. Which of
	// them it was the caller finds out; a value of signal is taken at most once.
	Wait(ctx context.Context, d time.Duration, signal <-chan struct{})
	// Within is ctx for at most d by Now's clock, with the cause of the end if it is that.
	Within(ctx context.Context, d time.Duration, cause error) (context.Context, context.CancelFunc)
	// All runs the functions at once and returns when all of them have returned.
	All(fns ...func())
}

// Runtime waits by the runtime's clock.
type Runtime struct{}

// Or is w, or Runtime when there is none.
func Or(w Waiter) Waiter {
	if w == nil {
		return Runtime{}
	}
	return w
}

// Now implements Waiter.
func (Runtime) Now() time.Time { return time.Now() }

// Wait implements Waiter.
func (Runtime) Wait(ctx context.Context, d time.Duration, signal <-chan struct{}) {
	var timer <-chan time.Time
	if d >= 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-signal:
	case <-timer:
	case <-ctx.Done():
	}
}

// Within implements Waiter.
func (Runtime) Within(ctx context.Context, d time.Duration, cause error) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d, cause)
}

// All implements Waiter.
func (Runtime) All(fns ...func()) {
	var wg sync.WaitGroup
	for _, fn := range fns {
		wg.Go(fn)
	}
	wg.Wait()
}
