package state

import "github.com/drover-fleet/drover/api/wire"

// MaxJournal bounds the records of a journal.
const MaxJournal = 256

// Journal is what happened on the device and the hub has not acknowledged yet, oldest first. A repeat of the same thing
// (object, container, reason, message) is one record with counts. When it is full the oldest record is dropped and counted
// in Dropped. The zero value is ready. Not safe for concurrent use.
type Journal struct {
	Records []wire.JournalRecord `cbor:"1,keyasint,omitempty"`
	Last    uint64               `cbor:"2,keyasint,omitempty"` // highest sequence given out, never goes back
	Dropped uint64               `cbor:"3,keyasint,omitempty"`
}

// Add puts a record in. Sequence, First, Last and Count are the journal's; now is the device's clock in Unix nanoseconds, a
// label. A repeat takes a new sequence, since the hub may have acknowledged the old one with the old count.
func (j *Journal) Add(r wire.JournalRecord, now int64) {
	j.Last++
	r.Sequence, r.First, r.Last, r.Count = j.Last, now, now, 1
	for i, old := range j.Records {
		if sameEvent(old, r) {
			r.First, r.Count = old.First, old.Count+1
			j.Records = append(j.Records[:i], j.Records[i+1:]...)
			break
		}
	}
	j.Records = append(j.Records, r)
	if n := len(j.Records) - MaxJournal; n > 0 {
		j.Records = append([]wire.JournalRecord(nil), j.Records[n:]...)
		j.Dropped += uint64(n)
	}
}

// Acked forgets what the hub keeps: every record up to and including seq. It tells whether anything changed. A sequence
// beyond what was given out (the journal was lost and began anew) moves the journal on, so that later records count as new.
func (j *Journal) Acked(seq uint64) bool {
	i := 0
	for i < len(j.Records) && j.Records[i].Sequence <= seq {
		if seq > j.Last {
			break // an acknowledgement of another life of this journal
		}
		i++
	}
	changed := i > 0
	j.Records = append([]wire.JournalRecord(nil), j.Records[i:]...)
	if seq > j.Last {
		j.renumber(seq)
		changed = true
	}
	return changed
}

func (j *Journal) renumber(after uint64) {
	j.Last = after
	for i := range j.Records {
		j.Last++
		j.Records[i].Sequence = j.Last
	}
}

func sameEvent(a, b wire.JournalRecord) bool {
	return a.UID == b.UID && a.Object == b.Object && a.Container == b.Container && a.Reason == b.Reason &&
		a.Message == b.Message && a.Revision == b.Revision
}

// MaxLedger bounds the commands that a ledger remembers.
const MaxLedger = 128

// Ledger remembers the commands that were carried out, so that none is carried out twice. It must be on disk before a
// command is acted on. The zero value is ready.
type Ledger struct {
	IDs []string `cbor:"1,keyasint,omitempty"` // oldest first
}

// Enter adds id and tells whether it is new.
func (l *Ledger) Enter(id string) bool {
	for _, x := range l.IDs {
		if x == id {
			return false
		}
	}
	l.IDs = append(l.IDs, id)
	if n := len(l.IDs) - MaxLedger; n > 0 {
		l.IDs = append([]string(nil), l.IDs[n:]...)
	}
	return true
}
