package mvcc

import (
	"context"
	"errors"
	"fmt"
	"os"

	bolt "go.etcd.io/bbolt"

	"github.com/drover-fleet/drover/store"
)

// shrinkSuffix names the file in which a compacted copy grows, beside the state.
const shrinkSuffix = ".shrink"

// Sizes of a file before and after, in bytes.
type Sizes struct{ Before, After int64 }

// CompactFile writes the contents into a new file without the free pages of the old one and puts it in its place. Contents, index
// and watchers are as before; reads go on, entries and snapshots wait meanwhile, about a second for each 256 MiB of live data.
// The new file is synced before it takes the place: an error, an ended context or a kill at any point leaves the old file or the new one
// whole. It needs as much free space as the live data.
func (s *Store) CompactFile(ctx context.Context) (Sizes, error) {
	old, sizes, err := s.compactFile(ctx)
	if err == nil {
		err = old.Close() // waits for its readers, and nobody waits for us
	}
	if err != nil {
		return sizes, fmt.Errorf("compact file %s: %w", s.path, err)
	}
	return sizes, nil
}

func (s *Store) compactFile(ctx context.Context) (old *bolt.DB, sizes Sizes, err error) {
	s.applyMu.Lock()
	defer s.applyMu.Unlock()
	if s.closed {
		return nil, sizes, store.ErrClosed
	}
	s.settle()
	aside := s.path + shrinkSuffix
	if err := removeFile(aside); err != nil {
		return nil, sizes, err
	}
	opts := boltOptions(defaultLockTimeout)
	opts.NoSync = true // once, at the end
	db, err := bolt.Open(aside, 0o600, opts)
	if err != nil {
		return nil, sizes, errors.Join(err, removeFile(aside))
	}
	db.AllocSize = growBytes
	if err = copyPairs(ctx, db, s.db); err == nil {
		db.NoSync = false
		sizes, err = fileSizes(s.path, aside)
	}
	if err == nil {
		old, err = s.swapFile(aside, db)
	}
	if err != nil {
		return nil, sizes, errors.Join(err, db.Close(), removeFile(aside))
	}
	return old, sizes, s.settleRename()
}

// Wasted is how many bytes of the file are free pages, and its size. Pages that an open reader keeps count as free.
func (s *Store) Wasted() (free, size int64, err error) {
	at, err := s.begin()
	if err != nil {
		return 0, 0, err
	}
	defer at.close()
	stats := at.tx.DB().Stats()
	return int64(stats.FreePageN+stats.PendingPageN) * int64(at.tx.DB().Info().PageSize), at.tx.Size(), nil
}

// swapFile puts a copy of the present contents in the place of the file.
func (s *Store) swapFile(aside string, db *bolt.DB) (old *bolt.DB, err error) {
	s.abortSnapshots()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := os.Rename(aside, s.path); err != nil {
		return nil, err
	}
	old, s.db = s.db, db
	return old, nil
}

// copyPairs copies every bucket, a few MiB in each transaction, and syncs.
func copyPairs(ctx context.Context, to, from *bolt.DB) error {
	src, err := from.Begin(false)
	if err != nil {
		return err
	}
	defer func() { _ = src.Rollback() }()
	for _, name := range allBuckets() {
		if err := copyBucket(ctx, to, name.of(src), []byte(name.String())); err != nil {
			return err
		}
	}
	return to.Sync()
}

func copyBucket(ctx context.Context, to *bolt.DB, from *bolt.Bucket, name []byte) error {
	c := from.Cursor()
	k, v := c.First()
	for first := true; first || k != nil; first = false {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := to.Update(func(tx *bolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists(name)
			if err != nil {
				return err
			}
			b.FillPercent = 1
			for size := 0; k != nil && size < restoreBatch; k, v = c.Next() {
				if err := b.Put(k, v); err != nil {
					return err
				}
				size += len(k) + len(v)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func fileSizes(before, after string) (Sizes, error) {
	b, err := os.Stat(before)
	if err != nil {
		return Sizes{}, err
	}
	a, err := os.Stat(after)
	if err != nil {
		return Sizes{}, err
	}
	return Sizes{Before: b.Size(), After: a.Size()}, nil
}

func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
