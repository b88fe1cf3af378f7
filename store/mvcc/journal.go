package mvcc

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/drover-fleet/drover/store"
)

// journalHead takes over the end of a forgotten key's chain, for the key comes to life again.
func (t *transaction) journalHead(key string) (store.Revision, error) {
	raw := t.view(bucketHead).get([]byte(key))
	if raw == nil {
		return 0, nil
	}
	return parseRevKey(raw)
}

// note writes the journal record of one change.
func (t *transaction) note(c *store.Command, ch *change, set span) {
	t.remove(bucketHead, []byte(ch.kv.Key))
	j := &journalRecord{set: set, prev: ch.last, rec: store.Record{
		Revision: ch.rev, Time: c.Time, Actor: c.Actor, RequestID: c.RequestID, Cause: c.Cause,
		Type: ch.op.Type, Key: ch.kv.Key, Note: ch.op.Note,
	}}
	t.insert(bucketJournal, revKey(ch.rev), encodeJournal(j))
}

// noteCommand indexes a command by its request and its cause: once a command, not once an op.
func (t *transaction) noteCommand(c *store.Command, first store.Revision) {
	t.insert(bucketRequest, requestKey(first, requestHash(c.RequestID)), nil)
	if c.Cause.Revision != 0 {
		t.insert(bucketCause, causeKey(c.Cause.Revision, first), nil)
	}
}

// windowBits sizes the windows of bucket request: 512 revisions, whose keys fill about five pages. Without windows a batch of
// writes would land on as many pages as it has commands, all over the bucket, and each of them would be written anew; with
// them it lands in the newest window. A search, which is rare, costs a seek for each window: two thousand for a million
// revisions.
const windowBits = 9

func window(r store.Revision) uint64 { return uint64(r) >> windowBits }

func requestPrefix(window, hash uint64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, window), hash)
}

func requestKey(first store.Revision, hash uint64) []byte {
	return binary.BigEndian.AppendUint64(requestPrefix(window(first), hash), uint64(first))
}

const causeKeyBytes, requestKeyBytes = 16, 24

func causeKey(cause, first store.Revision) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(cause)), uint64(first))
}

// requestHash shortens a request id to a fixed size. Readers compare the whole id in the record, so that two ids with
// one hash cost a look, not an error.
func requestHash(id string) uint64 {
	h := sha256.Sum256([]byte(id))
	return binary.BigEndian.Uint64(h[:])
}

// Record returns the journal record of one revision.
func (s *Store) Record(r store.Revision) (store.Record, bool, error) {
	at, err := s.begin()
	if err != nil {
		return store.Record{}, false, err
	}
	defer at.close()
	j, ok, err := readJournal(at, r)
	return j.rec, ok, err
}

func readJournal(at *reading, r store.Revision) (journalRecord, bool, error) {
	raw := at.view(bucketJournal).get(revKey(r))
	if raw == nil {
		return journalRecord{}, false, nil
	}
	j, err := decodeJournal(r, raw)
	return j, err == nil, err
}

// RecordsOf follows the chain of one key back from its newest record; it outlives the key and its compaction.
func (s *Store) RecordsOf(key string, limit int) ([]store.Record, error) {
	at, err := s.begin()
	if err != nil {
		return nil, err
	}
	defer at.close()
	var r store.Revision
	if e, ok := at.now.keys.Get(&entry{key: key}); ok {
		r = e.last.rev
	} else if raw := at.view(bucketHead).get([]byte(key)); raw != nil {
		if r, err = parseRevKey(raw); err != nil {
			return nil, err
		}
	}
	var out []store.Record
	for r != 0 && len(out) < limit {
		j, ok, err := readJournal(at, r)
		if err != nil {
			return nil, fmt.Errorf("records of %s: %w", key, err)
		}
		if !ok {
			break // trimmed, and with it everything before
		}
		out = append(out, j.rec)
		r = j.prev
	}
	return out, nil
}

// RecordsByRequest returns the records that one request wrote.
func (s *Store) RecordsByRequest(requestID string, limit int) ([]store.Record, error) {
	at, err := s.begin()
	if err != nil {
		return nil, err
	}
	defer at.close()
	found := &setReader{at: at, limit: limit, match: func(r *store.Record) bool {
		return r.RequestID == requestID
	}}
	hash := requestHash(requestID)
	c := at.view(bucketRequest).cursor()
	k, _ := c.seek(nil)
	for len(k) == requestKeyBytes && !found.full() {
		// Seeking by the window of the key that we stand on skips windows that are empty.
		w := binary.BigEndian.Uint64(k)
		prefix := requestPrefix(w, hash)
		for k, _ = c.seek(prefix); len(k) == requestKeyBytes && bytes.HasPrefix(k, prefix); k, _ = c.next() {
			if err := found.add(k[16:]); err != nil {
				return nil, err
			}
		}
		if len(k) == requestKeyBytes && binary.BigEndian.Uint64(k) == w {
			k, _ = c.seek(requestPrefix(w+1, 0))
		}
	}
	return found.out, nil
}

// RecordsByCause returns the records of the commands that r made someone send.
func (s *Store) RecordsByCause(r store.Revision, limit int) ([]store.Record, error) {
	at, err := s.begin()
	if err != nil {
		return nil, err
	}
	defer at.close()
	found := &setReader{at: at, limit: limit, match: func(rec *store.Record) bool {
		return rec.Cause.Revision == r
	}}
	c := at.view(bucketCause).cursor()
	prefix := revKey(r)
	for k, _ := c.seek(prefix); len(k) == causeKeyBytes && bytes.HasPrefix(k, prefix) && !found.full(); k, _ = c.next() {
		if err := found.add(k[8:]); err != nil {
			return nil, err
		}
	}
	return found.out, nil
}

// setReader collects the records of sets that an index names. The records of a set agree in everything that an index is
// over, so the first speaks for all.
type setReader struct {
	at    *reading
	limit int
	match func(*store.Record) bool
	out   []store.Record
}

func (s *setReader) full() bool { return len(s.out) >= s.limit }

func (s *setReader) add(firstRevision []byte) error {
	first := store.Revision(binary.BigEndian.Uint64(firstRevision))
	for r, last := first, first; r <= last && !s.full(); r++ {
		j, ok, err := readJournal(s.at, r)
		if err != nil {
			return err
		}
		if !ok || !s.match(&j.rec) {
			return nil
		}
		last = j.set.last
		s.out = append(s.out, j.rec)
	}
	return nil
}
