package store

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// Limits that apply before anything is allocated or proposed, in bytes.
const (
	MaxKeyBytes     = 1024
	MaxValueBytes   = 1 << 20       // one object
	MaxCommandBytes = 8<<20 + 1<<18 // one transaction, with room for its envelope and journal
)

// KV is one key at one revision. Value belongs to the store and must not be changed by readers.
type KV struct {
	Key            string
	Value          []byte
	CreateRevision Revision // revision at which this life of the key began
	ModRevision    Revision // revision of this version
	Version        uint64   // 1 at creation, +1 for each change of this life
}

// OpType tells what an Op does to its key.
type OpType uint8

// The operations of a command.
const (
	OpPut    OpType = 1
	OpDelete OpType = 2
)

// Op changes one key. A put of the value that is already there, and a delete of a key that is not, change
// nothing and take no revision.
type Op struct {
	Type  OpType `cbor:"1,keyasint"`
	Key   string `cbor:"2,keyasint"`
	Value []byte `cbor:"3,keyasint,omitempty"`
	// Note is the journal's word on this op. It is recorded only if the op changes something.
	Note Note `cbor:"4,keyasint,omitempty"`
}

// Note is what the journal of causes keeps of an op besides what the command says: opaque to the store.
type Note struct {
	Verb   string `cbor:"1,keyasint,omitempty"` // create, update, delete, bind, report, ...
	Object string `cbor:"2,keyasint,omitempty"` // "Workload default/camera"
	Diff   []byte `cbor:"3,keyasint,omitempty"` // rendered by the registry, secrets as keyed hashes
}

// Precondition must hold for every key it names, or nothing of the command is done.
type Precondition struct {
	Key string `cbor:"1,keyasint"`
	// ModRevision is the version that the proposer saw. Zero: the key must not exist.
	ModRevision Revision `cbor:"2,keyasint,omitempty"`
	// Exists overrides ModRevision: the key must exist, at whatever revision.
	Exists bool `cbor:"3,keyasint,omitempty"`
	// End, when set, makes it a condition on all keys in [Key, End): none of them was written after ModRevision. So a proposer that read
	// the range at that revision knows that nothing came in or changed since. Deletions of which nothing is kept any more do not count.
	End string `cbor:"4,keyasint,omitempty"`
}

// FormatLevel is the newest command format that this build writes and the newest it applies.
const FormatLevel = 1

// Command is one atomic set of writes with its envelope. It is applied at most once per (Writer, Sequence).
// The ops of a command take consecutive revisions, and no read or watch ever stands between two of them.
type Command struct {
	Level     uint16 `cbor:"1,keyasint"`
	Term      uint64 `cbor:"2,keyasint,omitempty"` // not zero: refused unless it equals the term of its Raft entry
	Actor     string `cbor:"3,keyasint"`           // user:alice, controller:workload, device:pi-07, hub:h1
	RequestID string `cbor:"4,keyasint"`           // chosen by the proposer, unique per request
	Writer    string `cbor:"5,keyasint,omitempty"` // "" = no de-duplication: the preconditions must serve
	Sequence  uint64 `cbor:"6,keyasint,omitempty"` // grows per Writer; what is not higher than the last applied is a repeat
	Cause     Cause  `cbor:"7,keyasint,omitempty"`
	Time      int64  `cbor:"8,keyasint"` // proposer's wall clock, Unix nanoseconds; a label, never compared

	If  []Precondition `cbor:"9,keyasint,omitempty"`
	Ops []Op           `cbor:"10,keyasint,omitempty"`

	// Compact, when not zero, drops versions superseded before or at it; NewEpoch, when not zero, starts that epoch.
	// Limits replaces the limits, Trim drops journal records. A command carries either Ops, or one of these.
	Compact  Revision `cbor:"11,keyasint,omitempty"`
	NewEpoch *Epoch   `cbor:"12,keyasint,omitempty"`
	Limits   *Limits  `cbor:"13,keyasint,omitempty"`
	Trim     *Trim    `cbor:"14,keyasint,omitempty"`
}

// Cause is what made a writer act: the newest revision that woke it, or a request of a person or a device.
type Cause struct {
	Revision  Revision `cbor:"1,keyasint,omitempty"`
	RequestID string   `cbor:"2,keyasint,omitempty"`
}

// Epoch names a history of the hub. The random id tells two histories with one number apart.
type Epoch struct {
	Number uint32 `cbor:"1,keyasint"`
	ID     string `cbor:"2,keyasint"`
}

// Result is what applying a command came to. A refused command (failed precondition, stale term, unknown
// level) is a result with Err, not an error of the machine, and has done nothing.
//
// A retry with the same (Writer, Sequence) gets the answer that the first got, refusals by a precondition or a quota included:
// whoever was told "conflict" or "full" will not find a late duplicate of the command applied. The other refusals follow from the
// bytes of the command and from terms and epochs, which only grow, so they repeat by themselves and are not kept.
type Result struct {
	Revision  Revision   // newest revision after the command, changed or not
	Revisions []Revision // one per op: the ModRevision it got, or zero where it changed nothing
	Repeat    bool       // (Writer, Sequence) had been applied before; Revisions is what it came to then if still known
	Err       error      // nil, *ConflictError, *QuotaError, ErrStaleTerm, ErrUnknownLevel, ErrBadCommand, ErrNoEpoch, ErrEpochNotHigher, ErrAhead
}

// Errors that callers branch on.
var (
	ErrStaleTerm    = errors.New("written in an earlier term of office")
	ErrUnknownLevel = errors.New("command format is newer than this member")
	ErrCompacted    = errors.New("revision has been compacted")
	ErrAhead        = errors.New("revision is ahead of this member")
	ErrOtherEpoch   = errors.New("revision is of another epoch")
	ErrClosed       = errors.New("store is closed")
	// ErrNoEpoch refuses writes to a store that has no identity yet: its first command is NewEpoch.
	ErrNoEpoch = errors.New("store has no epoch yet")
	// ErrEpochNotHigher refuses a NewEpoch whose number is not above the present one.
	ErrEpochNotHigher = errors.New("epoch is not higher than the present one")
)

// ConflictError tells which precondition failed and what stood there instead. Of a range Key is the key that was written since.
type ConflictError struct {
	Key    string
	Want   Revision // zero: wanted absent (or, with Exists, present)
	Actual Revision // zero: absent
}

func (e *ConflictError) Error() string {
	switch {
	case e.Actual == 0:
		return fmt.Sprintf("%s does not exist", e.Key)
	case e.Want == 0:
		return fmt.Sprintf("%s exists already at revision %d", e.Key, e.Actual)
	default:
		return fmt.Sprintf("%s is at revision %d, not %d", e.Key, e.Actual, e.Want)
	}
}

// RangeRequest asks for keys in [Start, End) in key order at one revision.
//
// Nothing can be read inside a set. A Revision between two writes of one command is answered as of the last of them,
// the first readable state that holds the write asked for (an object's resourceVersion is such a revision).
type RangeRequest struct {
	Start    string
	End      string   // exclusive; "" = only Start; use [PrefixEnd] for a prefix
	Revision Revision // zero = newest
	Limit    int      // zero = no limit
}

// RangeResult holds the keys found and the revision they were read at, which continues the read.
type RangeResult struct {
	KVs      []KV
	More     bool // keys beyond the limit exist: continue with Start = last key + "\x00" at the same Revision
	Count    int  // keys in the whole range from Start, whatever the limit
	Revision Revision
}

// PrefixEnd is the smallest key greater than every key with the prefix; "\x00" sorts first, so an empty prefix has
// no end and callers pass the whole key space as ["", PrefixEnd("")) = ["", "\xff").
func PrefixEnd(prefix string) string {
	b := []byte(prefix)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] < 0xff {
			b[i]++
			return string(b[:i+1])
		}
	}
	return "\xff"
}

// Reader reads at any kept revision. Errors: ErrCompacted, ErrAhead, ErrOtherEpoch, ErrClosed, or a failed disk.
type Reader interface {
	Range(ctx context.Context, r RangeRequest) (*RangeResult, error)
	Revision() Revision
}

// Event is one change of one key. For a deletion KV has only Key and ModRevision (that of the deletion).
type Event struct {
	Type OpType
	KV   KV
	Prev *KV // the version before, nil at creation or where it has been compacted
}

// Batch is all events of one command that a watcher sees, in op order. A watcher never sees part of a command.
type Batch struct {
	Revision Revision // newest revision of the command; with no Events it is a progress mark
	Events   []Event
}

// WatchRequest asks for every event on keys in [Start, End) with a revision of at least From. Where From stands inside
// a set, the whole set is delivered, as one batch.
type WatchRequest struct {
	Start string
	End   string   // exclusive; "" = only Start
	From  Revision // first revision wanted; zero = only what is new
	// Progress asks for an empty Batch whenever the watcher has been idle across other writes for a while,
	// as decided by the owner of the watch hub.
	Progress bool
}

// Watcher yields batches in revision order, each exactly once, until it ends. After Next returned an error the
// watcher is dead: ErrCompacted (start again from a list), ErrSlow (buffer exceeded: resume from the last revision
// seen), ErrOtherEpoch, ErrClosed or ctx.Err().
type Watcher interface {
	Next(ctx context.Context) (Batch, error)
	Close()
}

// ErrSlow ends a watcher that did not keep up with its bounded buffer.
var ErrSlow = errors.New("watcher is too slow; resume from the last revision seen")

// Watchable starts watchers.
type Watchable interface {
	Watch(ctx context.Context, w WatchRequest) (Watcher, error)
}

// Record is one entry of the journal of causes, kept apart from MVCC history so that compaction does not erase it.
type Record struct {
	Revision  Revision
	Time      int64 // Unix nanoseconds, as in the command
	Actor     string
	RequestID string
	Cause     Cause
	Type      OpType
	Key       string
	Note      Note
}

// Journal reads the records of causes.
type Journal interface {
	// Record returns the record of one revision; ok is false when it was trimmed or never was.
	Record(r Revision) (rec Record, ok bool, err error)
	// RecordsOf returns the newest records of one key, newest first, at most limit.
	RecordsOf(key string, limit int) ([]Record, error)
	// RecordsByRequest returns the records that one request wrote, in revision order, at most limit.
	RecordsByRequest(requestID string, limit int) ([]Record, error)
	// RecordsByCause returns the records that name r as their cause, in revision order, at most limit.
	RecordsByCause(r Revision, limit int) ([]Record, error)
}

// Snapshotter streams a consistent copy of everything: contents, history, journal, sequences and applied index.
type Snapshotter interface {
	// Snapshot returns a copy as of the applied index, and that index. The copy is not disturbed by later writes;
	// the caller closes it.
	Snapshot() (index uint64, r io.ReadCloser, err error)
	// Restore replaces everything by the copy whose index is given, or on any error leaves everything as it was.
	Restore(index uint64, r io.Reader) error
}
