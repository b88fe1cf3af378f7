package reconcile

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/drover-fleet/drover/api/await"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/retry"
)

// Result asks for another look.
type Result struct {
	// After is how long until the key is looked at again though nothing woke it; 0 = only when something does.
	After time.Duration
}

// Func brings the world one step closer to what is declared for the key. It decides from what it observes and may be
// called at any time, any number of times.
type Func func(ctx context.Context, rq Request) (Result, error)

// Loop is one controller: a queue and its workers.
type Loop struct {
	Name    string
	Workers int          // default 1
	Backoff retry.Policy // default 5 ms to 1000 s
	Do      Func
	Random  retry.Random
	Logger  *slog.Logger
	Waiter  await.Waiter

	mu      sync.Mutex
	queue   *queue
	wake    chan struct{}       // one slot: something changed that a sleeping worker should see
	failing *retry.Backoff[Key] // made by the first step, so that Backoff may be set before
}

// NewLoop makes a loop that starts with Run. Keys may be added before.
func NewLoop(name string, d Deps, do Func) *Loop {
	return &Loop{
		Name: name, Workers: 1, Backoff: retry.Policy{Base: 5 * time.Millisecond, Max: 1000 * time.Second},
		Do: do, Random: d.Random, Logger: d.Logger.With("controller", name), Waiter: await.Or(d.Waiter),
		queue: newQueue(), wake: make(chan struct{}, 1),
	}
}

// Add wakes a key; cause is the revision of what did it.
func (l *Loop) Add(key Key, cause string) {
	l.mu.Lock()
	l.queue.add(key, cause)
	l.mu.Unlock()
	l.signal()
}

// AddAfter wakes a key later.
func (l *Loop) AddAfter(key Key, cause string, d time.Duration) {
	l.mu.Lock()
	l.queue.addAt(key, cause, l.Waiter.Now().Add(d))
	l.mu.Unlock()
	l.signal()
}

func (l *Loop) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Run works until ctx ends; it has joined its workers when it returns.
func (l *Loop) Run(ctx context.Context) error {
	workers := make([]func(), max(l.Workers, 1))
	for i := range workers {
		workers[i] = func() {
			for ctx.Err() == nil {
				if worked, next := l.Step(ctx); !worked {
					l.Waiter.Wait(ctx, next, l.wake)
				}
			}
		}
	}
	l.Waiter.All(workers...)
	return nil
}

// Step takes the next key that is due and calls Do for it. When none is, next is how long until one will be, unless something
// wakes one sooner; await.Forever when none waits.
func (l *Loop) Step(ctx context.Context) (worked bool, next time.Duration) {
	rq, ok, next := l.take()
	if ok {
		l.work(ctx, rq)
	}
	return ok, next
}

func (l *Loop) take() (rq Request, ok bool, next time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failing == nil {
		l.failing = retry.NewBackoff[Key](l.Backoff, l.Random)
	}
	now := l.Waiter.Now()
	if rq, ok = l.queue.take(now); ok {
		if len(l.queue.waiting) > 0 {
			l.signal() // the slot held one wake for several keys
		}
		return rq, true, 0
	}
	if due, later := l.queue.next(); later {
		return rq, false, max(due.Sub(now), 0)
	}
	return rq, false, await.Forever
}

// work calls Do once. A failed request comes back with its cause, unless a newer one woke the key.
func (l *Loop) work(ctx context.Context, rq Request) {
	res, err := l.Do(ctx, rq)
	var again time.Duration
	switch {
	case ctx.Err() != nil:
	case err != nil:
		again = l.failing.Failed(rq.Key, err)
		l.report(rq, again, err)
	default:
		l.failing.Succeeded(rq.Key)
		again = res.After
	}
	l.mu.Lock()
	l.queue.done(rq.Key)
	if again > 0 {
		l.queue.addAt(rq.Key, rq.Cause, l.Waiter.Now().Add(again))
	}
	l.mu.Unlock()
	l.signal()
}

// report logs a failure. Lost races are the usual business of optimistic writes.
func (l *Loop) report(rq Request, again time.Duration, err error) {
	level := slog.LevelWarn
	if fault.Is(err, fault.Conflict, fault.AlreadyExists, fault.NotFound) {
		level = slog.LevelDebug
	}
	l.Logger.Log(context.Background(), level, "reconcile: will try again", "key", rq.Key.String(), "delay", again, "err", err)
}
