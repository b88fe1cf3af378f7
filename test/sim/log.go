package sim

import (
	"errors"
	"fmt"
	"slices"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/drover-fleet/drover/consensus"
	"github.com/drover-fleet/drover/consensus/raftlog"
)

// memoryLog is a member's log without a file: each of its steps is durable at once or not at all, as each of raftlog's
// transactions is. It outlives the member. Some seeds run on raft.db itself instead.
type memoryLog struct {
	name    string
	meta    raftlog.Meta
	entries []*pb.Entry // after meta.Begin, never changed in place
}

var _ consensus.StoredLog = (*memoryLog)(nil)

// takeLog reads what a directory was prepared with.
func takeLog(path string) (*memoryLog, error) {
	l, err := raftlog.Open(path)
	if err != nil {
		return nil, err
	}
	m := &memoryLog{name: path, meta: l.Meta()}
	first, err := l.FirstIndex()
	last, err2 := l.LastIndex()
	if err = errors.Join(err, err2); err == nil && last >= first {
		m.entries, err = l.Entries(first, last+1, 1<<30)
	}
	return m, errors.Join(err, l.Close())
}

// clone is the log as it is now.
func (l *memoryLog) clone() *memoryLog {
	c := *l
	c.entries = slices.Clone(l.entries)
	return &c
}

func (l *memoryLog) last() uint64 { return l.meta.Begin.Index + uint64(len(l.entries)) }

// InitialState implements raft.Storage.
func (l *memoryLog) InitialState() (*pb.HardState, *pb.ConfState, error) {
	return l.meta.Hard, pb.EnsureConfState(l.meta.Conf.State), nil
}

// FirstIndex implements raft.Storage.
func (l *memoryLog) FirstIndex() (uint64, error) { return l.meta.Begin.Index + 1, nil }

// LastIndex implements raft.Storage.
func (l *memoryLog) LastIndex() (uint64, error) { return l.last(), nil }

// Term implements raft.Storage.
func (l *memoryLog) Term(index uint64) (uint64, error) {
	switch begin := l.meta.Begin; {
	case index < begin.Index:
		return 0, raft.ErrCompacted
	case index == begin.Index:
		return begin.Term, nil
	case index > l.last():
		return 0, raft.ErrUnavailable
	}
	return l.entries[index-l.meta.Begin.Index-1].GetTerm(), nil
}

// Entries implements raft.Storage.
func (l *memoryLog) Entries(lo, hi, maxSize uint64) ([]*pb.Entry, error) {
	begin := l.meta.Begin.Index
	switch {
	case lo <= begin:
		return nil, raft.ErrCompacted
	case hi > l.last()+1 || lo >= hi:
		return nil, raft.ErrUnavailable
	}
	found := l.entries[lo-begin-1 : hi-begin-1]
	n, size := 0, uint64(0)
	for n < len(found) {
		size += uint64(proto.Size(found[n])) //nolint:gosec // not negative
		if n > 0 && size > maxSize {
			break
		}
		n++
	}
	return slices.Clone(found[:n]), nil
}

// Snapshot implements raft.Storage.
func (l *memoryLog) Snapshot() (*pb.Snapshot, error) {
	return &pb.Snapshot{Metadata: &pb.SnapshotMetadata{
		Index: new(l.meta.Begin.Index), Term: new(l.meta.Begin.Term), ConfState: pb.EnsureConfState(l.meta.Conf.State),
	}}, nil
}

// Meta implements consensus.StoredLog.
func (l *memoryLog) Meta() raftlog.Meta {
	m := l.meta
	m.Records = slices.Clone(l.meta.Records)
	return m
}

// Append implements consensus.StoredLog.
func (l *memoryLog) Append(b raftlog.Batch) error {
	if len(b.Entries) > 0 {
		first := b.Entries[0].GetIndex()
		if first > l.last()+1 || first <= l.meta.Begin.Index {
			return fmt.Errorf("entry %d does not follow %d", first, l.last())
		}
		l.entries = append(slices.Clip(l.entries[:first-l.meta.Begin.Index-1]), b.Entries...)
	}
	if b.Hard != nil {
		l.meta.Hard = b.Hard
	}
	if b.Conf != nil {
		l.meta.Conf = *b.Conf
	}
	if b.Records != nil {
		l.meta.Records = slices.Clone(b.Records)
	}
	if b.Compact > l.meta.Begin.Index {
		term, err := l.Term(b.Compact)
		if err != nil {
			return fmt.Errorf("compact to %d: %w", b.Compact, err)
		}
		l.entries = slices.Clone(l.entries[b.Compact-l.meta.Begin.Index:])
		l.meta.Begin = raftlog.EntryID{Index: b.Compact, Term: term}
	}
	return nil
}

// Reset implements consensus.StoredLog.
func (l *memoryLog) Reset(id raftlog.Identity, members []byte) error {
	l.meta, l.entries = raftlog.Meta{Identity: id, Hard: &pb.HardState{}, Conf: raftlog.Conf{Members: members}}, nil
	return nil
}

// BeginInstall implements consensus.StoredLog.
func (l *memoryLog) BeginInstall(s raftlog.Seed) error {
	l.meta.Pending = &s
	return nil
}

// FinishInstall implements consensus.StoredLog.
func (l *memoryLog) FinishInstall(hard *pb.HardState) error {
	m := l.meta
	if m.Pending == nil {
		return errors.New("no installation to finish")
	}
	if hard == nil {
		hard = &pb.HardState{Term: new(max(m.Hard.GetTerm(), m.Pending.Begin.Term)), Vote: new(m.Hard.GetVote())}
		if hard.GetTerm() != m.Hard.GetTerm() {
			hard.Vote = new(uint64(0))
		}
	}
	hard = &pb.HardState{Term: new(hard.GetTerm()), Vote: new(hard.GetVote()), Commit: new(m.Pending.Begin.Index)}
	l.meta = raftlog.Meta{Identity: m.Identity, Hard: hard, Conf: m.Pending.Conf, Begin: m.Pending.Begin, Records: m.Records}
	l.entries = nil
	return nil
}

// DropInstall implements consensus.StoredLog.
func (l *memoryLog) DropInstall() error {
	l.meta.Pending = nil
	return nil
}

// Path implements consensus.StoredLog.
func (l *memoryLog) Path() string { return l.name }

// Size implements consensus.StoredLog.
func (l *memoryLog) Size() int64 { return 0 }

// Close implements consensus.StoredLog. What was appended stays.
func (l *memoryLog) Close() error { return nil }
