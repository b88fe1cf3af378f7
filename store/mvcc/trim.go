package mvcc

import (
	"encoding/binary"
	"fmt"

	"github.com/drover-fleet/drover/store"
)

// trim drops journal records, and what the indexes hold of a command whose records go. It is lenient: what is gone already, or must
// stay, is passed over, since the proposer looked at an earlier state.
func (t *transaction) trim(c *store.Trim) error {
	for _, s := range c.Spans {
		gone, err := t.trimmable(s)
		if err != nil {
			return err
		}
		for i := range gone {
			t.trimRecord(&gone[i])
		}
	}
	for _, l := range c.Links {
		if err := t.relink(l); err != nil {
			return err
		}
	}
	return nil
}

// trimmable reads the records of a span that may go.
func (t *transaction) trimmable(s store.Span) ([]journalRecord, error) {
	var gone []journalRecord
	var stays span // the set that holds a record that must stay
	c := t.view(bucketJournal).cursor()
	for k, v := c.seek(revKey(s.First)); k != nil; k, v = c.next() {
		r, err := parseRevKey(k)
		if err != nil {
			return nil, err
		}
		if r > s.Last {
			break
		}
		j, err := decodeJournal(r, v)
		if err != nil {
			return nil, err
		}
		if j.set == stays {
			continue
		}
		e, ok := t.keys.Get(&entry{key: j.rec.Key})
		if j.set.first < s.First || j.set.last > s.Last || ok && e.last.rev == r && !e.last.dead {
			stays = j.set
			for len(gone) > 0 && gone[len(gone)-1].set == stays {
				gone = gone[:len(gone)-1]
			}
			continue
		}
		gone = append(gone, j)
	}
	return gone, nil
}

func (t *transaction) trimRecord(j *journalRecord) {
	r := j.rec.Revision
	t.remove(bucketJournal, revKey(r))
	if raw := t.view(bucketHead).get([]byte(j.rec.Key)); raw != nil && string(raw) == string(revKey(r)) {
		t.remove(bucketHead, []byte(j.rec.Key))
	}
	if r != j.set.first {
		return
	}
	t.remove(bucketRequest, requestKey(r, requestHash(j.rec.RequestID)))
	if j.rec.Cause.Revision != 0 {
		t.remove(bucketCause, causeKey(j.rec.Cause.Revision, r))
	}
}

// relink closes a gap in the chain of a key.
func (t *transaction) relink(l store.Link) error {
	raw := t.view(bucketJournal).get(revKey(l.At))
	if raw == nil {
		return nil
	}
	linked, err := withPrev(l.At, raw, l.Prev)
	if err != nil {
		return err
	}
	t.replace(bucketJournal, revKey(l.At), linked)
	return nil
}

// withPrev replaces the link of an encoded record and keeps all that follows, known or not.
func withPrev(r store.Revision, raw []byte, prev store.Revision) ([]byte, error) {
	p := parser{b: raw}
	p.byte()
	p.span(r)
	head := len(raw) - len(p.b)
	p.uvarint()
	if p.bad {
		return nil, fmt.Errorf("%w: journal of revision %d", errRecord, r)
	}
	out := binary.AppendUvarint(append([]byte(nil), raw[:head]...), uint64(prev))
	return append(out, p.b...), nil
}
