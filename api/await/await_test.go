package await

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestAWaitEndsByWhateverComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signal := make(chan struct{}, 1)
		ctx, cancel := context.WithCancel(t.Context())
		for _, c := range []struct {
			name string
			d    time.Duration
			do   func()
			want time.Duration
		}{
			{"the bound", time.Second, func() {}, time.Second},
			{"a signal", time.Hour, func() { time.AfterFunc(time.Minute, func() { signal <- struct{}{} }) }, time.Minute},
			{"a signal, without a bound", Forever, func() { time.AfterFunc(time.Minute, func() { signal <- struct{}{} }) }, time.Minute},
			{"no time", 0, func() {}, 0},
			{"the end of ctx", Forever, func() { time.AfterFunc(time.Second, cancel) }, time.Second},
		} {
			began := time.Now()
			c.do()
			Runtime{}.Wait(ctx, c.d, signal)
			if got := time.Since(began); got != c.want {
				t.Errorf("%s: waited %v, want %v", c.name, got, c.want)
			}
		}
	})
}

func TestAllReturnsAfterTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		Or(nil).All(func() { time.Sleep(time.Second) }, func() { time.Sleep(time.Minute) }, func() {})
		if got := time.Since(began); got != time.Minute {
			t.Errorf("All returned after %v, want a minute", got)
		}
	})
}

func TestWithinEndsWithItsCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := errors.New("late")
		ctx, cancel := Runtime{}.Within(t.Context(), time.Second, late)
		defer cancel()
		Runtime{}.Wait(ctx, Forever, nil)
		if got := context.Cause(ctx); !errors.Is(got, late) {
			t.Errorf("cause: got %v, want %v", got, late)
		}
	})
}
