package registry

import (
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/merge"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
)

// maxConflicts bounds how many fields a conflict names.
const maxConflicts = 20

// apply merges the fields given into what stands: they become the manager's, and what it gave before and gives no longer goes,
// unless another manager has it too.
func (p *plan) apply(w *write) error {
	e := w.entry
	if e.cur == nil {
		if w.obj.Meta().ResourceVersion != "" {
			return conflict(e.ref, "it does not exist, but resourceVersion "+w.obj.Meta().ResourceVersion+" was expected")
		}
	} else if err := p.expect(w); err != nil {
		return err
	}
	config := w.obj.DeepCopyObject()
	normalize(config)
	m, err := p.merge(w, config)
	if err != nil {
		return err
	}
	obj := m.obj
	verb := verbUpdate
	if e.cur == nil {
		verb = verbCreate
		p.born(e.ref, obj)
	} else if err := p.keep(e.ref, obj, e.cur); err != nil {
		return err
	}
	if err := p.admit(w, verb, e.cur, obj); err != nil {
		return err
	}
	if err := p.contend(w, true, e.cur, obj, m.before, m.after); err != nil {
		return err
	}
	if obj.Meta().ManagedFields, err = p.writeManagers(e.ref, e.cur, m.after); err != nil {
		return err
	}
	return p.settle(w, obj)
}

// merged is what an apply comes to, without what the registry decides, and the managers on both sides of it.
type merged struct {
	obj           api.Object
	before, after fieldpath.ManagedFields
}

func (p *plan) merge(w *write, config api.Object) (*merged, error) {
	e := w.entry
	live, err := ownable(e.cur)
	if err != nil {
		return nil, err
	}
	wanted, err := ownableConfig(config)
	if err != nil {
		return nil, err
	}
	managers, err := readManagers(e.ref, e.cur)
	if err != nil {
		return nil, err
	}
	before := managers.Copy()
	me := managerKey{operationApply, w.manager}
	if err := takeOverOwn(managers, managerKey{operationUpdate, w.manager}, wanted); err != nil {
		return nil, fault.Internal.Errorf("apply %s: %w", title(e.ref), err)
	}
	sum, after, err := newUpdater().Apply(live, wanted, fieldpath.APIVersion(e.ref.Kind.APIVersion), managers, me.String(), w.force)
	var conflicts merge.Conflicts
	if errors.As(err, &conflicts) {
		return nil, ownershipConflict(w, conflicts)
	}
	if err != nil {
		return nil, fault.BadRequest.Errorf("apply %s: %w", title(e.ref), err)
	}
	obj := e.ref.Kind.New()
	b, err := json.Marshal(sum.AsValue().Unstructured())
	if err == nil {
		err = json.Unmarshal(b, obj)
	}
	if err != nil {
		return nil, fault.BadRequest.Errorf("apply %s: the merged object cannot be read: %w", title(e.ref), err)
	}
	obj.Meta().Name, obj.Meta().Namespace = e.ref.Name, e.ref.Namespace
	return &merged{obj, before, after}, nil
}

// takeOverOwn lets a manager apply what it wrote itself by plain updates.
func takeOverOwn(managers fieldpath.ManagedFields, own managerKey, config *typed.TypedValue) error {
	mine, ok := managers[own.String()]
	if !ok {
		return nil
	}
	set, err := config.ToFieldSet()
	if err != nil {
		return err
	}
	if rest := mine.Set().Difference(set); rest.Empty() {
		delete(managers, own.String())
	} else {
		managers[own.String()] = fieldpath.NewVersionedSet(rest, mine.APIVersion(), false)
	}
	return nil
}

// ownershipConflict names each field with its manager, and who wants it.
func ownershipConflict(w *write, conflicts merge.Conflicts) error {
	lines := make([]string, 0, len(conflicts))
	causes := make([]fault.Cause, 0, len(conflicts))
	for _, c := range conflicts {
		field := strings.TrimPrefix(c.Path.String(), ".")
		k := parseManagerKey(c.Manager)
		lines = append(lines, fmt.Sprintf("%s is managed by %q", field, k.manager))
		causes = append(causes, fault.Cause{Reason: "FieldManagerConflict", Field: field, Message: fmt.Sprintf("conflict with %q", k.manager)})
	}
	sort.Strings(lines)
	sort.Slice(causes, func(i, j int) bool { return causes[i].Field < causes[j].Field })
	if n := len(lines) - maxConflicts; n > 0 {
		lines = append(lines[:maxConflicts], fmt.Sprintf("and %d more", n))
		causes = causes[:maxConflicts]
	}
	e := fault.Conflict.Errorf("%s: %q wants fields that others manage: %s; leave them out, agree with their manager, or apply with force",
		title(w.ref), w.manager, strings.Join(lines, "; "))
	e.Details = fault.Details{Kind: w.ref.Kind.Plural, Name: w.ref.Name, Causes: causes}
	return e
}

// ownable is the part of an object whose fields have managers: neither status nor what the registry keeps in metadata.
func ownable(obj api.Object) (*typed.TypedValue, error) {
	m, err := asMap(obj)
	if err != nil {
		return nil, err
	}
	return ownableMap(m)
}

// ownableConfig is the same of an applied object. Its lists get their defaults first: a list is one value, so it must be compared with
// the live one in the same form. Fields outside of lists stay as given, lest defaults be taken for the manager's wish.
func ownableConfig(config api.Object) (*typed.TypedValue, error) {
	m, err := asMap(config)
	if err != nil {
		return nil, err
	}
	dropNulls(m) // what a type always writes, and nobody gave
	if !hasLists(m) {
		return ownableMap(m)
	}
	full := config.DeepCopyObject()
	api.Default(full)
	defaulted, err := asMap(full)
	if err != nil {
		return nil, err
	}
	takeLists(m, defaulted)
	return ownableMap(m)
}

// dropNulls removes nulls, and the maps that held nothing else.
func dropNulls(m map[string]any) {
	for k, v := range m {
		sub, isMap := v.(map[string]any)
		if isMap && len(sub) > 0 {
			dropNulls(sub)
			if len(sub) == 0 {
				delete(m, k)
			}
		}
		if v == nil {
			delete(m, k)
		}
	}
}

func hasLists(m map[string]any) bool {
	for _, v := range m {
		switch t := v.(type) {
		case []any:
			return true
		case map[string]any:
			if hasLists(t) {
				return true
			}
		}
	}
	return false
}

func takeLists(into, from map[string]any) {
	for k, v := range into {
		switch t := v.(type) {
		case []any:
			if l, ok := from[k].([]any); ok {
				into[k] = l
			}
		case map[string]any:
			if sub, ok := from[k].(map[string]any); ok {
				takeLists(t, sub)
			}
		}
	}
}

func ownableMap(m map[string]any) (*typed.TypedValue, error) {
	delete(m, "apiVersion")
	delete(m, "kind")
	delete(m, "status")
	if meta, ok := m["metadata"].(map[string]any); ok {
		if a, ok := meta["annotations"].(map[string]any); ok {
			if delete(a, api.AnnotationContended); len(a) == 0 {
				delete(meta, "annotations")
			}
		}
		for k := range meta {
			switch k {
			case "labels", "annotations", "ownerReferences", "finalizers":
			default:
				delete(meta, k)
			}
		}
		if len(meta) == 0 {
			delete(m, "metadata")
		}
	}
	tv, err := typed.DeducedParseableType.FromUnstructured(m)
	if err != nil {
		return nil, fault.Internal.Errorf("field ownership: %w", err)
	}
	return tv, nil
}

func newUpdater() *merge.Updater {
	b := merge.UpdaterBuilder{Converter: oneVersion{}, ReturnInputOnNoop: true}
	return b.BuildUpdater()
}

// oneVersion: every kind has one version so far.
type oneVersion struct{}

func (oneVersion) Convert(o *typed.TypedValue, _ fieldpath.APIVersion) (*typed.TypedValue, error) {
	return o, nil
}
func (oneVersion) IsMissingVersionError(error) bool { return false }
