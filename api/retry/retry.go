package retry

import (
	"context"
	"sync"
	"time"

	"github.com/drover-fleet/drover/api/fault"
)

// Random returns a number from 0 up to, not including, n; n is at least 1. math/rand/v2's Int64N fits. It is called from
// the goroutine that asks for a delay.
type Random func(n int64) int64

// Policy bounds the delays between attempts.
type Policy struct {
	Base time.Duration // ceiling of the first delay; default 100 ms
	Max  time.Duration // ceiling of every delay; default 30 s
}

func (p Policy) withDefaults() Policy {
	if p.Base <= 0 {
		p.Base = 100 * time.Millisecond
	}
	if p.Max <= 0 {
		p.Max = 30 * time.Second
	}
	p.Max = max(p.Max, p.Base)
	return p
}

// Ceiling is the longest delay after so many failures in a row: Base, 2·Base, 4·Base, ... up to Max.
func (p Policy) Ceiling(failures int) time.Duration {
	p = p.withDefaults()
	d := p.Base
	for i := 1; i < failures && d < p.Max; i++ {
		if d > p.Max/2 {
			return p.Max
		}
		d *= 2
	}
	return min(d, p.Max)
}

// Delay is the wait after so many failures in a row: evenly spread from 1 ns to the ceiling (full jitter).
func (p Policy) Delay(failures int, random Random) time.Duration {
	return 1 + time.Duration(random(int64(p.Ceiling(failures))))
}

// DelayAfter is Delay, but never less than what err asks for by Retry-After. The jitter is added on top of that, so that
// all who were told the same do not come back together; a Retry-After above Max is obeyed.
func (p Policy) DelayAfter(err error, failures int, random Random) time.Duration {
	return fault.RetryAfter(err) + p.Delay(failures, random)
}

// Attempts is the back-off of one thing. Not safe for concurrent use.
type Attempts struct {
	Policy   Policy
	Random   Random
	failures int
}

// Failed counts a failure and returns how long to wait.
func (a *Attempts) Failed(err error) time.Duration {
	a.failures++
	return a.Policy.DelayAfter(err, a.failures, a.Random)
}

// Succeeded forgets the failures.
func (a *Attempts) Succeeded() { a.failures = 0 }

// Failures is the number of failures in a row.
func (a *Attempts) Failures() int { return a.failures }

// Backoff is the back-off of many things by key. Safe for concurrent use. Keys that succeed are forgotten, so memory is
// bounded by what is failing.
type Backoff[K comparable] struct {
	policy Policy

	mu       sync.Mutex
	random   Random // called with mu held
	failures map[K]int
}

// NewBackoff makes a Backoff.
func NewBackoff[K comparable](p Policy, random Random) *Backoff[K] {
	return &Backoff[K]{policy: p, random: random, failures: map[K]int{}}
}

// Failed counts a failure of key and returns how long to wait.
func (b *Backoff[K]) Failed(key K, err error) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures[key]++
	return b.policy.DelayAfter(err, b.failures[key], b.random)
}

// Succeeded forgets key.
func (b *Backoff[K]) Succeeded(key K) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.failures, key)
}

// Failures is the number of failures of key in a row.
func (b *Backoff[K]) Failures(key K) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failures[key]
}

// Do calls fn until it succeeds, until it fails with an error that is not [fault.Retryable], or until ctx ends. It then
// returns fn's last error, or ctx's when fn was never called. fn must be safe to repeat.
func Do(ctx context.Context, p Policy, random Random, fn func(context.Context) error) error {
	a := Attempts{Policy: p, Random: random}
	err := ctx.Err()
	for ctx.Err() == nil {
		if err = fn(ctx); err == nil || !fault.Retryable(err) {
			return err
		}
		if !wait(ctx, a.Failed(err)) {
			return err
		}
	}
	return err
}

// wait reports whether d passed before ctx ended.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
