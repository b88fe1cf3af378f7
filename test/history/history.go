package history

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/drover-fleet/drover/store"
)

// Guarantees that checks are named by.
const (
	Linearizable   = "I1 linearizable"
	EqualMembers   = "I2 equal members"
	Monotonic      = "I3 revisions never go back"
	AtomicSets     = "atomic sets"
	OneOffice      = "one term of office at a time"
	WatchOrdered   = "watch: ordered"
	WatchUnique    = "watch: unique"
	WatchReliable  = "watch: reliable"
	WatchAtomic    = "watch: atomic"
	WatchResumable = "watch: resumable"
	WatchBookmark  = "watch: bookmarkable"
	WatchPrevKV    = "watch: previous value"
	NeverStops     = "I4 nothing stops because a hub is away"
	NeverBack      = "I5 a device never goes back"
	OneCopy        = "I6 one copy of an assignment"
	Converges      = "I7 every device runs exactly its bundle"
	Reboots        = "I8 a reboot without network runs the last bundle"
	NoErrors       = "no unexpected error"
)

// Violation is one breach of a guarantee.
type Violation struct {
	Check string
	What  string
}

func (v Violation) String() string { return v.Check + ": " + v.What }

// violations collects breaches of one guarantee. A few show what is wrong; thousands hide it.
type violations struct {
	check string
	list  []Violation
}

const maxViolations = 5

func (v *violations) add(format string, args ...any) {
	if len(v.list) < maxViolations {
		v.list = append(v.list, Violation{v.check, fmt.Sprintf(format, args...)})
	}
}

// Outcome is what a client knows of its operation.
type Outcome uint8

// The outcomes.
const (
	Unknown Outcome = iota // it may have taken effect, or may yet
	Done                   // it took effect as asked
	Refused                // a precondition did not hold; it took no effect
	Failed                 // it was never on its way
)

// Kind of an operation on one key.
type Kind uint8

// The kinds. Values are unique over the history, so that a read tells which write it saw.
const (
	Read Kind = iota + 1
	Put
	Delete
	CompareAndPut // Put if the key stands at revision If (zero: absent)
)

// Op is one operation of one client on one key.
type Op struct {
	Client   int
	Request  string // of a write, unique; the ledger names it
	Kind     Kind
	Key      string
	Value    string         // written, or read ("" = absent)
	If       store.Revision // CompareAndPut
	Revision store.Revision // of the key: that the write got, or that was read; zero when absent
	Call     time.Duration  // on one clock for all clients
	Return   time.Duration
	Outcome  Outcome
}

// Change is one event of the ledger.
type Change struct {
	Revision store.Revision
	Set      store.Revision // last revision of its set
	Key      string
	Request  string
	Value    string
	Deleted  bool
	Prev     string // the value before, "" when there was none
	HasPrev  bool
	Office   uint64 // the term that the writer claimed, zero when it claimed none
	Term     uint64 // of the log's entry
	At       time.Duration
}

// Ledger is what the log made of the commands, by revision. Safe for concurrent use.
type Ledger struct {
	mu      sync.Mutex
	changes []Change // by revision
	entries map[uint64]string
	current map[string]string // value by live key
	bad     violations
}

// NewLedger makes an empty ledger.
func NewLedger() *Ledger {
	return &Ledger{entries: map[uint64]string{}, current: map[string]string{}, bad: violations{check: EqualMembers}}
}

// Applied records what a member made of one entry. The first to apply an entry writes the ledger; who comes later must agree.
// Prev and HasPrev are filled in.
func (l *Ledger) Applied(member string, index uint64, outcome string, changes []Change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if first, ok := l.entries[index]; ok {
		if first != outcome {
			l.bad.add("entry %d came to %q on %s, and to %q on who applied it first", index, outcome, member, first)
		}
		return
	}
	l.entries[index] = outcome
	for _, c := range changes {
		if n := len(l.changes); n > 0 && c.Revision <= l.changes[n-1].Revision {
			l.bad.add("entry %d on %s wrote revision %d after %d", index, member, c.Revision, l.changes[n-1].Revision)
			continue
		}
		c.Prev, c.HasPrev = l.current[c.Key]
		if delete(l.current, c.Key); !c.Deleted {
			l.current[c.Key] = c.Value
		}
		l.changes = append(l.changes, c)
	}
}

// State compares the hash of a member's contents at an applied index with what others had there.
func (l *Ledger) State(member string, index uint64, hash string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := ^index // entries and states share one table; an index never reaches its own complement
	if first, ok := l.entries[key]; ok && first != hash {
		l.bad.add("contents at entry %d have hash %.16s on %s and %.16s on who was there first", index, hash, member, first)
	} else if !ok {
		l.entries[key] = hash
	}
}

// Changes are all changes so far, by revision.
func (l *Ledger) Changes() []Change {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.changes)
}

// Check returns where members differed.
func (l *Ledger) Check() []Violation {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bad.list
}

// find returns the place of the first change of at least the revision.
func find(changes []Change, r store.Revision) int {
	n, _ := slices.BinarySearchFunc(changes, r, func(c Change, r store.Revision) int { return cmp.Compare(c.Revision, r) })
	return n
}

// CheckOffice holds that writes fenced by a term of office come in the order of the terms: no writer of an earlier term has its
// way after one of a later term had.
func CheckOffice(changes []Change) []Violation {
	v := violations{check: OneOffice}
	var newest Change
	for _, c := range changes {
		if c.Office == 0 {
			continue
		}
		if c.Office < newest.Office {
			v.add("revision %d of %s was written for term %d, after revision %d for term %d", c.Revision, c.Key, c.Office, newest.Revision, newest.Office)
		} else {
			newest = c
		}
	}
	return v.list
}
