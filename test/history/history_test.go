package history

import (
	"testing"
	"time"

	"github.com/drover-fleet/drover/store"
)

// changes is a ledger of k=1 at 1, a set of a and b at 2 and 3, k deleted at 4, k=2 at 5.
func changes() []Change {
	return []Change{
		{Revision: 1, Set: 1, Key: "k", Value: "1", Request: "r1", At: 10},
		{Revision: 2, Set: 3, Key: "a", Value: "s", Request: "r2", At: 20},
		{Revision: 3, Set: 3, Key: "b", Value: "s", Request: "r2", At: 20},
		{Revision: 4, Set: 4, Key: "k", Deleted: true, Prev: "1", HasPrev: true, Request: "r3", At: 30},
		{Revision: 5, Set: 5, Key: "k", Value: "2", Request: "r4", At: 40},
	}
}

func seen(c Change) Seen {
	return Seen{Revision: c.Revision, Key: c.Key, Value: c.Value, Deleted: c.Deleted, Prev: c.Prev, HasPrev: c.HasPrev}
}

// batches are what a watcher of everything from 1 on must get.
func batches() []Batch {
	c := changes()
	return []Batch{
		{Revision: 1, Events: []Seen{seen(c[0])}},
		{Revision: 3, Events: []Seen{seen(c[1]), seen(c[2])}},
		{Revision: 4, Events: []Seen{seen(c[3])}},
		{Revision: 5, Events: []Seen{seen(c[4])}},
	}
}

func checks(found []Violation) map[string]bool {
	out := map[string]bool{}
	for _, v := range found {
		out[v.Check] = true
	}
	return out
}

func TestEachWatchGuaranteeIsBrokenByItsOwnBreach(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(s *Stream)
		want  string // "" = nothing is wrong
	}{
		{"as it was", func(*Stream) {}, ""},
		{"a batch is missing", func(s *Stream) { s.Batches = append(s.Batches[:1:1], s.Batches[2:]...) }, WatchReliable},
		{"one came twice", func(s *Stream) { s.Batches = append(s.Batches, s.Batches[3]) }, WatchUnique},
		{"two changed places", func(s *Stream) { s.Batches[2], s.Batches[3] = s.Batches[3], s.Batches[2] }, WatchOrdered},
		{"half a set", func(s *Stream) {
			s.Batches[1] = Batch{Revision: 2, Events: s.Batches[1].Events[:1]}
		}, WatchAtomic},
		{"resumed one late", func(s *Stream) { s.Resumes, s.Batches = true, s.Batches[1:] }, WatchResumable},
		{"a mark before what it covers", func(s *Stream) {
			s.Batches = append(s.Batches[:3], Batch{Revision: 5})
		}, WatchBookmark},
		{"another value before", func(s *Stream) { s.Batches[2].Events[0].Prev = "7" }, WatchPrevKV},
		{"no value before", func(s *Stream) { s.Batches[2].Events[0].HasPrev = false }, WatchPrevKV},
		{"no value before, compacted", func(s *Stream) { s.Batches[2].Events[0].HasPrev, s.Compacted = false, 4 }, ""},
		{"another value", func(s *Stream) { s.Batches[3].Events[0].Value = "7" }, WatchReliable},
		{"what never was", func(s *Stream) {
			s.Batches[3].Events = append(s.Batches[3].Events, Seen{Revision: 6, Key: "k"})
		}, WatchReliable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := Stream{From: 1, Batches: batches()}
			tc.spoil(&s)
			got := CheckWatch([]Stream{s}, changes())
			if tc.want == "" && len(got) > 0 || tc.want != "" && !checks(got)[tc.want] {
				t.Errorf("got %v, want %q", got, tc.want)
			}
		})
	}
}

func op(kind Kind, value string, rev store.Revision, call, ret int) Op {
	return Op{Kind: kind, Key: "k", Value: value, Revision: rev, Call: time.Duration(call), Return: time.Duration(ret), Outcome: Done}
}

func TestLinearizabilityFindsWhatNoOrderExplains(t *testing.T) {
	written := op(Put, "1", 1, 0, 10)
	deleted := op(Delete, "", 4, 25, 31)
	lost := Op{Kind: Put, Key: "k", Value: "2", Request: "r4", Call: 35, Return: 50} // outcome unknown; the ledger has it
	never := Op{Kind: Put, Key: "k", Value: "9", Request: "r9", Call: 35, Return: 50}
	for _, tc := range []struct {
		name string
		ops  []Op
		bad  bool
	}{
		{"a read sees the write before it", []Op{written, op(Read, "1", 1, 11, 12)}, false},
		{"an acknowledged write is not seen", []Op{written, op(Read, "", 0, 11, 12)}, true},
		{"a deleted value is seen", []Op{written, deleted, op(Read, "1", 1, 32, 33)}, true},
		{"an unknown write took effect", []Op{written, deleted, lost, op(Read, "2", 5, 60, 61)}, false},
		{"an unknown write took effect and is not seen later", []Op{written, deleted, lost, op(Read, "", 0, 60, 61)}, true},
		{"an unknown write never took effect", []Op{written, never, op(Read, "1", 1, 60, 61)}, false},
		{"a value that was never written", []Op{written, op(Read, "9", 9, 60, 61)}, true},
		{"revisions against real time", []Op{op(Put, "1", 5, 0, 10), {Kind: Put, Key: "other", Value: "x", Revision: 3, Call: 20, Return: 30, Outcome: Done}}, true},
		{"a conflict with what stood", []Op{written, {Kind: CompareAndPut, Key: "k", If: 1, Call: 11, Return: 12, Outcome: Refused}}, true},
		{"a conflict with what did not stand", []Op{written, {Kind: CompareAndPut, Key: "k", If: 0, Call: 11, Return: 12, Outcome: Refused}}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := CheckLinearizable(tc.ops, changes(), time.Minute)
			if (len(got) > 0) != tc.bad {
				t.Errorf("got %v, want a breach: %t", got, tc.bad)
			}
		})
	}
}

func TestMembersThatDifferAreFound(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(l *Ledger)
		bad  bool
	}{
		{"alike", func(l *Ledger) { l.Applied("h2", 1, "x", changes()[:1]); l.State("h2", 1, "hash") }, false},
		{"another outcome", func(l *Ledger) { l.Applied("h2", 1, "y", nil) }, true},
		{"another hash", func(l *Ledger) { l.State("h2", 1, "other") }, true},
		{"a revision again", func(l *Ledger) { l.Applied("h2", 2, "x", changes()[:1]) }, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := NewLedger()
			l.Applied("h1", 1, "x", changes()[:1])
			l.State("h1", 1, "hash")
			tc.do(l)
			if got := l.Check(); (len(got) > 0) != tc.bad {
				t.Errorf("got %v, want a breach: %t", got, tc.bad)
			}
		})
	}
}

func TestLedgerKnowsWhatStoodBefore(t *testing.T) {
	l := NewLedger()
	for i, c := range changes() {
		c.Prev, c.HasPrev = "", false
		l.Applied("h1", uint64(i+1), "x", []Change{c})
	}
	for i, want := range changes() {
		if got := l.Changes()[i]; got.Prev != want.Prev || got.HasPrev != want.HasPrev {
			t.Errorf("revision %d: got %q, %t before it, want %q, %t", got.Revision, got.Prev, got.HasPrev, want.Prev, want.HasPrev)
		}
	}
}

func TestSetsOfficesAndRevisionsAreJudged(t *testing.T) {
	for _, tc := range []struct {
		name string
		got  []Violation
		bad  bool
	}{
		{"a whole set", CheckSets([]SetRead{{Values: []string{"s", "s"}}}), false},
		{"half a set", CheckSets([]SetRead{{Values: []string{"s", "t"}}}), true},
		{"offices in order", CheckOffice([]Change{{Revision: 1, Office: 2}, {Revision: 2}, {Revision: 3, Office: 3}}), false},
		{"an office that was over", CheckOffice([]Change{{Revision: 1, Office: 3}, {Revision: 2, Office: 2}}), true},
		{"revisions rise", CheckMonotonic([]Sighting{{"h1", 1, 5}, {"h2", 1, 3}, {"h1", 1, 6}}), false},
		{"another life may begin lower", CheckMonotonic([]Sighting{{"h1", 1, 5}, {"h1", 2, 4}}), false},
		{"a revision went back", CheckMonotonic([]Sighting{{"h1", 1, 5}, {"h1", 1, 4}}), true},
	} {
		if (len(tc.got) > 0) != tc.bad {
			t.Errorf("%s: got %v, want a breach: %t", tc.name, tc.got, tc.bad)
		}
	}
}
