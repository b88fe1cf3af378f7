package raftlog

import (
	"encoding/binary"
	"fmt"

	"go.etcd.io/bbolt"
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// InitialState implements raft.Storage.
func (l *Log) InitialState() (*pb.HardState, *pb.ConfState, error) {
	m := l.Meta()
	return m.Hard, pb.EnsureConfState(m.Conf.State), nil
}

// FirstIndex implements raft.Storage.
func (l *Log) FirstIndex() (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.meta.Begin.Index + 1, nil
}

// LastIndex implements raft.Storage.
func (l *Log) LastIndex() (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last, nil
}

// Term implements raft.Storage.
func (l *Log) Term(index uint64) (uint64, error) {
	l.mu.Lock()
	begin, last := l.meta.Begin, l.last
	e := l.tailEntryLocked(index)
	l.mu.Unlock()
	switch {
	case index < begin.Index:
		return 0, raft.ErrCompacted
	case index == begin.Index:
		return begin.Term, nil
	case index > last:
		return 0, raft.ErrUnavailable
	case e != nil:
		return e.GetTerm(), nil
	}
	entries, err := l.read(index, index+1, 0)
	if err != nil {
		return 0, err
	}
	return entries[0].GetTerm(), nil
}

// Entries implements raft.Storage.
func (l *Log) Entries(lo, hi, maxSize uint64) ([]*pb.Entry, error) {
	l.mu.Lock()
	begin, last := l.meta.Begin, l.last
	var found []*pb.Entry
	if len(l.tail) > 0 && lo >= l.tail[0].GetIndex() && lo < hi && hi <= last+1 {
		off := l.tail[0].GetIndex()
		found = l.tail[lo-off : hi-off]
	}
	l.mu.Unlock()
	switch {
	case lo <= begin.Index:
		return nil, raft.ErrCompacted
	case hi > last+1 || lo >= hi:
		return nil, raft.ErrUnavailable
	case found == nil:
		return l.read(lo, hi, maxSize)
	}
	n, size := 0, uint64(0)
	for n < len(found) {
		size += uint64(proto.Size(found[n]))
		if n > 0 && size > maxSize {
			break
		}
		n++
	}
	return append([]*pb.Entry(nil), found[:n]...), nil
}

// Snapshot implements raft.Storage with where the log begins. Whoever sends state to others wraps it with the index of
// the state that it really has.
func (l *Log) Snapshot() (*pb.Snapshot, error) {
	m := l.Meta()
	return &pb.Snapshot{Metadata: &pb.SnapshotMetadata{
		Index: new(m.Begin.Index), Term: new(m.Begin.Term), ConfState: pb.EnsureConfState(m.Conf.State),
	}}, nil
}

func (l *Log) tailEntryLocked(index uint64) *pb.Entry {
	if len(l.tail) == 0 || index < l.tail[0].GetIndex() || index > l.last {
		return nil
	}
	return l.tail[index-l.tail[0].GetIndex()]
}

// read fetches entries [lo, hi) from the file, at least one, at most maxSize bytes of them.
func (l *Log) read(lo, hi, maxSize uint64) ([]*pb.Entry, error) {
	var out []*pb.Entry
	err := l.db.View(func(tx *bbolt.Tx) error {
		c := tx.Bucket(bucketLog).Cursor()
		total := uint64(0)
		k, v := c.Seek(pieceKey(lo, 0))
		for k != nil && binary.BigEndian.Uint64(k) < hi {
			e, size, nextK, nextV, err := nextEntry(c, k, v)
			if err != nil {
				return err
			}
			if total += uint64(size); len(out) > 0 && total > maxSize { //nolint:gosec // not negative
				return nil
			}
			out = append(out, e)
			k, v = nextK, nextV
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", l.path, err)
	}
	if len(out) == 0 || out[0].GetIndex() != lo {
		return nil, raft.ErrCompacted // dropped between the caller's look and ours
	}
	return out, nil
}
