package api

import (
	"fmt"
	"slices"
	"strings"
)

// Names that a ResourceQuota limits beside count/PLURAL[.GROUP]: sums over the copies (assignments) of the namespace, of what their
// containers ask for.
const (
	QuotaRequestsCPU    = "requests.cpu"
	QuotaRequestsMemory = "requests.memory"
	QuotaLimitsCPU      = "limits.cpu"
	QuotaLimitsMemory   = "limits.memory"
)

const (
	countPrefix   = "count/"
	maxQuotaNames = 128
)

// quotaShort are kinds that a quota may name by their plural alone, as Kubernetes names its own.
func quotaShort() []*Kind {
	return []*Kind{KindConfigMap, KindSecret, KindServiceAccount, KindResourceQuota, KindWorkload, KindAssignment}
}

// QuotaKind is the kind whose objects a quota's name counts; nil for a sum of resources and for what is no name of a quota.
func QuotaKind(name string) *Kind {
	plural, counted := strings.CutPrefix(name, countPrefix)
	kinds := quotaShort()
	if counted {
		kinds = Kinds()
	}
	for _, k := range kinds {
		if k.Namespaced && (plural == k.Plural || counted && k.Group() != "" && plural == k.Plural+"."+k.Group()) {
			return k
		}
	}
	return nil
}

// quotaResource gives the amount that a name sums, out of what a copy asks for; nil when the name is none of these.
func quotaResource(name string, r ResourceRequirements) *Quantity {
	var q Quantity
	switch name {
	case QuotaRequestsCPU, ResourceCPU:
		q = r.Requests[ResourceCPU]
	case QuotaRequestsMemory, ResourceMemory:
		q = r.Requests[ResourceMemory]
	case QuotaLimitsCPU:
		q = r.Limits[ResourceCPU]
	case QuotaLimitsMemory:
		q = r.Limits[ResourceMemory]
	default:
		return nil
	}
	return &q
}

// QuotaCharge is what one object counts for under a quota's name: 1 for a count, the sum of its containers' requests or limits for
// a copy. It depends on nothing but the object, so that what is given back is what was taken. Nil counts for nothing.
func QuotaCharge(name string, o Object) Quantity {
	if o == nil {
		return Quantity{}
	}
	if k := QuotaKind(name); k != nil {
		if have, _ := KindFor(o); have == k {
			return MilliQuantity(1000)
		}
		return Quantity{}
	}
	if a, ok := o.(*Assignment); ok {
		if q := quotaResource(name, a.Spec.Resources); q != nil {
			return *q
		}
	}
	return Quantity{}
}

// QuotaCounts is the kind of the objects that a name is counted over.
func QuotaCounts(name string) *Kind {
	if k := QuotaKind(name); k != nil {
		return k
	}
	return KindAssignment
}

// Resources is the sum of what the containers ask for; fields that none asks for are absent.
func (s *PodSpec) Resources() ResourceRequirements {
	var sum ResourceRequirements
	add := func(to *ResourceList, from ResourceList) {
		for _, name := range []string{ResourceCPU, ResourceMemory} {
			q, ok := from[name]
			if !ok {
				continue
			}
			if *to == nil {
				*to = ResourceList{}
			}
			(*to)[name] = (*to)[name].Add(q)
		}
	}
	for _, c := range s.Containers {
		add(&sum.Requests, c.Resources.Requests)
		add(&sum.Limits, c.Resources.Limits)
	}
	return sum
}

// QuotaUnspecified lists the containers of a template that do not say what the quota's name sums: no copy of them could be counted.
func QuotaUnspecified(name string, s *PodSpec) []string {
	kind, resource, _ := strings.Cut(name, ".")
	if name == ResourceCPU || name == ResourceMemory {
		kind, resource = "requests", name
	}
	if quotaResource(name, ResourceRequirements{}) == nil {
		return nil
	}
	var out []string
	for _, c := range s.Containers {
		list := c.Resources.Requests
		if kind == "limits" {
			list = c.Resources.Limits
		}
		if _, ok := list[resource]; !ok {
			out = append(out, c.Name)
		}
	}
	return out
}

func checkQuota(s *ResourceQuotaSpec) []FieldError {
	errs := limitCount("spec.hard", len(s.Hard), maxQuotaNames)
	for _, name := range sortedKeys(s.Hard) {
		at, q := "spec.hard"+key(name), s.Hard[name]
		known := QuotaKind(name) != nil || quotaResource(name, ResourceRequirements{}) != nil
		whole := q.Milli()%1000 == 0 || name == ResourceCPU || strings.HasSuffix(name, ".cpu")
		switch {
		case !known:
			errs = append(errs, FieldError{at, fmt.Sprintf("%q is nothing that a quota limits: want %s", clip(name), strings.Join(quotaNames(), ", "))})
		case !whole:
			errs = append(errs, FieldError{at, fmt.Sprintf("%s is no whole number", q)})
		}
	}
	return errs
}

func quotaNames() []string {
	names := []string{"count/PLURAL", "count/PLURAL.GROUP of a namespaced kind", QuotaRequestsCPU, QuotaRequestsMemory, QuotaLimitsCPU, QuotaLimitsMemory}
	for _, k := range quotaShort() {
		names = append(names, k.Plural)
	}
	return slices.Clip(names)
}
