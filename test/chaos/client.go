package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/hub/kv"
	"github.com/drover-fleet/drover/store"
	"github.com/drover-fleet/drover/test/history"
)

const (
	patience  = 2 * time.Second // for one answer
	attempts  = 8               // of a write that may be repeated
	keys      = 5               // worked on at a time; few, so that clients meet
	keysLast  = 4 * time.Second // then others take their place, which keeps the search for an order short
	sets      = 2
	thinkTime = 20 * time.Millisecond // at most, between two operations of a client
)

// user is a client with one operation under way.
type user struct {
	id   int
	name string
	h    *house
	r    *record
	rng  *rand.Rand

	links    links
	at       int // the member it asks
	serial   int
	writer   int // its present name as a writer: a new one after an outcome that stayed unknown
	sequence uint64
	last     map[string]store.Revision // of keys, as it knows them
	inner    []inner                   // revisions inside sets that it wrote
}

// inner is a revision inside a set.
type inner struct {
	set string
	rev store.Revision
}

func newUser(id int, h *house, r *record, seed uint64) *user {
	return &user{
		id: id, name: fmt.Sprintf("c%d", id), h: h, r: r, rng: rand.New(rand.NewPCG(seed, uint64(id))), //nolint:gosec // small
		links: links{}, last: map[string]store.Revision{},
	}
}

// links are a client's connections, by member.
type links map[int]*kv.Client

func (l links) to(ctx context.Context, h *house, i int) (*kv.Client, error) {
	if c := l[i]; c != nil {
		return c, nil
	}
	c, err := kv.Dial(ctx, h.members[i].api, h.tls)
	if err == nil {
		l[i] = c
	}
	return c, err
}

func (l links) drop(i int) {
	if c := l[i]; c != nil {
		_ = c.Close() // nothing is under way on it
		delete(l, i)
	}
}

func (l links) close() {
	for i := range l {
		l.drop(i)
	}
}

// run works until ctx ends. An operation under way is brought to its end.
func (u *user) run(ctx context.Context) {
	defer u.links.close()
	for ctx.Err() == nil {
		u.act(context.WithoutCancel(ctx))
		wait(ctx, time.Duration(u.rng.Int64N(int64(thinkTime))))
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

// key is one of those that are worked on now.
func (u *user) key() string {
	return fmt.Sprintf("k/%d/%d", u.r.now()/keysLast, u.rng.IntN(keys))
}

func (u *user) act(ctx context.Context) {
	u.serial++
	if u.rng.IntN(50) == 0 {
		u.next()
	}
	key, value := u.key(), fmt.Sprintf("%s-%d", u.name, u.serial)
	op := history.Op{Client: u.id, Key: key, Value: value, Request: value}
	put := store.Op{Type: store.OpPut, Key: key, Value: []byte(value)}
	switch p := u.rng.Float64(); {
	case p < 0.30:
		op.Kind, op.Value, op.Request = history.Read, "", ""
		u.read(ctx, op)
	case p < 0.40:
		u.readSet(ctx)
	case p < 0.55:
		op.Kind = history.Put
		u.write(ctx, true, &store.Command{Ops: []store.Op{put}}, op)
	case p < 0.65: // without an identity: it is never repeated
		op.Kind = history.Put
		u.write(ctx, false, &store.Command{Ops: []store.Op{put}}, op)
	case p < 0.80:
		op.Kind, op.If = history.CompareAndPut, u.last[key]
		u.write(ctx, u.rng.IntN(2) == 0, &store.Command{If: []store.Precondition{{Key: key, ModRevision: op.If}}, Ops: []store.Op{put}}, op)
	case p < 0.90 && u.last[key] != 0: // of a version, so that the history tells whose deletion it was
		op.Kind, op.Value, op.If = history.Delete, "", u.last[key]
		u.write(ctx, true, &store.Command{If: []store.Precondition{{Key: key, ModRevision: op.If}}, Ops: []store.Op{{Type: store.OpDelete, Key: key}}}, op)
	default:
		u.writeSet(ctx, value)
	}
}

func (u *user) next() { u.at = u.rng.IntN(members) }

func setKeys(set string) []string { return []string{set + "/a", set + "/b", set + "/c"} }

// writeSet gives all keys of a set one value.
func (u *user) writeSet(ctx context.Context, value string) {
	set := fmt.Sprintf("set/%d/%d", u.r.now()/keysLast, u.rng.IntN(sets))
	c := &store.Command{}
	var ops []history.Op
	for _, k := range setKeys(set) {
		c.Ops = append(c.Ops, store.Op{Type: store.OpPut, Key: k, Value: []byte(value)})
		ops = append(ops, history.Op{Client: u.id, Kind: history.Put, Key: k, Value: value, Request: value})
	}
	u.write(ctx, true, c, ops...)
}

// write proposes until the outcome is known or patience ends. Only what has an identity is sent again.
func (u *user) write(ctx context.Context, again bool, c *store.Command, ops ...history.Op) {
	c.Actor, c.RequestID = "hub:"+u.name, ops[0].Request
	if again {
		u.sequence++
		c.Writer, c.Sequence = fmt.Sprintf("%s/%d", u.name, u.writer), u.sequence
	}
	call := u.r.now()
	outcome := history.Failed
	var res store.Result
	for n := 0; n == 0 || again && n < attempts; n++ {
		var err error
		res, err = u.propose(ctx, c)
		if err == nil {
			outcome = u.outcome(ops, res)
			break
		}
		if !neverSent(err) {
			outcome = history.Unknown
		}
		u.next()
		wait(ctx, time.Duration(u.rng.Int64N(int64(100*time.Millisecond))))
	}
	if again && outcome == history.Unknown {
		u.writer, u.sequence = u.writer+1, 0
	}
	for i := range ops {
		ops[i].Call, ops[i].Return, ops[i].Outcome = call, u.r.now(), outcome
		if outcome == history.Done && i < len(res.Revisions) {
			u.learn(&ops[i], res.Revisions[i], len(ops) > 1 && i+1 < len(ops))
		}
	}
	u.r.op(ops...)
}

// neverSent tells errors after which nothing can have been written.
func neverSent(err error) bool {
	return fault.Is(err, fault.Unavailable, fault.Unreachable, fault.TooManyRequests)
}

// outcome is the store's word.
func (u *user) outcome(ops []history.Op, res store.Result) history.Outcome {
	var conflict *store.ConflictError
	switch {
	case errors.As(res.Err, &conflict):
		u.last[ops[0].Key] = conflict.Actual
		return history.Refused
	case res.Err != nil:
		u.r.breach(history.NoErrors, "client %d: %s of %s was refused: %v", u.id, ops[0].Request, ops[0].Key, res.Err)
		return history.Failed
	case res.Repeat && len(res.Revisions) == 0:
		return history.Unknown // done, and how is no longer known
	}
	return history.Done
}

func (u *user) learn(op *history.Op, rev store.Revision, inside bool) {
	op.Revision = rev
	u.last[op.Key] = rev
	if op.Kind == history.Delete {
		delete(u.last, op.Key)
	}
	if inside && rev != 0 {
		u.inner = append(u.inner, inner{op.Key[:len(op.Key)-2], rev})
	}
}

func (u *user) propose(ctx context.Context, c *store.Command) (store.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	link, err := u.links.to(ctx, u.h, u.at)
	if err != nil {
		return store.Result{}, err
	}
	res, err := link.Propose(ctx, c)
	if err != nil {
		u.links.drop(u.at)
	}
	return res, err
}

func (u *user) ask(ctx context.Context, rq store.RangeRequest, stale bool) (*store.RangeResult, string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	name := u.h.members[u.at].name
	link, err := u.links.to(ctx, u.h, u.at)
	if err != nil {
		u.next()
		return nil, name, err
	}
	res, err := link.Range(ctx, rq, stale)
	if err != nil && !errors.Is(err, store.ErrCompacted) && !errors.Is(err, store.ErrAhead) {
		u.links.drop(u.at)
		u.next()
	}
	return res, name, err
}

func (u *user) read(ctx context.Context, op history.Op) {
	op.Call = u.r.now()
	res, _, err := u.ask(ctx, store.RangeRequest{Start: op.Key}, false)
	op.Return, op.Outcome = u.r.now(), history.Failed
	if err == nil {
		op.Outcome = history.Done
		delete(u.last, op.Key)
		if len(res.KVs) > 0 {
			op.Value, op.Revision = string(res.KVs[0].Value), res.KVs[0].ModRevision
			u.last[op.Key] = op.Revision
		}
	}
	u.r.op(op)
}

// readSet reads a set as a whole: the newest, or as of a revision, one inside a set where the client knows one.
func (u *user) readSet(ctx context.Context) {
	set := fmt.Sprintf("set/%d/%d", u.r.now()/keysLast, u.rng.IntN(sets))
	rq := store.RangeRequest{}
	stale := u.rng.IntN(2) == 0
	if n := len(u.inner); n > 0 && u.rng.IntN(2) == 0 {
		in := u.inner[max(n-1-u.rng.IntN(4), 0)]
		set, rq.Revision, stale = in.set, in.rev, true
	}
	rq.Start, rq.End = set+"/", store.PrefixEnd(set+"/")
	res, name, err := u.ask(ctx, rq, stale)
	if err != nil {
		return
	}
	got := history.SetRead{Client: u.id, Member: name, Set: set, At: rq.Revision, Got: res.Revision, When: u.r.now()}
	for _, k := range setKeys(set) {
		value := ""
		for _, kv := range res.KVs {
			if kv.Key == k {
				value = string(kv.Value)
			}
		}
		got.Values = append(got.Values, value)
	}
	u.r.set(got)
}

// probe looks now and then at how far one member has come, and records it when it was one life all along.
func probe(ctx context.Context, h *house, r *record, i int) {
	l := links{}
	defer l.close()
	for ctx.Err() == nil {
		life := h.members[i].lives()
		if rev, err := l.revision(ctx, h, i, true); err == nil && life != 0 && h.members[i].lives() == life {
			r.saw(history.Sighting{Member: h.members[i].name, Life: life, Revision: rev})
		}
		wait(ctx, 100*time.Millisecond)
	}
}

// revision is the newest that a member has; not stale: after everything that was acknowledged before.
func (l links) revision(ctx context.Context, h *house, i int, stale bool) (store.Revision, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	link, err := l.to(ctx, h, i)
	if err != nil {
		return 0, err
	}
	res, err := link.Range(ctx, store.RangeRequest{Start: "~none"}, stale)
	if err != nil {
		l.drop(i)
		return 0, err
	}
	return res.Revision, nil
}
