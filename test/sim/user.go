package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/drover-fleet/drover/consensus"
	"github.com/drover-fleet/drover/store"
	"github.com/drover-fleet/drover/test/history"
)

const (
	thinking = 4 * time.Second // mean between two operations of a client
	hearing  = 3 * time.Second // for an answer, before the client asks another member
	attempts = 5               // of an operation that may be repeated
	keys     = 6               // that clients work on; few, so that they meet
	sets     = 2
)

// user is a client of the store, with one operation under way, and a watcher.
type user struct {
	w    *world
	id   int
	name string

	serial   uint64 // of its requests: its sequence as a writer
	sequence uint64
	ops      []history.Op
	last     map[string]store.Revision // of keys, as it knows them
	inner    []inner                   // revisions inside sets that it wrote
	heard    time.Duration             // last answer
	watch    *watching
}

// inner is a revision inside a set.
type inner struct {
	set string
	rev store.Revision
}

func newUser(w *world, id int) *user {
	c := &user{w: w, id: id, name: fmt.Sprintf("c%d", id), last: map[string]store.Revision{}}
	c.watch = newWatching(c)
	c.next()
	return c
}

func (c *user) answered(since time.Duration) bool { return c.heard >= since }

func (c *user) streams() []history.Stream { return c.watch.all() }

// next thinks for a while. In the quiet at the end nobody thinks for long, so that silence shows.
func (c *user) next() {
	mean := c.w.usual(thinking)
	if c.w.quiet {
		mean = thinking
	}
	c.w.after(min(c.w.about(mean), settle/3), c.act)
}

// act begins one operation.
func (c *user) act() {
	w := c.w
	c.serial++
	key := fmt.Sprintf("k/%d", w.rng.IntN(keys))
	value := fmt.Sprintf("%s-%d", c.name, c.serial)
	op := history.Op{Client: c.id, Key: key, Value: value, Request: value}
	put := store.Op{Type: store.OpPut, Key: key, Value: []byte(value)}
	switch p := w.rng.Float64(); {
	case p < 0.25:
		op.Kind, op.Value, op.Request = history.Read, "", ""
		c.read(op)
	case p < 0.35:
		c.readSet()
	case p < 0.50:
		op.Kind = history.Put
		c.write(op, store.Command{Ops: []store.Op{put}})
	case p < 0.65:
		op.Kind, op.If = history.CompareAndPut, c.last[key]
		c.write(op, store.Command{If: []store.Precondition{{Key: key, ModRevision: op.If}}, Ops: []store.Op{put}})
	case p < 0.75:
		op.Kind, op.Value = history.Delete, ""
		c.write(op, store.Command{Ops: []store.Op{{Type: store.OpDelete, Key: key}}})
	case p < 0.85:
		c.writeSet()
	default: // without an identity: it is never repeated
		op.Kind, op.Key = history.Put, "blind"
		put.Key = op.Key
		c.send(&request{op: op, cmd: store.Command{Ops: []store.Op{put}}, left: 1})
	}
}

// request is an operation under way.
type request struct {
	op   history.Op
	more []history.Op // of a set: its other keys
	cmd  store.Command
	left int // attempts
	try  int
}

func (c *user) write(op history.Op, cmd store.Command) {
	c.sequence++
	cmd.Writer, cmd.Sequence = c.name, c.sequence
	c.send(&request{op: op, cmd: cmd, left: attempts})
}

func setKeys(set string) []string { return []string{set + "/a", set + "/b", set + "/c"} }

// writeSet gives all keys of a set one value.
func (c *user) writeSet() {
	set := fmt.Sprintf("set/%d", c.w.rng.IntN(sets))
	value := fmt.Sprintf("%s-%d", c.name, c.serial)
	r := &request{left: attempts}
	for _, k := range setKeys(set) {
		r.cmd.Ops = append(r.cmd.Ops, store.Op{Type: store.OpPut, Key: k, Value: []byte(value)})
		r.more = append(r.more, history.Op{Client: c.id, Kind: history.Put, Key: k, Value: value, Request: value})
	}
	r.op, r.more = r.more[0], r.more[1:]
	c.sequence++
	r.cmd.Writer, r.cmd.Sequence = c.name, c.sequence
	c.send(r)
}

// send asks some member, and another one when there is no answer.
func (c *user) send(r *request) {
	if r.op.Call == 0 {
		r.op.Call = c.w.now
		r.cmd.Actor, r.cmd.RequestID = "user:"+c.name, r.op.Request
	}
	r.left--
	r.try++
	try := r.try
	m := c.w.members[c.w.rng.IntN(len(c.w.members))]
	settled := false
	settle := func(res store.Result, err error) {
		if settled || r.try != try {
			return
		}
		settled = true
		c.answer(r, res, err)
	}
	arrived := false
	c.w.net.send(c.name, m.name, func() {
		if !m.up || arrived && r.cmd.Writer == "" {
			return // only who gives an identity may be doubled
		}
		arrived = true
		m.later(0, func() {
			cmd := r.cmd
			m.propose(&cmd, func(res store.Result, err error) {
				c.w.net.send(m.name, c.name, func() { settle(res, err) })
			})
		})
	})
	c.w.after(hearing, func() { settle(store.Result{}, consensus.ErrAmbiguous) })
}

func (c *user) answer(r *request, res store.Result, err error) {
	switch {
	case err == nil:
		c.heard = c.w.now
		c.finish(r, res)
	case r.left > 0 && r.cmd.Writer != "":
		c.w.after(c.w.about(200*time.Millisecond), func() { c.send(r) })
	case errors.Is(err, consensus.ErrNoLeader) && r.try == 1:
		c.record(r, history.Failed, res)
	default:
		c.record(r, history.Unknown, res)
	}
}

// finish takes the word of the store.
func (c *user) finish(r *request, res store.Result) {
	var conflict *store.ConflictError
	switch {
	case errors.As(res.Err, &conflict):
		c.last[r.op.Key] = conflict.Actual
		c.record(r, history.Refused, res)
	case res.Err != nil:
		c.w.fail(history.NoErrors, "client %d: %s of %s was refused: %v", c.id, r.op.Request, r.op.Key, res.Err)
	default:
		c.record(r, history.Done, res)
	}
}

// record ends the operation. A writer that does not know what became of its last command goes on under a new name: a higher
// sequence would turn the old command, should it still come, into a repeat that never was.
func (c *user) record(r *request, o history.Outcome, res store.Result) {
	for i, op := range append([]history.Op{r.op}, r.more...) {
		op.Call, op.Return, op.Outcome = r.op.Call, c.w.now, o
		if o == history.Done && i < len(res.Revisions) {
			op.Revision = res.Revisions[i]
			c.last[op.Key] = op.Revision
			if op.Kind == history.Delete {
				c.last[op.Key] = 0
			}
			if len(r.more) > 0 && i < len(r.more) && op.Revision != 0 {
				c.inner = append(c.inner, inner{op.Key[:len(op.Key)-2], op.Revision})
			}
		}
		c.ops = append(c.ops, op)
	}
	c.next()
}

// ask has a member read, after a barrier if the read is to be linearizable.
func (c *user) ask(linearizable bool, rq store.RangeRequest, done func(m *member, r *store.RangeResult, err error)) {
	m := c.w.members[c.w.rng.IntN(len(c.w.members))]
	settled := false
	settle := func(r *store.RangeResult, err error) {
		if !settled {
			settled = true
			done(m, r, err)
		}
	}
	answer := func() {
		r, err := m.store.Range(context.Background(), rq)
		c.w.net.send(m.name, c.name, func() { settle(r, err) })
	}
	c.w.net.send(c.name, m.name, func() {
		m.later(0, func() {
			if !linearizable {
				answer()
				return
			}
			m.barrier(func(err error) {
				if err != nil {
					c.w.net.send(m.name, c.name, func() { settle(nil, err) })
					return
				}
				answer()
			})
		})
	})
	c.w.after(hearing, func() { settle(nil, consensus.ErrNoLeader) })
}

func (c *user) read(op history.Op) {
	op.Call = c.w.now
	c.ask(true, store.RangeRequest{Start: op.Key}, func(_ *member, r *store.RangeResult, err error) {
		op.Return, op.Outcome = c.w.now, history.Failed
		if err == nil {
			c.heard = c.w.now
			op.Outcome = history.Done
			if len(r.KVs) > 0 {
				op.Value, op.Revision = string(r.KVs[0].Value), r.KVs[0].ModRevision
			}
			c.last[op.Key] = op.Revision
		}
		c.ops = append(c.ops, op)
		c.next()
	})
}

// readSet reads a set as a whole: the newest, or as of a revision, one inside a set where the client knows one.
func (c *user) readSet() {
	set := fmt.Sprintf("set/%d", c.w.rng.IntN(sets))
	rq := store.RangeRequest{}
	linearizable := c.w.chance(0.3)
	if n := len(c.inner); n > 0 && c.w.chance(0.6) {
		in := c.inner[max(n-1-c.w.rng.IntN(4), 0)]
		set, rq.Revision, linearizable = in.set, in.rev, false
	}
	rq.Start, rq.End = set+"/", store.PrefixEnd(set+"/")
	c.ask(linearizable, rq, func(m *member, r *store.RangeResult, err error) {
		defer c.next()
		if err != nil {
			return
		}
		got := history.SetRead{Client: c.id, Member: m.name, Set: set, At: rq.Revision, Got: r.Revision, When: c.w.now}
		for _, k := range setKeys(set) {
			value := ""
			for _, kv := range r.KVs {
				if kv.Key == k {
					value = string(kv.Value)
				}
			}
			got.Values = append(got.Values, value)
		}
		c.w.reads = append(c.w.reads, got)
	})
}
