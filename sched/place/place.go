package place

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/drover-fleet/drover/api"
)

// Choice is where one copy goes.
type Choice struct {
	Copy   string
	Device string
	// There is how many copies of the workload the device has without this one.
	There int
	// Fit is how many devices passed all filters when the pass began.
	Fit int
}

// Reason tells why in a few words.
func (c Choice) Reason() string {
	return fmt.Sprintf("%s has %d copies of the workload, the fewest of %d devices that fit", c.Device, c.There, c.Fit)
}

// Result is the answer: each copy of the question is in one of the two.
type Result struct {
	Choices  []Choice
	Unplaced []string
	// Sentence tells why no device takes the unplaced copies; empty when there are none.
	Sentence string
}

// candidate is a device that takes another copy, in a heap with the best on top.
type candidate struct {
	cost   int64
	tie    uint32
	device int32
	copies int64
}

func (c candidate) before(d candidate) bool {
	if c.cost != d.cost {
		return c.cost < d.cost
	}
	if c.tie != d.tie {
		return c.tie < d.tie
	}
	return c.device < d.device
}

// Place decides for all copies of the question and adds the choices to the snapshot.
func (s *Snapshot) Place(a *Ask) Result {
	classes := s.classesFor(a)
	open, closed := s.filter(a, classes)
	heap := s.candidates(a, open)
	fit := len(heap)
	r := Result{Choices: make([]Choice, 0, min(len(a.Copies), 1<<16))}
	for n, name := range a.Copies {
		if len(heap) == 0 {
			r.Unplaced = a.Copies[n:]
			r.Sentence = s.sentence(a, open, closed)
			break
		}
		best := &heap[0]
		d := &s.devices[best.device]
		r.Choices = append(r.Choices, Choice{Copy: name, Device: d.Name, There: int(best.copies), Fit: fit})
		d.take(a.CPU, a.Memory, a.HostPorts)
		best.copies++
		if refuses(a, d) != "" {
			heap[0] = heap[len(heap)-1]
			heap = heap[:len(heap)-1]
		} else {
			best.cost = cost(a, d, best.copies)
		}
		sink(heap, 0)
	}
	return r
}

func (s *Snapshot) classesFor(a *Ask) []class {
	text := a.Selector.String()
	for _, l := range perDevice {
		if strings.Contains(text, l) {
			return s.singles()
		}
	}
	return s.classes
}

// filter parts the classes into those that pass and the number of devices refused by reason.
func (s *Snapshot) filter(a *Ask, classes []class) (open []class, closed map[string]int) {
	closed = map[string]int{}
	for _, c := range classes {
		if reason := firstReason(classFilters[:], a, &s.devices[c.like]); reason != "" {
			closed[reason] += len(c.members)
			continue
		}
		open = append(open, c)
	}
	return open, closed
}

func firstReason(filters []func(*Ask, *Device) string, a *Ask, d *Device) string {
	for _, f := range filters {
		if reason := f(a, d); reason != "" {
			return reason
		}
	}
	return ""
}

func refuses(a *Ask, d *Device) string { return firstReason(deviceFilters[:], a, d) }

func (s *Snapshot) candidates(a *Ask, open []class) []candidate {
	n := 0
	for _, c := range open {
		n += len(c.members)
	}
	heap := make([]candidate, 0, n)
	for _, c := range open {
		for _, i := range c.members {
			d := &s.devices[i]
			if refuses(a, d) != "" {
				continue
			}
			on := int64(a.On[d.Name])
			heap = append(heap, candidate{cost: cost(a, d, on), tie: tie(a.Workload, d.Name), device: i, copies: on})
		}
	}
	for i := len(heap)/2 - 1; i >= 0; i-- {
		sink(heap, i)
	}
	return heap
}

func cost(a *Ask, d *Device, copies int64) int64 {
	sum := int64(0)
	for i := range scorers {
		sum += scorers[i].weight * scorers[i].cost(a, d, copies)
	}
	return sum
}

// sink restores the heap below i, whose cost grew.
func sink(heap []candidate, i int) {
	for {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(heap); c++ {
			if heap[c].before(heap[least]) {
				least = c
			}
		}
		if least == i {
			return
		}
		heap[i], heap[least] = heap[least], heap[i]
		i = least
	}
}

// tie is FNV-1a of workload and device.
func tie(workload, device string) uint32 {
	h := uint32(2166136261)
	for _, s := range [...]string{workload, "\x00", device} {
		for i := range len(s) {
			h = (h ^ uint32(s[i])) * 16777619
		}
	}
	return h
}

// sentence counts the refusals, the most frequent first: "0/12 devices: 9 untolerated taint site=lab, 3 insufficient memory".
func (s *Snapshot) sentence(a *Ask, open []class, closed map[string]int) string {
	if len(s.devices) == 0 {
		return "0/0 devices: none is enrolled"
	}
	for _, c := range open {
		for _, i := range c.members {
			closed[refuses(a, &s.devices[i])]++
		}
	}
	type count struct {
		reason string
		n      int
	}
	var counts []count
	for reason, n := range closed {
		counts = append(counts, count{reason, n})
	}
	slices.SortFunc(counts, func(x, y count) int { return cmp.Or(cmp.Compare(y.n, x.n), cmp.Compare(x.reason, y.reason)) })
	parts := make([]string, len(counts))
	for i, c := range counts {
		parts[i] = fmt.Sprint(c.n, " ", c.reason)
	}
	return fmt.Sprintf("0/%d devices: %s", len(s.devices), strings.Join(parts, ", "))
}

// Requests sums what the containers of a template ask for, at most what a Quantity holds.
func Requests(t api.PodSpec) (cpu, memory int64) {
	sum := t.Resources().Requests
	return sum[api.ResourceCPU].Milli(), sum[api.ResourceMemory].Bytes()
}
