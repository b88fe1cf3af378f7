package registry

import (
	"bytes"
	"sort"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
)

// metadata.managedFields has one entry per manager and operation, as Kubernetes writes them.

const (
	operationApply  = "Apply"
	operationUpdate = "Update"
	fieldsV1        = "FieldsV1"

	maxManagerName = 128
	// maxUpdateManagers bounds the entries of operation Update: the oldest beyond it become one of ancientManager, so that a
	// parade of one-off writers does not make the object grow.
	maxUpdateManagers = 10
	ancientManager    = "ancient-changes"
)

// managerKey names an entry in the maps of structured-merge-diff.
type managerKey struct{ operation, manager string }

func (k managerKey) String() string { return k.operation + "\x00" + k.manager }

func parseManagerKey(s string) managerKey {
	op, m, _ := strings.Cut(s, "\x00")
	return managerKey{op, m}
}

// tracksUpdates holds for kinds that people write. The hub's own records are not applied by anyone, and their owners are
// fixed by design; an entry per field would only make them larger.
func tracksUpdates(k *api.Kind) bool {
	switch k {
	case api.KindEvent, api.KindTombstone, api.KindWorkloadRevision, api.KindAssignment, api.KindEnrollmentRequest:
		return false
	}
	return true
}

// own records that the writer of a plain create or update now manages what it changed; cur is nil at creation.
func (p *plan) own(w *write, cur, obj api.Object) error {
	ref := w.entry.ref
	if !tracksUpdates(ref.Kind) && len(obj.Meta().ManagedFields) == 0 {
		return nil
	}
	live, err := ownable(cur)
	if err != nil {
		return err
	}
	next, err := ownable(obj)
	if err != nil {
		return err
	}
	managers, err := readManagers(ref, cur)
	if err != nil {
		return err
	}
	before := managers.Copy()
	me := managerKey{operationUpdate, w.manager}
	_, after, err := newUpdater().Update(live, next, fieldpath.APIVersion(ref.Kind.APIVersion), managers, me.String())
	if err != nil {
		return fault.Internal.Errorf("field ownership of %s: %w", title(ref), err)
	}
	if err := p.contend(w, false, cur, obj, before, after); err != nil {
		return err
	}
	obj.Meta().ManagedFields, err = p.writeManagers(ref, cur, after)
	return err
}

// readManagers takes the entries of an object; nil has none.
func readManagers(ref api.Ref, obj api.Object) (fieldpath.ManagedFields, error) {
	out := fieldpath.ManagedFields{}
	if obj == nil {
		return out, nil
	}
	for _, m := range obj.Meta().ManagedFields {
		if m.Subresource != "" {
			continue
		}
		set := fieldpath.NewSet()
		if err := set.FromJSON(bytes.NewReader(m.FieldsV1)); err != nil {
			return nil, fault.Internal.Errorf("managedFields of %s, manager %q: %w", title(ref), m.Manager, err)
		}
		k := managerKey{m.Operation, m.Manager}
		out[k.String()] = fieldpath.NewVersionedSet(set, fieldpath.APIVersion(ref.Kind.APIVersion), m.Operation == operationApply)
	}
	return out, nil
}

// writeManagers makes entries of the sets, in the order of their names. An entry whose set is what it was keeps its time, so that a
// write that changes nothing is seen as that.
func (p *plan) writeManagers(ref api.Ref, cur api.Object, managers fieldpath.ManagedFields) ([]api.ManagedFieldsEntry, error) {
	before := map[managerKey]api.ManagedFieldsEntry{}
	if cur != nil {
		for _, m := range cur.Meta().ManagedFields {
			before[managerKey{m.Operation, m.Manager}] = m
		}
	}
	now := api.TimeOf(p.c.r.o.Now())
	var out []api.ManagedFieldsEntry
	for key, vs := range managers {
		if vs.Set().Empty() {
			continue
		}
		b, err := vs.Set().ToJSON()
		if err != nil {
			return nil, fault.Internal.Errorf("managedFields of %s: %w", title(ref), err)
		}
		k := parseManagerKey(key)
		if was, ok := before[k]; ok && bytes.Equal(was.FieldsV1, b) {
			out = append(out, was)
			continue
		}
		at := now
		out = append(out, api.ManagedFieldsEntry{
			Manager: k.manager, Operation: k.operation, APIVersion: ref.Kind.APIVersion, Time: &at, FieldsType: fieldsV1, FieldsV1: b,
		})
	}
	sortEntries(out)
	out, err := capUpdaters(out)
	sortEntries(out)
	return out, err
}

func sortEntries(e []api.ManagedFieldsEntry) {
	sort.Slice(e, func(i, j int) bool {
		if e[i].Operation != e[j].Operation {
			return e[i].Operation < e[j].Operation
		}
		return e[i].Manager < e[j].Manager
	})
}

// capUpdaters merges the oldest entries of operation Update into one where there are too many.
func capUpdaters(in []api.ManagedFieldsEntry) ([]api.ManagedFieldsEntry, error) {
	var updates []int
	for i := range in {
		if in[i].Operation == operationUpdate {
			updates = append(updates, i)
		}
	}
	excess := len(updates) - maxUpdateManagers
	if excess <= 0 {
		return in, nil
	}
	sort.SliceStable(updates, func(a, b int) bool {
		x, y := in[updates[a]], in[updates[b]]
		if (x.Manager == ancientManager) != (y.Manager == ancientManager) {
			return x.Manager == ancientManager
		}
		return x.Time != nil && y.Time != nil && x.Time.Before(y.Time.Time)
	})
	merged := map[int]bool{}
	union, last := fieldpath.NewSet(), in[updates[0]]
	for _, i := range updates[:excess+1] {
		set := fieldpath.NewSet()
		if err := set.FromJSON(bytes.NewReader(in[i].FieldsV1)); err != nil {
			return nil, fault.Internal.Errorf("managedFields, manager %q: %w", in[i].Manager, err)
		}
		union, last, merged[i] = union.Union(set), in[i], true
	}
	b, err := union.ToJSON()
	if err != nil {
		return nil, fault.Internal.Errorf("managedFields: %w", err)
	}
	last.Manager, last.FieldsV1 = ancientManager, b
	out := []api.ManagedFieldsEntry{}
	for i := range in {
		if !merged[i] {
			out = append(out, in[i])
		}
	}
	return append(out, last), nil
}
