package admission

import (
	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/hub/access"
	"github.com/drover-fleet/drover/hub/registry"
)

// VerbUse is the right on a PriorityClass that naming it in a workload takes, where its value is above 0. It may be given within one
// namespace.
const VerbUse = "use"

// resolvePriority writes status.priority: the value of the class that is named, or of the global default. What was found when the class
// was named stays, as with Kubernetes' pods.
func (a *Admitter) resolvePriority(rq *registry.AdmissionRequest, w *api.Workload) error {
	name := w.Spec.Placement.PriorityClassName
	if old, ok := rq.Old.(*api.Workload); ok && old.Status.Priority != nil && old.Spec.Placement.PriorityClassName == name {
		w.Status.Priority = old.Status.Priority
		return nil
	}
	w.Status.Priority = nil
	if name == "" {
		return a.defaultPriority(rq, w)
	}
	if rq.Load == nil {
		return nil
	}
	found, err := rq.Load(api.Ref{Kind: api.KindPriorityClass, Name: name})
	if err != nil {
		return err
	}
	class, ok := found.(*api.PriorityClass)
	if !ok {
		return fault.InvalidObject(rq.Kind.Kind, w.Metadata.Name, []fault.Cause{{Field: "spec.placement.priorityClassName",
			Message: "there is no PriorityClass " + name + ": create it, put it before the workload in the set, or name another"}})
	}
	if class.Value > 0 && rq.Actor.User != nil {
		right := access.Attributes{Verb: VerbUse, Group: api.KindPriorityClass.Group(), Resource: api.KindPriorityClass.Plural,
			Namespace: w.Metadata.Namespace, Name: name}
		if err := a.need(rq, right); err != nil {
			return err
		}
	}
	value := class.Value
	w.Status.Priority = &value
	return nil
}

// defaultPriority takes the class that is the global default. Nobody needs a right for what he did not ask for.
func (a *Admitter) defaultPriority(rq *registry.AdmissionRequest, w *api.Workload) error {
	if rq.State == nil {
		return nil
	}
	classes, err := rq.State.All(api.KindPriorityClass, "")
	for _, o := range classes {
		if c := o.(*api.PriorityClass); c.GlobalDefault {
			value := c.Value
			w.Status.Priority = &value
		}
	}
	return err
}

// checkClass refuses a second global default.
func checkClass(rq *registry.AdmissionRequest, c *api.PriorityClass) error {
	if !c.GlobalDefault || rq.State == nil {
		return nil
	}
	classes, err := rq.State.All(api.KindPriorityClass, "")
	for _, o := range classes {
		if other := o.(*api.PriorityClass); other.GlobalDefault && other.Metadata.Name != c.Metadata.Name {
			e := fault.Forbidden.Errorf("%s.%s %q is forbidden: PriorityClass %s is the global default already: there is only one",
				rq.Kind.Plural, rq.Kind.Group(), c.Metadata.Name, other.Metadata.Name)
			e.Details = fault.Details{Kind: rq.Kind.Plural, Name: c.Metadata.Name}
			return e
		}
	}
	return err
}
