package sim

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/hub/registry"
	"github.com/drover-fleet/drover/store"
	"github.com/drover-fleet/drover/test/history"
)

// orders is what the hub has told devices to run, taken from the log: what devices do is judged by it.
type orders struct {
	f         *fleet
	templates map[string]int    // by key of the revision
	uids      map[string]string // of assignments that are there, by key
	told      map[string][]told // by uid, in order
}

// told is one order; template 0 orders the end on the device.
type told struct {
	device   string
	template int
}

func newOrders(f *fleet) *orders {
	return &orders{f: f, templates: map[string]int{}, uids: map[string]string{}, told: map[string][]told{}}
}

func isOf(k *api.Kind, key string) bool {
	return strings.HasPrefix(key, k.Plural) && strings.HasPrefix(key[len(k.Plural):], "/")
}

// applied takes a change that the log has made, before anyone can act on it.
func (o *orders) applied(c store.Op) {
	switch {
	case isOf(api.KindWorkloadRevision, c.Key) && c.Type == store.OpPut:
		var r api.WorkloadRevision
		if err := json.Unmarshal(c.Value, &r); err != nil {
			o.f.w.fail(history.NoErrors, "%s: %v", c.Key, err)
		}
		for _, digest := range r.Spec.Images {
			o.templates[c.Key] = o.f.images[digest]
		}
	case isOf(api.KindAssignment, c.Key):
		o.assignment(c)
	}
}

func (o *orders) assignment(c store.Op) {
	if c.Type == store.OpDelete {
		uid := o.uids[c.Key]
		delete(o.uids, c.Key)
		if list := o.told[uid]; len(list) > 0 {
			o.told[uid] = append(list, told{list[len(list)-1].device, 0})
		}
		return
	}
	// Only what is looked at here: statuses, which change often, are long.
	var a struct {
		Metadata struct{ UID, Namespace string }
		Spec     api.AssignmentSpec
	}
	if err := json.Unmarshal(c.Value, &a); err != nil {
		o.f.w.fail(history.NoErrors, "%s: %v", c.Key, err)
		return
	}
	o.uids[c.Key] = a.Metadata.UID
	if a.Spec.Device == "" {
		return
	}
	key := registry.KeyOf(api.Ref{Kind: api.KindWorkloadRevision, Namespace: a.Metadata.Namespace, Name: a.Spec.Revision})
	next, list := told{a.Spec.Device, o.templates[key]}, o.told[a.Metadata.UID]
	if n := len(list); n == 0 || list[n-1] != next {
		o.told[a.Metadata.UID] = append(list, next)
	}
}

// mayStop tells whether the device was told anything else after it was told to run the template.
func (o *orders) mayStop(device, uid string, template int) bool {
	list := o.told[uid]
	first := slices.Index(list, told{device, template})
	return first < 0 || slices.ContainsFunc(list[first:], func(t told) bool { return t != told{device, template} })
}

// standing is what runs where by the newest orders: templates by device.
func (o *orders) standing() map[string][]int {
	out := map[string][]int{}
	for _, uid := range o.uids {
		if list := o.told[uid]; len(list) > 0 {
			t := list[len(list)-1]
			out[t.device] = append(out[t.device], t.template)
		}
	}
	return out
}

// counted are how many copies stand by template.
func (o *orders) counted() map[int]int32 {
	out := map[int]int32{}
	for _, templates := range o.standing() {
		for _, t := range templates {
			out[t]++
		}
	}
	return out
}
