package fleet

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
)

// losses decides which writes are lost.
type losses struct {
	mu  sync.Mutex
	rnd *rand.Rand
	n   int
}

func (l *losses) roll() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.rnd.IntN(10)
	if n < 2 {
		l.n++
	}
	return n
}

func (l *losses) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n
}

// of is a client some of whose writes are refused, and some of whose answers are lost after the write was done.
func (l *losses) of(c client.Client) client.Client { return &lossy{Client: c, losses: l} }

type lossy struct {
	client.Client
	losses *losses
}

func (l *lossy) Transact(ctx context.Context, tx client.Transaction) ([]client.TxResult, error) {
	n := l.losses.roll()
	if n == 0 {
		return nil, fault.Unavailable.Errorf("no quorum")
	}
	res, err := l.Client.Transact(ctx, tx)
	if n == 1 && err == nil {
		return nil, fault.Timeout.Errorf("no outcome in time")
	}
	return res, err
}

func TestBudgetHoldsAcrossLostWritesNewLeadersAndSuccessivePushes(t *testing.T) {
	for seed := range uint64(2) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			bubble(t, 6, func(f *fleet) {
				rnd := rand.New(rand.NewPCG(seed, 5))
				f.started(2)
				before := f.mark()
				var stops []func()
				f.loss = &losses{rnd: rand.New(rand.NewPCG(seed, 6))}
				for term := uint64(2); term < 4; term++ {
					stops = append(stops, f.lead(f.ctx, term)) // the one before is not told
					for range 2 {
						f.push("hello", fmt.Sprint("app:", rnd.IntN(4)))
						f.pass(time.Duration(rnd.IntN(6)) * time.Second)
					}
				}
				f.push("hello", "app:last")
				f.eventually(10*time.Minute, func() string { return f.settled("hello", api.RolloutCompleted) })
				if got := f.mostDown(before); got > 2 || got == 0 {
					t.Errorf("got %d down at once, want at most the budget of 2", got)
				}
				if why := f.runsImage("app:last", 6); why != "" {
					t.Error(why)
				}
				if got := f.loss.count(); got < 10 {
					t.Errorf("got %d lost writes, want at least 10", got)
				}
				for _, stop := range stops {
					stop()
				}
			})
		})
	}
}
