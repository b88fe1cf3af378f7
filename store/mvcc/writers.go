package mvcc

import (
	"container/list"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/drover-fleet/drover/store"
)

// maxWriters bounds how many writers' last sequences are remembered; the one that has been silent for the most commands
// is forgotten first. A forgotten writer's retry is applied again unless its preconditions refuse it. The number is
// part of the format: members that differ in it diverge.
const maxWriters = 100_000

// remembered is what the last command of one writer came to.
type remembered struct {
	writer   string
	sequence uint64
	ordinal  uint64         // place in the order of being forgotten
	after    store.Revision // the store's revision after the command

	// Revisions of the ops: they are consecutive from first, at the ops whose bit is set.
	first   store.Revision
	ops     int
	changed []byte // bit i: op i

	conflict *store.ConflictError // the refusal, if it was one
	quota    *store.QuotaError    // likewise
}

// writerTable is bucket writer in memory. Only the goroutine that applies touches it; it is ahead of the file within a
// transaction, and thrown away if the transaction fails.
type writerTable struct {
	max    int
	byName map[string]*list.Element
	order  *list.List          // of *remembered, by ordinal
	dirty  map[string]struct{} // changed or forgotten since the last save
}

func loadWriters(b view) (*writerTable, error) {
	var all []*remembered
	err := b.forEach(func(k, v []byte) error {
		m, err := decodeRemembered(string(k), v)
		all = append(all, m)
		return err
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b *remembered) int {
		if a.ordinal < b.ordinal {
			return -1
		}
		return 1
	})
	w := &writerTable{max: maxWriters, byName: map[string]*list.Element{}, order: list.New(), dirty: map[string]struct{}{}}
	for _, m := range all {
		w.byName[m.writer] = w.order.PushBack(m)
	}
	return w, nil
}

// repeat answers a command that was applied before.
func (w *writerTable) repeat(c *store.Command, newest store.Revision) (store.Result, bool) {
	e, ok := w.byName[c.Writer]
	if c.Writer == "" || !ok {
		return store.Result{}, false
	}
	m := e.Value.(*remembered)
	switch {
	case c.Sequence > m.sequence:
		return store.Result{}, false
	case c.Sequence < m.sequence:
		return store.Result{Revision: newest, Repeat: true}, true
	}
	r := store.Result{Revision: m.after, Repeat: true}
	switch {
	case m.conflict != nil:
		r.Err = m.conflict
		return r, true
	case m.quota != nil:
		r.Err = m.quota
		return r, true
	}
	next := m.first
	for i := range m.ops {
		var rev store.Revision
		if m.changed[i/8]&(1<<(i%8)) != 0 {
			rev = next
			next++
		}
		r.Revisions = append(r.Revisions, rev)
	}
	return r, true
}

// remember keeps what a command of a writer came to. Refusals other than by a precondition or a quota repeat by themselves.
func (t *transaction) remember(c *store.Command, r *store.Result) {
	conflict, isConflict := r.Err.(*store.ConflictError) //nolint:errorlint // made unwrapped by check
	quota, isQuota := r.Err.(*store.QuotaError)          //nolint:errorlint // made unwrapped by refuse
	if c.Writer == "" || r.Err != nil && !isConflict && !isQuota {
		return
	}
	t.ordinal++
	m := &remembered{
		writer: c.Writer, sequence: c.Sequence, ordinal: t.ordinal, after: r.Revision,
		ops: len(r.Revisions), changed: make([]byte, (len(r.Revisions)+7)/8), conflict: conflict, quota: quota,
	}
	for i, rev := range r.Revisions {
		if rev == 0 {
			continue
		}
		if m.first == 0 {
			m.first = rev
		}
		m.changed[i/8] |= 1 << (i % 8)
	}
	t.writers.put(m)
}

func (w *writerTable) put(m *remembered) {
	w.dirty[m.writer] = struct{}{}
	if e, ok := w.byName[m.writer]; ok {
		e.Value = m
		w.order.MoveToBack(e)
		return
	}
	w.byName[m.writer] = w.order.PushBack(m)
	if w.order.Len() > w.max {
		oldest := w.order.Remove(w.order.Front()).(*remembered)
		delete(w.byName, oldest.writer)
		w.dirty[oldest.writer] = struct{}{}
	}
}

// saveWriters brings bucket writer up to the table: once a call of Apply, in the order of names.
func (t *transaction) saveWriters() {
	names := make([]string, 0, len(t.writers.dirty))
	for name := range t.writers.dirty {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		e, ok := t.writers.byName[name]
		if !ok {
			t.remove(bucketWriter, []byte(name))
			continue
		}
		t.replace(bucketWriter, []byte(name), encodeRemembered(e.Value.(*remembered)))
	}
	clear(t.writers.dirty)
}

func encodeRemembered(m *remembered) []byte {
	var b []byte
	for _, n := range []uint64{m.sequence, m.ordinal, uint64(m.after), uint64(m.first), uint64(m.ops)} {
		b = binary.AppendUvarint(b, n)
	}
	b = appendString(b, m.changed)
	switch {
	case m.conflict != nil:
		b = append(b, refusedByCondition)
		b = appendString(b, m.conflict.Key)
		b = binary.AppendUvarint(b, uint64(m.conflict.Want))
		return binary.AppendUvarint(b, uint64(m.conflict.Actual))
	case m.quota != nil:
		b = append(b, refusedByQuota)
		b = appendString(b, m.quota.What)
		for _, n := range []uint64{m.quota.Used, m.quota.Max, m.quota.Low} {
			b = binary.AppendUvarint(b, n)
		}
		return b
	}
	return append(b, 0)
}

// How a remembered command was refused; 0: it was not.
const (
	refusedByCondition = 1
	refusedByQuota     = 2
)

func decodeRemembered(writer string, raw []byte) (*remembered, error) {
	p := parser{b: raw}
	m := &remembered{writer: writer, sequence: p.uvarint(), ordinal: p.uvarint()}
	m.after, m.first = store.Revision(p.uvarint()), store.Revision(p.uvarint())
	ops := p.uvarint()
	m.changed = append([]byte(nil), p.bytes()...)
	switch p.byte() {
	case refusedByCondition:
		m.conflict = &store.ConflictError{Key: string(p.bytes())}
		m.conflict.Want, m.conflict.Actual = store.Revision(p.uvarint()), store.Revision(p.uvarint())
	case refusedByQuota:
		m.quota = &store.QuotaError{What: string(p.bytes())}
		m.quota.Used, m.quota.Max, m.quota.Low = p.uvarint(), p.uvarint(), p.uvarint()
	}
	if p.bad || ops > store.MaxOps || len(m.changed) != int(ops+7)/8 {
		return nil, fmt.Errorf("%w: writer %q", errRecord, writer)
	}
	m.ops = int(ops)
	return m, nil
}
