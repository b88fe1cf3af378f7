package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/drover-fleet/drover/test/sim"
)

// total is what all seeds came to.
type total struct {
	o     options
	begin time.Time

	mu        sync.Mutex
	seeds     int
	bad       int
	simulated time.Duration
	cpu       time.Duration // of the processes that have ended
	events    uint64
	ops       int
	writes    int
	crashes   int
	faults    map[string]int
	others    map[string]int
	breaches  map[string]int // seeds by check
	errs      []error
}

// add takes the report of a seed and says so.
func (t *total) add(r sim.Report) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seeds++
	t.simulated += r.Simulated
	t.events += r.Events
	t.ops, t.writes, t.crashes = t.ops+r.Operations, t.writes+r.Writes, t.crashes+r.Crashes
	faults := 0
	for k, n := range r.Faults {
		t.faults[k] += n
		faults += n
	}
	for k, n := range r.Others {
		t.others[k] += n
	}
	cfg := sim.Config{Seed: r.Seed, Faults: t.o.faults, Every: t.o.every, Devices: t.o.devices}
	fmt.Printf("%d of %d: seed %d, trace %s: %v simulated, %d faults of %d kinds, %d operations, %d changes, %d checks; %.1f h in %v\n",
		t.seeds, t.o.seeds, r.Seed, r.Trace, r.Simulated.Round(time.Second), faults, len(r.Faults), r.Operations, r.Writes,
		len(sim.Judged(cfg)), t.simulated.Hours(), time.Since(t.begin).Round(time.Second))
	if len(r.Violations) == 0 {
		return
	}
	t.bad++
	broken := map[string]bool{}
	for _, v := range r.Violations {
		fmt.Printf("seed %d: %s\n", r.Seed, v)
		broken[v.Check] = true
	}
	for check := range broken {
		t.breaches[check]++
	}
	fmt.Printf("seed %d: replay with: %s\n", r.Seed, sim.Replay(cfg))
}

// print prints the tables: what happened, and what held.
func (t *total) print() {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "\nFAULT\tTIMES\n")
	for _, k := range slices.Sorted(maps.Keys(t.faults)) {
		fmt.Fprintf(w, "%s\t%d\n", k, t.faults[k])
	}
	fmt.Fprint(w, "\nALSO\tTIMES\n")
	fmt.Fprintf(w, "crashes of members\t%d\n", t.crashes)
	for _, k := range slices.Sorted(maps.Keys(t.others)) {
		fmt.Fprintf(w, "%s\t%d\n", k, t.others[k])
	}
	fmt.Fprint(w, "\nCHECK\tSEEDS\tBREACHED\n")
	for _, check := range sim.Judged(sim.Config{Devices: t.o.devices}) {
		fmt.Fprintf(w, "%s\t%d\t%d\n", check, t.seeds, t.breaches[check])
	}
	_ = w.Flush()
	hours := max(t.simulated.Hours(), 1e-9)
	fmt.Printf("\n%d seeds from %d, %d of them with a breach: %.1f h of 3 members and %d devices simulated in %v (%.1f CPU-s an hour), %d events, %d operations, %d changes\n",
		t.seeds, t.o.first, t.bad, t.simulated.Hours(), t.o.devices, time.Since(t.begin).Round(time.Second), t.cpu.Seconds()/hours, t.events, t.ops, t.writes)
}
