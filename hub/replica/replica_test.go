package replica_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/retry"
	"github.com/drover-fleet/drover/consensus"
	"github.com/drover-fleet/drover/hub/replica"
	"github.com/drover-fleet/drover/store"
	"github.com/drover-fleet/drover/store/mvcc"
)

// wildNode is a log that does to proposals everything a log may: it reorders them, loses them, answers "ambiguous" whether or not
// they were applied, and applies late duplicates.
type wildNode struct {
	m replica.Machine

	mu    sync.Mutex
	rng   *rand.Rand
	index uint64
	term  uint64
	late  [][]byte // copies under way
	fail  error    // not nil: every Propose fails with it
}

func (n *wildNode) apply(cmd []byte) any {
	n.index++
	res, err := n.m.Apply([]consensus.Entry{{Index: n.index, Term: n.term, Commands: [][]byte{cmd}}})
	if err != nil {
		panic(err)
	}
	return res[0][0]
}

func (n *wildNode) Propose(ctx context.Context, cmd []byte) (any, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.fail != nil {
		return nil, n.fail
	}
	for len(n.late) > 0 && n.rng.IntN(2) == 0 {
		i := n.rng.IntN(len(n.late))
		n.apply(n.late[i])
		n.late = append(n.late[:i], n.late[i+1:]...)
	}
	switch n.rng.IntN(6) {
	case 0:
		return nil, consensus.ErrNoLeader
	case 1: // lost for good
		return nil, consensus.ErrAmbiguous
	case 2: // applied, but nobody hears of it
		n.apply(cmd)
		return nil, consensus.ErrAmbiguous
	case 3: // still on its way
		n.late = append(n.late, cmd)
		return nil, consensus.ErrAmbiguous
	case 4: // applied now and once more later
		n.late = append(n.late, cmd)
	}
	return n.apply(cmd), nil
}

func (n *wildNode) ReadIndex(context.Context) error    { return n.fail }
func (n *wildNode) Leadership() (uint64, bool)         { return n.term, true }
func (n *wildNode) LeadershipChanged() <-chan struct{} { return nil }
func (n *wildNode) setFail(err error)                  { n.mu.Lock(); n.fail = err; n.mu.Unlock() }
func fastRetry() retry.Policy                          { return retry.Policy{Base: time.Microsecond, Max: time.Microsecond} }

func withTimeout(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func seed(t *testing.T) uint64 {
	t.Helper()
	s := rand.Uint64()
	if v := os.Getenv("DROVER_SEED"); v != "" {
		var err error
		if s, err = strconv.ParseUint(v, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("DROVER_SEED=%d", s)
	return s
}

func open(t *testing.T, slots int) (*replica.Replica, *wildNode) {
	t.Helper()
	s, err := mvcc.Open(filepath.Join(t.TempDir(), "state"), mvcc.Options{CheckpointBytes: 4 << 10})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	n := &wildNode{m: replica.Machine{Store: s}, rng: rand.New(rand.NewPCG(seed(t), 0)), term: 1}
	r, err := replica.New(n, s, replica.Options{Member: "h1", Slots: slots, Retry: fastRetry()})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Found(withTimeout(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	return r, n
}

func put(key, value string) *store.Command {
	return &store.Command{Actor: "user:test", Ops: []store.Op{{Type: store.OpPut, Key: key, Value: []byte(value)}}}
}

// Creates that must be absent tell a second application apart: it would be refused, and the answer be wrong.
func TestProposalIsAppliedAtMostOnceHoweverTheLogMistreatsIt(t *testing.T) {
	r, n := open(t, 4)
	ctx := withTimeout(t, 60*time.Second)
	const writers, each = 8, 25
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				key := fmt.Sprintf("k/%d/%d", w, i)
				c := put(key, "v")
				c.If = []store.Precondition{{Key: key}}
				res, err := r.Propose(ctx, c)
				if err != nil || res.Err != nil {
					t.Errorf("create %s: %v, %v", key, err, res.Err)
				}
				// Overwritten at once: a late duplicate of the create would bring the old value back.
				if res, err := r.Propose(ctx, put(key, "w")); err != nil || res.Err != nil {
					t.Errorf("update %s: %v, %v", key, err, res.Err)
				}
			}
		})
	}
	wg.Wait()
	n.mu.Lock()
	for _, cmd := range n.late {
		n.apply(cmd)
	}
	n.mu.Unlock()
	res, err := r.Range(ctx, store.RangeRequest{Start: "k/", End: store.PrefixEnd("k/")})
	if err != nil {
		t.Fatal(err)
	}
	if len(res.KVs) != writers*each {
		t.Errorf("keys: got %d, want %d", len(res.KVs), writers*each)
	}
	for _, kv := range res.KVs {
		if string(kv.Value) != "w" || kv.Version != 2 {
			t.Errorf("%s: got value %s at version %d, want w at 2", kv.Key, kv.Value, kv.Version)
		}
	}
}

func TestRetriedProposalGetsItsRevisions(t *testing.T) {
	r, _ := open(t, 1)
	ctx := withTimeout(t, 20*time.Second)
	for i := range 50 {
		res, err := r.Propose(ctx, put("k", strconv.Itoa(i)))
		if err != nil || res.Err != nil {
			t.Fatal(err, res.Err)
		}
		kv, err := r.Range(ctx, store.RangeRequest{Start: "k"})
		if err != nil {
			t.Fatal(err)
		}
		if len(res.Revisions) != 1 || res.Revisions[0] != kv.KVs[0].ModRevision {
			t.Fatalf("write %d: got revisions %v, want [%d]", i, res.Revisions, kv.KVs[0].ModRevision)
		}
	}
}

func TestUnknownOutcomeIsTimeoutAndKnownFailureIsUnavailable(t *testing.T) {
	r, n := open(t, 1)
	for _, tt := range []struct {
		err  error
		want fault.Class
	}{
		{consensus.ErrNoLeader, fault.Unavailable},
		{consensus.ErrAmbiguous, fault.Timeout},
		{consensus.ErrBusy, fault.TooManyRequests},
	} {
		n.setFail(tt.err)
		_, err := r.Propose(withTimeout(t, 20*time.Millisecond), put("k", "v"))
		if !errors.Is(err, tt.want) || !errors.Is(err, tt.err) {
			t.Errorf("proposal that meets %q until its time is up: got class %q (%v), want %q", tt.err, fault.ClassOf(err), err, tt.want)
		}
	}
	for _, end := range []error{consensus.ErrStopped, consensus.ErrRemoved} {
		n.setFail(end)
		if _, err := r.Propose(withTimeout(t, time.Minute), put("k", "v")); !errors.Is(err, fault.Unavailable) {
			t.Errorf("proposal to a node that has ended: got %v, want unavailable at once", err)
		}
	}
	n.setFail(consensus.ErrNoLeader)
	if err := r.Barrier(t.Context()); !errors.Is(err, fault.Unavailable) {
		t.Errorf("barrier without a leader: got %v, want unavailable", err)
	}
	n.setFail(nil)
	if _, err := r.Propose(withTimeout(t, 20*time.Second), put("k", "v")); err != nil {
		t.Errorf("proposal after the trouble: %v", err)
	}
}

func TestWriteToAHubWithoutALeaderIsRefusedLongBeforeItsTimeIsUp(t *testing.T) {
	_, n := open(t, 1)
	r, err := replica.New(n, n.m.Store, replica.Options{Member: "h1", Slots: 1, Retry: fastRetry(), NoLeader: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	n.setFail(consensus.ErrNoLeader)
	ctx := withTimeout(t, time.Minute)
	if _, err := r.Propose(ctx, put("k", "v")); !fault.Is(err, fault.Unavailable) || ctx.Err() != nil {
		t.Errorf("got %v, want unavailable, for nothing was proposed, well within a minute (%v)", err, ctx.Err())
	}
}

func TestFencedCommandIsRefusedInAnotherTerm(t *testing.T) {
	r, n := open(t, 1)
	c := put("k", "v")
	c.Term = 1
	if res, err := r.Propose(withTimeout(t, 20*time.Second), c); err != nil || res.Err != nil {
		t.Fatalf("in its own term: %v, %v", err, res.Err)
	}
	n.mu.Lock()
	n.term = 2
	n.mu.Unlock()
	c = put("k", "w")
	c.Term = 1
	if res, err := r.Propose(withTimeout(t, 20*time.Second), c); err != nil || !errors.Is(res.Err, store.ErrStaleTerm) {
		t.Errorf("in another term: got %v, %v; want %v", err, res.Err, store.ErrStaleTerm)
	}
}

func TestFoundingTwiceKeepsTheFirstEpoch(t *testing.T) {
	r, _ := open(t, 1)
	first := r.Epoch()
	if err := r.Found(withTimeout(t, 20*time.Second)); err != nil {
		t.Fatal(err)
	}
	res, err := r.Propose(withTimeout(t, 20*time.Second), &store.Command{Actor: "hub:h2", NewEpoch: &store.Epoch{Number: 1, ID: "other"}})
	if err != nil || !errors.Is(res.Err, store.ErrEpochNotHigher) {
		t.Errorf("founding by another member: got %v, %v; want %v", err, res.Err, store.ErrEpochNotHigher)
	}
	if got := r.Epoch(); got != first || got.Number != 1 {
		t.Errorf("epoch: got %+v, want %+v", got, first)
	}
}

func TestAReadAtLeastOfARevisionAsksNobodyForWhatIsThere(t *testing.T) {
	r, n := open(t, 4)
	ctx := withTimeout(t, 10*time.Second)
	if res, err := r.Propose(ctx, put("a", "1")); err != nil || res.Err != nil {
		t.Fatal(err, res.Err)
	}
	have := r.Revision()
	if err := r.AtLeast(ctx, have.Next()); !errors.Is(err, store.ErrAhead) {
		t.Errorf("one more than there is: got %v, want %v", err, store.ErrAhead)
	}
	if err := r.AtLeast(ctx, store.MakeRevision(have.Epoch()+1, 0)); !errors.Is(err, store.ErrOtherEpoch) {
		t.Errorf("a later history: got %v, want %v", err, store.ErrOtherEpoch)
	}
	n.setFail(consensus.ErrNoLeader)
	if err := r.AtLeast(ctx, have); err != nil {
		t.Errorf("what is there, without a leader: got %v, want nil", err)
	}
	if err := r.AtLeast(ctx, have.Next()); !fault.Is(err, fault.Unavailable) {
		t.Errorf("more than is there, without a leader: got %v, want unavailable", err)
	}
}
