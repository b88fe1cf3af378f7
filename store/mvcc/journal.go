package mvcc

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/drover-fleet/drover/store"
)

// journalHead takes over the end of a forgotten key's chain, for the key comes to life again.
func (t *transaction) journalHead(key string) (store.Revision, error) {
	raw := t.buckets[bucketHead].Get([]byte(key))
	if raw == nil {
		return 0, nil
	}
	return parseRevKey(raw)
}

// note writes the journal record of one change.
func (t *transaction) note(c *store.Command, ch *change, set span) error {
	if err := t.remove(bucketHead, []byte(ch.kv.Key)); err != nil {
		return err
	}
	j := &journalRecord{set: set, prev: ch.last, rec: store.Record{
		Revision: ch.rev, Time: c.Time, Actor: c.Actor, RequestID: c.RequestID, Cause: c.Cause,
		Type: ch.op.Type, Key: ch.kv.Key, Note: ch.op.Note,
	}}
	return t.insert(bucketJournal, revKey(ch.rev), encodeJournal(j))
}

// noteCommand indexes a command by its request and its cause: once a command, not once an op.
func (t *transaction) noteCommand(c *store.Command, first store.Revision) error {
	if err := t.insert(bucketRequest, joinRevisions(requestHash(c.RequestID), first), nil); err != nil {
		return err
	}
	if c.Cause.Revision == 0 {
		return nil
	}
	return t.insert(bucketCause, joinRevisions(uint64(c.Cause.Revision), first), nil)
}

// requestHash shortens a request id to a fixed size. Readers compare the whole id in the record, so that two ids with
// one hash cost a look, not an error.
func requestHash(id string) uint64 {
	h := sha256.Sum256([]byte(id))
	return binary.BigEndian.Uint64(h[:])
}

// Record returns the journal record of one revision.
func (s *Store) Record(r store.Revision) (store.Record, bool, error) {
	tx, _, err := s.begin()
	if err != nil {
		return store.Record{}, false, err
	}
	defer func() { _ = tx.Rollback() }()
	j, ok, err := readJournal(tx, r)
	return j.rec, ok, err
}

func readJournal(tx *bolt.Tx, r store.Revision) (journalRecord, bool, error) {
	raw := tx.Bucket([]byte(bucketJournal)).Get(revKey(r))
	if raw == nil {
		return journalRecord{}, false, nil
	}
	j, err := decodeJournal(r, raw)
	return j, err == nil, err
}

// RecordsOf follows the chain of one key back from its newest record; it outlives the key and its compaction.
func (s *Store) RecordsOf(key string, limit int) ([]store.Record, error) {
	tx, now, err := s.begin()
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }()
	var r store.Revision
	if e, ok := now.keys.Get(&entry{key: key}); ok {
		r = e.last.rev
	} else if raw := tx.Bucket([]byte(bucketHead)).Get([]byte(key)); raw != nil {
		if r, err = parseRevKey(raw); err != nil {
			return nil, err
		}
	}
	var out []store.Record
	for r != 0 && len(out) < limit {
		j, ok, err := readJournal(tx, r)
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
	return s.recordsBy(bucketRequest, requestHash(requestID), limit, func(r *store.Record) bool {
		return r.RequestID == requestID
	})
}

// RecordsByCause returns the records of the commands that r made someone send.
func (s *Store) RecordsByCause(r store.Revision, limit int) ([]store.Record, error) {
	return s.recordsBy(bucketCause, uint64(r), limit, func(rec *store.Record) bool {
		return rec.Cause.Revision == r
	})
}

// recordsBy reads the sets that an index names under one number. The records of a set agree in everything that an index
// is over, so the first speaks for all.
func (s *Store) recordsBy(bucket string, number uint64, limit int, match func(*store.Record) bool) ([]store.Record, error) {
	tx, now, err := s.begin()
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }()
	prefix := binary.BigEndian.AppendUint64(nil, number)
	var out []store.Record
	c := tx.Bucket([]byte(bucket)).Cursor()
	for k, _ := c.Seek(prefix); len(k) == 16 && bytes.HasPrefix(k, prefix) && len(out) < limit; k, _ = c.Next() {
		first := store.Revision(binary.BigEndian.Uint64(k[8:]))
		if first > now.revision {
			break // committed a moment ago, not shown yet
		}
		for r, last := first, first; r <= last && len(out) < limit; r++ {
			j, ok, err := readJournal(tx, r)
			if err != nil {
				return nil, err
			}
			if !ok || !match(&j.rec) {
				break
			}
			last = j.set.last
			out = append(out, j.rec)
		}
	}
	return out, nil
}
