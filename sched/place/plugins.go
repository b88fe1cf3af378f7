package place

import (
	"slices"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/grant"
)

// Ask is the question: where should these copies go?
type Ask struct {
	Workload    string // namespace/name; breaks ties, so that workloads do not all prefer the same device
	Selector    api.Selector
	Tolerations []api.Toleration
	CPU, Memory int64    // what each copy asks for: thousandths of a core, bytes
	Copies      []string // names of the unbound copies, in the order in which they are served
	// On is how many copies of the workload are bound already, by device.
	On map[string]int
	// Namespace and Needs are what a device's pool judges.
	Namespace string
	Needs     []grant.Need
	HostPorts []string // that each copy reserves, as "80/TCP"
}

// classFilters look at nothing that differs within a class. The first that refuses is the reason. "" lets pass.
var classFilters = [...]func(*Ask, *Device) string{notSelected, refusedByPool, notReady, cordoned, tainted}

// deviceFilters look at one device and what it has left.
var deviceFilters = [...]func(*Ask, *Device) string{noCPU, noMemory, portTaken}

func notSelected(a *Ask, d *Device) string {
	if a.Selector.Matches(d.Labels) {
		return ""
	}
	return "not selected"
}

// refusedByPool names the pool and what it does not allow.
func refusedByPool(a *Ask, d *Device) string {
	if denied := d.Grant.Judge(a.Namespace, a.Needs); denied != nil {
		return denied.Reason
	}
	return ""
}

// portTaken: another copy reserves a host port, or this workload's own.
func portTaken(a *Ask, d *Device) string {
	for _, p := range a.HostPorts {
		if d.UsedPorts[p] {
			return "host port " + p + " taken"
		}
	}
	return ""
}

func notReady(_ *Ask, d *Device) string {
	if d.Ready {
		return ""
	}
	return "not ready"
}

func cordoned(_ *Ask, d *Device) string {
	if d.Unschedulable {
		return "cordoned"
	}
	return ""
}

func tainted(a *Ask, d *Device) string {
	for _, t := range d.Taints {
		tolerated := slices.ContainsFunc(a.Tolerations, func(o api.Toleration) bool { return tolerates(o, t) })
		if tolerated {
			continue
		}
		if t.Value == "" {
			return "untolerated taint " + t.Key
		}
		return "untolerated taint " + t.Key + "=" + t.Value
	}
	return ""
}

func tolerates(o api.Toleration, t api.Taint) bool {
	if o.Effect != "" && o.Effect != t.Effect {
		return false
	}
	if o.Operator == "Exists" {
		return o.Key == "" || o.Key == t.Key
	}
	return o.Key == t.Key && o.Value == t.Value
}

func noCPU(a *Ask, d *Device) string {
	if lacks(a.CPU, d.UsedCPU, d.CPU) {
		return "insufficient cpu"
	}
	return ""
}

func noMemory(a *Ask, d *Device) string {
	if lacks(a.Memory, d.UsedMemory, d.Memory) {
		return "insufficient memory"
	}
	return ""
}

// lacks reports whether asked does not fit. Who asks for nothing fits everywhere.
func lacks(asked, used, all int64) bool { return asked > 0 && all != Unknown && asked > all-used }

// scorers give a device its cost for one more copy; the lowest sum is chosen. A weight tells how many points of balance
// (thousandths of the device) one unit is worth.
var scorers = [...]struct {
	name   string
	weight int64
	cost   func(a *Ask, d *Device, copies int64) int64
}{
	{"spread", 1_000_000, func(_ *Ask, _ *Device, copies int64) int64 { return copies }},
	{"balance", 1, func(a *Ask, d *Device, _ int64) int64 {
		return max(share(plus(a.CPU, d.UsedCPU), d.CPU), share(plus(a.Memory, d.UsedMemory), d.Memory))
	}},
}

// share is part of all in thousandths; of an amount that is not known it is half.
func share(part, all int64) int64 {
	if all <= 0 {
		return 500
	}
	// In floating point, since a thousandfold of bytes may not fit; the result is small and rounds the same everywhere.
	return min(int64(float64(part)/float64(all)*1000), 1000)
}
