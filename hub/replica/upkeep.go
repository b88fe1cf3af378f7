package replica

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/drover-fleet/drover/store"
	"github.com/drover-fleet/drover/store/mvcc"
)

// Records of the hub's own by which members take turns in compacting their files.
const turnPrefix = "~turn/"

// turn is one member's record.
type turn struct {
	State string `json:"state"` // wanted, granted
}

const (
	turnWanted  = "wanted"
	turnGranted = "granted"
)

// Upkeep keeps the store within its bounds. Lead runs on the leader: it alone decides what everybody forgets. Follow runs on
// every member and sees to its own file.
type Upkeep struct {
	r      *Replica
	growth Growth
	o      UpkeepOptions
	past   past
	// granted is the turn that was last given away, and when.
	granted   store.Revision
	grantedAt time.Time
}

// UpkeepOptions are paces; zero values are their defaults.
type UpkeepOptions struct {
	Every     time.Duration // between looks; default 10 s
	Pause     time.Duration // between two commands; default 200 ms
	TrimEvery time.Duration // between two plans for a journal within its size; default 1 h
	TurnTime  time.Duration // after which a turn is taken back from a member that does not answer; default 10 min
	Wasted    int64         // bytes of free pages, and at least half of the file, that make a file worth compacting; default 64 MiB
	Logger    *slog.Logger

	Looked    func(task string, err error) // hears of each look at one of UpkeepTasks; must not block
	Compacted func()                       // hears of each compacted file; must not block
}

// NewUpkeep makes the upkeep of one member's store.
func NewUpkeep(r *Replica, g Growth, o UpkeepOptions) (*Upkeep, error) {
	g = g.withDefaults()
	if err := g.validate(); err != nil {
		return nil, err
	}
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&o.Every, 10*time.Second)
	def(&o.Pause, 200*time.Millisecond)
	def(&o.TrimEvery, time.Hour)
	def(&o.TurnTime, 10*time.Minute)
	if o.Wasted == 0 {
		o.Wasted = 64 << 20
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Looked == nil {
		o.Looked = func(string, error) {}
	}
	if o.Compacted == nil {
		o.Compacted = func() {}
	}
	return &Upkeep{r: r, growth: g, o: o}, nil
}

// Lead does the leader's part for one term, until ctx ends. What fails is tried again at the next look: without upkeep the quota
// holds, and says so.
func (u *Upkeep) Lead(ctx context.Context, term uint64) error {
	u.past, u.granted = past{}, 0
	var trimmed time.Time
	for ctx.Err() == nil {
		err := u.lead(ctx, term, &trimmed)
		if ctx.Err() != nil {
			return nil
		}
		u.o.Looked(TaskBounds, err)
		if err != nil {
			u.o.Logger.Error("upkeep of the store failed; it is tried again", "term", term, "err", err, "retry_in", u.o.Every)
		}
		wait(ctx, u.o.Every)
	}
	return nil
}

func (u *Upkeep) lead(ctx context.Context, term uint64, trimmed *time.Time) error {
	now := time.Now() // compared with its like only, so by the monotonic clock
	usage := u.r.Usage()
	if usage.Limits != u.growth.Limits {
		if err := u.propose(ctx, term, &store.Command{Limits: &u.growth.Limits}); err != nil {
			return err
		}
	}
	u.warn(usage)
	u.past.note(now, u.r.Revision(), u.growth.KeepFor)
	if err := u.compact(ctx, term, now); err != nil {
		return err
	}
	if now.Sub(*trimmed) >= u.o.TrimEvery || usage.Journal > u.growth.JournalBytes {
		*trimmed = now
		if err := u.trim(ctx, term); err != nil {
			return err
		}
	}
	return u.grant(ctx, term, now)
}

func (u *Upkeep) warn(usage store.Usage) {
	for _, c := range []struct {
		what string
		used uint64
		q    store.Quota
		full bool
	}{{"contents", usage.Data, usage.Limits.Data, usage.DataFull}, {"events", usage.Events, usage.Limits.Events, usage.EventsFull}} {
		switch {
		case c.full:
			u.o.Logger.Error("the store is full: writes that add are refused", "class", c.what, "used_bytes", c.used, "max_bytes", c.q.Max, "low_bytes", c.q.Low)
		case c.q.Max != 0 && c.used > c.q.Max/10*7:
			u.o.Logger.Warn("the store fills up", "class", c.what, "used_bytes", c.used, "max_bytes", c.q.Max)
		}
	}
}

func (u *Upkeep) compact(ctx context.Context, term uint64, now time.Time) error {
	for ctx.Err() == nil {
		to := planCompaction(u.r.Revision(), u.r.Compacted(), u.past.before(now, u.growth.KeepFor), u.growth.KeepRevisions, u.r.Usage())
		if to == 0 {
			return nil
		}
		before := u.r.Compacted()
		if err := u.propose(ctx, term, &store.Command{Compact: to}); err != nil {
			return err
		}
		if u.r.Compacted() == before {
			return nil // within one set
		}
		wait(ctx, u.o.Pause)
	}
	return nil
}

func (u *Upkeep) trim(ctx context.Context, term uint64) error {
	rule := mvcc.TrimRule{Before: u.r.o.Now().Add(-u.growth.JournalFor).UnixNano(), MaxBytes: u.growth.JournalBytes, Most: trimStep}
	for ctx.Err() == nil {
		trim, err := u.r.PlanTrim(ctx, rule)
		if err != nil || trim == nil {
			return err
		}
		before := u.r.Usage().Journal
		if err := u.propose(ctx, term, &store.Command{Trim: trim}); err != nil {
			return err
		}
		if u.r.Usage().Journal >= before {
			return nil // what it named has come to life again
		}
		wait(ctx, u.o.Pause)
	}
	return nil
}

// grant gives the turn to one member at a time.
func (u *Upkeep) grant(ctx context.Context, term uint64, now time.Time) error {
	got, err := u.r.Range(ctx, store.RangeRequest{Start: turnPrefix, End: store.PrefixEnd(turnPrefix)})
	if err != nil {
		return err
	}
	var next *store.KV
	for i := range got.KVs {
		kv := &got.KVs[i]
		switch t, err := decodeTurn(kv.Value); {
		case err != nil:
			return fmt.Errorf("record %s: %w", kv.Key, err)
		case t.State == turnGranted && u.granted != kv.ModRevision:
			u.granted, u.grantedAt = kv.ModRevision, now // given by a leader before, or just now
			return nil
		case t.State == turnGranted && now.Sub(u.grantedAt) < u.o.TurnTime:
			return nil
		case t.State == turnGranted:
			return u.write(ctx, term, kv, nil)
		case next == nil:
			next = kv
		}
	}
	if next == nil {
		return nil
	}
	return u.write(ctx, term, next, &turn{State: turnGranted})
}

func decodeTurn(b []byte) (t turn, err error) {
	err = json.Unmarshal(b, &t)
	return t, err
}

// Follow keeps this member's own file small: it asks for its turn, and compacts the file when it has it.
func (u *Upkeep) Follow(ctx context.Context) error {
	for ctx.Err() == nil {
		err := u.follow(ctx)
		if ctx.Err() != nil {
			return nil
		}
		u.o.Looked(TaskFile, err)
		if err != nil {
			u.o.Logger.Warn("the state file was not compacted; it is tried again", "err", err, "retry_in", u.o.Every)
		}
		wait(ctx, u.o.Every)
	}
	return nil
}

func (u *Upkeep) follow(ctx context.Context) error {
	key := turnPrefix + u.r.o.Member
	got, err := u.r.Range(ctx, store.RangeRequest{Start: key})
	if err != nil {
		return err
	}
	if len(got.KVs) == 0 {
		wasted, size, err := u.r.Wasted()
		if err != nil || wasted < u.o.Wasted || wasted < size/2 {
			return err
		}
		return u.write(ctx, 0, &store.KV{Key: key}, &turn{State: turnWanted})
	}
	kv := &got.KVs[0]
	t, err := decodeTurn(kv.Value)
	if err != nil || t.State != turnGranted {
		return err
	}
	sizes, err := u.r.CompactFile(ctx)
	if err == nil {
		u.o.Logger.Info("the state file was compacted", "before_bytes", sizes.Before, "after_bytes", sizes.After)
		u.o.Compacted()
	}
	return errors.Join(err, u.write(ctx, 0, kv, nil)) // who failed asks again
}

// write replaces a turn's record, or removes it; one that moved meanwhile is looked at again later.
func (u *Upkeep) write(ctx context.Context, term uint64, kv *store.KV, t *turn) error {
	op := store.Op{Type: store.OpDelete, Key: kv.Key, Note: store.Note{Verb: "compact", Object: "state file of " + kv.Key[len(turnPrefix):]}}
	if t != nil {
		b, err := json.Marshal(t)
		if err != nil {
			return err
		}
		op.Type, op.Value = store.OpPut, b
	}
	err := u.propose(ctx, term, &store.Command{
		If: []store.Precondition{{Key: kv.Key, ModRevision: kv.ModRevision}}, Ops: []store.Op{op}, Cause: store.Cause{Revision: kv.ModRevision},
	})
	var moved *store.ConflictError
	if errors.As(err, &moved) {
		return nil
	}
	return err
}

func (u *Upkeep) propose(ctx context.Context, term uint64, c *store.Command) error {
	c.Actor, c.Term = "hub:"+u.r.o.Member, term
	res, err := u.r.Propose(ctx, c)
	if err != nil {
		return err
	}
	return res.Err
}
