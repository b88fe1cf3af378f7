package mvcc

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/drover-fleet/drover/store"
	"github.com/drover-fleet/drover/store/watch"
)

// Options of a store. The zero value is what a hub uses.
type Options struct {
	// LockTimeout is how long Open waits for another process to let go of the file. Default 2 s: a restart by a
	// supervisor may overlap a little, a second hub on the directory must be told soon.
	LockTimeout time.Duration
	// Watch bounds what is buffered per watcher.
	Watch watch.Options
	// CheckpointBytes of memory is how much is applied between two checkpoints at most; default 4 MiB. While the disk is behind it
	// may come to four times as much, then Apply waits for it.
	CheckpointBytes int
	// Inline has Apply write the checkpoints that are due, rather than a goroutine of their own: for a simulator.
	Inline bool
	// Checkpoint, when set, is called as a checkpoint of so many bytes of memory begins, and what it returns as it has ended.
	Checkpoint func(bytes int) (ended func(error))
	// Committed, when set, is called after each commit of a checkpoint, by who writes it: a simulator takes the file as a crash there
	// would leave it. It must not call the store.
	Committed func()
}

const defaultCheckpointBytes = 4 << 20

const defaultLockTimeout = 2 * time.Second

// newSuffix names the file in which a new state is made, beside its place.
const newSuffix = ".new"

// Store is one member's copy of the state. Apply, Snapshot and Restore are called by one goroutine, that of the log;
// everything else is safe from any.
type Store struct {
	path string
	hub  *watch.Hub
	o    Options // nothing in it is nil or zero

	// applyMu serialises Apply, Restore, Snapshot, CompactFile and Close, and the beginning of checkpoints. It is taken before mu.
	applyMu   sync.Mutex
	writers   *writerTable           // nil: to be read from the file again
	snapshots map[*snapshot]struct{} // open ones

	// mu pairs what a reader needs: the file holds nothing that is not in old, or was before it; old nothing that is not in now.
	// Held for moments only.
	mu      sync.RWMutex
	db      *bolt.DB // nil once closed
	old     *layer   // what a checkpoint is writing, between the file and now.fresh; nil: none is under way
	now     *state
	synced  uint64        // index of the newest checkpoint
	writing chan struct{} // closed at the end of the checkpoint under way; nil: none is
	failed  error         // a checkpoint's: nothing is applied any more
	hashes  []IndexHash   // the newest keptHashes, by rising index
	closed  bool
}

var (
	_ store.Reader      = (*Store)(nil)
	_ store.Watchable   = (*Store)(nil)
	_ store.Journal     = (*Store)(nil)
	_ store.Snapshotter = (*Store)(nil)
	_ watch.Source      = (*Store)(nil)
)

// Open opens the file at path, or makes it. A fresh store has no epoch and refuses writes until a command brings one.
// Only one process at a time can have the file open.
func Open(path string, opts Options) (*Store, error) {
	opts = opts.withDefaults()
	// What a restore or a compaction left when it was cut off before its swap has no meaning.
	if err := errors.Join(removeFile(path+restoreSuffix), removeFile(path+shrinkSuffix)); err != nil {
		return nil, fmt.Errorf("open state: %w", err)
	}
	if err := ensure(path, opts.LockTimeout); err != nil {
		return nil, err
	}
	db, err := openFile(path, opts.LockTimeout)
	if err != nil {
		return nil, err
	}
	now, writers, err := prepare(db)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open state file %s: %w", path, err), db.Close())
	}
	s := &Store{path: path, o: opts, db: db, now: now, synced: now.applied, writers: writers, snapshots: map[*snapshot]struct{}{}}
	s.hub = watch.NewHub(s, now.revision, opts.Watch)
	return s, nil
}

func (o Options) withDefaults() Options {
	if o.LockTimeout <= 0 {
		o.LockTimeout = defaultLockTimeout
	}
	if o.CheckpointBytes <= 0 {
		o.CheckpointBytes = defaultCheckpointBytes
	}
	if o.Checkpoint == nil {
		o.Checkpoint = func(int) func(error) { return func(error) {} }
	}
	if o.Committed == nil {
		o.Committed = func() {}
	}
	return o
}

// ensure makes the file when there is none. It is made aside and renamed, so that neither a full disk nor a crash leaves half of one.
func ensure(path string, lockTimeout time.Duration) error {
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		return nil // opening it says what else is wrong
	}
	aside := path + newSuffix
	err := os.Remove(aside)
	if err == nil || errors.Is(err, os.ErrNotExist) {
		err = makeFile(aside, lockTimeout)
	}
	if err == nil {
		err = os.Rename(aside, path)
	}
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		_ = os.Remove(aside) // what stays is removed by the next attempt
		return fmt.Errorf("make state file %s: %w", path, err)
	}
	return nil
}

func makeFile(path string, lockTimeout time.Duration) error {
	db, err := openFile(path, lockTimeout)
	if err != nil {
		return err
	}
	_, _, err = prepare(db)
	return errors.Join(err, db.Close())
}

func openFile(path string, lockTimeout time.Duration) (*bolt.DB, error) {
	db, err := bolt.Open(path, 0o600, boltOptions(lockTimeout))
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, fmt.Errorf("open state file %s: locked by %s: two hubs cannot share a data directory", path, lockHolder(path))
	}
	if err != nil {
		return nil, fmt.Errorf("open state file %s: %w", path, err)
	}
	db.AllocSize = growBytes
	return db, nil
}

// growBytes is by how much a file grows at a time: little enough for small disks, and for a compacted file to stay small; each
// growth costs a sync.
const growBytes = 4 << 20

func boltOptions(lockTimeout time.Duration) *bolt.Options {
	o := *bolt.DefaultOptions
	o.Timeout = lockTimeout
	o.NoFreelistSync = true // a fragmented file commits with a fifth of the writes; open scans instead
	o.FreelistType = bolt.FreelistMapType
	o.PageSize = 4096 // not the kernel's 16 KiB on some boards, which would write four times as much
	if strconv.IntSize == 64 {
		// Growing past the mapped size waits for readers; address space is free where there are 64 bits of it.
		o.InitialMmapSize = 1 << 30
	}
	return &o
}

// prepare makes the buckets of a new file, or reads an old one.
func prepare(db *bolt.DB) (*state, *writerTable, error) {
	fresh := false
	err := db.View(func(tx *bolt.Tx) error {
		k, _ := tx.Cursor().First()
		fresh = k == nil
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	if fresh {
		empty := &state{level: 1}
		if err := db.Update(func(tx *bolt.Tx) error { return createBuckets(tx, empty) }); err != nil {
			return nil, nil, fmt.Errorf("make: %w", err)
		}
	}
	return loadState(db)
}

func createBuckets(tx *bolt.Tx, s *state) error {
	for _, name := range allBuckets() {
		if _, err := tx.CreateBucketIfNotExists([]byte(name.String())); err != nil {
			return fmt.Errorf("bucket %s: %w", name, err)
		}
	}
	return writeTree(bucketMeta.of(tx), bucketMeta, s.numbers())
}

// Close ends all watchers with ErrClosed and lets go of the file, which is left as of the newest checkpoint. It may be called more
// than once.
func (s *Store) Close() error {
	s.applyMu.Lock()
	defer s.applyMu.Unlock()
	s.settle()
	s.abortSnapshots()
	s.mu.Lock()
	db := s.db
	s.db, s.closed = nil, true
	s.mu.Unlock()
	s.hub.End(store.ErrClosed)
	if db == nil {
		return nil
	}
	if err := db.Close(); err != nil {
		return fmt.Errorf("close state file %s: %w", s.path, err)
	}
	return nil
}

// state is the newest state.
func (s *Store) state() *state {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.now
}

// reading is one state of everything, for as long as it is open.
type reading struct {
	tx  *bolt.Tx
	old *layer
	now *state
}

// begin opens the newest state. The caller closes it soon: an open transaction keeps freed pages from being used again.
func (s *Store) begin() (*reading, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return nil, store.ErrClosed
	}
	tx, err := s.db.Begin(false)
	if err != nil {
		return nil, fmt.Errorf("read state: %w", err)
	}
	return &reading{tx: tx, old: s.old, now: s.now}, nil
}

func (r *reading) close() { _ = r.tx.Rollback() }

func (r *reading) view(b bucket) view {
	v := view{base: b.of(r.tx)}
	if r.old != nil {
		v.over[1] = r.old.trees[b]
	}
	if b == bucketMeta {
		v.over[0] = r.now.numbers()
	} else {
		v.over[0] = r.now.fresh.trees[b]
	}
	return v
}

// show makes a state the newest one.
func (s *Store) show(next *state, more []IndexHash) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = next
	s.hashes = append(s.hashes, more...)
	if n := len(s.hashes) - keptHashes; n > 0 {
		s.hashes = slices.Delete(s.hashes, 0, n)
	}
}

// Applied is the index of the last entry applied.
func (s *Store) Applied() uint64 { return s.state().applied }

// Synced is the applied index of the newest checkpoint: from there on the log has to be kept.
func (s *Store) Synced() uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.synced
}

// Revision is the newest revision.
func (s *Store) Revision() store.Revision { return s.state().revision }

// Compacted is the oldest revision that can be read; a watch must begin after it.
func (s *Store) Compacted() store.Revision { return s.state().compacted }

// Epoch is the present history; its number is zero in a store without identity.
func (s *Store) Epoch() store.Epoch { return s.state().epoch }

// Hash identifies the whole contents as of an applied index. Members with equal indexes have equal hashes. It follows
// from what was applied, not from what the disk holds now: for that see Verify.
func (s *Store) Hash() (applied uint64, sum [sha256.Size]byte) {
	now := s.state()
	return now.applied, now.digest()
}

// Watch starts a watcher; see [store.Watcher] for how it ends.
func (s *Store) Watch(ctx context.Context, w store.WatchRequest) (store.Watcher, error) {
	return s.hub.Watch(ctx, w)
}

// Progress sends an empty batch to each watcher that asked for them and has been idle across others' writes since the
// last one. When to call it is the caller's to decide.
func (s *Store) Progress() { s.hub.Progress() }
