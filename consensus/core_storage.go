package consensus

import (
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// coreStorage shows raft the durable log with two corrections: the commit index is not below what the machine has
// applied, and a snapshot is what the machine holds now.
type coreStorage struct{ *core }

func (s coreStorage) InitialState() (*pb.HardState, *pb.ConfState, error) {
	hard, _, err := s.storage.InitialState()
	if err != nil {
		return nil, nil, err
	}
	commit := max(hard.GetCommit(), min(s.core.applied, s.core.last))
	return &pb.HardState{Term: new(hard.GetTerm()), Vote: new(hard.GetVote()), Commit: new(commit)},
		pb.EnsureConfState(s.core.conf.State), nil
}

func (s coreStorage) Entries(lo, hi, maxSize uint64) ([]*pb.Entry, error) {
	return s.storage.Entries(lo, hi, maxSize)
}
func (s coreStorage) Term(i uint64) (uint64, error) { return s.storage.Term(i) }
func (s coreStorage) LastIndex() (uint64, error)    { return s.storage.LastIndex() }
func (s coreStorage) FirstIndex() (uint64, error)   { return s.storage.FirstIndex() }

func (s coreStorage) Snapshot() (*pb.Snapshot, error) {
	term, err := s.storage.Term(s.core.applied)
	if err != nil || s.core.applied == 0 {
		return nil, raft.ErrSnapshotTemporarilyUnavailable
	}
	return &pb.Snapshot{Metadata: &pb.SnapshotMetadata{
		Index: new(s.core.applied), Term: new(term), ConfState: s.core.conf.State,
	}}, nil
}
