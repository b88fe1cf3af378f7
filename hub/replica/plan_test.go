package replica

import (
	"testing"
	"time"

	"github.com/drover-fleet/drover/store"
)

func TestCompactionKeepsByCountAndByAgeSaveWhenPressed(t *testing.T) {
	rev := func(n uint64) store.Revision { return store.MakeRevision(1, n) }
	limits := store.Limits{Data: store.Quota{Max: 100, High: 90, Low: 80}}
	calm, tight, full := store.Usage{Data: 80, Limits: limits}, store.Usage{Data: 81, Limits: limits}, store.Usage{Data: 81, Limits: limits, DataFull: true}
	for _, tt := range []struct {
		name                   string
		newest, compacted, old store.Revision
		keep                   uint64
		usage                  store.Usage
		want                   store.Revision
	}{
		{"nothing is old enough", rev(30_000), rev(0), 0, 10_000, calm, 0},
		{"few revisions", rev(9_000), rev(0), rev(9_000), 10_000, calm, 0},
		{"count holds it back", rev(12_000), rev(0), rev(11_000), 10_000, calm, rev(2_000)},
		{"age holds it back", rev(30_000), rev(0), rev(1_000), 10_000, calm, rev(1_000)},
		{"in steps", rev(30_000), rev(2_000), rev(30_000), 10_000, calm, rev(7_000)},
		{"done", rev(30_000), rev(20_000), rev(30_000), 10_000, calm, 0},
		{"pressed: age and count count no more", rev(3_000), rev(0), 0, 10_000, tight, rev(2_500)},
		{"pressed: a little is kept all the same", rev(3_000), rev(2_500), 0, 10_000, tight, 0},
		{"full: the little comes last", rev(3_000), rev(0), 0, 10_000, full, rev(2_500)},
		{"full: nothing else is left", rev(3_000), rev(2_500), 0, 10_000, full, rev(3_000)},
		{"full of few revisions", rev(30), rev(0), 0, 10_000, full, rev(30)},
		{"full, and nothing can be done", rev(3_000), rev(3_000), 0, 10_000, full, 0},
		{"another epoch's old revision", store.MakeRevision(2, 20_000), store.MakeRevision(2, 0), rev(5), 10_000, calm, 0},
	} {
		if got := planCompaction(tt.newest, tt.compacted, tt.old, tt.keep, tt.usage); got != tt.want {
			t.Errorf("%s: got %d, want %d", tt.name, got.Counter(), tt.want.Counter())
		}
	}
}

func TestThePastIsKnownOnceItIsOldEnough(t *testing.T) {
	var p past
	t0 := time.Unix(1000, 0)
	for m := range 180 {
		at := t0.Add(time.Duration(m) * time.Minute)
		p.note(at, store.Revision(m+1), time.Hour)
		want := store.Revision(0)
		if m >= 60 {
			want = store.Revision(m - 60 + 1)
		}
		if got := p.before(at, time.Hour); got != want {
			t.Fatalf("after %d min: got revision %d, want %d", m, got, want)
		}
	}
	if len(p.samples) > 62 {
		t.Errorf("got %d samples kept, want those of an hour", len(p.samples))
	}
}
