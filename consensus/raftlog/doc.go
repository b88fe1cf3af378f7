// Package raftlog keeps what a Raft member must not forget in one bbolt file, raft.db: its identity, term and vote, the
// entries of its log, the membership and what is recorded of other members.
//
//	bucket log   be64(index), be32(piece) -> piece of a marshalled raftpb.Entry, with its size and checksum before the first; see pieces.go
//	bucket meta  identity    -> who this member is (CBOR)
//	             hard        -> term, vote, commit (raftpb.HardState)
//	             conf        -> membership and the index it is valid as of (CBOR)
//	             begin       -> index and term of the entry before the first one kept (CBOR)
//	             records     -> what each member is known to have acknowledged (CBOR)
//	             pending     -> a snapshot that is being installed (CBOR)
//	             (each behind its checksum; see sum.go)
//
// Promises: what [Log.Append] returned nil for survives a power cut; one Append is all or nothing; reads never see an
// entry that is not durable, nor one that the disk has changed since. A second process that opens the file is refused after a bounded wait, with the path in
// the message.
//
// Not promised: agreement with the state machine's own file. The two are separate files, and either may be ahead after
// a crash; the package consensus says how the difference is made up. Command bytes are opaque here.
package raftlog
