package replicas

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/drover-fleet/drover/consensus"
	"github.com/drover-fleet/drover/store"
	"github.com/drover-fleet/drover/test/cluster"
)

// TestAWatchDoesNotGoBackWhenItsMemberWasCutOffAndIsGivenASnapshot follows a watch on a member that is cut off for so long that it
// is given the state anew. The watch goes on or ends and is resumed where it ended, at that member; either way each write comes
// once and in order.
func TestAWatchDoesNotGoBackWhenItsMemberWasCutOffAndIsGivenASnapshot(t *testing.T) {
	c := cluster.Start(t, 3, cluster.Options{Machine: openMachine, Tune: func(cfg *consensus.Config) {
		cfg.KeepEntries, cfg.KeepBytes, cfg.CompactInterval = 10, 64<<10, 1
	}})
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	leader := c.Leader()
	l := hubOn(t, leader)
	if err := l.Found(ctx); err != nil {
		t.Fatal(err)
	}
	m := c.Followers(leader)[0]
	h := hubOn(t, m)
	if err := h.Barrier(ctx); err != nil {
		t.Fatal(err)
	}
	written := 0
	write := func(n int) {
		t.Helper()
		for range n {
			written++
			res, err := l.Propose(ctx, &store.Command{
				Actor: "hub:test", Ops: []store.Op{{Type: store.OpPut, Key: "k", Value: fmt.Appendf(make([]byte, 2000), "%d", written)}},
			})
			if err := errors.Join(err, res.Err); err != nil {
				t.Fatal(err)
			}
		}
	}
	from := h.Revision() + 1
	rq := store.WatchRequest{Start: "k", From: from, Progress: true}
	w, err := h.Replica.Watch(ctx, rq)
	if err != nil {
		t.Fatal(err)
	}
	write(20)
	for _, r := range c.Members { // what the log lets go must be in the file
		if err := r.Machine.(machine).Store.Checkpoint(); err != nil {
			t.Fatal(err)
		}
	}
	c.Net.Isolate(m.Addr, c.Addrs(m.Name)...)
	applied := m.Node.Status().Applied
	write(100)
	for _, r := range c.Followers(m) {
		if err := r.Machine.(machine).Store.Checkpoint(); err != nil {
			t.Fatal(err)
		}
	}
	write(20)
	c.Until("the log has gone on without it", func() bool {
		s := leader.Node.Status()
		return s.Last-s.Entries > applied
	})
	c.Net.MendAll()
	ends := 0
	for reached := from - 1; reached < l.Revision(); {
		b, err := w.Next(ctx)
		switch {
		case err == nil && len(b.Events) == 0:
			if b.Revision > reached {
				t.Fatalf("got a mark of revision %d after %d", b.Revision, reached)
			}
		case err == nil:
			if b.Events[0].KV.ModRevision != reached+1 {
				t.Fatalf("got revision %d after %d, want the next", b.Events[0].KV.ModRevision, reached)
			}
			reached = b.Revision
		case ctx.Err() != nil || ends > 10:
			t.Fatalf("at revision %d of %d, after %d ends: %v", reached, l.Revision(), ends, err)
		default:
			ends++
			rq.From = reached + 1
			if w, err = h.Replica.Watch(ctx, rq); err != nil {
				t.Fatalf("resuming at %d: %v", rq.From, err)
			}
		}
	}
	w.Close()
	if ends == 0 {
		t.Error("the watch never ended, want it to: its member was given the state anew")
	}
	c.WaitEqual()
}
