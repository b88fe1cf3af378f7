package auditlog

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"
)

// Stage is which moment of an action a record is of.
type Stage string

// The stages.
const (
	Receipt Stage = "receipt" // a write was asked for; on disk before it is tried
	Outcome Stage = "outcome" // what became of it; also of reads and of what was refused
	Event   Stage = "event"   // something that nobody waits for: a start, an end, a gap, a connection that was refused
)

// Decision tells what was done from what was not.
type Decision string

// The decisions.
const (
	Allow Decision = "allow"
	Deny  Decision = "deny"
)

// Reasons of outcomes that no HTTP status tells.
const (
	ReasonCrashed = "crashed" // the request panicked
	ReasonUnknown = "unknown" // no outcome was learned in time, as when the leader changed: it may or may not have been done
	ReasonGone    = "gone"    // the client went away before the answer
	ReasonCut     = "ended"   // the member ended before the outcome was written
)

// Record is one line. Seq, Prev and Member are the log's to fill in, and so is Time where it is zero.
type Record struct {
	Seq   uint64 `json:"seq"`  // from 1, without gaps
	Prev  string `json:"prev"` // Hash of the line before; "" for the first ever
	Stage Stage  `json:"stage"`
	// RequestID joins a receipt and its outcome, and names the write in the store's journal of causes.
	RequestID string    `json:"requestID,omitempty"`
	Time      time.Time `json:"time"`
	Member    string    `json:"member"`

	Actor  string   `json:"actor,omitempty"` // as user:alice, serviceaccount:prod/ci, device:pi-07, hub:h1, anonymous
	Groups []string `json:"groups,omitempty"`
	// By is who truly asked, where that is another than Actor: a person who impersonates, or a member that passes a request on.
	By     string `json:"by,omitempty"`
	Source string `json:"source,omitempty"` // address of the other side

	Verb     string   `json:"verb,omitempty"`
	Object   *Object  `json:"object,omitempty"`
	Items    []Item   `json:"items,omitempty"` // of a transaction
	Path     string   `json:"path,omitempty"`
	Code     int      `json:"code,omitempty"` // HTTP status; 0 before there is one
	Reason   string   `json:"reason,omitempty"`
	Decision Decision `json:"decision,omitempty"`
	Forced   bool     `json:"forced,omitempty"` // a safety was overridden
	Ms       int64    `json:"ms,omitempty"`     // duration in milliseconds
	// Note says in words what the fields above cannot.
	Note string `json:"note,omitempty"`
	// Body is what was asked for, where the policy keeps bodies; never of what holds a secret.
	Body json.RawMessage `json:"body,omitempty"`

	// Omitted counts records of the same actor's refusals that were not written before this one: a flood does not push out the rest.
	Omitted uint64 `json:"omitted,omitempty"`
	Gap     *Gap   `json:"gap,omitempty"`
	Cut     *Cut   `json:"cut,omitempty"`
}

// Object is what an action is about.
type Object struct {
	Group       string `json:"group,omitempty"` // of the API; "" = core, or no API object
	Resource    string `json:"resource,omitempty"`
	Subresource string `json:"subresource,omitempty"`
	Kind        string `json:"kind,omitempty"`
	Namespace   string `json:"namespace,omitempty"`
	Name        string `json:"name,omitempty"` // "" = a collection
	UID         string `json:"uid,omitempty"`
}

// Item is one write of a transaction.
type Item struct {
	Verb   string `json:"verb"`
	Object Object `json:"object"`
}

// Gap is what could not be written. The numbers go on without one: the record that holds it has the next.
type Gap struct {
	From   time.Time `json:"from"`
	To     time.Time `json:"to"`
	Count  uint64    `json:"count"`
	Reason string    `json:"reason"`
}

// Cut is what a start removed from the end of a file because it was no whole record: what was being written when the power went.
type Cut struct {
	File  string `json:"file"`
	Bytes int64  `json:"bytes"`
	// Broken says where the chain does not hold; such lines stay where they are, and the chain goes on in a new file.
	Broken string `json:"broken,omitempty"`
}

// Encode makes the line of a record, without the line's end.
func (r *Record) Encode() ([]byte, error) { return json.Marshal(r) }

// Hash is what the next record has as Prev: of the line without its end.
func Hash(line []byte) string {
	sum := sha256.Sum256(line)
	return hex.EncodeToString(sum[:])
}
