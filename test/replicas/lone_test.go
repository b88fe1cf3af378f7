package replicas

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/drover-fleet/drover/store"
	"github.com/drover-fleet/drover/test/cluster"
)

// TestALoneMemberAnswersNoReadBeforeItHasAllThatItAcknowledged: after a kill its log holds entries that it does not know to be
// committed. It leads at once, for nobody else votes, and must not answer before it has applied them.
func TestALoneMemberAnswersNoReadBeforeItHasAllThatItAcknowledged(t *testing.T) {
	c := cluster.Start(t, 1, cluster.Options{Machine: openMachine})
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	if err := hubOn(t, c.Leader()).Found(ctx); err != nil {
		t.Fatal(err)
	}
	for round := range 10 {
		want := strconv.Itoa(round)
		h := hubOn(t, c.Members["h1"])
		res, err := h.Propose(ctx, &store.Command{Actor: "hub:test", Ops: []store.Op{{Type: store.OpPut, Key: "k", Value: []byte(want)}}})
		if err := errors.Join(err, res.Err); err != nil {
			t.Fatal(err)
		}
		c.Kill("h1")
		h = hubOn(t, c.Up("h1"))
		var readers sync.WaitGroup
		for range 8 {
			readers.Go(func() {
				if err := persist(ctx, h.Barrier); err != nil {
					t.Errorf("round %d: %v", round, err)
					return
				}
				got, err := h.Range(ctx, store.RangeRequest{Start: "k"})
				if err != nil || len(got.KVs) != 1 || string(got.KVs[0].Value) != want {
					t.Errorf("round %d: read %+v, %v, want the acknowledged %s", round, got, err, want)
				}
			})
		}
		readers.Wait()
		if t.Failed() {
			return
		}
	}
}
