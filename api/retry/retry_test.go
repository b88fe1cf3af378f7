package retry

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-fleet/drover/api/fault"
)

func highest(n int64) int64 { return n - 1 }
func lowest(int64) int64    { return 0 }

func TestDelaysDoubleUpToTheCapAndNeverOverflow(t *testing.T) {
	p := Policy{Base: 5 * time.Millisecond, Max: time.Second}
	for failures, want := range map[int]time.Duration{
		0: 5 * time.Millisecond, 1: 5 * time.Millisecond, 2: 10 * time.Millisecond, 3: 20 * time.Millisecond, 8: 640 * time.Millisecond, 9: time.Second, 1 << 30: time.Second,
	} {
		if got := p.Ceiling(failures); got != want {
			t.Errorf("ceiling after %d failures = %v, want %v", failures, got, want)
		}
	}
	huge := Policy{Base: time.Second, Max: math.MaxInt64}
	if got := huge.Ceiling(100); got != math.MaxInt64 {
		t.Errorf("ceiling after 100 failures without a cap = %v, want the cap", got)
	}
	if got := (Policy{}).Ceiling(1000); got != 30*time.Second {
		t.Errorf("default cap = %v, want 30s", got)
	}
	if got := (Policy{Base: time.Minute, Max: time.Second}).Ceiling(1); got != time.Minute {
		t.Errorf("cap below the base: ceiling %v, want the base", got)
	}
}

func TestJitterCoversTheWholeDelay(t *testing.T) {
	p := Policy{Base: 100, Max: 1000}
	if got := p.Delay(3, lowest); got != 1 {
		t.Errorf("least delay = %d, want 1", got)
	}
	if got := p.Delay(3, highest); got != 400 {
		t.Errorf("greatest delay = %d, want 400", got)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		if d := p.Delay(5, r.Int64N); d < 1 || d > 1000 {
			t.Fatalf("delay %d is outside 1 to 1000", d)
		}
	}
}

func TestRetryAfterIsObeyedAboveTheCap(t *testing.T) {
	p := Policy{Base: 10, Max: 100}
	err := fault.SlowDown(time.Minute, "slow down")
	if got := p.DelayAfter(err, 1, highest); got != time.Minute+10 {
		t.Errorf("delay = %v, want a minute and the jitter", got)
	}
	if got := p.DelayAfter(errors.New("x"), 1, highest); got != 10 {
		t.Errorf("delay without Retry-After = %v, want 10", got)
	}
}

func TestSuccessStartsOver(t *testing.T) {
	b := NewBackoff[string](Policy{Base: 10, Max: 1000}, highest)
	b.Failed("a", nil)
	b.Failed("a", nil)
	if got := b.Failed("a", nil); got != 40 || b.Failures("a") != 3 {
		t.Errorf("third delay of a = %v after %d failures, want 40 after 3", got, b.Failures("a"))
	}
	if got := b.Failed("b", nil); got != 10 {
		t.Errorf("first delay of b = %v, want 10: keys are apart", got)
	}
	b.Succeeded("a")
	if got := b.Failed("a", nil); got != 10 {
		t.Errorf("delay of a after success = %v, want 10", got)
	}
	a := Attempts{Policy: Policy{Base: 10, Max: 1000}, Random: highest}
	a.Failed(nil)
	if got := a.Failed(nil); got != 20 || a.Failures() != 2 {
		t.Errorf("second delay = %v, want 20", got)
	}
	a.Succeeded()
	if got := a.Failed(nil); got != 10 {
		t.Errorf("delay after success = %v, want 10", got)
	}
}

func TestDoRepeatsOnlyWhatMayPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, calls := time.Now(), 0
		err := Do(t.Context(), Policy{Base: time.Second, Max: time.Minute}, highest, func(context.Context) error {
			if calls++; calls < 4 {
				return fault.Unavailable.Errorf("away")
			}
			return nil
		})
		if waited := time.Since(start); err != nil || calls != 4 || waited != 7*time.Second {
			t.Errorf("got %v after %d calls and %v; want success after 4 calls and 7s", err, calls, waited)
		}
		calls = 0
		err = Do(t.Context(), Policy{}, highest, func(context.Context) error { calls++; return fault.Invalid.Errorf("no") })
		if !errors.Is(err, fault.Invalid) || calls != 1 {
			t.Errorf("got %v after %d calls, want Invalid after 1", err, calls)
		}
	})
}

func TestDoEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		start := time.Now()
		err := Do(ctx, Policy{Base: time.Hour, Max: time.Hour}, highest, func(context.Context) error { return fault.Unavailable.Errorf("away") })
		if waited := time.Since(start); !errors.Is(err, fault.Unavailable) || waited != 10*time.Second {
			t.Errorf("got %v after %v, want the last error after 10s", err, waited)
		}
		calls := 0
		if err := Do(ctx, Policy{}, highest, func(context.Context) error { calls++; return nil }); !errors.Is(err, context.DeadlineExceeded) || calls != 0 {
			t.Errorf("with an ended context: %v after %d calls, want its error and no call", err, calls)
		}
	})
}
