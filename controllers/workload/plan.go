package workload

import (
	"fmt"
	"slices"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/controllers/copies"
	"github.com/drover-fleet/drover/controllers/reconcile"
)

// view is what a plan is made from. Nothing in it is changed.
type view struct {
	workload *api.Workload
	devices  []*api.Device
	// assignments have the workload's name in their spec; some may belong to an earlier workload of that name.
	assignments []*api.Assignment
	// birth is the revision on which new copies start; nil: none is known, and none is made.
	birth *api.WorkloadRevision
	now   time.Time
	pools api.Pools
	// holds lists the copies on a device that reserve host ports; nil: none does.
	holds func(device string) []holder
}

// plan is what leads one step closer.
type plan struct {
	writes []client.TxItem // copies to make and to remove
	status api.WorkloadStatus
	after  time.Duration // until time alone may change the status; 0 = never
}

// slot is a place for one copy: a device, or an ordinal.
type slot struct {
	name    string
	device  string
	ordinal *int32
	create  bool // false: what is there stays, but nothing new comes
}

func makePlan(v view) (plan, error) {
	own, taken := v.own()
	slots, hindered, err := slotsOf(v, own)
	if err != nil {
		return plan{}, err
	}
	kept := make([]*api.Assignment, 0, len(own))
	var p plan
	for _, s := range slots {
		have := own[s.key()]
		if len(have) > 0 {
			kept = append(kept, have[0])
			own[s.key()] = have[1:]
			continue
		}
		if s.create && v.birth != nil && !taken[s.name] {
			p.writes = append(p.writes, reconcile.Create(v.born(s)))
		}
	}
	for _, surplus := range own {
		for _, a := range surplus {
			p.writes = append(p.writes, reconcile.Delete(a))
		}
	}
	slices.SortFunc(p.writes, byName)
	p.status, p.after = v.status(kept, int32(countWanted(slots, kept)))
	if c, any := hindered.condition(v.workload.Metadata.Generation); any {
		api.SetCondition(&p.status.Conditions, c, api.TimeOf(v.now))
	} else {
		api.RemoveCondition(&p.status.Conditions, copies.CondPlaced)
	}
	return p, nil
}

// byName orders ordinals before names that contain them; it only has to be the same each time.
func byName(a, b client.TxItem) int {
	x, y := a.Object.Meta().Name, b.Object.Meta().Name
	if len(x) != len(y) {
		return len(x) - len(y)
	}
	if x < y {
		return -1
	}
	return 1
}

// key tells slots apart; ordinals and devices never share one.
func (s slot) key() string {
	if s.ordinal != nil {
		return fmt.Sprint("#", *s.ordinal)
	}
	return s.device
}

func keyOf(a *api.Assignment) string {
	return slot{device: a.Spec.Device, ordinal: a.Spec.Ordinal}.key()
}

// own groups the workload's own copies by slot, oldest name first, and lists all names that are in use.
func (v view) own() (map[string][]*api.Assignment, map[string]bool) {
	own, taken := map[string][]*api.Assignment{}, map[string]bool{}
	for _, a := range v.assignments {
		taken[a.Metadata.Name] = true
		if reconcile.OwnedBy(a, v.workload) && a.Metadata.DeletionTimestamp == nil {
			own[keyOf(a)] = append(own[keyOf(a)], a)
		}
	}
	return own, taken
}

// slotsOf lists the places in order of devices or ordinals, and why selected devices are none.
func slotsOf(v view, own map[string][]*api.Assignment) ([]slot, hindrances, error) {
	w := v.workload
	var hindered hindrances
	if w.Spec.Placement.Replicas != nil {
		out := make([]slot, *w.Spec.Placement.Replicas)
		for n := range out {
			ordinal := int32(n)
			out[n] = slot{name: copies.Ordinal(w.Metadata.Name, ordinal), ordinal: &ordinal, create: true}
		}
		return out, hindered, nil
	}
	selection, err := copies.Select(w.Spec.Placement)
	if err != nil {
		return nil, hindered, err
	}
	needs, ports := w.Spec.Template.Spec.Needs(), w.Spec.Template.Spec.HostPorts()
	var out []slot
	for _, d := range v.devices {
		if !selection.Selects(d) {
			continue
		}
		s := slot{name: copies.OnDevice(w.Metadata.Name, d.Metadata.Name), device: d.Metadata.Name, create: selection.Admits(d)}
		var have *api.Assignment
		if there := own[s.key()]; len(there) > 0 {
			have = there[0]
		}
		if reason, why := v.hinders(d, needs, ports, have); reason != "" {
			hindered.add(reason, why)
			continue
		}
		out = append(out, s)
	}
	return out, hindered, nil
}

// countWanted is how many copies there should be: those kept and those that may be made.
func countWanted(slots []slot, kept []*api.Assignment) int {
	have := map[string]bool{}
	for _, a := range kept {
		have[keyOf(a)] = true
	}
	n := 0
	for _, s := range slots {
		if s.create || have[s.key()] {
			n++
		}
	}
	return n
}

// born is a new copy.
func (v view) born(s slot) *api.Assignment {
	w := v.workload
	return &api.Assignment{
		Metadata: api.ObjectMeta{
			Name: s.name, Namespace: w.Metadata.Namespace,
			Labels:          copies.Labels(v.birth, w.Metadata.Name, s.device),
			Annotations:     v.birth.Spec.Template.Metadata.Annotations,
			OwnerReferences: reconcile.Owned(w),
		},
		Spec: api.AssignmentSpec{Workload: w.Metadata.Name, Ordinal: s.ordinal, Revision: v.birth.Metadata.Name, Device: s.device},
	}
}
