package replica

import (
	"testing"
	"time"

	"github.com/drover-fleet/drover/store"
)

func TestCompactionKeepsByCountAndByAgeSaveWhenPressed(t *testing.T) {
	rev := func(n uint64) store.Revision { return store.MakeRevision(1, n) }
	for _, tt := range []struct {
		name                   string
		newest, compacted, old store.Revision
		keep                   uint64
		pressed                bool
		want                   store.Revision
	}{
		{"nothing is old enough", rev(30_000), rev(0), 0, 10_000, false, 0},
		{"few revisions", rev(9_000), rev(0), rev(9_000), 10_000, false, 0},
		{"count holds it back", rev(12_000), rev(0), rev(11_000), 10_000, false, rev(2_000)},
		{"age holds it back", rev(30_000), rev(0), rev(1_000), 10_000, false, rev(1_000)},
		{"in steps", rev(30_000), rev(2_000), rev(30_000), 10_000, false, rev(7_000)},
		{"done", rev(30_000), rev(20_000), rev(30_000), 10_000, false, 0},
		{"pressed: age and count count no more", rev(3_000), rev(0), 0, 10_000, true, rev(2_500)},
		{"another epoch's old revision", store.MakeRevision(2, 20_000), store.MakeRevision(2, 0), rev(5), 10_000, false, 0},
	} {
		if got := planCompaction(tt.newest, tt.compacted, tt.old, tt.keep, tt.pressed); got != tt.want {
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
