package consensus

import (
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/drover-fleet/drover/consensus/raftlog"
)

// StoredLog is a member's durable log: [raftlog.Log], whose methods say what each of these promises, or what a simulator keeps in
// its place.
type StoredLog interface {
	raft.Storage
	Meta() raftlog.Meta
	Append(raftlog.Batch) error
	Reset(id raftlog.Identity, members []byte) error
	BeginInstall(raftlog.Seed) error
	FinishInstall(hard *pb.HardState) error
	DropInstall() error
	Path() string
	Size() int64
	Close() error
}

var _ StoredLog = (*raftlog.Log)(nil)
