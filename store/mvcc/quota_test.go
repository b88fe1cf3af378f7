package mvcc

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/drover-fleet/drover/store"
)

func (b *bench) limit(l store.Limits) {
	b.Helper()
	b.must(&store.Command{Limits: &l})
}

// fill writes until the quota refuses, and returns the refusal.
func (b *bench) fill(prefix string) *store.QuotaError {
	b.Helper()
	for i := range 10_000 {
		r := b.do(&store.Command{Ops: []store.Op{put(fmt.Sprintf("%s%04d", prefix, i), strings.Repeat("x", 1000))}})
		var full *store.QuotaError
		if errors.As(r.Err, &full) {
			return full
		}
		if r.Err != nil {
			b.Fatal(r.Err)
		}
	}
	b.Fatal("the quota never refused")
	return nil
}

var smallLimits = store.Limits{
	Data:   store.Quota{Max: 120_000, High: 100_000, Low: 80_000},
	Events: store.Quota{Max: 30_000, High: 25_000, Low: 20_000}, EventPrefix: "events/",
}

// TestF30FullStoreIsFreedByDeletionAndCompactionAlone: nobody has to clear an alarm.
func TestF30FullStoreIsFreedByDeletionAndCompactionAlone(t *testing.T) {
	b := newBench(t)
	b.limit(smallLimits)
	full := b.fill("a/")
	if full.Used < 100_000 || full.Used > 120_000 || full.Max != 120_000 || !strings.Contains(full.Error(), "of the 120000 allowed") {
		t.Errorf("got %v, want the figures", full)
	}
	if !b.s.Usage().DataFull {
		t.Errorf("got %+v, want full", b.s.Usage())
	}
	// What marks an object as being deleted grows it a little.
	b.write(put("a/0000", strings.Repeat("x", 1000)+" deletionTimestamp"))
	wantQuota(t, "a value that grows by much", b.do(&store.Command{Ops: []store.Op{put("a/0001", strings.Repeat("x", 4000))}}))
	for i := range 30 {
		b.write(del(fmt.Sprintf("a/%04d", i)))
		if i == 0 {
			wantQuota(t, "a write after one deletion", b.do(&store.Command{Ops: []store.Op{put("new", "1")}}))
		}
	}
	b.must(&store.Command{Compact: b.s.Revision()})
	if u := b.s.Usage(); u.DataFull || u.Data > 80_000 {
		t.Errorf("got %+v, want below the low mark and not full", u)
	}
	b.write(put("new", "1"))
	if err := b.s.Verify(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestF30FullStoreTakesWhatItIsOperatedByUpToItsMaximum(t *testing.T) {
	b := newBench(t)
	limits := smallLimits
	limits.Needed = [2]string{"~", "tokens/"}
	b.limit(limits)
	_ = b.fill("a/")
	b.write(put("~turn/h1", "wanted"), put("tokens/new", "1"))
	wantQuota(t, "a set with another write", b.do(&store.Command{Ops: []store.Op{put("~turn/h2", "wanted"), put("b", "1")}}))
	full := b.fill("~x/")
	if full.Used+2000 < full.Max {
		t.Errorf("got %v, want a refusal near the maximum only", full)
	}
	b.reopen()
	wantEqual(t, "limits after a start", b.s.Usage().Limits, limits)
}

func wantQuota(t *testing.T, what string, r store.Result) {
	t.Helper()
	var full *store.QuotaError
	if !errors.As(r.Err, &full) {
		t.Errorf("%s: got %v, want a refusal by the quota", what, r.Err)
	}
}

func TestF30FullEventsBlockNothingElse(t *testing.T) {
	b := newBench(t)
	b.limit(smallLimits)
	if full := b.fill("events/"); full.What != "events" {
		t.Errorf("got %v, want events", full)
	}
	b.write(put("spec", "1"))
	if u := b.s.Usage(); !u.EventsFull || u.DataFull {
		t.Errorf("got %+v, want events full alone", u)
	}
	// Other limits count what is there by the other prefix.
	b.limit(store.Limits{Data: smallLimits.Data, EventPrefix: "none/"})
	if u := b.s.Usage(); u.EventsFull || u.Events != 0 || u.Data < 25_000 {
		t.Errorf("got %+v, want everything to be contents", u)
	}
	if err := b.s.Verify(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestRefusalByAQuotaIsRepeatedToARetryThatComesLate(t *testing.T) {
	b := newBench(t)
	b.limit(smallLimits)
	_ = b.fill("a/")
	c := &store.Command{Writer: "w", Sequence: 1, Ops: []store.Op{put("late", "1")}}
	wantQuota(t, "first", b.do(c))
	b.limit(store.Limits{})
	b.reopen()
	r := b.do(c)
	wantQuota(t, "retry", r)
	if !r.Repeat || strings.Contains(b.all(0), "late") {
		t.Errorf("the retry was applied")
	}
}
