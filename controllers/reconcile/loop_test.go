package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-fleet/drover/api/fault"
)

// inBubble runs a loop in fake time; delays take their whole ceiling.
func inBubble(t *testing.T, workers int, do Func, body func(l *Loop)) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLoop("test", Deps{Random: func(n int64) int64 { return n - 1 }, Logger: slog.New(slog.DiscardHandler)}, do)
		l.Workers = workers
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- l.Run(ctx) }()
		body(l)
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: got %v, want nil", err)
		}
	})
}

func after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestFailingKeyBacksOffFromFiveMillisecondsToAThousandSeconds(t *testing.T) {
	var at []time.Time
	fail := true
	do := func(context.Context, Request) (Result, error) {
		at = append(at, time.Now())
		if fail {
			return Result{}, errors.New("not yet")
		}
		return Result{}, nil
	}
	inBubble(t, 1, do, func(l *Loop) {
		l.Add(k("a"), "1")
		after(3 * time.Hour)
		gaps := make([]time.Duration, len(at)-1)
		for i := range gaps {
			gaps[i] = at[i+1].Sub(at[i])
		}
		if gaps[0] != 5*time.Millisecond || gaps[1] != 10*time.Millisecond || gaps[len(gaps)-1] != 1000*time.Second {
			t.Errorf("got gaps %v, want 5ms, 10ms ... 1000s", gaps)
		}
		fail = false
		l.Add(k("a"), "2")
		synctest.Wait()
		fail = true
		n := len(at)
		l.Add(k("a"), "3")
		after(5 * time.Millisecond)
		if got := len(at) - n; got != 2 {
			t.Errorf("got %d calls 5 ms after the first failure since a success, want 2", got)
		}
	})
}

func TestRetryAfterIsObeyed(t *testing.T) {
	var calls atomic.Int64
	do := func(context.Context, Request) (Result, error) {
		calls.Add(1)
		return Result{}, fault.SlowDown(time.Minute, "busy")
	}
	inBubble(t, 1, do, func(l *Loop) {
		l.Add(k("a"), "")
		after(59 * time.Second)
		if calls.Load() != 1 {
			t.Errorf("got %d calls before the minute was over, want 1", calls.Load())
		}
		after(2 * time.Second)
		if calls.Load() != 2 {
			t.Errorf("got %d calls after the minute, want 2", calls.Load())
		}
	})
}

func TestOneKeyIsNeverInTwoWorkersAndAllWorkersWork(t *testing.T) {
	var mu sync.Mutex
	busy := map[Key]bool{}
	var now, most atomic.Int64
	do := func(_ context.Context, rq Request) (Result, error) {
		mu.Lock()
		if busy[rq.Key] {
			t.Errorf("%v is in two workers", rq.Key)
		}
		busy[rq.Key] = true
		mu.Unlock()
		most.Store(max(most.Load(), now.Add(1)))
		<-time.After(time.Second)
		now.Add(-1)
		mu.Lock()
		busy[rq.Key] = false
		mu.Unlock()
		return Result{}, nil
	}
	inBubble(t, 3, do, func(l *Loop) {
		for i := range 30 {
			l.Add(k(fmt.Sprint(i%6)), "")
		}
		after(time.Minute)
		if most.Load() != 3 {
			t.Errorf("got at most %d keys at once, want 3", most.Load())
		}
	})
}

func TestRequestCarriesItsCauseThroughFailuresAndDelays(t *testing.T) {
	var causes []string
	do := func(_ context.Context, rq Request) (Result, error) {
		causes = append(causes, rq.Cause)
		switch len(causes) {
		case 1:
			return Result{}, errors.New("not yet")
		case 2:
			return Result{After: time.Hour}, nil
		}
		return Result{}, nil
	}
	inBubble(t, 1, do, func(l *Loop) {
		l.Add(k("a"), "41")
		after(2 * time.Hour)
		if fmt.Sprint(causes) != "[41 41 41]" {
			t.Errorf("got causes %v, want 41 each time", causes)
		}
	})
}
