package replica

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/retry"
	"github.com/drover-fleet/drover/consensus"
	"github.com/drover-fleet/drover/hub/registry"
	"github.com/drover-fleet/drover/store"
	"github.com/drover-fleet/drover/store/mvcc"
)

// Node is what the replica needs of a consensus node.
type Node interface {
	Propose(ctx context.Context, cmd []byte) (any, error)
	ReadIndex(ctx context.Context) error
	Leadership() (term uint64, leader bool)
	LeadershipChanged() <-chan struct{}
}

var (
	_ Node             = (*consensus.Node)(nil)
	_ registry.Backend = (*Replica)(nil)
)

// Options of a replica. Member must be set.
type Options struct {
	Member string       // this hub member's name
	Slots  int          // commands under way at a time, 1 to 4096; default 1024: more wait
	Retry  retry.Policy // between attempts; default 10 ms to 500 ms, since every attempt waits for a leader by itself
	Random retry.Random // default: the runtime's
	// NoLeader is how long a command that was never on its way waits for a leader; default 5 s. Another member may have one.
	NoLeader time.Duration
	Now      func() time.Time
	Logger   *slog.Logger
	// Proposed, when set, hears of each proposal what it came to (one of Outcomes) and how long that took. It must not block.
	Proposed func(outcome string, took time.Duration)
}

const (
	defaultSlots = 1024
	maxSlots     = 4096
)

// Replica is this member's copy of the state. Reads, watches and journal are the store's own. Safe for concurrent use.
type Replica struct {
	*mvcc.Store
	node Node
	o    Options
	free chan struct{} // one a slot that is idle

	mu   sync.Mutex // guards idle
	idle []*slot    // the last one used is used next: few writers are remembered by the store while few commands are under way
}

// slot is one writer identity with at most one command under way. Raft may reorder two proposals, and a store that has applied a
// writer's higher sequence takes its lower one for a repeat, so commands under way must not share an identity. The identity is of
// this run of the process: sequences of an earlier one are not known.
type slot struct {
	writer   string
	sequence uint64 // of the last command proposed
}

// bootLetters of 5 random bits each tell runs of a process apart. The name is stored with each writer, so it is kept short.
const bootLetters = 13

// take waits for an idle slot.
func (r *Replica) take(ctx context.Context) (*slot, error) {
	select {
	case <-r.free:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	last := len(r.idle) - 1
	s := r.idle[last]
	r.idle = r.idle[:last]
	return s, nil
}

func (r *Replica) release(s *slot) {
	r.mu.Lock()
	r.idle = append(r.idle, s)
	r.mu.Unlock()
	r.free <- struct{}{} // has room for every slot
}

// New makes a replica of a node that drives Machine{s}.
func New(node Node, s *mvcc.Store, o Options) (*Replica, error) {
	if node == nil || s == nil || o.Member == "" || o.Slots < 0 || o.Slots > maxSlots {
		return nil, fmt.Errorf("replica: node, store and member must be set, slots be 0 to %d", maxSlots)
	}
	if o.Slots == 0 {
		o.Slots = defaultSlots
	}
	if o.Retry == (retry.Policy{}) {
		o.Retry = retry.Policy{Base: 10 * time.Millisecond, Max: 500 * time.Millisecond}
	}
	if o.NoLeader == 0 {
		o.NoLeader = 5 * time.Second
	}
	if o.Random == nil {
		o.Random = rand.Int64N
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Proposed == nil {
		o.Proposed = func(string, time.Duration) {}
	}
	r := &Replica{Store: s, node: node, o: o, free: make(chan struct{}, o.Slots)}
	boot := crand.Text()[:bootLetters]
	for i := range o.Slots {
		r.release(&slot{writer: fmt.Sprintf("%s/%s/%d", o.Member, boot, o.Slots-1-i)})
	}
	return r, nil
}

// Barrier waits until this member has applied everything that was acknowledged before the call.
func (r *Replica) Barrier(ctx context.Context) error {
	err := r.node.ReadIndex(ctx)
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fault.Timeout.Errorf("no majority of the hub confirmed the read in time: %w", err)
	}
	return classOf(err)
}

// AtLeast waits until this member's reads show everything up to want. What it holds already takes nobody's word: a member that is cut
// off goes on answering such reads. Errors: Barrier's; store.ErrAhead and store.ErrOtherEpoch when no such revision was acknowledged.
func (r *Replica) AtLeast(ctx context.Context, want store.Revision) error {
	if store.Reached(r.Revision(), want) == nil {
		return nil
	}
	if err := r.Barrier(ctx); err != nil {
		return err
	}
	return store.Reached(r.Revision(), want)
}

// Leadership is the present term, and whether this member leads in it and has applied an entry of it.
func (r *Replica) Leadership() (term uint64, leader bool) { return r.node.Leadership() }

// LeadershipChanged signals that Leadership may answer differently.
func (r *Replica) LeadershipChanged() <-chan struct{} { return r.node.LeadershipChanged() }

// Found gives a fresh store its first epoch, whichever members do so at once. Errors are those of Barrier and Propose; it may be
// repeated.
func (r *Replica) Found(ctx context.Context) error {
	if err := r.Barrier(ctx); err != nil {
		return err
	}
	if r.Epoch().Number != 0 {
		return nil
	}
	res, err := r.Propose(ctx, &store.Command{
		Actor: "hub:" + r.o.Member, NewEpoch: &store.Epoch{Number: 1, ID: uuid.NewString()},
	})
	if err != nil {
		return err
	}
	if res.Err != nil && !errors.Is(res.Err, store.ErrEpochNotHigher) {
		return fault.Internal.Errorf("begin the first epoch: %w", res.Err)
	}
	return nil
}

// Propose has the command ordered and applied, and returns what it came to. An attempt whose outcome is unknown is repeated with the
// same identity until ctx ends; then the error is fault.Timeout when it may still take effect, and fault.Unavailable when it was
// never on its way. Without a leader the latter comes sooner, after Options.NoLeader. A command that comes with a Writer keeps it.
func (r *Replica) Propose(ctx context.Context, c *store.Command) (store.Result, error) {
	began := time.Now()
	res, err := r.propose(ctx, c)
	r.o.Proposed(outcomeOf(&res, err), time.Since(began))
	return res, err
}

func (r *Replica) propose(ctx context.Context, c *store.Command) (store.Result, error) {
	cmd := *c
	if cmd.Level == 0 {
		cmd.Level = store.FormatLevel
	}
	if cmd.RequestID == "" {
		cmd.RequestID = uuid.NewString()
	}
	if cmd.Time == 0 {
		cmd.Time = r.o.Now().UnixNano()
	}
	if cmd.Writer == "" {
		s, err := r.take(ctx)
		if err != nil {
			return store.Result{}, fault.Unavailable.Errorf("nothing was written: too many writes are under way on this member (%w)", err)
		}
		defer r.release(s)
		s.sequence++
		cmd.Writer, cmd.Sequence = s.writer, s.sequence
	}
	b, err := store.EncodeCommand(&cmd)
	if err != nil {
		return store.Result{}, fault.BadRequest.Errorf("command: %w", err)
	}
	return r.send(ctx, b)
}

// send proposes until an outcome is known.
func (r *Replica) send(ctx context.Context, b []byte) (store.Result, error) {
	back := retry.Attempts{Policy: r.o.Retry, Random: r.o.Random}
	mayApply := false
	began := time.Now()
	for {
		v, err := r.node.Propose(ctx, b)
		switch {
		case err == nil:
			res, ok := v.(store.Result)
			if !ok {
				panic(fmt.Sprintf("replica: the machine answered %T", v))
			}
			return res, nil
		case errors.Is(err, consensus.ErrNoLeader):
			if !mayApply && time.Since(began) > r.o.NoLeader {
				return store.Result{}, classOf(err)
			}
		case errors.Is(err, consensus.ErrBusy):
		case errors.Is(err, consensus.ErrAmbiguous):
			mayApply = true
		case ctx.Err() != nil:
			mayApply = true // it was cut off on its way
		default:
			if mayApply {
				return store.Result{}, unknownOutcome(err)
			}
			return store.Result{}, classOf(err)
		}
		if ctx.Err() == nil {
			wait(ctx, back.Failed(err))
		}
		if ctx.Err() != nil {
			if mayApply {
				return store.Result{}, unknownOutcome(err)
			}
			return store.Result{}, classOf(err)
		}
		r.o.Logger.Debug("proposal is sent again", "attempt", back.Failures(), "err", err)
	}
}

func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

func unknownOutcome(err error) error {
	return fault.Timeout.Errorf("the outcome of the write is not known, it may still take effect: read before you repeat it (%w)", err)
}

// classOf gives errors of consensus their class; none of them has written anything.
func classOf(err error) error {
	switch {
	case errors.Is(err, consensus.ErrNoLeader):
		e := fault.NoQuorum(err.Error())
		e.Cause = err
		return e
	case errors.Is(err, consensus.ErrBusy):
		return &fault.Error{Class: fault.TooManyRequests, Message: err.Error(), RetryAfter: time.Second, Cause: err}
	case errors.Is(err, consensus.ErrTooLarge):
		return fault.TooLarge.Wrap(err)
	case errors.Is(err, consensus.ErrAmbiguous), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return fault.Timeout.Wrap(err)
	}
	return fault.Unavailable.Errorf("this member cannot serve: %w", err)
}
