package mvcc

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"

	"github.com/drover-fleet/drover/store"
)

// model is the store as one would write it on a page: lists, searched from one end to the other.
type model struct {
	epoch          store.Epoch
	rev, compacted store.Revision
	changes        []modelChange // of all time
	records        []store.Record
	writers        map[string]modelWriter
}

type modelChange struct {
	first, last store.Revision // of its set
	event       store.Event
}

type modelWriter struct {
	sequence uint64
	result   store.Result
}

func newModel() *model { return &model{writers: map[string]modelWriter{}} }

func (m *model) apply(c *store.Command, term uint64) store.Result {
	if c == nil {
		return store.Result{Revision: m.rev, Err: store.ErrBadCommand}
	}
	if w, ok := m.writers[c.Writer]; ok && c.Sequence <= w.sequence {
		if c.Sequence < w.sequence {
			return store.Result{Revision: m.rev, Repeat: true}
		}
		r := w.result
		r.Repeat = true
		return r
	}
	if c.Term != 0 && c.Term != term {
		return store.Result{Revision: m.rev, Err: store.ErrStaleTerm}
	}
	var r store.Result
	switch {
	case c.NewEpoch != nil:
		if c.NewEpoch.Number <= m.epoch.Number {
			r.Err = store.ErrEpochNotHigher
			break
		}
		m.epoch, m.rev = *c.NewEpoch, store.MakeRevision(c.NewEpoch.Number, 0)
		m.compacted = m.rev
	case m.epoch.Number == 0:
		r.Err = store.ErrNoEpoch
	case c.Compact != 0:
		r.Err = m.compact(c.Compact)
	default:
		r = m.write(c)
	}
	r.Revision = m.rev
	var conflict *store.ConflictError
	if c.Writer != "" && (r.Err == nil || errors.As(r.Err, &conflict)) {
		m.writers[c.Writer] = modelWriter{c.Sequence, r}
	}
	return r
}

func (m *model) compact(to store.Revision) error {
	if to > m.rev {
		return store.ErrAhead
	}
	for _, ch := range m.changes {
		if ch.first <= to && to < ch.last {
			to = ch.first - 1
		}
	}
	m.compacted = max(m.compacted, to)
	return nil
}

func (m *model) write(c *store.Command) store.Result {
	state := m.at(m.rev)
	for _, p := range c.If {
		kv, ok := state[p.Key]
		if p.Exists && ok || !p.Exists && kv.ModRevision == p.ModRevision {
			continue
		}
		want := p.ModRevision
		if p.Exists {
			want = 0
		}
		return store.Result{Err: &store.ConflictError{Key: p.Key, Want: want, Actual: kv.ModRevision}}
	}
	r := store.Result{Revisions: make([]store.Revision, len(c.Ops))}
	first := m.rev + 1
	begin := len(m.changes)
	for i, op := range c.Ops {
		old, live := state[op.Key]
		if op.Type == store.OpDelete && !live || op.Type == store.OpPut && live && string(old.Value) == string(op.Value) {
			continue
		}
		m.rev++
		r.Revisions[i] = m.rev
		e := store.Event{Type: op.Type, KV: store.KV{Key: op.Key, ModRevision: m.rev}}
		if live {
			prev := old
			e.Prev = &prev
		}
		if op.Type == store.OpPut {
			e.KV.Value, e.KV.CreateRevision, e.KV.Version = op.Value, m.rev, 1
			if live {
				e.KV.CreateRevision, e.KV.Version = old.CreateRevision, old.Version+1
			}
			state[op.Key] = e.KV
		} else {
			delete(state, op.Key)
		}
		m.changes = append(m.changes, modelChange{first: first, event: e})
		m.records = append(m.records, store.Record{
			Revision: m.rev, Time: c.Time, Actor: c.Actor, RequestID: c.RequestID, Cause: c.Cause,
			Type: op.Type, Key: op.Key, Note: op.Note,
		})
	}
	for i := begin; i < len(m.changes); i++ {
		m.changes[i].last = m.rev
	}
	return r
}

// at is the state at a revision.
func (m *model) at(r store.Revision) map[string]store.KV {
	state := map[string]store.KV{}
	for _, ch := range m.changes {
		switch {
		case ch.event.KV.ModRevision > r:
		case ch.event.Type == store.OpDelete:
			delete(state, ch.event.KV.Key)
		default:
			state[ch.event.KV.Key] = ch.event.KV
		}
	}
	return state
}

// read is Range.
func (m *model) read(r store.RangeRequest) (*store.RangeResult, error) {
	at := r.Revision
	switch {
	case at == 0:
		at = m.rev
	case at.Epoch() != m.epoch.Number:
		return nil, store.ErrOtherEpoch
	case at > m.rev:
		return nil, store.ErrAhead
	case at < m.compacted:
		return nil, store.ErrCompacted
	}
	for _, ch := range m.changes {
		if ch.first <= at && at < ch.last {
			at = ch.last
		}
	}
	out := &store.RangeResult{Revision: at}
	for key, kv := range m.at(at) {
		if key >= r.Start && key < r.End || r.End == "" && key == r.Start {
			out.KVs = append(out.KVs, kv)
		}
	}
	sort.Slice(out.KVs, func(i, j int) bool { return out.KVs[i].Key < out.KVs[j].Key })
	out.Count = len(out.KVs)
	if r.Limit > 0 && r.Limit < out.Count {
		out.KVs, out.More = out.KVs[:r.Limit], true
	}
	return out, nil
}

// watch is everything that a watcher from a revision has been due so far.
func (m *model) watch(from store.Revision, start, end string) []store.Batch {
	var out []store.Batch
	for _, ch := range m.changes {
		if key := ch.event.KV.Key; ch.last < from || ch.last.Epoch() != from.Epoch() || key < start || key >= end {
			continue
		}
		if n := len(out); n > 0 && out[n-1].Revision == ch.last {
			out[n-1].Events = append(out[n-1].Events, ch.event)
			continue
		}
		out = append(out, store.Batch{Revision: ch.last, Events: []store.Event{ch.event}})
	}
	return out
}

// where filters the journal.
func (m *model) where(keep func(store.Record) bool) []store.Record {
	var out []store.Record
	for _, r := range m.records {
		if keep(r) {
			out = append(out, r)
		}
	}
	return out
}

// generated is one command as it goes into the log; command is nil if the bytes are none.
type generated struct {
	command *store.Command
	raw     []byte
}

// entryFor makes the entry of one index from the seed and the model alone, so that any process makes the same.
func entryFor(seed, index uint64, m *model) (Entry, []generated) {
	rng := rand.New(rand.NewPCG(seed, index))
	e := Entry{Index: index, Term: 1 + index/50}
	if index == 1 {
		g := encoded(&store.Command{NewEpoch: &store.Epoch{Number: 1, ID: fmt.Sprint("epoch ", seed)}}, index, 0)
		e.Commands = [][]byte{g.raw}
		return e, []generated{g}
	}
	var all []generated
	for i := range rng.IntN(4) {
		g := generateCommand(rng, m, index, i, e.Term)
		all = append(all, g)
		e.Commands = append(e.Commands, g.raw)
	}
	return e, all
}

func encoded(c *store.Command, index uint64, i int) generated {
	c.Level, c.Actor, c.Time = store.FormatLevel, "user:test", int64(index) //nolint:gosec // small
	if c.RequestID == "" {
		c.RequestID = fmt.Sprintf("request-%d-%d", index, i)
	}
	raw, err := store.EncodeCommand(c)
	if err != nil {
		panic(err)
	}
	return generated{c, raw}
}

func generateCommand(rng *rand.Rand, m *model, index uint64, i int, term uint64) generated {
	c := &store.Command{}
	if rng.IntN(3) == 0 {
		c.Writer = fmt.Sprintf("writer-%d", rng.IntN(4))
		// Mostly the next, now and then a repeat or one from long ago.
		c.Sequence = uint64(max(1, int(m.writers[c.Writer].sequence)+1-rng.IntN(3)*rng.IntN(2))) //nolint:gosec // small
	}
	if rng.IntN(8) == 0 {
		c.Term = term - uint64(rng.IntN(2)) //nolint:gosec // 0 or 1
	}
	if rng.IntN(3) == 0 && m.rev.Counter() > 0 {
		c.Cause.Revision = m.rev - store.Revision(rng.Uint64N(min(m.rev.Counter(), 8)))
	}
	if rng.IntN(10) == 0 {
		c.RequestID = fmt.Sprintf("request-shared-%d", rng.IntN(5))
	}
	switch n := rng.IntN(100); {
	case n == 0:
		return generated{nil, []byte("no command")}
	case n < 4:
		c.Compact = m.rev + 1 - store.Revision(rng.Uint64N(min(m.rev.Counter()+1, 40)))
	case n == 5 && rng.IntN(3) == 0:
		c.NewEpoch = &store.Epoch{Number: m.epoch.Number + uint32(rng.IntN(2)), ID: fmt.Sprint("epoch of ", index)} //nolint:gosec // 0 or 1
		c.NewEpoch.Number = max(c.NewEpoch.Number, 1)
	default:
		generateOps(rng, m, c)
	}
	return encoded(c, index, i)
}

func generateOps(rng *rand.Rand, m *model, c *store.Command) {
	state := m.at(m.rev)
	for range rng.IntN(3) * rng.IntN(2) {
		key := randomKey(rng)
		p := store.Precondition{Key: key, ModRevision: state[key].ModRevision}
		if rng.IntN(4) == 0 {
			p.ModRevision++
		}
		if rng.IntN(4) == 0 {
			p.Exists, p.ModRevision = true, 0
		}
		c.If = append(c.If, p)
	}
	for range rng.IntN(6) {
		op := store.Op{Type: store.OpDelete, Key: randomKey(rng), Note: store.Note{Verb: "do", Diff: []byte{1, 2}}}
		if rng.IntN(3) > 0 {
			op.Type = store.OpPut
			op.Value = slices.Repeat([]byte{byte('a' + rng.IntN(3))}, rng.IntN(40))
		}
		c.Ops = append(c.Ops, op)
	}
}

func randomKey(rng *rand.Rand) string { return fmt.Sprintf("%c/%d", 'a'+rng.IntN(3), rng.IntN(6)) }
