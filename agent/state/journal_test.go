package state

import (
	"fmt"
	"testing"

	"github.com/drover-fleet/drover/api/wire"
)

func TestRepeatsAreOneRecordWithCountsAndANewSequence(t *testing.T) {
	var j Journal
	r := wire.JournalRecord{UID: "u", Reason: "Exited", Message: "code 1"}
	j.Add(r, 10)
	j.Add(wire.JournalRecord{UID: "u", Reason: "Started"}, 11)
	j.Add(r, 12)
	if len(j.Records) != 2 {
		t.Fatalf("got %d records, want 2", len(j.Records))
	}
	last := j.Records[1]
	if last.Count != 2 || last.First != 10 || last.Last != 12 || last.Sequence != 3 {
		t.Errorf("got %+v, want count 2, first 10, last 12, sequence 3", last)
	}
	// The hub acknowledges what it saw before the repeat: the repeat stays.
	j.Acked(2)
	if len(j.Records) != 1 || j.Records[0].Count != 2 {
		t.Errorf("after the acknowledgement: got %+v, want the repeat", j.Records)
	}
}

func TestJournalIsBoundedAndCountsWhatItDropped(t *testing.T) {
	var j Journal
	for i := range MaxJournal + 10 {
		j.Add(wire.JournalRecord{Reason: fmt.Sprint(i)}, int64(i))
	}
	if len(j.Records) != MaxJournal || j.Dropped != 10 {
		t.Fatalf("got %d records, %d dropped; want %d, 10", len(j.Records), j.Dropped, MaxJournal)
	}
	if j.Records[0].Reason != "10" {
		t.Errorf("oldest is %s, want 10", j.Records[0].Reason)
	}
}

func TestALostJournalGoesOnAboveWhatTheHubAcknowledged(t *testing.T) {
	var j Journal
	j.Add(wire.JournalRecord{Reason: "StateRecovered"}, 1)
	j.Acked(41) // from before the journal was lost
	if len(j.Records) != 1 || j.Records[0].Sequence != 42 {
		t.Fatalf("got %+v, want the record kept with sequence 42", j.Records)
	}
}

func TestACommandIsEnteredOnce(t *testing.T) {
	var l Ledger
	if !l.Enter("a") || l.Enter("a") {
		t.Error("the second entry of one command was taken as new")
	}
	for i := range 2 * MaxLedger {
		l.Enter(fmt.Sprint(i))
	}
	if len(l.IDs) != MaxLedger {
		t.Errorf("got %d entries, want %d", len(l.IDs), MaxLedger)
	}
}
