package mvcc

import (
	"fmt"
	"testing"

	"github.com/drover-fleet/drover/store"
)

// by writes as one actor at one time, for a cause; the bench's other writes are the test user's.
func (b *bench) by(actor string, time int64, cause store.Revision, ops ...store.Op) store.Revision {
	b.Helper()
	index := b.s.Applied() + 1
	c := &store.Command{Level: store.FormatLevel, Actor: actor, RequestID: fmt.Sprint("request-", index), Time: time,
		Cause: store.Cause{Revision: cause}, Ops: ops}
	raw, err := store.EncodeCommand(c)
	if err != nil {
		b.Fatal(err)
	}
	r := applied(b.T, b.s, []Entry{{Index: index, Term: b.term, Commands: [][]byte{raw}}})[0][0]
	if r.Err != nil {
		b.Fatal(r.Err)
	}
	return r.Revision
}

// trimAll applies plans until nothing is due.
func (b *bench) trimAll(rule TrimRule) (plans int) {
	b.Helper()
	for {
		trim, err := b.s.PlanTrim(b.Context(), rule)
		if err != nil {
			b.Fatal(err)
		}
		if trim == nil {
			return plans
		}
		before := b.s.Usage().Journal
		b.must(&store.Command{Trim: trim})
		if b.s.Usage().Journal >= before {
			b.Fatalf("plan %d %+v freed nothing", plans, trim)
		}
		plans++
	}
}

// TestTrimmedJournalStillExplainsEveryLiveKey: causes are followed to keys that are long gone, and a flood of one actor's writes
// takes nothing of the others'.
func TestTrimmedJournalStillExplainsEveryLiveKey(t *testing.T) {
	b := newBench(t)
	apply := b.by("user:alice", 1, 0, put("manifest", "1"))
	b.by("user:alice", 1, 0, put("unrelated", "1"))
	gone := b.by("controller:workload", 2, apply, put("rollout", "1"))
	made := b.by("controller:rollout", 3, gone, put("assignment", "new"), put("assignment2", "new"))
	bound := b.by("controller:scheduler", 4, made, put("assignment", "bound"))
	for i := range 100 {
		b.by("device:pi", 5, bound, put("assignment", fmt.Sprint("status ", i)))
	}
	b.by("user:alice", 6, 0, del("rollout"), del("unrelated"), del("manifest"))
	newest := b.by("device:pi", 7, bound, put("assignment", "status last"))
	b.must(&store.Command{Compact: b.s.Revision()})

	if plans := b.trimAll(TrimRule{Before: 100, Most: 10}); plans < 8 {
		t.Errorf("got %d plans, want small steps", plans)
	}
	recs, err := b.s.RecordsOf("assignment", 100)
	if err != nil {
		t.Fatal(err)
	}
	var got []store.Revision
	for _, r := range recs {
		got = append(got, r.Revision)
	}
	compare(t, "records kept of the assignment", got, []store.Revision{newest, bound, made - 1})
	for what, r := range map[string]store.Revision{"cause of the cause": gone, "the user's command": apply, "the other half of a kept set": made} {
		if _, ok, err := b.s.Record(r); !ok || err != nil {
			t.Errorf("%s: record %d: got %v, %v, want it kept", what, r, ok, err)
		}
	}
	if recs, err := b.s.RecordsOf("unrelated", 9); len(recs) != 0 || err != nil {
		t.Errorf("got %v, %v of what explains nothing, want none", recs, err)
	}
	wantEqual(t, "records on disk", b.count(bucketJournal), 6)
	wantEqual(t, "requests on disk", b.count(bucketRequest), 5)
	wantEqual(t, "ends of forgotten keys' chains", b.count(bucketHead), 0)
	if err := b.s.Verify(t.Context()); err != nil {
		t.Error(err)
	}
	b.reopen()
	b.by("user:bob", 8, 0, put("unrelated", "again"), put("rollout", "again"))
}

func TestJournalIsTrimmedToItsSizeOldestFirstAndNeverPastWhatCanBeRead(t *testing.T) {
	b := newBench(t)
	for i := range 200 {
		b.write(put(fmt.Sprint("k/", i), "1"), put("all", fmt.Sprint(i)))
	}
	for i := range 200 {
		b.write(del(fmt.Sprint("k/", i)))
	}
	size := b.s.Usage().Journal
	if n := b.trimAll(TrimRule{MaxBytes: size / 2, Most: 50}); n != 0 {
		t.Errorf("got %d plans while everything can be read, want none", n)
	}
	b.must(&store.Command{Compact: b.s.Revision()})
	b.trimAll(TrimRule{MaxBytes: size / 2, Most: 50})
	if got := b.s.Usage().Journal; got > size/2 || got < size/3 {
		t.Errorf("got %d bytes, want a little under %d", got, size/2)
	}
	if _, ok, err := b.s.Record(b.s.Revision()); !ok || err != nil {
		t.Errorf("the newest record: got %v, %v, want it kept", ok, err)
	}
	if err := b.s.Verify(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestTrimLeavesSetsAndNewestRecordsWhole: members are not to be misled by a plan that was made too long ago.
func TestTrimLeavesSetsAndNewestRecordsWhole(t *testing.T) {
	b := newBench(t)
	b.write(put("a", "1"), put("b", "1"), put("c", "1")) // 1 to 3
	b.write(put("a", "2"), put("c", "2"))                // 4 and 5, the newest of a and c
	b.write(put("b", "2"))                               // 6
	b.must(&store.Command{Trim: &store.Trim{Spans: []store.Span{{First: rev(1), Last: rev(2)}, {First: rev(4), Last: rev(6)}},
		Links: []store.Link{{At: rev(99), Prev: rev(1)}}}})
	wantEqual(t, "records", b.count(bucketJournal), 6)
	b.must(&store.Command{Trim: &store.Trim{Spans: []store.Span{{First: rev(1), Last: rev(3)}}}})
	wantEqual(t, "records", b.count(bucketJournal), 3)
}
