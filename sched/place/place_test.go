package place

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-fleet/drover/api"
)

func selector(t testing.TB, text string) api.Selector {
	t.Helper()
	s, err := api.ParseSelector(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func names(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprint("w.", i)
	}
	return out
}

// boards are n ready devices of 1000 thousandths of a core and 100 bytes.
func boards(n int, change func(i int, d *Device)) []Device {
	out := make([]Device, n)
	for i := range out {
		out[i] = Device{
			Name: fmt.Sprintf("pi-%05d", i), Ready: true, CPU: 1000, Memory: 100,
			Labels: map[string]string{"site": "lab", api.LabelHostname: fmt.Sprintf("pi-%05d", i)},
		}
		if change != nil {
			change(i, &out[i])
		}
	}
	return out
}

func TestSentenceCountsRefusalsMostFrequentFirst(t *testing.T) {
	lab := api.Taint{Key: "site", Value: "lab", Effect: "NoSchedule"}
	for _, tc := range []struct {
		name    string
		devices []Device
		ask     Ask
		want    string
	}{
		{"taints and memory", boards(12, func(i int, d *Device) {
			if i < 9 {
				d.Taints = []api.Taint{lab}
			}
		}), Ask{Selector: api.Everything(), Memory: 101}, "0/12 devices: 9 untolerated taint site=lab, 3 insufficient memory"},
		{"tolerated", boards(2, func(_ int, d *Device) { d.Taints = []api.Taint{lab} }),
			Ask{Selector: api.Everything(), CPU: 1001, Tolerations: []api.Toleration{{Key: "site", Operator: "Exists"}}}, "0/2 devices: 2 insufficient cpu"},
		{"no fleet", nil, Ask{Selector: api.Everything()}, "0/0 devices: none is enrolled"},
		{"nothing selected", boards(3, nil), Ask{}, "0/3 devices: 3 not selected"},
		{"each state", boards(4, func(i int, d *Device) {
			d.Ready, d.Unschedulable = i != 0, i == 1
			if i == 2 {
				d.Taints = []api.Taint{{Key: "broken", Effect: "NoSchedule"}}
			}
			if i == 3 {
				d.Labels = nil
			}
		}), Ask{Selector: selector(t, "site=lab")}, "0/4 devices: 1 cordoned, 1 not ready, 1 not selected, 1 untolerated taint broken"},
		{"full after some", boards(1, nil), Ask{Selector: api.Everything(), Memory: 100}, "0/1 devices: 1 insufficient memory"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.ask.Copies = names(3)
			if got := NewSnapshot(tc.devices).Place(&tc.ask).Sentence; got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestCopiesSpreadThenBalance(t *testing.T) {
	fleet := NewSnapshot(boards(3, func(i int, d *Device) { d.UsedMemory = []int64{50, 0, 20}[i] }))
	r := fleet.Place(&Ask{Workload: "default/w", Selector: api.Everything(), Memory: 10, Copies: names(4), On: map[string]int{"pi-00001": 1}})
	got := map[string]string{}
	for _, c := range r.Choices {
		got[c.Copy] = c.Device
	}
	// The emptiest of those without a copy first; then every device has one, and the emptiest takes the second.
	want := map[string]string{"w.0": "pi-00002", "w.1": "pi-00000", "w.2": "pi-00001", "w.3": "pi-00002"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("choices (-want +got):\n%s", diff)
	}
}

func TestSnapshotRemembersWhatItChose(t *testing.T) {
	fleet := NewSnapshot(boards(2, nil))
	a := fleet.Place(&Ask{Selector: api.Everything(), Memory: 60, Copies: names(2)})
	b := fleet.Place(&Ask{Selector: api.Everything(), Memory: 60, Copies: names(1)})
	if len(a.Choices) != 2 || len(b.Choices) != 0 || b.Sentence != "0/2 devices: 2 insufficient memory" {
		t.Errorf("got %d and %d choices, %q; want 2, 0 and full devices", len(a.Choices), len(b.Choices), b.Sentence)
	}
}

// TestAmountsTooLargeToAddAreNotTakenForRoom: the sum of two in 64 bits is below 0.
func TestAmountsTooLargeToAddAreNotTakenForRoom(t *testing.T) {
	most := api.Container{Resources: api.ResourceRequirements{Requests: api.ResourceList{"cpu": api.MilliQuantity(math.MaxInt64)}}}
	cpu, _ := Requests(api.PodSpec{Containers: []api.Container{most, most}})
	if cpu != math.MaxInt64 {
		t.Errorf("got %d thousandths of a core, want the most there is", cpu)
	}
	fleet := NewSnapshot(boards(1, nil))
	fleet.Bind("pi-00000", cpu, 0, nil)
	fleet.Bind("pi-00000", cpu, 0, nil)
	if r := fleet.Place(&Ask{Selector: api.Everything(), CPU: 1, Copies: names(1)}); len(r.Choices) != 0 {
		t.Errorf("got %v, want a full device", r.Choices)
	}
}

func TestWorkloadsDoNotAllPreferTheSameDevice(t *testing.T) {
	seen := map[string]bool{}
	for i := range 20 {
		r := NewSnapshot(boards(10, nil)).Place(&Ask{Workload: fmt.Sprint("default/w", i), Selector: api.Everything(), Copies: names(1)})
		seen[r.Choices[0].Device] = true
	}
	if len(seen) < 5 {
		t.Errorf("got 20 workloads on %v, want them over at least 5 of 10 equal devices", slices.Sorted(maps.Keys(seen)))
	}
}

func TestHostnameSelectorsSeeEachDevice(t *testing.T) {
	r := NewSnapshot(boards(5, nil)).Place(&Ask{Selector: selector(t, api.LabelHostname+"=pi-00003"), Copies: names(1)})
	if len(r.Choices) != 1 || r.Choices[0].Device != "pi-00003" {
		t.Errorf("got %+v, want pi-00003", r)
	}
}

// oracle decides one copy at a time by looking at every device.
func oracle(devices []Device, a *Ask) (out []string) {
	on := maps.Clone(a.On)
	for range a.Copies {
		best, bestCost := -1, int64(0)
		for i := range devices {
			d := &devices[i]
			if firstReason(classFilters[:], a, d) != "" || refuses(a, d) != "" {
				continue
			}
			c := cost(a, d, int64(on[d.Name]))
			if best < 0 || c < bestCost || c == bestCost && tie(a.Workload, d.Name) < tie(a.Workload, devices[best].Name) {
				best, bestCost = i, c
			}
		}
		if best < 0 {
			return out
		}
		devices[best].UsedCPU += a.CPU
		devices[best].UsedMemory += a.Memory
		on[devices[best].Name]++
		out = append(out, devices[best].Name)
	}
	return out
}

func TestPlaceAgreesWithLookingAtEveryDevice(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 3))
		devices := boards(1+r.IntN(30), func(_ int, d *Device) {
			d.Ready, d.Unschedulable = r.IntN(5) > 0, r.IntN(6) == 0
			d.Labels["site"] = []string{"lab", "roof"}[r.IntN(2)]
			d.UsedMemory, d.UsedCPU = int64(r.IntN(100)), int64(r.IntN(1000))
			if r.IntN(8) == 0 {
				d.Memory = Unknown
			}
			if r.IntN(4) == 0 {
				d.Taints = []api.Taint{{Key: "k", Value: "v", Effect: "NoSchedule"}}
			}
		})
		ask := &Ask{
			Workload: "default/w", Selector: selector(t, []string{"site=lab", "site in (lab,roof)", "site!=lab"}[r.IntN(3)]),
			CPU: int64(r.IntN(300)), Memory: int64(r.IntN(40)), Copies: names(r.IntN(60)), On: map[string]int{"pi-00000": r.IntN(3)},
		}
		if r.IntN(2) == 0 {
			ask.Tolerations = []api.Toleration{{Key: "k", Value: "v"}}
		}
		want := oracle(slices.Clone(devices), ask)
		var got []string
		res := NewSnapshot(devices).Place(ask)
		for _, c := range res.Choices {
			got = append(got, c.Device)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("seed %d (-want +got):\n%s", seed, diff)
		}
		if len(got)+len(res.Unplaced) != len(ask.Copies) || (len(res.Unplaced) > 0) != (res.Sentence != "") {
			t.Fatalf("seed %d: %d chosen, %d unplaced of %d, sentence %q", seed, len(got), len(res.Unplaced), len(ask.Copies), res.Sentence)
		}
	}
}

// BenchmarkPlace puts one workload of as many copies as devices on a fleet of two sites, half of it tainted.
func BenchmarkPlace(b *testing.B) {
	for _, n := range []int{1_000, 10_000} {
		b.Run(fmt.Sprintf("%dk", n/1000), func(b *testing.B) {
			devices := boards(n, func(i int, d *Device) {
				d.Labels["site"], d.CPU, d.Memory = fmt.Sprint("site-", i%20), 4000, 4<<30
				if i%2 == 0 {
					d.Taints = []api.Taint{{Key: "ring", Value: "canary", Effect: "NoSchedule"}}
				}
			})
			ask := Ask{Workload: "default/w", Selector: selector(b, "site!=site-3"), CPU: 10, Memory: 16 << 20, Copies: names(n)}
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				fleet := NewSnapshot(slices.Clone(devices))
				b.StartTimer()
				if r := fleet.Place(&ask); len(r.Unplaced) > 0 {
					b.Fatal(r.Sentence)
				}
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "copies/s")
		})
	}
}

// BenchmarkSnapshot makes the classes of a fleet.
func BenchmarkSnapshot(b *testing.B) {
	devices := boards(10_000, func(i int, d *Device) { d.Labels["site"] = fmt.Sprint("site-", i%20) })
	b.ReportAllocs()
	for b.Loop() {
		NewSnapshot(devices)
	}
}
