package mvcc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"

	"github.com/drover-fleet/drover/store"
)

// restoreSuffix names the file in which a restored copy grows, beside the state.
const restoreSuffix = ".restore"

// restoreBatch is how many bytes go into one transaction of a restore: enough to fill pages, little to hold in memory.
const restoreBatch = 4 << 20

// Restore replaces everything by a snapshot of the given index. The copy is written aside, synced and checked in full
// (checksum, structure, hash and index) before it takes the place of the state by a rename; on any error, or a kill at any point,
// the state is the old one or the new one whole. All watchers end: with ErrOtherEpoch where the epoch changed, else with
// ErrCompacted.
func (s *Store) Restore(index uint64, r io.Reader) error {
	s.applyMu.Lock()
	defer s.applyMu.Unlock()
	if s.closed {
		return store.ErrClosed
	}
	s.settle()
	db, now, writers, err := s.restoreAside(index, r)
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	old, before, err := s.swap(db, now, writers)
	if err != nil {
		return fmt.Errorf("restore: %w", errors.Join(err, db.Close(), removeAside(s.path)))
	}
	ended := store.ErrCompacted
	if before.epoch != now.epoch {
		ended = store.ErrOtherEpoch
	}
	s.hub.Reset(now.revision, ended)
	if err := errors.Join(s.settleRename(), old.Close()); err != nil {
		return fmt.Errorf("restore: the copy stands, but may not outlive a power cut: %w", err)
	}
	s.mu.Lock()
	s.synced = now.applied
	s.mu.Unlock()
	return nil
}

// settleRename makes a file that was put in the place of another outlive a power cut. Where it cannot, the store applies nothing any
// more: what checkpoints would write may be gone with the file.
func (s *Store) settleRename() error {
	err := syncDir(filepath.Dir(s.path))
	if err != nil {
		s.mu.Lock()
		s.failed = err
		s.mu.Unlock()
	}
	return err
}

func removeAside(path string) error { return removeFile(path + restoreSuffix) }

// swap puts the new file in the place of the old. The open database goes along with its file, lock included.
func (s *Store) swap(db *bolt.DB, now *state, writers *writerTable) (old *bolt.DB, before *state, err error) {
	s.abortSnapshots()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := os.Rename(s.path+restoreSuffix, s.path); err != nil {
		return nil, nil, err
	}
	old, before = s.db, s.now
	s.db, s.old, s.now, s.writers, s.hashes = db, nil, now, writers, nil
	s.synced = min(s.synced, now.applied) // until the directory is synced, either file may be what a power cut leaves
	return old, before, nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (s *Store) restoreAside(index uint64, r io.Reader) (*bolt.DB, *state, *writerTable, error) {
	if err := removeAside(s.path); err != nil {
		return nil, nil, nil, err
	}
	path := s.path + restoreSuffix
	opts := boltOptions(defaultLockTimeout)
	opts.NoSync = true // once, at the end
	db, err := bolt.Open(path, 0o600, opts)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("open %s: %w", path, err)
	}
	db.AllocSize = growBytes
	now, writers, err := fill(db, index, r)
	if err != nil {
		return nil, nil, nil, errors.Join(err, db.Close(), removeAside(s.path))
	}
	return db, now, writers, nil
}

func fill(db *bolt.DB, index uint64, r io.Reader) (*state, *writerTable, error) {
	content, err := receive(db, r)
	if err != nil {
		return nil, nil, err
	}
	if err := db.Sync(); err != nil {
		return nil, nil, fmt.Errorf("sync: %w", err)
	}
	db.NoSync = false
	now, writers, err := loadState(db)
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("%w: %w", errSnapshot, err)
	case now.content != content:
		return nil, nil, damaged("contents do not have the hash that they state", nil)
	case now.applied != index:
		return nil, nil, damaged(fmt.Sprintf("it is of index %d, not %d", now.applied, index), nil)
	}
	return now, writers, nil
}

// receiver writes frames to a database, a few MiB in each transaction.
type receiver struct {
	db     *bolt.DB
	tx     *bolt.Tx
	bytes  int
	bucket bucket
	last   []byte // key before in the bucket
	hasher *pairHasher
	sum    sum
}

// receive stores a stream and returns the hash of its pairs.
func receive(db *bolt.DB, r io.Reader) (sum, error) {
	in := newSnapshotReader(r)
	if err := in.magic(); err != nil {
		return sum{}, err
	}
	w := &receiver{db: db, hasher: newPairHasher()}
	err := w.frames(in)
	if err == nil {
		err = in.end()
	}
	if w.tx == nil {
		return w.sum, err
	}
	if err != nil {
		return sum{}, errors.Join(err, w.tx.Rollback())
	}
	return w.sum, w.tx.Commit()
}

func (w *receiver) frames(in *snapshotReader) error {
	names := allBuckets()
	for {
		frame, err := in.ReadByte()
		switch {
		case err != nil:
			return damaged("frame", err)
		case frame == frameEnd && len(names) == 0:
			return nil
		case frame == frameBucket:
			name, err := in.bytes("bucket name", maxPairKey)
			if err != nil {
				return err
			}
			if len(names) == 0 || string(name) != names[0].String() {
				return damaged(fmt.Sprintf("bucket %.32q is not expected here", name), nil)
			}
			w.bucket, w.last, names = names[0], nil, names[1:]
			if err := w.begin(); err != nil {
				return err
			}
		case frame == framePair && w.tx != nil:
			if err := w.pair(in); err != nil {
				return err
			}
		default:
			return damaged(fmt.Sprintf("frame %d is not expected here", frame), nil)
		}
	}
}

// begin makes sure of a transaction and of the present bucket in it.
func (w *receiver) begin() (err error) {
	if w.tx == nil {
		if w.tx, err = w.db.Begin(true); err != nil {
			return err
		}
	}
	_, err = w.tx.CreateBucketIfNotExists([]byte(w.bucket.String()))
	return err
}

func (w *receiver) pair(in *snapshotReader) error {
	key, err := in.bytes("key", maxPairKey)
	if err != nil {
		return err
	}
	value, err := in.bytes("value", maxPairValue)
	if err != nil {
		return err
	}
	if len(key) == 0 || w.last != nil && bytes.Compare(key, w.last) <= 0 {
		return damaged("keys are out of order", nil)
	}
	w.last = key
	b := w.bucket.of(w.tx)
	b.FillPercent = 1
	if err := b.Put(key, value); err != nil {
		return err
	}
	if w.bucket != bucketMeta {
		w.sum.add(w.hasher.pair(w.bucket, key, value))
	}
	if w.bytes += len(key) + len(value); w.bytes < restoreBatch {
		return nil
	}
	tx := w.tx
	w.tx, w.bytes = nil, 0
	if err := tx.Commit(); err != nil {
		return err
	}
	return w.begin()
}

// ErrDamaged is returned by Verify where the file does not hold what was written to it.
var ErrDamaged = errors.New("contents differ from what was written")

// Verify reads the whole file and compares it with the hash that was kept while it was written. It finds what the disk has
// changed since (ErrDamaged). Applying goes on meanwhile.
func (s *Store) Verify(ctx context.Context) error {
	at, err := s.begin()
	if err != nil {
		return err
	}
	defer at.close()
	want, err := loadMeta(bucketMeta.of(at.tx))
	if err != nil {
		return fmt.Errorf("verify state: %w", err)
	}
	var got sum
	var used [classes]uint64
	hasher, pairs := newPairHasher(), 0
	for _, name := range contentBuckets() {
		err := name.of(at.tx).ForEach(func(k, v []byte) error {
			if pairs++; pairs%checkEvery == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			got.add(hasher.pair(name, k, v))
			if c, ok := want.classOf(name, v); ok {
				used[c] += uint64(len(k) + len(v))
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if got != want.content || used != want.used {
		return fmt.Errorf("verify state: %s: %w: re-seed this member", s.path, ErrDamaged)
	}
	return nil
}
