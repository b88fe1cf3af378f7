package copies

import (
	"fmt"
	"maps"
	"slices"

	"github.com/drover-fleet/drover/api"
)

// Selection answers which devices a placement selects.
type Selection struct {
	selector    api.Selector
	tolerations []api.Toleration
}

// Select prepares a placement. An absent or empty selector selects nothing unless all is true.
func Select(p api.Placement) (Selection, error) {
	s, err := p.DeviceSelector()
	if err != nil {
		return Selection{}, fmt.Errorf("spec.placement.selector: %w", err)
	}
	return Selection{s, p.Tolerations}, nil
}

// Selects reports whether the device belongs to the placement, whatever its state. A device on its way out does not.
func (s Selection) Selects(d *api.Device) bool {
	if d == nil || d.Metadata.DeletionTimestamp != nil {
		return false
	}
	return s.selector.Matches(d.Metadata.Labels)
}

// Admits reports whether a new copy may go to a selected device: not cordoned, no taint without toleration. What is there
// already stays.
func (s Selection) Admits(d *api.Device) bool {
	return !d.Spec.Unschedulable && Untolerated(d.Spec.Taints, s.tolerations) == nil
}

// Untolerated is the first taint that none of the tolerations tolerates; nil when there is none.
func Untolerated(taints []api.Taint, tolerations []api.Toleration) *api.Taint {
	for i := range taints {
		if !slices.ContainsFunc(tolerations, func(t api.Toleration) bool { return tolerates(t, taints[i]) }) {
			return &taints[i]
		}
	}
	return nil
}

func tolerates(t api.Toleration, taint api.Taint) bool {
	if t.Effect != "" && t.Effect != taint.Effect {
		return false
	}
	if t.Operator == "Exists" {
		return t.Key == "" || t.Key == taint.Key
	}
	return t.Key == taint.Key && t.Value == taint.Value
}

// Labels are what a copy carries: its template's labels, and which workload, revision and device it belongs to. Values that
// are no label values are left out.
func Labels(rev *api.WorkloadRevision, workload, device string) map[string]string {
	out := map[string]string{}
	if rev != nil {
		maps.Copy(out, rev.Spec.Template.Metadata.Labels)
		set(out, api.LabelRevision, rev.Metadata.Name)
	}
	set(out, api.LabelWorkload, workload)
	set(out, api.LabelDevice, device)
	return out
}

func set(labels map[string]string, key, value string) {
	if value != "" && api.CheckLabelValue(value) == nil {
		labels[key] = value
	}
}
