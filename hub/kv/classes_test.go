package kv_test

import (
	"errors"
	"testing"

	"github.com/drover-fleet/drover/store"
)

// The end of a range need not be text: that of everything is a lone byte of 255, and one after a letter beyond ASCII is cut in two.
func TestRangesMayEndAtAnyByte(t *testing.T) {
	c := serve(t, nil).dial(t)
	for _, prefix := range []string{"", "k/ÿ", "k/é"} {
		rq := store.WatchRequest{Start: prefix, End: store.PrefixEnd(prefix)}
		w, err := c.Watch(within(t), rq, false)
		if err != nil {
			t.Fatalf("watch %q to %q: %v", rq.Start, rq.End, err)
		}
		defer w.Close()
		mustPut(t, c, prefix+"key", "v")
		if b, err := w.Next(within(t)); err != nil || len(b.Events) != 1 || b.Events[0].KV.Key != prefix+"key" {
			t.Errorf("watch %q to %q: got %+v, %v", rq.Start, rq.End, b, err)
		}
		got, err := c.Range(within(t), store.RangeRequest{Start: rq.Start, End: rq.End}, true)
		if err != nil || len(got.KVs) != 1 && prefix != "" {
			t.Errorf("range %q to %q: got %+v, %v; want the key", rq.Start, rq.End, got, err)
		}
	}
}

// TestF41TheThreeWrongCursorsAreToldApartByTheMembersService: who watches learns whether to list again, to ask another member, or
// that the history is another, and a stream that was under way learns it too.
func TestF41TheThreeWrongCursorsAreToldApartByTheMembersService(t *testing.T) {
	m := serve(t, nil)
	c := m.dial(t)
	first := mustPut(t, c, "k", "1")
	last := mustPut(t, c, "k", "2")
	if err := m.local.Compact(within(t), last); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		from store.Revision
		want error
	}{
		{first, store.ErrCompacted}, {last + 2, store.ErrAhead}, {1, store.ErrOtherEpoch},
		{store.MakeRevision(last.Epoch()+1, 1), store.ErrAhead}, // which this member may yet come to
		{last + 1, nil}, {0, nil},
	} {
		w, err := c.Watch(within(t), store.WatchRequest{Start: "k", From: tt.from}, false)
		if !errors.Is(err, tt.want) {
			t.Errorf("watch from %d of %d..%d: got %v, want %v", tt.from, first, last, err, tt.want)
		}
		if err == nil {
			w.Close()
		}
	}
	w, err := c.Watch(within(t), store.WatchRequest{Start: "k"}, false)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	next := &store.Command{Actor: "hub:h2", NewEpoch: &store.Epoch{Number: last.Epoch() + 1, ID: "restored"}}
	if r, err := c.Propose(within(t), next); err != nil || r.Err != nil {
		t.Fatal(err, r.Err)
	}
	if b, err := w.Next(within(t)); !errors.Is(err, store.ErrOtherEpoch) {
		t.Errorf("a watch when the epoch changes: got %+v, %v; want %v", b, err, store.ErrOtherEpoch)
	}
}
