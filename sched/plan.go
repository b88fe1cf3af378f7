package sched

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/grant"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/sched/place"
)

// CondScheduled is the condition of Assignment and Workload that says whether copies have a device, and if not, why.
const CondScheduled = "Scheduled"

// Reasons of the condition.
const (
	reasonBound         = "Bound"
	reasonUnschedulable = "Unschedulable"
)

// view is what one workload's plan is made from. Only the snapshot is changed: it takes the choices.
type view struct {
	workload    *api.Workload
	assignments []*api.Assignment
	// lost reports a device that is known to be gone.
	lost func(device string) bool
	// labels are a device's; false when it is not known.
	labels      func(device string) (map[string]string, bool)
	cpu, memory int64
	// What the template asks of the board, and the pools that judge it.
	needs     []grant.Need
	hostPorts []string
	pools     api.Pools
	fleet     *place.Snapshot
	now       time.Time
}

// plan is what leads the workload one step closer.
type plan struct {
	// bindings are writes that belong together copy by copy; any may be refused without harm to the others.
	bindings [][]client.TxItem
	// workload is the workload with its condition; nil when that stands already.
	workload *api.Workload
	blocked  bool // some copies found no device
}

func makePlan(v view) (plan, error) {
	selector, err := v.workload.Spec.Placement.DeviceSelector()
	if err != nil {
		return plan{}, err
	}
	ask := &place.Ask{
		Workload: v.workload.Metadata.Namespace + "/" + v.workload.Metadata.Name,
		Selector: selector, Tolerations: v.workload.Spec.Placement.Tolerations,
		CPU: v.cpu, Memory: v.memory, On: map[string]int{},
		Namespace: v.workload.Metadata.Namespace, Needs: v.needs, HostPorts: v.hostPorts,
	}
	waiting := map[string]*api.Assignment{}
	var p plan
	for _, a := range v.inOrder() {
		if v.staysBound(a, selector) {
			ask.On[a.Spec.Device]++
			p.add(v.correct(a))
			continue
		}
		waiting[a.Metadata.Name] = a
		ask.Copies = append(ask.Copies, a.Metadata.Name)
	}
	r := v.fleet.Place(ask)
	for _, c := range r.Choices {
		p.add(v.bind(waiting[c.Copy], c))
	}
	for _, name := range r.Unplaced {
		p.add(v.refuse(waiting[name], r.Sentence))
	}
	p.blocked = len(r.Unplaced) > 0
	p.workload = v.tell(r)
	return p, nil
}

func (p *plan) add(items []client.TxItem) {
	if len(items) > 0 {
		p.bindings = append(p.bindings, items)
	}
}

// inOrder are the replicas by ordinal.
func (v view) inOrder() []*api.Assignment {
	out := slices.DeleteFunc(slices.Clone(v.assignments), func(a *api.Assignment) bool {
		return a.Spec.Ordinal == nil || a.Metadata.DeletionTimestamp != nil
	})
	slices.SortFunc(out, func(a, b *api.Assignment) int { return cmp.Compare(*a.Spec.Ordinal, *b.Spec.Ordinal) })
	return out
}

// staysBound reports whether the copy has a device that it may keep. One that is not known, but not known to be gone, counts.
func (v view) staysBound(a *api.Assignment, selector api.Selector) bool {
	if a.Spec.Device == "" || v.lost(a.Spec.Device) {
		return false
	}
	labels, ok := v.labels(a.Spec.Device)
	return !ok || selector.Matches(labels) && v.pools.Grant(labels).Judge(a.Metadata.Namespace, v.needs) == nil
}

// bind is the copy on its device. Its condition is written only when it said otherwise, or to forget what an earlier device
// reported: most bindings are one write.
func (v view) bind(a *api.Assignment, c place.Choice) []client.TxItem {
	var items []client.TxItem
	if a.Spec.Device != "" || api.FindCondition(a.Status.Conditions, CondScheduled) != nil {
		items = v.status(a, api.Condition{Status: api.True, Reason: reasonBound, Message: c.Reason()})
	}
	return append(items, update(a, c.Device))
}

// refuse tells the copy why it has no device, and takes it off one that it may not keep.
func (v view) refuse(a *api.Assignment, sentence string) []client.TxItem {
	items := v.status(a, api.Condition{Status: api.False, Reason: reasonUnschedulable, Message: sentence})
	if a.Spec.Device != "" {
		items = append(items, update(a, ""))
	}
	return items
}

// correct mends the condition of a copy that stays bound and still says that it has no device.
func (v view) correct(a *api.Assignment) []client.TxItem {
	c := api.FindCondition(a.Status.Conditions, CondScheduled)
	if c == nil || c.Status != api.False {
		return nil
	}
	next := api.Copy(a)
	api.SetCondition(&next.Status.Conditions, api.Condition{
		Type: CondScheduled, Status: api.True, Reason: reasonBound, Message: "bound to " + a.Spec.Device, ObservedGeneration: a.Metadata.Generation,
	}, api.TimeOf(v.now))
	return []client.TxItem{write(client.TxStatus, api.KindAssignment, next)}
}

// status writes the condition of a copy that is not bound, or about to leave its device; then what that device reported is
// forgotten.
func (v view) status(a *api.Assignment, c api.Condition) []client.TxItem {
	c.Type, c.ObservedGeneration = CondScheduled, a.Metadata.Generation
	next := api.Copy(a)
	if a.Spec.Device != "" {
		next.Status = api.AssignmentStatus{Phase: api.PhasePending, Conditions: next.Status.Conditions}
	}
	if !api.SetCondition(&next.Status.Conditions, c, api.TimeOf(v.now)) && a.Spec.Device == "" {
		return nil
	}
	return []client.TxItem{write(client.TxStatus, api.KindAssignment, next)}
}

func write(verb client.Verb, k *api.Kind, o api.Object) client.TxItem {
	*o.Type() = api.TypeMeta{APIVersion: k.APIVersion, Kind: k.Kind}
	return client.TxItem{Verb: verb, Object: o}
}

func update(a *api.Assignment, device string) client.TxItem {
	next := api.Copy(a)
	next.Spec.Device = device
	next.Metadata.Labels = maps.Clone(next.Metadata.Labels)
	if next.Metadata.Labels == nil {
		next.Metadata.Labels = map[string]string{}
	}
	delete(next.Metadata.Labels, api.LabelDevice)
	if device != "" && api.CheckLabelValue(device) == nil {
		next.Metadata.Labels[api.LabelDevice] = device
	}
	return write(client.TxUpdate, api.KindAssignment, next)
}

// tell is the workload with its condition; nil when it stands already.
func (v view) tell(r place.Result) *api.Workload {
	c := api.Condition{Type: CondScheduled, Status: api.True, Reason: reasonBound, Message: "every copy has a device", ObservedGeneration: v.workload.Metadata.Generation}
	if len(r.Unplaced) > 0 {
		c.Status, c.Reason, c.Message = api.False, reasonUnschedulable, r.Sentence
	}
	next := api.Copy(v.workload)
	if !api.SetCondition(&next.Status.Conditions, c, api.TimeOf(v.now)) {
		return nil
	}
	return next
}
