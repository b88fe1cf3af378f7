package admission

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/grant"
	"github.com/drover-fleet/drover/hub/registry"
)

var _ registry.Validator = (*Admitter)(nil)

// Validate judges what depends on other objects, once a whole request is planned.
func (a *Admitter) Validate(_ context.Context, rq *registry.AdmissionRequest) error {
	w, ok := rq.New.(*api.Workload)
	if !ok || rq.State == nil {
		return nil
	}
	old, _ := rq.Old.(*api.Workload)
	if old != nil && old.Metadata.Generation == w.Metadata.Generation {
		return nil // what stands may be labelled and reported on, whatever a pool says since
	}
	return withinPools(rq, w)
}

// withinPools refuses a workload that no device could take: every device that it selects is of a pool that does not allow what it asks
// for. Where it selects none yet, it is refused when neither a pool of its namespace nor a device without a pool could allow it. Which
// of its devices it may use is decided where copies are placed.
func withinPools(rq *registry.AdmissionRequest, w *api.Workload) error {
	pools, err := poolsOf(rq)
	if err != nil {
		return err
	}
	ns, needs := w.Metadata.Namespace, w.Spec.Template.Spec.Needs()
	bare := grant.Grant{}.Denials(ns, needs)
	if pools.Len() == 0 {
		if bare == nil {
			return nil
		}
		return poolRefusal(rq, w.Metadata.Name, bare, "; an operator allows it by a DevicePool that admits namespace "+ns)
	}
	selected, denials, err := selectedPools(rq, w, pools, needs)
	if err != nil || denials == nil && selected {
		return err
	}
	if selected {
		return poolRefusal(rq, w.Metadata.Name, denials, "")
	}
	if bare == nil {
		return nil
	}
	denials = bare
	for _, g := range pools.Grants() {
		d := g.Denials(ns, needs)
		if d == nil {
			return nil
		}
		denials = append(denials, d...)
	}
	return poolRefusal(rq, w.Metadata.Name, denials, "")
}

// selectedPools looks at the devices that the placement selects. Denials are nil when one of them may be used; else everything that each pool has against it.
func selectedPools(rq *registry.AdmissionRequest, w *api.Workload, pools api.Pools, needs []grant.Need) (selected bool, denials []*grant.Denial, err error) {
	selector, err := w.Spec.Placement.DeviceSelector()
	if err != nil {
		return false, nil, nil // validation has its word on it
	}
	of := map[string][]*grant.Denial{}
	may := false
	err = rq.State.Labels(api.KindDevice, func(_ string, labels map[string]string) bool {
		if !selector.Matches(labels) {
			return true
		}
		selected = true
		g := pools.Grant(labels)
		if _, judged := of[g.Pool]; !judged {
			of[g.Pool] = g.Denials(w.Metadata.Namespace, needs)
		}
		may = may || of[g.Pool] == nil
		return !may
	})
	if may || err != nil {
		return selected, nil, err
	}
	for _, pool := range slices.Sorted(maps.Keys(of)) {
		denials = append(denials, of[pool]...)
	}
	return selected, denials, nil
}

const (
	podSpec    = "spec.template.spec."
	reasonPool = "PoolRefuses"
)

// maxNamed bounds how many refusals an error names.
const maxNamed = 16

func poolRefusal(rq *registry.AdmissionRequest, name string, denials []*grant.Denial, hint string) error {
	var parts []string
	var causes []fault.Cause
	for i, d := range denials {
		if i == maxNamed {
			parts = append(parts, fmt.Sprintf("and %d more refusals", len(denials)-i))
			break
		}
		field := "metadata.namespace"
		if d.Field != "" {
			field = podSpec + d.Field
		}
		causes = append(causes, fault.Cause{Reason: reasonPool, Field: field, Message: d.String()})
		parts = append(parts, field+": "+d.String())
	}
	e := fault.Forbidden.Errorf("%s.%s %q is forbidden: %s%s", rq.Kind.Plural, rq.Kind.Group(), name, strings.Join(parts, "; "), hint)
	e.Details = fault.Details{Kind: rq.Kind.Plural, Name: name, Causes: causes}
	return e
}

func poolsOf(rq *registry.AdmissionRequest) (api.Pools, error) {
	objects, err := rq.State.All(api.KindDevicePool, "")
	if err != nil {
		return api.Pools{}, err
	}
	list := make([]*api.DevicePool, 0, len(objects))
	for _, o := range objects {
		list = append(list, o.(*api.DevicePool))
	}
	return api.NewPools(list), nil
}

// fillResources writes what a copy is charged for, with the revision that it should run. It stays with the revision.
func fillResources(rq *registry.AdmissionRequest, obj *api.Assignment) error {
	if old, ok := rq.Old.(*api.Assignment); ok && old.Spec.Revision == obj.Spec.Revision {
		obj.Spec.Resources = old.Spec.Resources
		return nil
	}
	obj.Spec.Resources = api.ResourceRequirements{}
	if rq.Load == nil || obj.Spec.Revision == "" {
		return nil
	}
	found, err := rq.Load(api.Ref{Kind: api.KindWorkloadRevision, Namespace: obj.Metadata.Namespace, Name: obj.Spec.Revision})
	if rev, ok := found.(*api.WorkloadRevision); ok && err == nil {
		obj.Spec.Resources = rev.Spec.Template.Spec.Resources()
	}
	return err
}
