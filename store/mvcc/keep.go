package mvcc

import (
	"context"
	"fmt"
	"slices"

	"github.com/drover-fleet/drover/store"
)

// TrimRule says which journal records are too old to be kept for their own sake.
type TrimRule struct {
	Before   int64  // Unix nanoseconds by the records' own labels: what is older goes
	MaxBytes uint64 // the oldest go until the journal is no larger; zero: no bound
	Most     int    // records in one plan, and one set more at most; 1 to store.MaxOps/2
}

// PlanTrim chooses the oldest journal records that explain nothing of the present any more. Kept are, of each live key, the newest record
// by each actor (every field has one writer, so these wrote what stands there now) and the one that made it; and of each of
// them the causes, back to where they end. What can be read by revision keeps its records too. nil: nothing is due.
//
// It reads the journal of all live keys, a few thousand records in each transaction. One plan is to be applied before the next is made.
func (s *Store) PlanTrim(ctx context.Context, rule TrimRule) (*store.Trim, error) {
	p := &trimPlan{ctx: ctx, rule: rule, now: s.state(), kept: revSet{}, journal: journalReader{s: s}}
	defer p.journal.close()
	due, err := p.due()
	if err != nil || !due {
		return nil, err
	}
	if err := p.keepLive(); err != nil {
		return nil, fmt.Errorf("plan to trim: %w", err)
	}
	if err := p.choose(); err != nil {
		return nil, fmt.Errorf("plan to trim: %w", err)
	}
	if len(p.out.Spans) == 0 {
		return nil, nil
	}
	if err := p.link(); err != nil {
		return nil, fmt.Errorf("plan to trim: %w", err)
	}
	return &p.out, nil
}

type trimPlan struct {
	ctx     context.Context
	rule    TrimRule
	now     *state
	kept    revSet
	journal journalReader
	out     store.Trim
}

// due looks at the oldest record, so that a hub with nothing to trim does not read its journal for it.
func (p *trimPlan) due() (due bool, err error) {
	at, err := p.journal.begin()
	if err != nil {
		return false, err
	}
	k, v := at.view(bucketJournal).cursor().seek(nil)
	if k == nil {
		return false, nil
	}
	r, err := parseRevKey(k)
	if err != nil {
		return false, err
	}
	j, err := decodeJournal(r, v)
	return p.excess() > 0 || j.rec.Time < p.rule.Before, err
}

func (p *trimPlan) excess() int64 {
	if p.rule.MaxBytes == 0 {
		return 0
	}
	return int64(p.now.used[classJournal]) - int64(p.rule.MaxBytes) //nolint:gosec // far below 2^63
}

// keepLive marks what explains the live keys.
func (p *trimPlan) keepLive() (err error) {
	p.now.keys.Ascend(func(e *entry) bool {
		if !e.last.dead {
			err = p.keepChain(e.last.rev)
		}
		if err == nil {
			err = p.ctx.Err()
		}
		return err == nil
	})
	return err
}

func (p *trimPlan) keepChain(r store.Revision) error {
	actors := map[string]struct{}{}
	var made *journalRecord
	for r != 0 {
		j, ok, err := p.journal.read(r)
		if err != nil {
			return err
		}
		if !ok || j.rec.Type == store.OpDelete {
			break
		}
		if _, ok := actors[j.rec.Actor]; !ok {
			actors[j.rec.Actor] = struct{}{}
			if err := p.keep(&j); err != nil {
				return err
			}
		}
		made, r = &j, j.prev
	}
	if made == nil {
		return nil
	}
	return p.keep(made)
}

// keep marks a record with its set, and its causes. Causes are older than what they cause, so it ends.
func (p *trimPlan) keep(j *journalRecord) error {
	for !p.kept.has(j.rec.Revision) {
		p.kept.add(j.set)
		cause := j.rec.Cause.Revision
		if id := j.rec.Cause.RequestID; cause == 0 && id != "" {
			recs, err := p.journal.s.RecordsByRequest(id, 1)
			if err != nil {
				return err
			}
			if len(recs) > 0 {
				cause = recs[0].Revision
			}
		}
		if cause == 0 || cause >= j.rec.Revision {
			return nil
		}
		next, ok, err := p.journal.read(cause)
		if err != nil || !ok {
			return err
		}
		j = &next
	}
	return nil
}

// choose takes the oldest records that are not kept.
func (p *trimPlan) choose() error {
	excess, count := p.excess(), 0
	var open *store.Span // grows until a kept record comes
	var set span         // of the record before
	for from := store.Revision(0); ; {
		at, err := p.journal.begin()
		if err != nil {
			return err
		}
		c := at.view(bucketJournal).cursor()
		read := 0
		for k, v := c.seek(revKey(from)); ; k, v = c.next() {
			if k == nil || p.ctx.Err() != nil {
				return p.ctx.Err()
			}
			if read++; read > readsPerTransaction {
				break // and go on in another transaction
			}
			r, err := parseRevKey(k)
			if err != nil {
				return err
			}
			j, err := decodeJournal(r, v)
			if err != nil {
				return err
			}
			from = r + 1
			if p.kept.has(r) {
				open = nil
				continue
			}
			old := j.rec.Time < p.rule.Before || excess > 0
			if j.set != set && (count >= p.rule.Most || !old) || j.set.last > p.now.compacted {
				return nil
			}
			if open == nil {
				p.out.Spans = append(p.out.Spans, store.Span{First: r})
				open = &p.out.Spans[len(p.out.Spans)-1]
			}
			open.Last, set = r, j.set
			excess -= int64(len(k) + len(v))
			count++
		}
	}
}

// link bridges, in the chains of live keys, what is about to go.
func (p *trimPlan) link() (err error) {
	p.now.keys.Ascend(func(e *entry) bool {
		if !e.last.dead {
			err = p.linkChain(e.last.rev)
		}
		if err == nil {
			err = p.ctx.Err()
		}
		return err == nil
	})
	return err
}

func (p *trimPlan) linkChain(r store.Revision) error {
	for r != 0 {
		j, ok, err := p.journal.read(r)
		if err != nil || !ok {
			return err
		}
		prev := j.prev
		for prev != 0 && p.goes(prev) {
			gone, ok, err := p.journal.read(prev)
			if err != nil {
				return err
			}
			if !ok {
				break
			}
			prev = gone.prev
		}
		if prev != j.prev {
			p.out.Links = append(p.out.Links, store.Link{At: r, Prev: prev})
		}
		r = prev
	}
	return nil
}

// goes tells whether a record is in the plan.
func (p *trimPlan) goes(r store.Revision) bool {
	_, ok := slices.BinarySearchFunc(p.out.Spans, r, func(s store.Span, r store.Revision) int {
		switch {
		case s.Last < r:
			return -1
		case s.First > r:
			return 1
		}
		return 0
	})
	return ok
}

// readsPerTransaction bounds how long freed pages wait for a reader of the whole journal.
const readsPerTransaction = 4096

// journalReader reads single records, and takes a new transaction now and then.
type journalReader struct {
	s     *Store
	at    *reading
	reads int
}

func (j *journalReader) begin() (at *reading, err error) {
	j.close()
	j.at, err = j.s.begin()
	j.reads = 0
	return j.at, err
}

func (j *journalReader) close() {
	if j.at != nil {
		j.at.close()
		j.at = nil
	}
}

func (j *journalReader) read(r store.Revision) (journalRecord, bool, error) {
	if j.reads++; j.at == nil || j.reads > readsPerTransaction {
		if _, err := j.begin(); err != nil {
			return journalRecord{}, false, err
		}
	}
	return readJournal(j.at, r)
}

// revSet is a set of revisions: a bit each, in pieces where there are any.
type revSet map[store.Revision]*[64]uint64

const pieceBits = 12

func (s revSet) has(r store.Revision) bool {
	piece := s[r>>pieceBits]
	return piece != nil && piece[r>>6&63]&(1<<(r&63)) != 0
}

func (s revSet) add(set span) {
	for r := set.first; r <= set.last; r++ {
		piece := s[r>>pieceBits]
		if piece == nil {
			piece = new([64]uint64)
			s[r>>pieceBits] = piece
		}
		piece[r>>6&63] |= 1 << (r & 63)
	}
}
