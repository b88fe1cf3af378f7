package mvcc

import (
	"runtime"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/drover-fleet/drover/store"
	"github.com/drover-fleet/drover/store/watch"
)

// TestNoRecordIsDroppedUnderAReaderOfTheStateThatNeedsIt stands where a reader stands between looking at the state and
// opening its transaction: until it has both, the records of its state must not go.
func TestNoRecordIsDroppedUnderAReaderOfTheStateThatNeedsIt(t *testing.T) {
	b := newBench(t)
	b.write(put("a", "1"))
	index := b.s.Applied() + 1
	entry := Entry{Index: index, Term: b.term, Commands: [][]byte{
		encoded(&store.Command{Ops: []store.Op{put("a", "2")}}, index, 0).raw,
		encoded(&store.Command{Compact: rev(2)}, index, 1).raw,
	}}
	b.s.mu.RLock()
	done := make(chan error, 1)
	go func() {
		_, err := b.s.Apply([]Entry{entry})
		done <- err
	}()
	for b.s.mu.TryRLock() { // fails once Apply waits for us
		b.s.mu.RUnlock()
		runtime.Gosched()
	}
	err := b.s.db.View(func(tx *bolt.Tx) error {
		kv, err := readKV(tx.Bucket([]byte(bucketRev)), rev(1))
		if err == nil && string(kv.Value) != "1" {
			t.Errorf("got %s, want 1", kv.Value)
		}
		return err
	})
	b.s.mu.RUnlock()
	if err != nil {
		t.Errorf("revision 1 went while it was readable: %v", err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "records on disk", b.count(bucketRev), 1)
}

// TestWhatIsCommittedButNotShownIsNotRead pairs an old state with a new file, as a reader may just after a commit.
func TestWhatIsCommittedButNotShownIsNotRead(t *testing.T) {
	b := newBench(t)
	cause := store.Cause{Revision: rev(1)}
	b.write(put("a", "1"))
	b.must(&store.Command{RequestID: "one", Cause: cause, Ops: []store.Op{put("a", "2")}})
	before := b.s.state()
	b.must(&store.Command{RequestID: "one", Cause: cause, Ops: []store.Op{put("a", "3")}})
	b.s.mu.Lock()
	b.s.now = before
	b.s.mu.Unlock()

	page, err := b.s.History(t.Context(), watch.HistoryRequest{Start: "a", From: rev(1), MaxEvents: 9, MaxBytes: 999, MaxScan: 9})
	if err != nil || page.Next != rev(3) || len(page.Batches) != 2 {
		t.Errorf("got %+v, %v, want two batches and what follows at %d", page, err, rev(3))
	}
	if _, ok, err := b.s.Record(rev(3)); ok || err != nil {
		t.Errorf("record 3: got ok %v, %v, want none", ok, err)
	}
	for what, read := range map[string]func() ([]store.Record, error){
		"by request": func() ([]store.Record, error) { return b.s.RecordsByRequest("one", 9) },
		"by cause":   func() ([]store.Record, error) { return b.s.RecordsByCause(rev(1), 9) },
		"of a key":   func() ([]store.Record, error) { return b.s.RecordsOf("a", 1) },
	} {
		got, err := read()
		if err != nil || len(got) != 1 || got[0].Revision != rev(2) {
			t.Errorf("%s: got %+v, %v, want the record of %d alone", what, got, err, rev(2))
		}
	}
}
