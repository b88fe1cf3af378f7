package mvcc

import (
	"fmt"
	"slices"

	"github.com/drover-fleet/drover/store"
)

// compactTo makes c the oldest readable revision. Where c stands inside a set it is rounded down to the set before: the
// states inside are no states. What is compacted already, an earlier epoch included, is left as it is.
func (t *transaction) compactTo(c store.Revision) (refusal, err error) {
	if c > t.revision {
		return fmt.Errorf("%w: compact to %d, newest is %d", store.ErrAhead, c, t.revision), nil
	}
	if c <= t.compacted {
		return nil, nil
	}
	raw := t.view(bucketRev).get(revKey(c))
	if raw == nil {
		return nil, fmt.Errorf("%w: revision %d is missing", errRecord, c)
	}
	rec, err := decodeRecord(c, raw)
	if err != nil {
		return nil, err
	}
	if rec.set.last != c {
		c = rec.set.first - 1
	}
	if c <= t.compacted {
		return nil, nil
	}
	return nil, t.drop(c)
}

// drop removes every version that no read at c or later can see.
func (t *transaction) drop(c store.Revision) error {
	stale, err := t.stale(c)
	if err != nil {
		return err
	}
	var gone []store.Revision
	for _, e := range stale {
		kept, dropped := e.compact(c)
		for _, m := range dropped {
			gone = append(gone, m.rev)
		}
		if kept != nil {
			t.keys.ReplaceOrInsert(kept)
			continue
		}
		t.keys.Delete(e)
		// The journal outlives the key: keep the end of its chain.
		t.insert(bucketHead, []byte(e.key), revKey(e.last.rev))
	}
	slices.Sort(gone) // neighbours lie on one page
	for _, r := range gone {
		t.remove(bucketRev, revKey(r))
	}
	t.compacted = c
	return nil
}

// stale finds the keys that have a version to drop. Such a version was superseded or became a tombstone by a revision up to c, and not by
// one that is compacted already: so the cost is that of the revisions in between, however many keys there are.
func (t *transaction) stale(c store.Revision) ([]*entry, error) {
	var out []*entry
	seen := map[string]struct{}{}
	cur := t.view(bucketRev).cursor()
	for k, v := cur.seek(revKey(t.compacted + 1)); k != nil; k, v = cur.next() {
		r, err := parseRevKey(k)
		if err != nil {
			return nil, err
		}
		if r > c {
			break
		}
		key := recordKey(v)
		if _, ok := seen[key]; ok {
			continue
		}
		seen[key] = struct{}{}
		if e, ok := t.keys.Get(&entry{key: key}); ok && e.stale(c) {
			out = append(out, e)
		}
	}
	return out, nil
}
