package replica_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drover-fleet/drover/hub/replica"
	"github.com/drover-fleet/drover/store"
)

// TestF31UpkeepBringsTheStoreWithinItsBoundsAndTheFileInItsTurn runs the leader's and the member's part over a log that loses, repeats and reorders.
func TestF31UpkeepBringsTheStoreWithinItsBoundsAndTheFileInItsTurn(t *testing.T) {
	r, _ := open(t, 4)
	ctx := withTimeout(t, 60*time.Second)
	for i := range 300 {
		if res, err := r.Propose(ctx, put(fmt.Sprint("k/", i%7), strings.Repeat("x", 4000+i))); err != nil || res.Err != nil {
			t.Fatal(err, res.Err)
		}
	}
	growth := replica.Growth{
		KeepRevisions: 50, KeepFor: time.Nanosecond, JournalFor: time.Nanosecond,
		Limits: store.Limits{Data: store.Quota{Max: 9 << 20, High: 8 << 20, Low: 7 << 20}, Events: store.Quota{Max: 9 << 20, High: 8 << 20, Low: 7 << 20}, EventPrefix: "events/", Needed: [2]string{"~", "tokens/"}},
	}
	u, err := replica.NewUpkeep(r, growth, replica.UpkeepOptions{Every: 5 * time.Millisecond, Pause: time.Millisecond, TrimEvery: time.Millisecond, Wasted: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	w, err := r.Watch(ctx, store.WatchRequest{Start: "~turn/h1"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	var wg sync.WaitGroup
	run, stop := context.WithCancel(ctx)
	wg.Go(func() { _ = u.Lead(run, 1) })
	wg.Go(func() { _ = u.Follow(run) })
	var turns []string
	for len(turns) < 3 {
		b, err := w.Next(ctx)
		if err != nil {
			t.Fatalf("after turns %v: %v", turns, err)
		}
		for _, e := range b.Events {
			turns = append(turns, string(e.KV.Value))
		}
	}
	if want := `{"state":"wanted"} {"state":"granted"} `; strings.Join(turns, " ") != want {
		t.Errorf("turns of the member: got %q, want %q", turns, want)
	}
	stop()
	wg.Wait()
	if kept := r.Revision() - r.Compacted(); kept > 100 {
		t.Errorf("got %d revisions kept, want about 50", kept)
	}
	if got := r.Usage(); got.Limits != growth.Limits || got.Journal > 40_000 {
		t.Errorf("got %+v, want the limits set and a small journal", got)
	}
	if err := errors.Join(r.Checkpoint(), r.Verify(t.Context())); err != nil {
		t.Error(err)
	}
}
