package registry

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/store"
)

// judge has admission look at everything that the plan makes or changes, once all of it is planned.
func (p *plan) judge() error {
	v, ok := p.c.r.o.Admit.(Validator)
	if !ok {
		return nil
	}
	for _, e := range slices.Clone(p.view.order) {
		if e.cur == nil || e.cur == e.old {
			continue
		}
		verb := verbUpdate
		if e.old == nil {
			verb = verbCreate
		}
		rq := &AdmissionRequest{Actor: p.c.actor, Verb: verb, Kind: e.ref.Kind, Old: e.old, New: e.cur, DryRun: p.rq.dryRun, Load: p.load, State: p}
		err := v.Validate(p.view.ctx, rq)
		p.warnings = append(p.warnings, rq.Warnings...)
		if err != nil {
			return err
		}
	}
	return nil
}

// All implements State.
func (p *plan) All(k *api.Kind, namespace string) ([]api.Object, error) {
	var out []*entry
	err := p.view.each(prefixOf(k, namespace), func(e *entry) (bool, error) {
		out = append(out, e)
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	for _, e := range p.view.order {
		if e.base == nil && strings.HasPrefix(e.key, prefixOf(k, namespace)) {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b *entry) int { return strings.Compare(a.key, b.key) })
	objects := make([]api.Object, 0, len(out))
	for _, e := range out {
		if e.cur != nil {
			objects = append(objects, e.cur)
		}
	}
	return objects, nil
}

// Labels implements State. What the plan changes is seen as planned.
func (p *plan) Labels(k *api.Kind, visit func(name string, labels map[string]string) (more bool)) error {
	for _, e := range p.view.order {
		if e.ref.Kind == k && e.cur != nil && e.cur != e.old && !visit(e.ref.Name, e.cur.Meta().Labels) {
			return nil
		}
	}
	prefix := prefixOf(k, "")
	rq := store.RangeRequest{Start: prefix, End: prefixEnd(prefix), Limit: listPage}
	for {
		res, err := p.view.scan(rq)
		if err != nil {
			return err
		}
		for _, kv := range res.KVs {
			if e, planned := p.view.entries[kv.Key]; planned && e.cur != e.old {
				continue
			}
			var o struct {
				Metadata struct {
					Name   string            `json:"name"`
					Labels map[string]string `json:"labels"`
				} `json:"metadata"`
			}
			if err := json.Unmarshal(kv.Value, &o); err != nil {
				return fault.Internal.Errorf("stored %s cannot be read: %w", kv.Key, err)
			}
			if !visit(o.Metadata.Name, o.Metadata.Labels) {
				return nil
			}
		}
		if !res.More {
			return nil
		}
		rq.Start = res.KVs[len(res.KVs)-1].Key + "\x00"
	}
}
