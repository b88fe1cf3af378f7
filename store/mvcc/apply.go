package mvcc

import (
	"errors"
	"fmt"

	"github.com/drover-fleet/drover/store"
)

// Entry is one entry of the log. Entries without commands (no-ops, membership) are applied too: they carry the index on.
type Entry struct {
	Index, Term uint64
	Commands    [][]byte // encoded store.Command
}

// Apply applies entries in order, in memory: the log is what makes them last until the next checkpoint, so it must be kept
// from [Store.Synced] on. The first entry follows the applied index; only a store that has applied nothing takes up the log
// anywhere. Element [i][j] answers entries[i].Commands[j].
//
// An error means that nothing was applied: the disk failed, now or at a checkpoint before, or the entries do not follow.
func (s *Store) Apply(entries []Entry) ([][]store.Result, error) {
	if len(entries) == 0 {
		return nil, nil
	}
	s.applyMu.Lock()
	defer s.applyMu.Unlock()
	results, published, err := s.apply(entries)
	if err != nil {
		s.writers = nil // it may hold what was not applied
		return nil, fmt.Errorf("apply entries %d to %d: %w", entries[0].Index, entries[len(entries)-1].Index, err)
	}
	for _, p := range published {
		if p.otherEpoch {
			s.hub.Reset(p.batch.Revision, store.ErrOtherEpoch)
		} else {
			s.hub.Publish(p.batch)
		}
	}
	s.checkpointIfDue()
	return results, nil
}

func (s *Store) apply(entries []Entry) ([][]store.Result, []publication, error) {
	at, err := s.begin()
	if err != nil {
		return nil, nil, err
	}
	defer at.close()
	if s.failed != nil {
		return nil, nil, s.failed
	}
	if s.writers == nil {
		if s.writers, err = loadWriters(at.view(bucketWriter)); err != nil {
			return nil, nil, err
		}
	}
	t := newTransaction(at, s.writers)
	results, err := t.run(entries)
	if err != nil {
		return nil, nil, err
	}
	t.saveWriters()
	s.show(&t.state, t.hashes)
	return results, t.published, nil
}

// publication is what watchers learn of one command: its batch, or that the epoch is another.
type publication struct {
	batch      store.Batch
	otherEpoch bool
}

// transaction is the state in the making while entries are applied. Its copy of the state becomes the store's once all are.
type transaction struct {
	state
	at        *reading
	hasher    *pairHasher
	writers   *writerTable
	published []publication
	hashes    []IndexHash
}

func newTransaction(at *reading, writers *writerTable) *transaction {
	t := &transaction{state: *at.now, at: at, hasher: newPairHasher(), writers: writers}
	t.keys, t.fresh = t.keys.Clone(), t.fresh.clone()
	return t
}

// view reads a bucket as the transaction has made it so far.
func (t *transaction) view(b bucket) view {
	v := t.at.view(b)
	v.over[0] = t.fresh.trees[b]
	return v
}

var errOrder = errors.New("entries are out of order")

func (t *transaction) run(entries []Entry) ([][]store.Result, error) {
	results := make([][]store.Result, len(entries))
	for i := range entries {
		e := &entries[i]
		if e.Index <= t.applied || (t.applied != 0 && e.Index != t.applied+1) || e.Term < t.term {
			return nil, fmt.Errorf("%w: entry %d of term %d after entry %d of term %d", errOrder, e.Index, e.Term, t.applied, t.term)
		}
		if len(e.Commands) > 0 {
			results[i] = make([]store.Result, len(e.Commands))
		}
		for j, raw := range e.Commands {
			var err error
			if results[i][j], err = t.command(raw, e.Term); err != nil {
				return nil, err
			}
		}
		t.applied, t.term = e.Index, e.Term
		if e.Index%hashEvery == 0 {
			t.markHash()
		}
	}
	return results, nil
}

// command applies one command. The order of the questions matters: a repeat is answered before its term is looked at,
// since what was applied in time must not be called refused when the retry comes late.
func (t *transaction) command(raw []byte, term uint64) (store.Result, error) {
	refused := func(err error) (store.Result, error) { return store.Result{Revision: t.revision, Err: err}, nil }
	c, err := store.DecodeCommand(raw)
	if err != nil {
		return refused(err)
	}
	if c.Level > t.level {
		return refused(fmt.Errorf("%w: level %d, the hub is at %d", store.ErrUnknownLevel, c.Level, t.level))
	}
	if r, ok := t.writers.repeat(c, t.revision); ok {
		return r, nil
	}
	if c.Term != 0 && c.Term != term && !plantTermUnchecked {
		return refused(store.ErrStaleTerm)
	}
	var r store.Result
	switch {
	case c.NewEpoch != nil:
		r, err = t.newEpoch(*c.NewEpoch)
	case t.epoch.Number == 0:
		r.Err = store.ErrNoEpoch
	case c.Compact != 0:
		r.Err, err = t.compactTo(c.Compact)
	case c.Limits != nil:
		err = t.setLimits(*c.Limits)
	case c.Trim != nil:
		err = t.trim(c.Trim)
	default:
		r, err = t.write(c)
	}
	if err != nil {
		return store.Result{}, err
	}
	r.Revision = t.revision
	t.watchMarks()
	t.remember(c, &r)
	return r, nil
}

// newEpoch starts another history. Revisions of the one before cannot be read any more, so what only they could see goes.
func (t *transaction) newEpoch(e store.Epoch) (store.Result, error) {
	if e.Number <= t.epoch.Number {
		return store.Result{Err: fmt.Errorf("%w: %d, the present one is %d", store.ErrEpochNotHigher, e.Number, t.epoch.Number)}, nil
	}
	t.epoch = e
	t.revision = store.MakeRevision(e.Number, 0)
	if err := t.drop(t.revision); err != nil {
		return store.Result{}, err
	}
	t.published = append(t.published, publication{batch: store.Batch{Revision: t.revision}, otherEpoch: true})
	return store.Result{}, nil
}

// change is one op of a command that changes something.
type change struct {
	op   *store.Op
	rev  store.Revision
	kv   store.KV
	prev *store.KV      // the live version before
	last store.Revision // the key's revision before, be it a tombstone's or only the journal's
}

func (t *transaction) write(c *store.Command) (store.Result, error) {
	if conflict := t.check(c.If); conflict != nil {
		return store.Result{Err: conflict}, nil
	}
	changes, revisions, err := t.plan(c.Ops)
	if err != nil || len(changes) == 0 {
		return store.Result{Revisions: revisions}, err
	}
	if full := t.refuse(changes); full != nil {
		return store.Result{Err: full}, nil
	}
	set := span{changes[0].rev, changes[len(changes)-1].rev}
	events := make([]store.Event, len(changes))
	for i := range changes {
		ch := &changes[i]
		t.store(ch, set)
		t.note(c, ch, set)
		events[i] = store.Event{Type: ch.op.Type, KV: ch.kv, Prev: ch.prev}
	}
	t.noteCommand(c, set.first)
	t.revision = set.last
	t.published = append(t.published, publication{batch: store.Batch{Revision: set.last, Events: events}})
	return store.Result{Revisions: revisions}, nil
}

// check returns the first precondition that does not hold.
func (t *transaction) check(conditions []store.Precondition) error {
	for i := range conditions {
		c := &conditions[i]
		if c.End != "" {
			if err := t.checkRange(c); err != nil {
				return err
			}
			continue
		}
		var actual store.Revision
		if e, ok := t.keys.Get(&entry{key: c.Key}); ok && !e.last.dead {
			actual = e.last.rev
		}
		if c.Exists && actual != 0 || !c.Exists && actual == c.ModRevision {
			continue
		}
		want := c.ModRevision
		if c.Exists {
			want = 0
		}
		return &store.ConflictError{Key: c.Key, Want: want, Actual: actual}
	}
	return nil
}

// checkRange walks the keys of the range, in memory: its cost is that of a list without values.
func (t *transaction) checkRange(c *store.Precondition) error {
	var since *entry
	t.keys.AscendRange(&entry{key: c.Key}, &entry{key: c.End}, func(e *entry) bool {
		if e.last.rev > c.ModRevision {
			since = e
		}
		return since == nil
	})
	if since == nil {
		return nil
	}
	return &store.ConflictError{Key: since.key, Want: c.ModRevision, Actual: since.last.rev}
}

// plan finds out which ops change something, each seeing those before it, and gives them consecutive revisions.
func (t *transaction) plan(ops []store.Op) ([]change, []store.Revision, error) {
	changes := make([]change, 0, len(ops))
	revisions := make([]store.Revision, len(ops))
	earlier := map[string]int{} // key -> its newest change in this command
	for i := range ops {
		op := &ops[i]
		prev, last, err := t.before(op.Key, changes, earlier)
		if err != nil {
			return nil, nil, err
		}
		if op.Type == store.OpDelete && prev == nil ||
			op.Type == store.OpPut && prev != nil && string(prev.Value) == string(op.Value) {
			continue
		}
		ch := change{op: op, rev: t.revision + 1 + store.Revision(len(changes)), prev: prev, last: last}
		ch.kv = store.KV{Key: op.Key, ModRevision: ch.rev}
		if op.Type == store.OpPut {
			ch.kv.Value, ch.kv.CreateRevision, ch.kv.Version = op.Value, ch.rev, 1
			if prev != nil {
				ch.kv.CreateRevision, ch.kv.Version = prev.CreateRevision, prev.Version+1
			}
		}
		if ch.rev.Epoch() != t.epoch.Number {
			return nil, nil, fmt.Errorf("epoch %d is out of revisions: start a new epoch", t.epoch.Number)
		}
		earlier[op.Key] = len(changes)
		changes = append(changes, ch)
		revisions[i] = ch.rev
	}
	return changes, revisions, nil
}

// before is what an op finds: the live version of its key, and the key's newest revision of any kind. The version is
// copied, since it goes to watchers.
func (t *transaction) before(key string, changes []change, earlier map[string]int) (*store.KV, store.Revision, error) {
	if n, ok := earlier[key]; ok {
		if changes[n].op.Type == store.OpDelete {
			return nil, changes[n].rev, nil
		}
		return &changes[n].kv, changes[n].rev, nil
	}
	e, ok := t.keys.Get(&entry{key: key})
	if !ok {
		last, err := t.journalHead(key)
		return nil, last, err
	}
	if e.last.dead {
		return nil, e.last.rev, nil
	}
	kv, err := readKV(t.view(bucketRev), e.last.rev)
	return kv, e.last.rev, err
}

// store writes one version and its place in the index.
func (t *transaction) store(ch *change, set span) {
	rec := &record{
		set: set, dead: ch.op.Type == store.OpDelete,
		key: ch.kv.Key, value: ch.kv.Value, create: ch.kv.CreateRevision, version: ch.kv.Version,
	}
	t.insert(bucketRev, revKey(ch.rev), encodeRecord(ch.rev, rec))
	m := mark{rev: ch.rev, dead: rec.dead}
	if e, ok := t.keys.Get(&entry{key: ch.kv.Key}); ok {
		t.keys.ReplaceOrInsert(e.with(m))
	} else {
		t.keys.ReplaceOrInsert(&entry{key: ch.kv.Key, last: m})
	}
}

// insert stores a pair under a key that the bucket does not hold, or whose pair has been taken out of the sum. Both slices are the
// store's from then on.
func (t *transaction) insert(b bucket, key, value []byte) {
	if value == nil {
		value = []byte{}
	}
	t.fresh.put(b, pair{key: key, value: value})
	t.content.add(t.hasher.pair(b, key, value))
	if c, ok := t.classOf(b, value); ok {
		t.used[c] += uint64(len(key) + len(value))
	}
}

// replace stores a pair, in place of whatever is under its key.
func (t *transaction) replace(b bucket, key, value []byte) {
	if old := t.view(b).get(key); old != nil {
		t.uncount(b, key, old)
	}
	t.insert(b, key, value)
}

// remove takes a pair away if it is there.
func (t *transaction) remove(b bucket, key []byte) {
	v := t.view(b)
	old := v.get(key)
	if old == nil {
		return
	}
	t.uncount(b, key, old)
	if v.below().get(key) == nil {
		t.fresh.forget(b, key) // it never reaches the file
		return
	}
	t.fresh.put(b, pair{key: key, gone: true})
}

// uncount takes a pair out of the hash and the usage.
func (t *transaction) uncount(b bucket, key, value []byte) {
	t.content.remove(t.hasher.pair(b, key, value))
	if c, ok := t.classOf(b, value); ok {
		t.used[c] -= uint64(len(key) + len(value))
	}
}

// readKV reads the live version at r into memory of its own.
func readKV(revs view, r store.Revision) (*store.KV, error) {
	raw := revs.get(revKey(r))
	if raw == nil {
		return nil, fmt.Errorf("%w: revision %d is missing", errRecord, r)
	}
	rec, err := decodeRecord(r, raw)
	if err != nil {
		return nil, err
	}
	if rec.dead {
		return nil, fmt.Errorf("%w: revision %d is a tombstone", errRecord, r)
	}
	return rec.kv(r), nil
}

// kv copies the record out of its transaction.
func (rec *record) kv(r store.Revision) *store.KV {
	kv := &store.KV{Key: rec.key, ModRevision: r}
	if !rec.dead {
		kv.Value = append([]byte(nil), rec.value...)
		kv.CreateRevision, kv.Version = rec.create, rec.version
	}
	return kv
}
