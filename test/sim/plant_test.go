//go:build plant

package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/drover-fleet/drover/agent/workload"
	"github.com/drover-fleet/drover/store/mvcc"
	"github.com/drover-fleet/drover/test/history"
)

// A simulator that finds nothing shows nothing. Each fault of the kinds that have cost others their data is planted in the product
// and must be found, by the check that is named for it, within 200 seeds.
func TestEveryPlantedFaultIsFoundByItsCheck(t *testing.T) {
	const seeds, faults = 200, 3 * time.Minute
	for _, p := range []struct {
		name    string
		devices int
		checks  []string
	}{
		{"applied-apart", 0, []string{history.EqualMembers}},
		{"watch-late", 0, []string{history.WatchResumable, history.WatchReliable, history.WatchBookmark}},
		{"tombstone-lost", 0, []string{history.Linearizable, history.EqualMembers, history.WatchPrevKV}},
		{"term-unchecked", 0, []string{history.OneOffice}},
		{"set-half-read", 0, []string{history.AtomicSets}},
		{"adopt-any-spec", 4, []string{history.Converges}},
	} {
		t.Run(p.name, func(t *testing.T) {
			plant(t, p.name)
			for seed := uint64(1); seed <= seeds; seed++ {
				r, err := Run(Config{Seed: seed, Faults: faults, Devices: p.devices})
				if err != nil {
					t.Fatal(err)
				}
				if len(r.Violations) == 0 {
					continue
				}
				if got := r.Violations[0]; !slices.Contains(p.checks, got.Check) {
					t.Fatalf("seed %d: found by %v, want it found by one of %q", seed, r.Violations, p.checks)
				}
				t.Logf("seed %d: %v", seed, r.Violations[0])
				return
			}
			t.Errorf("not found within %d seeds, want it found by one of %q", seeds, p.checks)
		})
	}
}

func plant(t *testing.T, name string) {
	t.Helper()
	if name == "adopt-any-spec" {
		workload.PlantAdoptAnySpec(true)
		t.Cleanup(func() { workload.PlantAdoptAnySpec(false) })
		return
	}
	if err := mvcc.Plant(name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := mvcc.Plant(""); err != nil {
			t.Error(err)
		}
	})
}
