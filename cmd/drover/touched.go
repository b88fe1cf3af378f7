package main

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
)

// touched says on which devices a plan changes what runs.
type touched struct {
	by      []names // of each result of the plan
	more    []int   // copies beside, whose devices the scheduler is still to choose
	pruned  names   // devices that lose something
	fleet   int     // devices that there are
	unknown string  // why none of this could be found out; "" = it was
}

type names map[string]bool

func (n names) add(from names) {
	for k := range from {
		n[k] = true
	}
}

func (t *touched) count() int {
	all, more := names{}, 0
	for i := range t.by {
		all.add(t.by[i])
		more += t.more[i]
	}
	return min(len(all)+more, max(t.fleet, len(all)))
}

func (t *touched) summary() string {
	if t.unknown != "" {
		return "devices not counted (" + t.unknown + ")"
	}
	if t.fleet == 0 {
		return "no device touched"
	}
	return fmt.Sprintf("%d of %s touched", t.count(), devices(t.fleet))
}

// of is what is said of one object: "" where no device is touched.
func (t *touched) of(i int) string {
	if t.unknown != "" || i >= len(t.by) {
		return ""
	}
	switch n, more := len(t.by[i]), t.more[i]; {
	case n > 0 && more > 0:
		return fmt.Sprintf("%s and up to %d more", devices(n), more)
	case more > 0:
		return "up to " + devices(more)
	case n > 0:
		return devices(n)
	}
	return ""
}

func devices(n int) string {
	if n == 1 {
		return "1 device"
	}
	return fmt.Sprintf("%d devices", n)
}

// fleetView is what the devices of a plan are worked out from.
type fleetView struct {
	devices   []api.Object
	runs      map[api.Ref]names         // workload -> devices that it is bound to
	workloads map[api.Ref]*api.Workload // as they stand
}

// touch works out the devices of each step. Who may not see devices or assignments gets a plan without them.
func (p *setPlan) touch(ctx context.Context) (touched, error) {
	t := touched{by: make([]names, len(p.results)), more: make([]int, len(p.results)), pruned: names{}}
	if !p.reachesDevices() {
		return t, nil
	}
	v, err := p.fleetView(ctx)
	if fault.Is(err, fault.Forbidden) {
		t.unknown = "not allowed to list devices, workloads or assignments"
		return t, nil
	}
	if err != nil {
		return t, fmt.Errorf("count devices: %w", err)
	}
	t.fleet = len(v.devices)
	pools, err := p.regrouped(ctx, v.devices)
	if fault.Is(err, fault.Forbidden) {
		t.unknown = "not allowed to list device pools"
		return t, nil
	}
	if err != nil {
		return t, fmt.Errorf("count devices: %w", err)
	}
	for i, r := range p.results {
		a := p.action(i)
		if a == "unchanged" {
			continue
		}
		t.by[i], t.more[i] = v.touchedBy(r.Object, a)
		if _, isPool := r.Object.(*api.DevicePool); isPool {
			t.by[i] = pools[keyed(r.Object)]
		}
		if a == actionPruned {
			t.pruned.add(t.by[i])
		}
	}
	return t, nil
}

// regrouped are the devices on which something else is allowed once the plan is done, by each pool of the plan that selects them, or did:
// what is allowed no more goes from them.
func (p *setPlan) regrouped(ctx context.Context, devices []api.Object) (map[api.Ref]names, error) {
	changed := map[api.Ref]*api.DevicePool{} // nil = gone
	for i, r := range p.results {
		if pool, ok := r.Object.(*api.DevicePool); ok && p.action(i) != "unchanged" {
			if p.action(i) == actionPruned {
				pool = nil
			}
			changed[keyed(r.Object)] = pool
		}
	}
	if len(changed) == 0 {
		return nil, nil
	}
	list, err := listAll(ctx, p.set.hub, api.KindDevicePool, client.ListOptions{})
	if err != nil {
		return nil, err
	}
	var stand, after []*api.DevicePool
	for _, o := range list {
		pool := o.(*api.DevicePool)
		stand = append(stand, pool)
		if _, ok := changed[keyed(o)]; !ok {
			after = append(after, pool)
		}
	}
	for _, pool := range changed {
		if pool != nil {
			after = append(after, pool)
		}
	}
	out := map[api.Ref]names{}
	was, is := api.NewPools(stand), api.NewPools(after)
	for _, d := range devices {
		labels := d.Meta().Labels
		if reflect.DeepEqual(was.Grant(labels), is.Grant(labels)) {
			continue
		}
		for _, pool := range slices.Concat(was.Selecting(labels), is.Selecting(labels)) {
			ref := keyed(pool)
			if _, ok := changed[ref]; !ok {
				continue
			}
			if out[ref] == nil {
				out[ref] = names{}
			}
			out[ref][d.Meta().Name] = true
		}
	}
	return out, nil
}

// reachesDevices holds when something changes that a device could see.
func (p *setPlan) reachesDevices() bool {
	for i, r := range p.results {
		switch r.Object.(type) {
		case *api.Workload, *api.ConfigMap, *api.Secret, *api.Device, *api.DevicePool:
			if p.action(i) != "unchanged" {
				return true
			}
		}
	}
	return false
}

func (p *setPlan) fleetView(ctx context.Context) (*fleetView, error) {
	v := &fleetView{runs: map[api.Ref]names{}, workloads: map[api.Ref]*api.Workload{}}
	var err error
	if v.devices, err = listAll(ctx, p.set.hub, api.KindDevice, client.ListOptions{}); err != nil {
		return nil, err
	}
	used := map[string]bool{}
	for i, r := range p.results {
		if ref, _ := api.RefOf(r.Object); ref.Kind.Namespaced && p.action(i) != "unchanged" {
			used[ref.Namespace] = true
		}
	}
	for _, ns := range sortedNames(used) {
		list, err := listAll(ctx, p.set.hub, api.KindWorkload, client.ListOptions{Namespace: ns})
		if err != nil {
			return nil, err
		}
		for _, o := range list {
			ref, _ := api.RefOf(o)
			v.workloads[ref] = o.(*api.Workload)
		}
		if list, err = listAll(ctx, p.set.hub, api.KindAssignment, client.ListOptions{Namespace: ns}); err != nil {
			return nil, err
		}
		for _, o := range list {
			v.addAssignment(o.(*api.Assignment))
		}
	}
	return v, nil
}

func (v *fleetView) addAssignment(a *api.Assignment) {
	if a.Spec.Device == "" {
		return
	}
	ref := api.Ref{Kind: api.KindWorkload, Namespace: a.Metadata.Namespace, Name: a.Spec.Workload}
	if v.runs[ref] == nil {
		v.runs[ref] = names{}
	}
	v.runs[ref][a.Spec.Device] = true
}

// touchedBy is on which devices a step changes something, and for how many copies a device is still to be chosen.
func (v *fleetView) touchedBy(obj api.Object, action string) (names, int) {
	out := names{}
	ref, _ := api.RefOf(obj)
	switch o := obj.(type) {
	case *api.Device:
		out[o.Metadata.Name] = true
	case *api.Workload:
		return v.touchedByWorkload(ref, o, action)
	case *api.ConfigMap, *api.Secret:
		for w, stands := range v.workloads {
			if w.Namespace == ref.Namespace && refersTo(stands, ref) {
				out.add(v.runs[w])
			}
		}
	}
	return out, 0
}

func (v *fleetView) touchedByWorkload(ref api.Ref, w *api.Workload, action string) (names, int) {
	out := names{}
	out.add(v.runs[ref])
	was := v.workloads[ref]
	switch {
	case action == actionPruned:
		return out, 0
	case was != nil && was.Metadata.Generation == w.Metadata.Generation:
		return nil, 0 // labels and such: nothing that a device would see
	}
	selects, err := w.Spec.Placement.DeviceSelector()
	if err != nil {
		return out, 0 // the hub has said so already
	}
	matching := names{}
	for _, d := range v.devices {
		if selects.Matches(d.Meta().Labels) {
			matching[d.Meta().Name] = true
		}
	}
	if w.Spec.Placement.Everywhere {
		out.add(matching)
		return out, 0
	}
	wanted := 0
	if r := w.Spec.Placement.Replicas; r != nil {
		wanted = int(*r)
	}
	return out, max(0, min(wanted, len(matching))-len(out))
}

// refersTo reports whether a workload's template names a ConfigMap or Secret, wherever in it that may be done.
func refersTo(w *api.Workload, ref api.Ref) bool {
	b, err := json.Marshal(w.Spec.Template)
	if err != nil {
		return false
	}
	var tree any
	if json.Unmarshal(b, &tree) != nil {
		return false
	}
	keys := []string{"configMapKeyRef", "configMapRef", "configMap"}
	if ref.Kind == api.KindSecret {
		keys = []string{"secretKeyRef", "secretRef", "secret"}
	}
	return namesIn(tree, keys, ref.Name)
}

func namesIn(tree any, keys []string, name string) bool {
	switch t := tree.(type) {
	case []any:
		for _, e := range t {
			if namesIn(e, keys, name) {
				return true
			}
		}
	case map[string]any:
		for _, k := range keys {
			if m, ok := t[k].(map[string]any); ok && (m["name"] == name || m["secretName"] == name) {
				return true
			}
		}
		for _, e := range t {
			if namesIn(e, keys, name) {
				return true
			}
		}
	}
	return false
}
