package store

import "fmt"

// Quota bounds one class of contents, in logical bytes: those of keys, values and history as they are kept, whatever the file's
// size. At High writes that add are refused until Low is reached again; no write takes the contents past Max. Zero Max is no bound.
type Quota struct {
	Max  uint64 `cbor:"1,keyasint,omitempty"`
	High uint64 `cbor:"2,keyasint,omitempty"` // below or at Max
	Low  uint64 `cbor:"3,keyasint,omitempty"` // below High
}

// Limits are kept in the state, so that every member refuses the same writes.
type Limits struct {
	Data Quota `cbor:"1,keyasint,omitempty"`
	// Events is for keys that begin with EventPrefix, which Data does not count: what is written in bulk and missed little must not
	// block the rest.
	Events      Quota  `cbor:"2,keyasint,omitempty"`
	EventPrefix string `cbor:"3,keyasint,omitempty"`
	// Needed are prefixes of keys that the hub is operated by, its members' turns and join tokens: they are refused at Max only, so that
	// a full hub can be helped. Empty: none.
	Needed [2]string `cbor:"4,keyasint"`
}

// QuotaSlack is by how many bytes an existing value may grow, per op, while its class is full: objects must be marked as
// being deleted before they can go. It is part of the format.
const QuotaSlack = 1024

// Usage is what the contents take, in logical bytes, and which class refuses writes that add.
type Usage struct {
	Data, Events         uint64
	Journal              uint64 // of causes, with its indexes; trimmed, never refused
	DataFull, EventsFull bool
	Limits               Limits
}

// QuotaError refuses a write that adds to a class that is full.
type QuotaError struct {
	What           string // "contents" or "events"
	Used, Max, Low uint64 // bytes
}

func (e *QuotaError) Error() string {
	return fmt.Sprintf("the hub's store is full: its %s take %d bytes of the %d allowed; delete what is not needed: writes that add are accepted again below %d",
		e.What, e.Used, e.Max, e.Low)
}

// Span is a range of revisions, both ends included.
type Span struct {
	First Revision `cbor:"1,keyasint"`
	Last  Revision `cbor:"2,keyasint"`
}

// Link makes the journal record at At follow Prev in the chain of its key, zero for none.
type Link struct {
	At   Revision `cbor:"1,keyasint"`
	Prev Revision `cbor:"2,keyasint,omitempty"`
}

// Trim drops journal records. Sets that are not wholly in one of the spans stay, and so does the newest record of a live key.
type Trim struct {
	Spans []Span `cbor:"1,keyasint,omitempty"` // ascending
	Links []Link `cbor:"2,keyasint,omitempty"` // over gaps that the spans leave in the chains of live keys
}

func (q Quota) validate(name string) error {
	if q.Max == 0 && q.High == 0 && q.Low == 0 || q.Low < q.High && q.High <= q.Max {
		return nil
	}
	return fmt.Errorf("%w: quota of %s: low %d, high %d and max %d do not rise", ErrBadCommand, name, q.Low, q.High, q.Max)
}

func (l *Limits) validate() error {
	if err := l.Data.validate("contents"); err != nil {
		return err
	}
	if err := l.Events.validate("events"); err != nil {
		return err
	}
	for _, p := range append(l.Needed[:], l.EventPrefix) {
		if err := checkText("prefix", p, MaxKeyBytes, false); err != nil {
			return err
		}
	}
	return nil
}

func (t *Trim) validate() error {
	if len(t.Spans) > MaxOps || len(t.Links) > MaxOps {
		return fmt.Errorf("%w: trim of %d spans and %d links, at most %d each are allowed", ErrBadCommand, len(t.Spans), len(t.Links), MaxOps)
	}
	var last Revision
	for _, s := range t.Spans {
		if s.First == 0 || s.First <= last || s.Last < s.First {
			return fmt.Errorf("%w: spans of a trim do not ascend: %d to %d after %d", ErrBadCommand, s.First, s.Last, last)
		}
		last = s.Last
	}
	for _, l := range t.Links {
		if l.Prev >= l.At {
			return fmt.Errorf("%w: a link of a trim leads from %d to %d, which is not older", ErrBadCommand, l.At, l.Prev)
		}
	}
	return nil
}
