package replicas

import (
	"context"
	"testing"
	"time"

	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/store"
)

// A write that is under way when its member ends may have reached the others already: nobody may be told that nothing was written.
func TestWriteUnderWayWhenItsMemberEndsHasAnUnknownOutcome(t *testing.T) {
	c := start(t)
	leader := c.Leader()
	m := c.Followers(leader)[0]
	h := hubOn(t, m)
	c.Net.Hold(leader.Addr, m.Addr) // it reaches the leader, and the answer is on its way
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	before := hubOn(t, leader).Revision()
	done := make(chan error, 1)
	go func() {
		_, err := h.Propose(ctx, &store.Command{Actor: "user:test", Ops: []store.Op{{Type: store.OpPut, Key: "k", Value: []byte("v")}}})
		done <- err
	}()
	c.Until("the write is applied elsewhere", func() bool { return hubOn(t, leader).Revision() > before })
	c.Stop(m.Name)
	if err := <-done; !fault.Is(err, fault.Timeout) {
		t.Errorf("got class %q (%v), want %q: the write was applied", fault.ClassOf(err), err, fault.Timeout)
	}
	c.Net.Release(leader.Addr, m.Addr)
}
