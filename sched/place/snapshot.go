package place

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/grant"
)

// Unknown is an amount that a device did not report. It refuses nothing.
const Unknown = -1

// Device is one device as placement sees it.
type Device struct {
	Name          string
	Labels        map[string]string
	Taints        []api.Taint
	Unschedulable bool
	Ready         bool
	// CPU in thousandths of a core and Memory in bytes are what copies may ask for in sum; Unknown when not reported.
	CPU, Memory int64
	// UsedCPU and UsedMemory are what the copies bound to it ask for, whether they run or not.
	UsedCPU, UsedMemory int64
	// Grant is what the pool that counts for it allows. Devices of one pool have equal grants.
	Grant grant.Grant
	// UsedPorts are the host ports of the copies bound to it, as "80/TCP"; nil when there are none.
	UsedPorts map[string]bool
}

// Snapshot is the fleet at one moment. [Snapshot.Place] adds what it decides, so that one snapshot serves a whole pass. Not
// safe for concurrent use.
type Snapshot struct {
	devices []Device // by name
	classes []class
	byName  map[string]int32
}

// class is devices that filters of classes cannot tell apart; like is one of them, members are indexes into devices.
type class struct {
	like    int32
	members []int32
}

// NewSnapshot takes the devices over.
func NewSnapshot(devices []Device) *Snapshot {
	slices.SortFunc(devices, func(a, b Device) int { return strings.Compare(a.Name, b.Name) })
	s := &Snapshot{devices: devices, byName: make(map[string]int32, len(devices))}
	of := map[string]int{}
	var sig signer
	for i := range devices {
		s.byName[devices[i].Name] = int32(i)
		key := sig.of(&devices[i])
		n, ok := of[string(key)]
		if !ok {
			n = len(s.classes)
			of[string(key)] = n
			s.classes = append(s.classes, class{like: int32(i)})
		}
		s.classes[n].members = append(s.classes[n].members, int32(i))
	}
	return s
}

// singles is a class for each device, for questions that name devices.
func (s *Snapshot) singles() []class {
	out := make([]class, len(s.devices))
	for i := range out {
		out[i] = class{like: int32(i), members: []int32{int32(i)}}
	}
	return out
}

// Bind adds a copy to a device, as if it had been chosen. A device that is not in the snapshot is ignored.
func (s *Snapshot) Bind(device string, cpu, memory int64, ports []string) {
	if i, ok := s.byName[device]; ok {
		s.devices[i].take(cpu, memory, ports)
	}
}

func (d *Device) take(cpu, memory int64, ports []string) {
	d.UsedCPU = plus(d.UsedCPU, cpu)
	d.UsedMemory = plus(d.UsedMemory, memory)
	for _, p := range ports {
		if d.UsedPorts == nil {
			d.UsedPorts = map[string]bool{}
		}
		d.UsedPorts[p] = true
	}
}

// plus adds two amounts that are not below 0, at most what fits: a sum that went around would look like room.
func plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Len is how many devices there are.
func (s *Snapshot) Len() int { return len(s.devices) }

// perDevice are labels that differ on every device by their nature; a question that does not mention them need not see them.
var perDevice = [...]string{api.LabelHostname, api.LabelDevice}

// signer writes what a class has in common. It reuses its memory.
type signer struct {
	keys []string
	text []byte
}

func (g *signer) of(d *Device) []byte {
	g.text = g.text[:0]
	for _, b := range []bool{d.Ready, d.Unschedulable} {
		if b {
			g.text = append(g.text, 1)
		} else {
			g.text = append(g.text, 0)
		}
	}
	g.add(d.Grant.Pool)
	for _, t := range d.Taints {
		g.add(t.Key, t.Value, t.Effect)
	}
	g.text = append(g.text, '|')
	g.keys = g.keys[:0]
	for k := range maps.Keys(d.Labels) {
		if !slices.Contains(perDevice[:], k) {
			g.keys = append(g.keys, k)
		}
	}
	slices.Sort(g.keys)
	for _, k := range g.keys {
		g.add(k, d.Labels[k])
	}
	return g.text
}

func (g *signer) add(parts ...string) {
	for _, p := range parts {
		g.text = append(append(g.text, p...), 0)
	}
}
