package mvcc

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/drover-fleet/drover/store"
)

// span is the set that a revision belongs to: the revisions that one command took, both ends included.
type span struct{ first, last store.Revision }

// record is one version of one key as it stands in bucket rev.
type record struct {
	set     span
	dead    bool // a tombstone: no value, create or version
	key     string
	value   []byte
	create  store.Revision
	version uint64
}

// journalRecord is one entry of bucket journal.
type journalRecord struct {
	set  span
	prev store.Revision // the key's journal record before this one; zero: none
	rec  store.Record
}

const flagDead = 1

var errRecord = errors.New("stored record is malformed")

func revKey(r store.Revision) []byte { return binary.BigEndian.AppendUint64(nil, uint64(r)) }

func parseRevKey(k []byte) (store.Revision, error) {
	if len(k) != 8 {
		return 0, fmt.Errorf("%w: key of %d bytes is no revision", errRecord, len(k))
	}
	return store.Revision(binary.BigEndian.Uint64(k)), nil
}

func appendString[T string | []byte](b []byte, s T) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// appendSpan writes the distances from the revision to the ends of its set.
func appendSpan(b []byte, r store.Revision, s span) []byte {
	b = binary.AppendUvarint(b, uint64(r-s.first))
	return binary.AppendUvarint(b, uint64(s.last-r))
}

func encodeRecord(r store.Revision, rec *record) []byte {
	b := make([]byte, 0, 40+len(rec.key)+len(rec.value))
	var flags byte
	if rec.dead {
		flags |= flagDead
	}
	b = append(b, flags)
	b = appendSpan(b, r, rec.set)
	b = appendString(b, rec.key)
	b = binary.AppendUvarint(b, uint64(rec.create))
	b = binary.AppendUvarint(b, rec.version)
	return appendString(b, rec.value)
}

// decodeRecord reads a record; the value shares memory with b and is valid only as long as its transaction.
func decodeRecord(r store.Revision, b []byte) (record, error) {
	d := parser{b: b}
	var rec record
	rec.dead = d.byte()&flagDead != 0
	rec.set = d.span(r)
	rec.key = string(d.bytes())
	rec.create = store.Revision(d.uvarint())
	rec.version = d.uvarint()
	rec.value = d.bytes()
	if d.bad || rec.key == "" {
		return record{}, fmt.Errorf("%w: revision %d", errRecord, r)
	}
	return rec, nil
}

func encodeJournal(j *journalRecord) []byte {
	rec := &j.rec
	b := make([]byte, 0, 96+len(rec.Key)+len(rec.Note.Diff)+len(rec.Note.Object))
	b = append(b, byte(rec.Type))
	b = appendSpan(b, rec.Revision, j.set)
	b = binary.AppendUvarint(b, uint64(j.prev))
	b = binary.AppendVarint(b, rec.Time)
	b = binary.AppendUvarint(b, uint64(rec.Cause.Revision))
	for _, s := range []string{rec.Actor, rec.RequestID, rec.Cause.RequestID, rec.Key, rec.Note.Verb, rec.Note.Object} {
		b = appendString(b, s)
	}
	return appendString(b, rec.Note.Diff)
}

// decodeJournal reads a journal record into memory of its own.
func decodeJournal(r store.Revision, b []byte) (journalRecord, error) {
	d := parser{b: b}
	j := journalRecord{rec: store.Record{Revision: r}}
	rec := &j.rec
	rec.Type = store.OpType(d.byte())
	j.set = d.span(r)
	j.prev = store.Revision(d.uvarint())
	rec.Time = d.varint()
	rec.Cause.Revision = store.Revision(d.uvarint())
	for _, s := range []*string{&rec.Actor, &rec.RequestID, &rec.Cause.RequestID, &rec.Key, &rec.Note.Verb, &rec.Note.Object} {
		*s = string(d.bytes())
	}
	if diff := d.bytes(); len(diff) > 0 {
		rec.Note.Diff = append([]byte(nil), diff...)
	}
	if d.bad || j.prev >= r {
		return journalRecord{}, fmt.Errorf("%w: journal of revision %d", errRecord, r)
	}
	return j, nil
}

// parser takes fields off the front of b. The first one that is not there sets bad, after which all are zero.
type parser struct {
	b   []byte
	bad bool
}

func (p *parser) fail() { p.bad, p.b = true, nil }

func (p *parser) byte() byte {
	if len(p.b) == 0 {
		p.fail()
		return 0
	}
	v := p.b[0]
	p.b = p.b[1:]
	return v
}

func (p *parser) uvarint() uint64 {
	v, n := binary.Uvarint(p.b)
	if n <= 0 {
		p.fail()
		return 0
	}
	p.b = p.b[n:]
	return v
}

func (p *parser) varint() int64 {
	v, n := binary.Varint(p.b)
	if n <= 0 {
		p.fail()
		return 0
	}
	p.b = p.b[n:]
	return v
}

func (p *parser) bytes() []byte {
	n := p.uvarint()
	if n > uint64(len(p.b)) {
		p.fail()
		return nil
	}
	v := p.b[:n:n]
	p.b = p.b[n:]
	return v
}

// span refuses sets larger than a command can be, so that no stored distance can lead a reader astray.
func (p *parser) span(r store.Revision) span {
	back, ahead := p.uvarint(), p.uvarint()
	if back >= store.MaxOps || ahead >= store.MaxOps || back > uint64(r) {
		p.fail()
		return span{r, r}
	}
	return span{r - store.Revision(back), r + store.Revision(ahead)}
}
