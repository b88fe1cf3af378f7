package sim

import (
	"fmt"
	"slices"

	"github.com/drover-fleet/drover/agent/workload"
	"github.com/drover-fleet/drover/test/history"
)

// judgeRest compares what is declared, what the hub ordered, and what runs.
func (f *fleet) judgeRest() {
	counted := f.orders.counted()
	for i, t := range f.declared {
		want := int32(f.w.cfg.Devices)
		if i > 0 {
			want = f.copies()
		}
		if t != 0 && counted[t] != want {
			f.breach("%d copies of %s are to run template %d, want %d", counted[t], workloadName(i), t, want)
		}
		delete(counted, t)
	}
	if len(counted) > 0 {
		f.breach("copies are to run what is not declared: by template %v, declared are %v", counted, f.declared)
	}
	standing := f.orders.standing()
	for _, d := range f.devices {
		want, got := standing[d.name], f.running(d)
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(want, got) {
			f.breach("%s runs templates %v, it is to run %v", d.name, got, want)
		}
	}
}

func (f *fleet) breach(format string, args ...any) {
	v := history.Violation{Check: history.Converges, What: fmt.Sprintf(format, args...)}
	f.breaches = append(f.breaches, v)
	f.w.logf("VIOLATION %s", v)
}

// running lists the templates that run on a device.
func (f *fleet) running(d *device) []int {
	var out []int
	for _, k := range d.runtime.Containers() {
		if k.State == workload.Running {
			out = append(out, f.images[k.Image])
		}
	}
	return out
}

func (f *fleet) check() []history.Violation {
	out := f.breaches
	for _, d := range f.devices {
		for _, what := range d.runtime.Violations() {
			out = append(out, history.Violation{Check: history.OneCopy, What: d.name + ": " + what})
		}
	}
	return out
}
