package consensus

import (
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/drover-fleet/drover/consensus/raftlog"
)

// input is everything that happened since the last step.
type input struct {
	ticks       int
	messages    []inMessage
	snapshots   []inSnapshot
	persisted   []persistAck
	applied     []applyAck
	proposals   []proposal
	reads       []uint64 // waiter ids
	changes     []confWait
	cancelled   []uint64 // waiter ids whose caller gave up
	unreachable []uint64
	sent        []snapResult
	reseed      uint64 // not 0: give this member up, and come back under this id
}

type inMessage struct {
	name string // from the sender's certificate
	raft *pb.Message
	ctl  *control
}

type inSnapshot struct {
	name string
	msg  *pb.Message
	conf raftlog.Conf
	file string
	// waiter learns that the copy has been offered to raft.
	waiter uint64
}

// output is everything that is to be done now. Order within send is kept per receiver.
type output struct {
	send       []outMessage
	persist    []persistWork
	apply      []applyWork
	snapshots  []snapOrder
	discard    []string // files of snapshots that raft did not want
	done       []completion
	proposed   []batchSize
	slow       []slowChange
	handedOver []string // names
	confMoved  bool     // the published membership changed: publish before handing out apply
}

// batchSize is one entry that was proposed, and slowChange the beginning or the end of a slow disk; both are for observers.
type batchSize struct {
	commands int
	bytes    int64
}

type slowChange struct {
	part DiskPart
	slow bool
}

type outMessage struct {
	to   Member
	raft *pb.Message
	ctl  *control
}

// persistWork is one step for the log. Works are done in order. acks holds what may be said once it is durable; with
// no acks and no install or reset, durability can wait for the next one.
type persistWork struct {
	gen     uint64
	batch   raftlog.Batch
	install *install
	reset   *raftlog.Identity
	members []byte // with reset
	acks    []*pb.Message
}

// install replaces log and machine by a snapshot.
type install struct {
	seed raftlog.Seed
	file string
}

type persistAck struct {
	gen       uint64
	acks      []*pb.Message
	installed uint64 // index the machine was restored to, 0 = none
	reset     bool
}

// applyWork is committed entries for the machine, in order.
type applyWork struct {
	gen     uint64
	entries []*pb.Entry
	acks    []*pb.Message
}

type applyAck struct {
	gen     uint64
	index   uint64
	synced  uint64 // the machine's
	term    uint64
	acks    []*pb.Message
	results []applyResult
}

// applyResult answers the commands of one of this run's own entries.
type applyResult struct {
	ids    []uint64
	values []any
}

type completion struct {
	id    uint64
	value any
	err   error
}
