package mvcc

import (
	"context"
	"fmt"

	"github.com/drover-fleet/drover/store"
	"github.com/drover-fleet/drover/store/watch"
)

// checkEvery is after how many steps of a long walk the context is looked at.
const checkEvery = 1024

// Range reads at one revision. Values are copies of the caller's own.
func (s *Store) Range(ctx context.Context, r store.RangeRequest) (*store.RangeResult, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	reads, err := s.begin()
	if err != nil {
		return nil, err
	}
	defer reads.close()
	now, revs := reads.now, reads.view(bucketRev)
	at, err := now.readable(r.Revision)
	if err != nil {
		return nil, fmt.Errorf("read at %d: %w", r.Revision, err)
	}
	if at, err = roundUp(now, revs, at); err != nil {
		return nil, err
	}
	out := &store.RangeResult{Revision: at}
	found, err := visible(ctx, now.keys, r, at, out)
	if err != nil {
		return nil, err
	}
	out.KVs = make([]store.KV, 0, len(found))
	for i, rev := range found {
		if i%checkEvery == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		kv, err := readKV(revs, rev)
		if err != nil {
			return nil, err
		}
		out.KVs = append(out.KVs, *kv)
	}
	return out, nil
}

// visible collects the live versions of a range, up to the limit, and counts them all.
func visible(ctx context.Context, keys index, r store.RangeRequest, at store.Revision, out *store.RangeResult) ([]store.Revision, error) {
	var found []store.Revision
	steps := 0
	scan(keys, r.Start, r.End, func(e *entry) bool {
		if steps++; steps%checkEvery == 0 && ctx.Err() != nil {
			return false
		}
		m, ok := e.at(at)
		if !ok || m.dead {
			return true
		}
		out.Count++
		if r.Limit <= 0 || len(found) < r.Limit {
			found = append(found, m.rev)
		}
		return true
	})
	out.More = out.Count > len(found)
	return found, ctx.Err()
}

// roundUp moves a revision inside a set to the set's end. The newest and the compacted revision are never inside one.
func roundUp(now *state, revs view, r store.Revision) (store.Revision, error) {
	if r == now.revision || r == now.compacted || plantSetHalfRead {
		return r, nil
	}
	rec, err := recordAt(revs, r)
	return rec.set.last, err
}

// recordAt reads the record of a revision above the compacted one, which is always there.
func recordAt(revs view, r store.Revision) (record, error) {
	raw := revs.get(revKey(r))
	if raw == nil {
		return record{}, fmt.Errorf("%w: revision %d is missing", errRecord, r)
	}
	return decodeRecord(r, raw)
}

// Start implements watch.Source.
func (s *Store) Start(from store.Revision) (store.Revision, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return 0, store.ErrClosed
	}
	return s.now.watchable(from)
}

// History implements watch.Source: whole sets, from the one that r.From is in, up to about the size asked for.
func (s *Store) History(ctx context.Context, r watch.HistoryRequest) (watch.Page, error) {
	reads, err := s.begin()
	if err != nil {
		return watch.Page{}, err
	}
	defer reads.close()
	now := reads.now
	from, err := now.watchable(r.From)
	if err != nil {
		return watch.Page{}, err
	}
	h := &historyReader{now: now, revs: reads.view(bucketRev), want: r, page: watch.Page{Next: from}}
	if from > now.revision {
		return h.page, nil
	}
	first, err := recordAt(h.revs, from)
	if err != nil {
		return watch.Page{}, err
	}
	err = h.read(ctx, first.set.first)
	return h.page, err
}

// historyReader fills one page.
type historyReader struct {
	now  *state
	revs view
	want watch.HistoryRequest
	page watch.Page

	scanned, events, bytes int
}

// full is asked between sets only, so a page is past its bounds by at most one set.
func (h *historyReader) full() bool {
	return h.scanned >= h.want.MaxScan || h.events >= h.want.MaxEvents || h.bytes >= h.want.MaxBytes
}

func (h *historyReader) read(ctx context.Context, first store.Revision) error {
	c := h.revs.cursor()
	var batch store.Batch
	for k, v := c.seek(revKey(first)); k != nil; k, v = c.next() {
		r, err := parseRevKey(k)
		if err != nil {
			return err
		}
		rec, err := decodeRecord(r, v)
		if err != nil {
			return err
		}
		if h.scanned++; h.scanned%checkEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if h.want.Contains(rec.key) {
			e, err := h.event(r, &rec)
			if err != nil {
				return err
			}
			batch.Events = append(batch.Events, e)
			h.events++
			h.bytes += watch.Size(&e)
		}
		if r != rec.set.last {
			continue
		}
		if len(batch.Events) > 0 {
			batch.Revision = r
			h.page.Batches = append(h.page.Batches, batch)
			batch = store.Batch{}
		}
		h.page.Next = r + 1
		if h.full() {
			return nil
		}
	}
	return nil
}

func (h *historyReader) event(r store.Revision, rec *record) (store.Event, error) {
	e := store.Event{Type: store.OpPut, KV: *rec.kv(r)}
	if rec.dead {
		e.Type = store.OpDelete
	}
	known, ok := h.now.keys.Get(&entry{key: rec.key})
	if !ok {
		return e, nil
	}
	before, ok := known.at(r - 1)
	if !ok || before.dead {
		return e, nil
	}
	prev, err := readKV(h.revs, before.rev)
	e.Prev = prev
	return e, err
}
