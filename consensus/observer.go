package consensus

import "time"

// Observer is told what happens inside a member, for metrics. Every func may be nil. They are called from goroutines of the
// node and of its transport, several at a time, and must neither block nor call the node. Members are given by name, of which
// there are as many as the group ever had.
type Observer struct {
	// LogSynced: one transaction of raft.db is durable, and what depends on it is about to be said. entries and bytes (as
	// encoded) are what it appended; both are 0 when it only noted a vote, a membership or how far the group is.
	LogSynced func(took time.Duration, entries int, bytes int64)
	// Applied: the machine has applied entries in one call. Changes of membership and a leader's first entry have no command.
	Applied func(took time.Duration, entries, commands int)
	// Proposed: commands of this member that waited became one entry. bytes are the commands'.
	Proposed func(commands int, bytes int64)
	// LeaderChanged: this member follows another leader, or the same one in another term. leader is 0 when none is known.
	LeaderChanged func(term, leader uint64)
	// Led: this member has begun (once an entry of the term is applied here) or ceased to lead.
	Led func(term uint64, leads bool)
	// RoundTrip: a member has answered. Leaders ask about four times a second, others once a second.
	RoundTrip func(member string, took time.Duration)
	// FramesLost: frames to a member could not be sent, or those from it came faster than they were taken.
	FramesLost func(member string, frames int)
	// Transfer: a copy of the state moves to or from another member.
	Transfer func(TransferEvent)
	// SlowDisk: a write to the log, or applying to the machine, takes longer than Config.SlowTicks (slow), or no longer does.
	SlowDisk func(part DiskPart, slow bool)
	// HandedOver: this leader asks a member to lead instead, because its own disk is slow.
	HandedOver func(member string)
}

// DiskPart is what of a member writes.
type DiskPart string

// The parts: raft.db, and whatever the machine keeps.
const (
	DiskLog   DiskPart = "log"
	DiskState DiskPart = "state"
)

// TransferStage is how far a copy is on its way.
type TransferStage string

// Stages. Begun comes once a transfer, resumed once for each connection after the first, ended once.
const (
	TransferBegun   TransferStage = "begun"
	TransferResumed TransferStage = "resumed"
	TransferEnded   TransferStage = "ended"
)

// TransferEvent is one step of a copy's way to another member.
type TransferEvent struct {
	Stage   TransferStage
	Sending bool   // false: this member receives
	Member  string // the other one
	Index   uint64 // entry as of which the copy holds
	Size    int64  // bytes of the copy
	Offset  int64  // bytes the receiver had when this connection began
	Moved   int64  // ended: bytes of the copy that went over all connections, those that went twice counted twice
	Took    time.Duration
	Err     error // ended: nil when the receiver has all of it
}

// orNothing returns an observer all of whose funcs may be called.
func (o *Observer) orNothing() Observer {
	var f Observer
	if o != nil {
		f = *o
	}
	or(&f.LogSynced, func(time.Duration, int, int64) {})
	or(&f.Applied, func(time.Duration, int, int) {})
	or(&f.Proposed, func(int, int64) {})
	or(&f.LeaderChanged, func(uint64, uint64) {})
	or(&f.Led, func(uint64, bool) {})
	or(&f.RoundTrip, func(string, time.Duration) {})
	or(&f.FramesLost, func(string, int) {})
	or(&f.Transfer, func(TransferEvent) {})
	or(&f.SlowDisk, func(DiskPart, bool) {})
	or(&f.HandedOver, func(string) {})
	return f
}

// or is generic over func types, whose zero value is nil.
func or[F func(time.Duration, int, int64) | func(time.Duration, int, int) | func(int, int64) | func(uint64, uint64) |
	func(uint64, bool) | func(string, time.Duration) | func(string, int) | func(TransferEvent) | func(DiskPart, bool) |
	func(string)](f *F, nothing F) {
	if *f == nil {
		*f = nothing
	}
}
