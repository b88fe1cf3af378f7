package kv

import (
	"errors"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/store"
)

// pair is a store.KV.
type pair struct {
	_       struct{} `cbor:",toarray"`
	Key     string
	Value   []byte
	Created store.Revision
	Mod     store.Revision
	Version uint64
}

func pairOf(kv *store.KV) pair {
	return pair{Key: kv.Key, Value: kv.Value, Created: kv.CreateRevision, Mod: kv.ModRevision, Version: kv.Version}
}

func (p *pair) kv() store.KV {
	return store.KV{Key: p.Key, Value: p.Value, CreateRevision: p.Created, ModRevision: p.Mod, Version: p.Version}
}

// The end of a range is what follows the last key by its bytes, and need not be text.
type rangeRequest struct {
	_        struct{} `cbor:",toarray"`
	Start    string
	End      cbor.ByteString
	Revision store.Revision
	Limit    int
	Stale    bool
}

type rangeReply struct {
	_        struct{} `cbor:",toarray"`
	KVs      []pair
	More     bool
	Count    int
	Revision store.Revision
}

type watchRequest struct {
	_        struct{} `cbor:",toarray"`
	Start    string
	End      cbor.ByteString
	From     store.Revision
	Progress bool
	// Previous asks for the version before each event too.
	Previous bool
}

type event struct {
	_    struct{} `cbor:",toarray"`
	Type store.OpType
	KV   pair
	Prev *pair
}

type batch struct {
	_        struct{} `cbor:",toarray"`
	Revision store.Revision
	Events   []event
}

func batchOf(b *store.Batch, previous bool) batch {
	out := batch{Revision: b.Revision, Events: make([]event, len(b.Events))}
	for i := range b.Events {
		e := &b.Events[i]
		out.Events[i] = event{Type: e.Type, KV: pairOf(&e.KV)}
		if previous && e.Prev != nil {
			prev := pairOf(e.Prev)
			out.Events[i].Prev = &prev
		}
	}
	return out
}

func (b *batch) batch() store.Batch {
	out := store.Batch{Revision: b.Revision}
	for i := range b.Events {
		e := store.Event{Type: b.Events[i].Type, KV: b.Events[i].KV.kv()}
		if p := b.Events[i].Prev; p != nil {
			prev := p.kv()
			e.Prev = &prev
		}
		out.Events = append(out.Events, e)
	}
	return out
}

// resultReply is a store.Result.
type resultReply struct {
	_         struct{} `cbor:",toarray"`
	Revision  store.Revision
	Revisions []store.Revision
	Repeat    bool
	Refused   *failure
}

// failure is an error on its way. Either Sentinel names one of the store's, or Conflict is set, or Class is one of api/fault's.
type failure struct {
	_          struct{} `cbor:",toarray"`
	Sentinel   string
	Class      string
	Message    string
	RetryAfter time.Duration
	Conflict   *conflict
}

type conflict struct {
	_            struct{} `cbor:",toarray"`
	Key          string
	Want, Actual store.Revision
}

// sentinels are the store's errors that callers branch on, under the names that they travel by.
func sentinels() map[string]error {
	return map[string]error{
		"stale-term": store.ErrStaleTerm, "unknown-level": store.ErrUnknownLevel, "compacted": store.ErrCompacted, "ahead": store.ErrAhead,
		"other-epoch": store.ErrOtherEpoch, "closed": store.ErrClosed, "no-epoch": store.ErrNoEpoch, "epoch-not-higher": store.ErrEpochNotHigher,
		"slow": store.ErrSlow, "bad-command": store.ErrBadCommand,
	}
}

func failureOf(err error) *failure {
	f := &failure{Message: err.Error()}
	var c *store.ConflictError
	if errors.As(err, &c) {
		f.Conflict = &conflict{Key: c.Key, Want: c.Want, Actual: c.Actual}
		return f
	}
	for name, s := range sentinels() {
		if errors.Is(err, s) {
			f.Sentinel = name
			return f
		}
	}
	f.Class, f.RetryAfter = string(fault.ClassOf(err)), fault.RetryAfter(err)
	var full *store.QuotaError
	if errors.As(err, &full) {
		f.Class = string(fault.TooLarge) // as by every other door of the hub
	}
	return f
}

// codeOf names what a request came to, by few words known in advance.
func codeOf(err error) string {
	if err == nil {
		return CodeOK
	}
	var full *store.QuotaError
	if errors.As(err, &full) {
		return "full"
	}
	switch f := failureOf(err); {
	case f.Conflict != nil:
		return "conflict"
	case f.Sentinel != "":
		return f.Sentinel
	default:
		return f.Class
	}
}

// remoteError is a sentinel with the words that the other member had for it.
type remoteError struct {
	message  string
	sentinel error
}

func (e *remoteError) Error() string { return e.message }
func (e *remoteError) Unwrap() error { return e.sentinel }

func (f *failure) error() error {
	if f.Conflict != nil {
		return &store.ConflictError{Key: f.Conflict.Key, Want: f.Conflict.Want, Actual: f.Conflict.Actual}
	}
	if s, ok := sentinels()[f.Sentinel]; ok {
		return &remoteError{f.Message, s}
	}
	return &fault.Error{Class: fault.Class(f.Class), Message: f.Message, RetryAfter: f.RetryAfter}
}
