// Package consensus makes a group of members agree on one order of opaque commands and drives a [Machine] with them.
//
// A [Node] is one member: a thin loop (disk, network, ticks) around a pure core that is stepped and does no I/O, starts
// no goroutine and reads no clock. Raft itself is go.etcd.io/raft; the log is raft.db ([raftlog]); frames travel over a
// [Transport] ([peer] is the real one).
//
// Promises:
//   - A command whose Propose returned nil is durable on a majority, and every member applies it once, in the same order.
//   - When ReadIndex returns nil, this member has applied everything that was acknowledged before the call.
//   - Leadership is claimed only after an entry of the leader's own term was applied here.
//   - A member that was restarted from an old copy of its directory does not vote, campaign or acknowledge until it has
//     been given the state again under a new id. This holds as long as one member that knows what the old one had
//     acknowledged can be asked; records spread with the leader's traffic within a few ticks.
//   - A member that the log no longer serves is given a copy of the state in checked chunks, which a cut connection does not
//     begin anew; while it is on its way the log is kept, within bounds.
//   - A leader whose disk is slow hands over to a member whose disk is not, once in an episode.
//
// Not promised: that a command proposed around a change of leader is applied once when the caller repeats it. Propose
// returns [ErrAmbiguous] then, and the caller repeats with the same (writer, sequence), which the machine recognises.
// A group of two, one of which is an old copy, cannot replace it by itself: there is no majority without it.
//
// Time: a tick is 50 ms and an election takes 10 ticks, randomised to 20. A dead leader is noticed after 0.5 to 1 s, so
// that even a split vote or two ends within 3 s, and heartbeats never wait for a disk. See DESIGN.md for the shape.
package consensus
