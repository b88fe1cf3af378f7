package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
)

const (
	// A plan that prunes more than either of these is carried out only with the typed count: a typing error in a folder's name or a
	// label may not take a fleet down.
	pruneObjects = 10 // objects
	pruneShare   = 20 // percent of all devices
)

// prunable holds for kinds that people apply. A device is not made by its manifest, and a namespace takes with it what nobody looked at:
// those are deleted by name only. The other kinds are the hub's own.
func prunable(k *api.Kind) bool {
	switch k {
	case api.KindDevice, api.KindNamespace, api.KindEvent, api.KindWorkloadRevision, api.KindAssignment, api.KindRollout, api.KindTombstone, api.KindEnrollmentRequest:
		return false
	}
	return true
}

// findPruned lists what the set once held and holds no longer, and has the transaction demand that nothing else came to belong to it.
func (p *setPlan) findPruned(ctx context.Context) error {
	kept := map[api.Ref]bool{}
	namespaces := map[string]bool{}
	held := map[*api.Kind]bool{}
	for _, it := range p.set.items {
		ref, _ := api.RefOf(it.Object)
		kept[ref], held[ref.Kind] = true, true
		switch {
		case ref.Kind.Namespaced:
			namespaces[ref.Namespace] = true
		case ref.Kind == api.KindNamespace:
			namespaces[ref.Name] = true
		}
	}
	for _, k := range api.Kinds() {
		if !prunable(k) {
			continue
		}
		if !k.Namespaced {
			err := p.findIn(ctx, k, "", kept)
			if fault.Is(err, fault.Forbidden) && !held[k] {
				continue // who may not even see the kind has applied nothing of it
			}
			if err != nil {
				return err
			}
			continue
		}
		for _, ns := range sortedNames(namespaces) {
			if err := p.findIn(ctx, k, ns, kept); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *setPlan) findIn(ctx context.Context, k *api.Kind, namespace string, kept map[api.Ref]bool) error {
	list, err := listAll(ctx, p.set.hub, k, client.ListOptions{Namespace: namespace, LabelSelector: p.set.selector})
	if err != nil {
		return fmt.Errorf("find out what to prune: %w", err)
	}
	sel := &client.Selection{LabelSelector: p.set.selector, AppliedBy: p.set.manager, Names: []string{}}
	for _, o := range list {
		if !client.AppliedBy(o, p.set.manager) {
			continue
		}
		sel.Names = append(sel.Names, o.Meta().Name)
		ref, _ := api.RefOf(o)
		if kept[ref] || o.Meta().DeletionTimestamp != nil {
			continue
		}
		p.pruned = append(p.pruned, o)
		p.ifs = append(p.ifs, client.Precondition{Ref: ref, ResourceVersion: o.Meta().ResourceVersion})
	}
	p.ifs = append(p.ifs, client.Precondition{Ref: api.Ref{Kind: k, Namespace: namespace}, Selection: sel})
	return nil
}

func sortedNames(m map[string]bool) []string {
	out := make([]string, 0, len(m))
	for n := range m {
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}

// tooMuch says why a plan needs the typed count, or "".
func (p *setPlan) tooMuch() string {
	n := len(p.pruned)
	lost := p.touched.pruned
	switch {
	case n == 0:
		return ""
	case n > pruneObjects:
		return fmt.Sprintf("it would prune %d objects, more than %d", n, pruneObjects)
	case p.touched.unknown != "":
		return fmt.Sprintf("it would prune %d objects, and how many devices lose something is not known (%s)", n, p.touched.unknown)
	case len(lost)*100 > pruneShare*p.touched.fleet:
		return fmt.Sprintf("it would take something from %s of %d, more than %d%%", devices(len(lost)), p.touched.fleet, pruneShare)
	}
	return ""
}
