package consensus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"
)

// Machine is what the log drives. One goroutine calls it.
type Machine interface {
	// Apply applies committed entries in order. results[i][j] answers entries[i].Commands[j]. An error is a broken disk: the
	// node stops cleanly.
	Apply(entries []Entry) (results [][]any, err error)
	// Synced is the index up to which the effects outlive a power cut; it is saved with them in one transaction. Entries after it are
	// kept in the log, and applied again after a start.
	Synced() uint64
	// Snapshot opens a consistent copy as of the last applied index. The reader may be read while Apply goes on;
	// Close must be called.
	Snapshot() (index uint64, r io.ReadCloser, err error)
	// Restore replaces everything with the copy, all or nothing; afterwards the applied index is index, which may be
	// lower than before.
	Restore(index uint64, r io.Reader) error
}

// Entry is one committed step. Commands is empty for a leader's first entry and for changes of membership; Apply still
// records the index.
type Entry struct {
	Index, Term uint64
	Commands    [][]byte
}

// Member is one hub of the group.
type Member struct {
	ID       uint64 `cbor:"1,keyasint"` // raft id, random, never reused
	Name     string `cbor:"2,keyasint"` // the name in its certificate, unique in the group
	PeerAddr string `cbor:"3,keyasint"` // host:port for other members
	APIAddr  string `cbor:"4,keyasint"` // host:port for clients, carried for others to find
	Learner  bool   `cbor:"5,keyasint,omitempty"`
}

// Errors that callers branch on. All of them may be retried; after ErrAmbiguous with the same (writer, sequence) only.
var (
	ErrNoLeader  = errors.New("the group has no leader; most of its members must run and reach each other")
	ErrAmbiguous = errors.New("the leader changed or did not answer; the command may or may not be applied")
	ErrBusy      = errors.New("too many bytes of commands are waiting; try again later")
	ErrTooLarge  = errors.New("command is too large")
	ErrStopped   = errors.New("the node has stopped")
	ErrRemoved   = errors.New("this member was removed from the group")
	ErrNameTaken = errors.New("another member has this name; remove it first")
	ErrAddrTaken = errors.New("another member has this peer address")
	ErrUnknown   = errors.New("no such member")
	ErrLearner   = errors.New("the member is a learner, which has no vote and cannot lead")
	ErrLastVoter = errors.New("the last voter cannot be removed")
)

// Transport carries frames between members. Members are known by the name in their certificate; which raft id belongs
// to which name is checked by the receiver.
type Transport interface {
	// Run accepts and dials until ctx ends and returns when everything it started has ended.
	Run(ctx context.Context, h Handler) error
	// Send queues a frame without blocking. Frames to one address may be lost but arrive in order. The transport owns
	// the frame from then on.
	Send(to Member, frame []byte)
	// Stream opens a stream of bytes in both directions, beside the frames; the receiver's Handler serves it. It may break at any
	// time, and then fails reads and writes on both sides sooner or later. Close is safe beside them and may be repeated.
	Stream(ctx context.Context, to Member) (io.ReadWriteCloser, error)
}

// Handler takes what arrives. Its methods may be called at any time while Transport.Run runs.
type Handler interface {
	// Receive must not block. It may keep the frame.
	Receive(name string, frame []byte)
	// ServeStream serves a stream that a member has opened, and returns when it is done with it. ctx ends with Transport.Run.
	ServeStream(ctx context.Context, name string, s io.ReadWriteCloser)
	// Unreachable reports that frames to a member were lost, and how many.
	Unreachable(id uint64, frames int)
}

// Config sets up a Node. Zero values of tunables are their defaults.
type Config struct {
	Dir       string    // raft.db and incoming snapshots live here; must exist
	Self      Member    // Name, PeerAddr, APIAddr; the ID is kept in raft.db
	Applied   uint64    // what the machine holds on open
	StateFile string    // where the machine keeps it, for warnings
	Machine   Machine   // driven by Run
	Transport Transport // consensus/peer, or an in-memory one
	Logger    *slog.Logger
	Observer  *Observer // nil: nobody looks

	Tick           time.Duration // 50 ms: heartbeats every tick, so a dead leader is replaced in about a second
	ElectionTicks  int           // 10: time-outs are random in [10, 20) ticks; CheckQuorum steps a deaf leader down in 20
	HeartbeatTicks int           // 1
	NoLeaderTicks  int           // 60: how long calls wait for a leader before ErrNoLeader
	ProposalTicks  int           // 200: how long a proposal may be on its way before ErrAmbiguous
	SlowTicks      int           // 20: a leader whose write takes so long hands over; see core_health.go
	LearnerTicks   int           // 12000 (10 min): a learner that makes no progress for so long is removed

	MaxCommand      int   // bytes, 12 MiB: above the store's largest transaction
	MaxPendingBytes int64 // bytes, 64 MiB: of commands that wait or are on their way; more is ErrBusy
	MaxSnapshot     int64 // bytes, 8 GiB: larger incoming copies are refused

	SnapshotRate int64         // bytes per second, 64 MiB: of all copies of the state that this member sends
	SnapshotIdle time.Duration // 1 min: without progress, over all its connections, a transfer is given up
	StreamIdle   time.Duration // 15 s: without a byte, a connection of a transfer is given up and opened again

	withoutPreVote, withoutCheckQuorum bool // for tests, which show what each of them is for

	freshID uint64 // random, the id to come back under if this is an old copy

	KeepEntries     uint64 // 10000: entries kept behind the applied index for members that lag a little
	KeepBytes       uint64 // 64 MiB: the same in bytes
	CompactInterval uint64 // 1000: entries between two compactions
}

func (c Config) withDefaults() Config {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	if c.Tick == 0 {
		c.Tick = 50 * time.Millisecond
	}
	def(&c.ElectionTicks, 10)
	def(&c.HeartbeatTicks, 1)
	def(&c.NoLeaderTicks, 6*c.ElectionTicks)
	def(&c.ProposalTicks, 20*c.ElectionTicks)
	def(&c.SlowTicks, 2*c.ElectionTicks)
	def(&c.LearnerTicks, 12000)
	def(&c.MaxCommand, 12<<20)
	if c.MaxPendingBytes == 0 {
		c.MaxPendingBytes = 64 << 20
	}
	if c.MaxSnapshot == 0 {
		c.MaxSnapshot = 8 << 30
	}
	if c.SnapshotRate == 0 {
		c.SnapshotRate = 64 << 20
	}
	if c.SnapshotIdle == 0 {
		c.SnapshotIdle = time.Minute
	}
	if c.StreamIdle == 0 {
		c.StreamIdle = 15 * time.Second
	}
	if c.KeepEntries == 0 {
		c.KeepEntries = 10000
	}
	if c.KeepBytes == 0 {
		c.KeepBytes = 64 << 20
	}
	if c.CompactInterval == 0 {
		c.CompactInterval = 1000
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config) validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(c.Dir != "", "Dir is empty")
	check(c.Self.Name != "", "Self.Name is empty")
	check(c.Self.PeerAddr != "", "Self.PeerAddr is empty")
	check(c.HeartbeatTicks > 0 && c.ElectionTicks >= 5*c.HeartbeatTicks,
		"ElectionTicks (%d) must be at least 5 times HeartbeatTicks (%d), so that a few lost heartbeats unseat nobody",
		c.ElectionTicks, c.HeartbeatTicks)
	check(c.SlowTicks >= c.ElectionTicks && 2*c.SlowTicks <= c.ProposalTicks,
		"SlowTicks (%d) must be between ElectionTicks (%d), or leaders hand over for what disturbs nobody, and half of ProposalTicks (%d), "+
			"or callers give up before they do", c.SlowTicks, c.ElectionTicks, c.ProposalTicks)
	check(c.SnapshotRate >= minSnapshotRate, "SnapshotRate %d must be at least %d bytes per second", c.SnapshotRate, minSnapshotRate)
	check(c.StreamIdle > 0 && c.SnapshotIdle >= c.StreamIdle, "SnapshotIdle (%v) must be at least StreamIdle (%v)", c.SnapshotIdle, c.StreamIdle)
	check(c.MaxCommand > 0 && c.MaxCommand <= MaxFrame-1<<20, "MaxCommand %d is not in 1..%d", c.MaxCommand, MaxFrame-1<<20)
	return errors.Join(errs...)
}

// minSnapshotRate, in bytes per second, lets a few chunks pass while a connection counts as alive.
const minSnapshotRate = 32 << 10

// MaxFrame is the largest frame a Transport has to carry, in bytes: one entry of the largest command with its envelope.
const MaxFrame = 16 << 20

// Progress is how far a member is, as its leader sees it.
type Progress struct {
	Match  uint64 // acknowledged as durable up to here
	Lag    uint64 // entries between Match and the leader's last
	Active bool   // heard of within an election time-out
	State  string // probe, replicate or snapshot
	// RoundTrip is how long the member took to answer last; 0 if it has not.
	RoundTrip time.Duration
	DiskLag   time.Duration // the member's own Status.Lag, as it said last
}

// Status is a snapshot of what a member knows.
type Status struct {
	ID        uint64
	Name      string
	Leader    uint64 // 0 = none known
	Term      uint64
	Applied   uint64
	Committed uint64
	Last      uint64 // last index of the log, durable or about to be
	Entries   uint64 // entries kept in the log
	Members   []Member
	Progress  map[uint64]Progress // by id, on the leader only

	Waiting      int   // commands between Propose and its answer, on this member
	WaitingBytes int64 // theirs

	LogPath  string // raft.db
	LogBytes int64  // its size as a file, which shrinks only when it is rewritten
	// Lag is the longest that a write to the log or the machine has taken of late, or the present one if that is longer; 0 is
	// less than a tick. See Config.SlowTicks.
	Lag time.Duration

	// Fenced says why this member takes no part, empty when it does: probation after a start, an old copy that waits
	// to be given the state again, or removed from the group.
	Fenced string
	// Removed tells that it is fenced for good: the group has taken it out, whatever its own log says of the members.
	Removed bool
}
