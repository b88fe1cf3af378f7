package raftlog

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// ErrLocked means that another process holds the file.
var ErrLocked = errors.New("file is locked by another process")

// lockTimeout is how long Open waits for another process to let go: enough for the overlap of a service restart.
const lockTimeout = 3 * time.Second

// tailBytes bounds the newest entries kept in memory for reads, in bytes of their encoding.
const tailBytes = 2 << 20

// Log is an open raft.db. Append, Install* and Reset are for one goroutine at a time; reads may run beside them.
type Log struct {
	db   *bbolt.DB
	path string

	mu   sync.Mutex // guards the fields below
	meta Meta
	last uint64      // index of the last entry; equals meta.Begin.Index when there is none
	tail []*pb.Entry // the newest entries, contiguous up to last; never mutated in place below len
	size int         // encoded bytes of tail
}

// Open opens or creates the file. It waits at most a few seconds for another holder and then returns ErrLocked.
func Open(path string) (*Log, error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{
		Timeout:        lockTimeout,
		NoFreelistSync: true,
		FreelistType:   bbolt.FreelistMapType,
		PageSize:       4096, // the OS page would quadruple writes on 16 KiB kernels
	})
	if errors.Is(err, berrors.ErrTimeout) {
		return nil, fmt.Errorf("open %s: %w: is another drover-hub running on this directory?", path, ErrLocked)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	l := &Log{db: db, path: path}
	if err := l.load(); err != nil {
		return nil, errors.Join(fmt.Errorf("read %s: %w", path, err), db.Close())
	}
	return l, nil
}

// refuseForeign looks before anything is written: a bbolt file of something else stays as it is.
func (l *Log) refuseForeign() error {
	return l.db.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(name []byte, _ *bbolt.Bucket) error {
			if !bytes.Equal(name, bucketLog) && !bytes.Equal(name, bucketMeta) {
				return fmt.Errorf("it is no Raft log: it holds %.40q", name)
			}
			return nil
		})
	})
}

func (l *Log) load() error {
	if err := l.refuseForeign(); err != nil {
		return err
	}
	err := l.db.Update(func(tx *bbolt.Tx) error {
		if _, err := tx.CreateBucketIfNotExists(bucketLog); err != nil {
			return err
		}
		_, err := tx.CreateBucketIfNotExists(bucketMeta)
		return err
	})
	if err != nil {
		return err
	}
	return l.db.View(func(tx *bbolt.Tx) error {
		meta, err := readMeta(tx.Bucket(bucketMeta))
		if err != nil {
			return err
		}
		l.meta, l.last = meta, meta.Begin.Index
		log := tx.Bucket(bucketLog)
		first, last, ok, err := ends(log)
		if err != nil || !ok {
			return err
		}
		if first != meta.Begin.Index+1 {
			return fmt.Errorf("log begins at %d, want %d", first, meta.Begin.Index+1)
		}
		l.last = last
		return l.loadTail(log, first)
	})
}

// loadTail reads the newest entries, as many as the budget has room for.
func (l *Log) loadTail(b *bbolt.Bucket, first uint64) error {
	from, room := l.last+1, tailBytes
	c := b.Cursor()
	for k, v := c.Last(); k != nil && room >= len(v); k, v = c.Prev() {
		room -= len(v)
		index, piece, err := parsePieceKey(k)
		if err != nil {
			return err
		}
		if piece == 0 {
			from = index
		}
	}
	for k, v := c.Seek(pieceKey(max(from, first), 0)); k != nil; {
		e, size, nextK, nextV, err := nextEntry(c, k, v)
		if err != nil {
			return err
		}
		l.tail = append(l.tail, e)
		l.size += size
		k, v = nextK, nextV
	}
	return nil
}

// Close releases the file. Closing twice is harmless.
func (l *Log) Close() error { return l.db.Close() }

// Path is the file's path, for messages.
func (l *Log) Path() string { return l.path }

// Size is the file's size in bytes, 0 if it cannot be told.
func (l *Log) Size() int64 {
	info, err := os.Stat(l.path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// Meta returns what is durable besides the entries.
func (l *Log) Meta() Meta {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.meta
	m.Records = append([]Record(nil), l.meta.Records...)
	return m
}

// Batch is one durable step. Zero fields change nothing.
type Batch struct {
	Entries []*pb.Entry   // contiguous; replace everything from the first one's index on
	Hard    *pb.HardState // whole
	Conf    *Conf         // whole
	Records []Record      // whole list
	Compact uint64        // drop entries up to and including this index; must be an entry that is kept now
}

// Merge makes b the effect of b followed by next.
func (b *Batch) Merge(next Batch) {
	if len(next.Entries) > 0 {
		keep := len(b.Entries)
		for keep > 0 && b.Entries[keep-1].GetIndex() >= next.Entries[0].GetIndex() {
			keep--
		}
		b.Entries = append(b.Entries[:keep:keep], next.Entries...)
	}
	if next.Hard != nil {
		b.Hard = next.Hard
	}
	if next.Conf != nil {
		b.Conf = next.Conf
	}
	if next.Records != nil {
		b.Records = next.Records
	}
	b.Compact = max(b.Compact, next.Compact)
}

// Urgent tells whether anything that a member says of the batch holds only once it is durable, given the hard state that is: its
// entries and what is recorded of others with them, its term and its vote. A commit index, a membership and what may be dropped
// are none.
func (b *Batch) Urgent(durable *pb.HardState) bool {
	return len(b.Entries) > 0 || b.Records != nil ||
		b.Hard != nil && (b.Hard.GetTerm() != durable.GetTerm() || b.Hard.GetVote() != durable.GetVote())
}

// Append writes the batch in one transaction and returns when it is durable.
func (l *Log) Append(b Batch) error {
	begin, err := l.compactionPoint(b.Compact)
	if err != nil {
		return err
	}
	err = l.db.Update(func(tx *bbolt.Tx) error {
		if err := putMeta(tx.Bucket(bucketMeta), b, begin); err != nil {
			return err
		}
		log := tx.Bucket(bucketLog)
		log.FillPercent = 1.0 // keys only grow
		if err := l.putEntries(log, b.Entries); err != nil {
			return err
		}
		return dropUpTo(log, begin)
	})
	if err != nil {
		return fmt.Errorf("write %s: %w", l.path, err)
	}
	l.remember(b, begin)
	return nil
}

func putMeta(b *bbolt.Bucket, batch Batch, begin *EntryID) error {
	if batch.Hard != nil {
		if err := putHard(b, batch.Hard); err != nil {
			return err
		}
	}
	if batch.Conf != nil {
		if err := putConf(b, *batch.Conf); err != nil {
			return err
		}
	}
	if batch.Records != nil {
		if err := putCBOR(b, keyRecords, batch.Records); err != nil {
			return err
		}
	}
	if begin != nil {
		return putCBOR(b, keyBegin, *begin)
	}
	return nil
}

func (l *Log) putEntries(b *bbolt.Bucket, entries []*pb.Entry) error {
	if len(entries) == 0 {
		return nil
	}
	first := entries[0].GetIndex()
	if last, _ := l.LastIndex(); first > last+1 {
		return fmt.Errorf("entry %d does not follow %d", first, last)
	}
	if err := dropFrom(b, first); err != nil {
		return err
	}
	for _, e := range entries {
		if err := putEntry(b, e); err != nil {
			return err
		}
	}
	return nil
}

// compactionPoint is the new begin of the log, or nil when there is nothing to drop.
func (l *Log) compactionPoint(index uint64) (*EntryID, error) {
	if first, _ := l.FirstIndex(); index < first {
		return nil, nil
	}
	term, err := l.Term(index)
	if err != nil {
		return nil, fmt.Errorf("compact %s to %d: %w", l.path, index, err)
	}
	return &EntryID{Index: index, Term: term}, nil
}

// remember takes over into memory what has become durable.
func (l *Log) remember(b Batch, begin *EntryID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b.Hard != nil {
		l.meta.Hard = b.Hard
	}
	if b.Conf != nil {
		l.meta.Conf = *b.Conf
	}
	if b.Records != nil {
		l.meta.Records = append([]Record(nil), b.Records...)
	}
	if len(b.Entries) > 0 {
		l.extendTailLocked(b.Entries)
	}
	if begin != nil {
		l.meta.Begin = *begin
		l.last = max(l.last, begin.Index)
		l.shrinkTailLocked(func() bool { return l.tail[0].GetIndex() <= begin.Index })
	}
}

func (l *Log) extendTailLocked(entries []*pb.Entry) {
	keep := len(l.tail)
	for keep > 0 && l.tail[keep-1].GetIndex() >= entries[0].GetIndex() {
		keep--
		l.size -= proto.Size(l.tail[keep])
	}
	l.tail = append(l.tail[:keep:keep], entries...)
	for _, e := range entries {
		l.size += proto.Size(e)
	}
	l.last = entries[len(entries)-1].GetIndex()
	l.shrinkTailLocked(func() bool { return l.size > tailBytes })
}

// shrinkTailLocked drops the oldest entries from memory while the condition holds.
func (l *Log) shrinkTailLocked(more func() bool) {
	for len(l.tail) > 0 && more() {
		l.size -= proto.Size(l.tail[0])
		l.tail = l.tail[1:]
	}
}

var _ raft.Storage = (*Log)(nil)
