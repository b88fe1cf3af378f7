package sim

import (
	"math/rand/v2"
	"testing"
	"time"
)

// run runs a short world of the whole house and fails with the command that replays it.
func run(t *testing.T, cfg Config) Report {
	t.Helper()
	r, err := Run(cfg)
	if err != nil {
		t.Fatalf("%v\nreplay with: %s", err, Replay(cfg))
	}
	for _, v := range r.Violations {
		t.Errorf("seed %d: %s\nreplay with: %s", cfg.Seed, v, Replay(cfg))
	}
	return r
}

func small(seed uint64) Config {
	return Config{Seed: seed, Faults: time.Minute, Clients: 4, Devices: 3}
}

func TestGuaranteesHoldUnderFaultsForFixedSeeds(t *testing.T) {
	crashes := 0
	for seed := uint64(1); seed <= 2; seed++ {
		r := run(t, small(seed))
		if r.Operations == 0 || r.Writes == 0 {
			t.Errorf("seed %d: %d operations and %d changes: the run shows nothing", seed, r.Operations, r.Writes)
		}
		crashes += r.Crashes
	}
	if crashes == 0 {
		t.Error("no member crashed for any seed: the runs show nothing")
	}
}

func TestGuaranteesHoldUnderFaultsForANewSeed(t *testing.T) {
	seed := 1 + rand.Uint64N(1<<40)
	t.Logf("seed %d", seed)
	run(t, small(seed))
}

func TestASeedReplaysIdentically(t *testing.T) {
	first, again := run(t, small(7)), run(t, small(7))
	if first.Trace != again.Trace || first.Events != again.Events {
		t.Errorf("second run: got trace %s of %d events, want %s of %d", again.Trace, again.Events, first.Trace, first.Events)
	}
	if first.Crashes == 0 {
		t.Error("no member crashed: the run shows nothing")
	}
	if other := run(t, Config{Seed: 8, Faults: time.Second}); other.Trace == first.Trace {
		t.Errorf("two worlds have one trace, %s: it shows nothing", first.Trace)
	}
}
