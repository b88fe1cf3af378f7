package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// readyTime bounds how long all watchers may take to begin.
const readyTime = time.Minute

// maxSamples bounds the latencies kept of one watcher; later events are counted only.
const maxSamples = 4096

// watcher is what one of them saw.
type watcher struct {
	mu     sync.Mutex // guards all below: the session calls from its own goroutine
	events int
	took   []time.Duration
	err    error
}

// watch starts the watchers, then writes beside them.
func (g *generator) watch(ctx context.Context) (Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watchers := make([]watcher, g.spec.Watchers)
	var began, ended sync.WaitGroup
	began.Add(len(watchers))
	for i := range watchers {
		ended.Go(func() { g.watchOne(ctx, i, &watchers[i], began.Done) })
	}
	if err := g.allReady(ctx, &began, watchers); err != nil {
		return Result{}, err
	}
	writers := make([]tally, g.spec.Clients)
	pace := g.pacer(ctx)
	for i := range writers {
		ended.Go(func() { g.client(ctx, i, &writers[i], pace) })
	}
	seconds, cpu := g.phases(ctx)
	cancel()
	ended.Wait()
	return g.delivered(watchers, writers, seconds, cpu)
}

func (g *generator) allReady(ctx context.Context, began *sync.WaitGroup, watchers []watcher) error {
	all := make(chan struct{})
	go func() { began.Wait(); close(all) }()
	limit := time.NewTimer(readyTime)
	defer limit.Stop()
	select {
	case <-all:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-limit.C:
	}
	for i := range watchers {
		watchers[i].mu.Lock()
		err := watchers[i].err
		watchers[i].mu.Unlock()
		if err != nil {
			return fmt.Errorf("watcher %d: %w", i, err)
		}
	}
	return errors.New("not all watchers began in time")
}

func (g *generator) watchOne(ctx context.Context, n int, w *watcher, began func()) {
	c := g.sessions[n%len(g.sessions)]
	key, all := keyOf(n%g.spec.Keys), false
	if g.spec.Op == OpWatchAll {
		key, all = prefix, true
	}
	err := c.Watch(ctx, key, all, sync.OnceFunc(began), func(value []byte) {
		if !g.measured.Load() {
			return
		}
		age, err := g.age(value)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.events++
		if err != nil {
			w.err = err
		} else if len(w.took) < maxSamples {
			w.took = append(w.took, age)
		}
	})
	if err != nil && ctx.Err() == nil {
		w.mu.Lock()
		w.err = err
		w.mu.Unlock()
	}
}

// pacer gives leave at the wanted rate, nil for as fast as can be. Leaves that nobody takes in time are lost, so that a slow
// side is not met by a burst.
func (g *generator) pacer(ctx context.Context) <-chan struct{} {
	if g.spec.Rate <= 0 {
		return nil
	}
	leave := make(chan struct{}, g.spec.Clients)
	go func() {
		const step = 5 * time.Millisecond
		tick := time.NewTicker(step)
		defer tick.Stop()
		due := 0.0
		for last := time.Now(); ; {
			select {
			case now := <-tick.C:
				due += now.Sub(last).Seconds() * g.spec.Rate
				last = now
			case <-ctx.Done():
				return
			}
			for ; due >= 1; due-- {
				select {
				case leave <- struct{}{}:
				default:
				}
			}
		}
	}()
	return leave
}

func (g *generator) delivered(watchers []watcher, writers []tally, seconds, cpu float64) (Result, error) {
	seen := make([]tally, len(watchers))
	events := 0
	for i := range watchers {
		events += watchers[i].events
		seen[i].took = watchers[i].took
		if err := watchers[i].err; err != nil {
			seen[i].errors, seen[i].first = 1, fmt.Errorf("watcher %d: %w", i, err)
		}
	}
	r := summary(seen, seconds, cpu)
	r.Ops = events
	if w := summary(writers, seconds, 0); w.Errors > 0 {
		r.Errors += w.Errors
		r.Error = w.Error
	}
	return r, nil
}
