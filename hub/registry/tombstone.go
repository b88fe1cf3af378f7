package registry

import (
	"slices"

	"github.com/drover-fleet/drover/api"
)

// tombstones adds to the plan what removals from devices leave behind: a device that may hold an assignment is told to stop it
// by a Tombstone only, never by absence. Binding the same assignment to that device again takes the order back.
func (p *plan) tombstones() error {
	for _, e := range slices.Clone(p.view.order) {
		if e.ref.Kind != api.KindAssignment || e.cur == e.old {
			continue
		}
		was, _ := e.old.(*api.Assignment)
		is, _ := e.cur.(*api.Assignment)
		from, to := boundTo(was), boundTo(is)
		if from == to {
			continue
		}
		if from != (binding{}) {
			if err := p.bury(from, was); err != nil {
				return err
			}
		}
		if to != (binding{}) {
			if err := p.exhume(to); err != nil {
				return err
			}
		}
	}
	return nil
}

// binding is an assignment's uid on a device; zero when there is none.
type binding struct{ device, uid string }

func boundTo(a *api.Assignment) binding {
	if a == nil || a.Spec.Device == "" {
		return binding{}
	}
	return binding{a.Spec.Device, a.Metadata.UID}
}

func (b binding) ref() api.Ref { return api.Ref{Kind: api.KindTombstone, Name: b.device + "." + b.uid} }

func (p *plan) bury(b binding, was *api.Assignment) error {
	e, err := p.view.load(b.ref())
	if err != nil || e.cur != nil {
		return err
	}
	t := &api.Tombstone{
		Metadata: api.ObjectMeta{Name: e.ref.Name},
		Spec: api.TombstoneSpec{
			Device: b.device, UID: b.uid, Namespace: was.Metadata.Namespace, Name: was.Metadata.Name, Workload: was.Spec.Workload,
		},
	}
	p.born(e.ref, t)
	e.guard, e.cur, e.verb = true, t, verbCreate
	return nil
}

func (p *plan) exhume(b binding) error {
	e, err := p.view.load(b.ref())
	if err != nil || e.cur == nil {
		return err
	}
	e.guard, e.cur, e.verb = true, nil, verbDelete
	return nil
}
