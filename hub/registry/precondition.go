package registry

import (
	"fmt"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/store"
)

// checkPreconditions refuses what could never hold, or would look at more than one prefix of keys.
func checkPreconditions(ifs []client.Precondition) error {
	for i, p := range ifs {
		if err := checkPrecondition(p); err != nil {
			return fault.BadRequest.Errorf("precondition %d: %w", i+1, err)
		}
	}
	return nil
}

func checkPrecondition(p client.Precondition) error {
	if p.Selection == nil {
		if err := checkRef(p.Ref); err != nil {
			return err
		}
		_, err := parseRevision(p.ResourceVersion)
		return err
	}
	named := p.Ref
	named.Name = "x" // a selection has none
	switch err := checkRef(named); {
	case err != nil:
		return err
	case p.Ref.Name != "" || p.ResourceVersion != "":
		return fault.BadRequest.Errorf("a selection has neither name nor resourceVersion")
	}
	_, err := newSelector(p.Ref.Kind, p.Ref.Namespace, p.Selection.LabelSelector, "")
	return err
}

// hold compares the preconditions with what stands at the plan's revision, and has the command demand that it still does.
func (p *plan) hold(ifs []client.Precondition) error {
	for _, c := range ifs {
		var err error
		if c.Selection != nil {
			err = p.holdSelection(c)
		} else {
			err = p.holdObject(c)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *plan) holdObject(c client.Precondition) error {
	e, err := p.view.load(c.Ref)
	if err != nil {
		return err
	}
	e.guard = true
	if e.base == nil {
		if c.ResourceVersion == "" {
			return nil
		}
		return planMoved(c.Ref, "has been deleted meanwhile")
	}
	switch stands := e.base.ModRevision.String(); c.ResourceVersion {
	case stands:
		return nil
	case "":
		return planMoved(c.Ref, "has been created meanwhile")
	default:
		return planMoved(c.Ref, fmt.Sprintf("has changed meanwhile: it is at resourceVersion %s, not %s", stands, c.ResourceVersion))
	}
}

// holdSelection demands that nothing but what it names belongs to the selection, now and when the command is applied: then nothing of
// the kind may have been written in the namespace since this plan's revision. A write that was is looked at by the plan made anew.
func (p *plan) holdSelection(c client.Precondition) error {
	sel, err := newSelector(c.Ref.Kind, c.Ref.Namespace, c.Selection.LabelSelector, "")
	if err != nil {
		return err
	}
	names := make(map[string]bool, len(c.Selection.Names))
	for _, n := range c.Selection.Names {
		names[n] = true
	}
	prefix := prefixOf(c.Ref.Kind, c.Ref.Namespace)
	err = p.view.each(prefix, func(e *entry) (bool, error) {
		if names[e.ref.Name] || !sel.matches(e.old) {
			return true, nil
		}
		if by := c.Selection.AppliedBy; by == "" || client.AppliedBy(e.old, by) {
			return false, planMoved(e.ref, "belongs to the selection since a moment ago")
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	p.preconditions = append(p.preconditions, store.Precondition{Key: prefix, End: prefixEnd(prefix), ModRevision: p.view.rev})
	return nil
}

func planMoved(ref api.Ref, what string) error {
	err := fault.Conflict.Errorf("%s %s: nothing was written; plan again", title(ref), what)
	err.Details = fault.Details{Kind: ref.Kind.Plural, Name: ref.Name, Causes: []fault.Cause{{Reason: client.ReasonPlanMoved, Message: title(ref) + " " + what}}}
	return err
}
