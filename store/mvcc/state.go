package mvcc

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/drover-fleet/drover/store"
)

// bucket is one of the file's; doc.go draws what is in them. Their order is that of a snapshot.
type bucket int

const (
	bucketMeta bucket = iota
	bucketRev
	bucketJournal
	bucketHead
	bucketRequest
	bucketCause
	bucketWriter
	buckets
)

func (b bucket) String() string {
	return [buckets]string{"meta", "rev", "journal", "head", "request", "cause", "writer"}[b]
}

// of is the bucket in a file.
func (b bucket) of(tx *bolt.Tx) *bolt.Bucket { return tx.Bucket([]byte(b.String())) }

// contentBuckets are those that the hash covers pair by pair.
func contentBuckets() []bucket { return allBuckets()[1:] }

func allBuckets() []bucket {
	return []bucket{bucketMeta, bucketRev, bucketJournal, bucketHead, bucketRequest, bucketCause, bucketWriter}
}

// Keys of bucket meta.
const (
	metaFormat    = "format"
	metaLevel     = "level"
	metaApplied   = "applied" // index, term
	metaRevision  = "revision"
	metaCompacted = "compacted"
	metaOrdinal   = "ordinal"
	metaEpoch     = "epoch" // number, then the id
	metaHash      = "hash"
	metaLimits    = "limits"
	metaUsage     = "usage" // bytes of each class, then which are full
)

// fileFormat is what bucket meta says of the layout as a whole. Another value is another program's file.
const fileFormat = "drover-state/1"

// state is one state of the store between two calls of Apply, held immutable while anyone reads it.
type state struct {
	applied, term uint64 // of the last entry applied
	level         uint16 // of the cluster: commands above it are refused by every member alike
	epoch         store.Epoch
	revision      store.Revision // newest
	compacted     store.Revision // oldest readable; versions that only older revisions see are gone
	ordinal       uint64         // commands remembered in bucket writer so far
	content       sum            // of contentBuckets
	limits        store.Limits
	used          [classes]uint64 // logical bytes
	full          [classes]bool   // of those that refuse; the journal never is
	keys          index
	fresh         *layer // what was applied since the last checkpoint began
}

// digest is the hash of the state as a whole.
func (s *state) digest() [sha256.Size]byte {
	b := s.content.bytes()
	for _, n := range []uint64{
		s.applied, s.term, uint64(s.level), uint64(s.epoch.Number), uint64(s.revision), uint64(s.compacted), s.ordinal,
	} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	b = append(append(b, s.encodeUsage()...), encodeLimits(s.limits)...)
	return sha256.Sum256(append(b, s.epoch.ID...))
}

// readable maps the revision asked for to the one to read at, before sets are considered.
func (s *state) readable(r store.Revision) (store.Revision, error) {
	switch {
	case r == 0:
		return s.revision, nil
	case r.Epoch() != s.epoch.Number:
		return 0, store.ErrOtherEpoch
	case r > s.revision:
		return 0, store.ErrAhead
	case r < s.compacted:
		return 0, store.ErrCompacted
	}
	return r, nil
}

// watchable maps the first revision wanted to the one to begin at; zero begins after the newest.
func (s *state) watchable(from store.Revision) (store.Revision, error) {
	switch {
	case from == 0:
		return s.revision + 1, nil
	case from.Epoch() != s.epoch.Number:
		return 0, store.ErrOtherEpoch
	case from > s.revision+1:
		return 0, store.ErrAhead
	case from <= s.compacted:
		return 0, store.ErrCompacted
	case plantWatchLate && from <= s.revision:
		return from + 1, nil
	}
	return from, nil
}

// numbers are the pairs of bucket meta that this build knows; others there are left alone.
func (s *state) numbers() *tree {
	be := binary.BigEndian
	meta := newTree()
	put := func(key string, value []byte) { meta.ReplaceOrInsert(pair{key: []byte(key), value: value}) }
	put(metaFormat, []byte(fileFormat))
	put(metaLevel, be.AppendUint64(nil, uint64(s.level)))
	put(metaApplied, be.AppendUint64(be.AppendUint64(nil, s.applied), s.term))
	put(metaRevision, be.AppendUint64(nil, uint64(s.revision)))
	put(metaCompacted, be.AppendUint64(nil, uint64(s.compacted)))
	put(metaOrdinal, be.AppendUint64(nil, s.ordinal))
	put(metaEpoch, append(be.AppendUint64(nil, uint64(s.epoch.Number)), s.epoch.ID...))
	put(metaHash, s.content.bytes())
	put(metaLimits, encodeLimits(s.limits))
	put(metaUsage, s.encodeUsage())
	return meta
}

// loadState reads everything that is kept in memory. The file is not trusted: a restored one came over the network.
func loadState(db *bolt.DB) (s *state, writers *writerTable, err error) {
	err = db.View(func(tx *bolt.Tx) error {
		for _, name := range allBuckets() {
			if name.of(tx) == nil {
				return fmt.Errorf("bucket %s is missing: this is not a Drover state file, or its making was cut off", name)
			}
		}
		if s, err = loadMeta(bucketMeta.of(tx)); err != nil {
			return err
		}
		if writers, err = loadWriters(view{base: bucketWriter.of(tx)}); err != nil {
			return err
		}
		return s.loadKeys(bucketRev.of(tx))
	})
	return s, writers, err
}

func loadMeta(meta *bolt.Bucket) (*state, error) {
	if f := meta.Get([]byte(metaFormat)); string(f) != fileFormat {
		return nil, fmt.Errorf("format is %.32q, this build reads %q", f, fileFormat)
	}
	bad := false
	number := func(key string) uint64 {
		v := meta.Get([]byte(key))
		if len(v) < 8 {
			bad = true
			return 0
		}
		return binary.BigEndian.Uint64(v)
	}
	s := &state{
		applied:   number(metaApplied),
		revision:  store.Revision(number(metaRevision)),
		compacted: store.Revision(number(metaCompacted)),
		ordinal:   number(metaOrdinal),
	}
	level, epoch := number(metaLevel), number(metaEpoch)
	applied := meta.Get([]byte(metaApplied))
	content, ok := parseSum(meta.Get([]byte(metaHash)))
	if bad || !ok || len(applied) != 16 || s.compacted > s.revision || uint64(s.revision.Epoch()) != epoch {
		return nil, errors.New("bucket meta is malformed")
	}
	if level > store.FormatLevel {
		return nil, fmt.Errorf("state is at format level %d and this build knows %d: install a newer build", level, store.FormatLevel)
	}
	s.level, s.content, s.keys, s.fresh = uint16(level), content, newIndex(), newLayer()
	if !s.decodeLimits(meta.Get([]byte(metaLimits))) || !s.decodeUsage(meta.Get([]byte(metaUsage))) {
		return nil, errors.New("bucket meta is malformed")
	}
	s.term = binary.BigEndian.Uint64(applied[8:])
	s.epoch = store.Epoch{Number: s.revision.Epoch(), ID: string(meta.Get([]byte(metaEpoch))[8:])}
	return s, nil
}

// loadKeys rebuilds the index. Every revision after compacted has its record, and they lie in their sets without a gap:
// reads and watches rely on it, so it is checked here.
func (s *state) loadKeys(revs *bolt.Bucket) error {
	c := revs.Cursor()
	want := span{s.compacted + 1, s.compacted} // the set that the next revision must be in; none yet
	next := s.compacted + 1
	for k, v := c.First(); k != nil; k, v = c.Next() {
		r, err := parseRevKey(k)
		if err != nil {
			return err
		}
		rec, err := decodeRecord(r, v)
		if err != nil {
			return err
		}
		if r > s.compacted {
			if next > want.last {
				want = span{next, rec.set.last}
			}
			if r != next || rec.set != want || rec.set.last > s.revision {
				return fmt.Errorf("%w: revision %d does not follow %d", errRecord, r, next-1)
			}
			next++
		}
		m := mark{rev: r, dead: rec.dead}
		if e, ok := s.keys.Get(&entry{key: rec.key}); ok {
			s.keys.ReplaceOrInsert(e.with(m))
		} else {
			s.keys.ReplaceOrInsert(&entry{key: rec.key, last: m})
		}
	}
	if next != s.revision+1 {
		return fmt.Errorf("%w: revisions end at %d, not at %d", errRecord, next-1, s.revision)
	}
	return nil
}
