package registry

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
)

// Drift: a field that one manager declared by applying it holds what another manager gave it. managedFields cannot tell, since the
// declarer loses the field to the other, so it is noted where that happens: in the annotation that lists contended fields, and on kinds with
// conditions in the condition Contended. This file is the only writer of both.
//
// A note goes when its declarer applies again, be it with the field or without. While the declared value is back it stays, so that the next
// change is seen, but nothing is contended.

const maxContended = 20 // fields that are noted of one object; the newest

// contend works the notes out anew for a write of the manager that turns cur into obj. before and after are the managers on both sides of it.
func (p *plan) contend(w *write, applied bool, cur, obj api.Object, before, after fieldpath.ManagedFields) error {
	if cur == nil {
		return nil
	}
	n := notes{p: p}
	if len(api.ContendedNotes(cur)) > 0 || othersApplied(before, w.manager) { // else no value is compared
		var err error
		if n.was, err = asMap(cur); err != nil {
			return err
		}
		if n.is, err = asMap(obj); err != nil {
			return err
		}
	}
	if base := w.entry.base; base != nil {
		n.after = base.ModRevision.String()
	}
	for _, f := range api.ContendedNotes(cur) {
		value := n.hash(n.is, f.Field)
		changed := value != n.hash(n.was, f.Field)
		if f.DeclaredBy == w.manager && (applied || changed) {
			continue
		}
		if f.Back = value == f.Declared; changed && !f.Back {
			f.ChangedBy, f.After = w.manager, n.after
		}
		n.fields = append(n.fields, f)
	}
	for key, vs := range before {
		k := parseManagerKey(key)
		if k.operation != operationApply || k.manager == w.manager {
			continue
		}
		lost := vs.Set()
		if kept, ok := after[key]; ok {
			lost = lost.Difference(kept.Set())
		}
		lost.Leaves().Iterate(func(path fieldpath.Path) { n.lost(path, k.manager, w.manager) })
	}
	n.sort()
	generation := obj.Meta().Generation
	if w.ref.Kind.HasGeneration && specChanged(cur, obj) {
		generation++
	}
	return n.write(obj, generation, api.TimeOf(p.c.r.o.Now()))
}

func othersApplied(managers fieldpath.ManagedFields, me string) bool {
	for key := range managers {
		if k := parseManagerKey(key); k.operation == operationApply && k.manager != me {
			return true
		}
	}
	return false
}

// notes are those of one object in the making.
type notes struct {
	p       *plan
	was, is map[string]any
	after   string // the revision that the write is made on
	fields  []api.ContendedField
}

// lost notes that the declarer's field is the changer's now. A field whose value stays is no drift.
func (n *notes) lost(path fieldpath.Path, declarer, changer string) {
	field, ok := fieldName(path)
	if !ok {
		return
	}
	declared := n.hash(n.was, field)
	if declared == n.hash(n.is, field) {
		return
	}
	f := api.ContendedField{Field: field, DeclaredBy: declarer, ChangedBy: changer, After: n.after, Declared: declared}
	i := slices.IndexFunc(n.fields, func(o api.ContendedField) bool { return o.Field == field && o.DeclaredBy == declarer })
	if i >= 0 {
		n.fields[i] = f
		return
	}
	n.fields = append(n.fields, f)
}

// hash is that of the field's value; of an absent one too.
func (n *notes) hash(m map[string]any, field string) string {
	b, err := json.Marshal(valueAt(m, field))
	if err != nil {
		return ""
	}
	return hex.EncodeToString(n.p.c.r.o.Sealer.KeyedHash(append([]byte(field+"\x00"), b...)))
}

// fieldName writes a path of map keys as diffs do: spec.placement, metadata.labels["app.io/x"]. Lists are one value, so nothing else
// comes up.
func fieldName(path fieldpath.Path) (string, bool) {
	name := ""
	for _, e := range path {
		if e.FieldName == nil {
			return "", false
		}
		name = joinPath(name, *e.FieldName)
	}
	return name, name != ""
}

// valueAt finds the value that fieldName names; nil where there is none.
func valueAt(m map[string]any, field string) any {
	var at any = m
	for field != "" {
		in, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		var key string
		key, field = cutField(field)
		at = in[key]
	}
	return at
}

// cutField takes the first key off a field's name.
func cutField(field string) (key, rest string) {
	if quoted, err := strconv.QuotedPrefix(strings.TrimPrefix(field, "[")); err == nil && field[0] == '[' {
		key, err = strconv.Unquote(quoted)
		if err == nil {
			return key, strings.TrimPrefix(strings.TrimPrefix(field[1+len(quoted):], "]"), ".")
		}
	}
	end := strings.IndexAny(field, ".[")
	switch {
	case end < 0:
		return field, ""
	case field[end] == '.':
		return field[:end], field[end+1:]
	}
	return field[:end], field[end:]
}

// sort keeps the newest and puts them in the order of their names, so that equal notes are written equally.
func (n *notes) sort() {
	if over := len(n.fields) - maxContended; over > 0 {
		n.fields = n.fields[over:]
	}
	slices.SortFunc(n.fields, func(a, b api.ContendedField) int {
		return cmp.Or(strings.Compare(a.Field, b.Field), strings.Compare(a.DeclaredBy, b.DeclaredBy))
	})
}

// write puts the notes on the object.
func (n *notes) write(obj api.Object, generation int64, now api.Time) error {
	m := obj.Meta()
	if len(n.fields) == 0 {
		setContended(m, "")
	} else {
		b, err := json.Marshal(n.fields)
		if err != nil {
			return fault.Internal.Errorf("note contended fields: %w", err)
		}
		setContended(m, string(b))
	}
	contended := slices.DeleteFunc(slices.Clone(n.fields), func(f api.ContendedField) bool { return f.Back })
	conditions := api.ConditionsOf(obj)
	if conditions == nil || len(contended) == 0 && api.FindCondition(*conditions, api.ConditionContended) == nil {
		return nil
	}
	c := api.Condition{Type: api.ConditionContended, Status: api.False, Reason: "AsDeclared", ObservedGeneration: generation}
	if len(contended) > 0 {
		words := make([]string, len(contended))
		for i, f := range contended {
			words[i] = fmt.Sprintf("%s: declared by %q, changed by %q after resourceVersion %s", f.Field, f.DeclaredBy, f.ChangedBy, f.After)
		}
		c.Status, c.Reason, c.Message = api.True, "DeclaredFieldChanged", strings.Join(words, "; ")
	}
	if old := api.FindCondition(*conditions, c.Type); old != nil && old.Status == c.Status && old.Message == c.Message {
		return nil // as it was: the generation alone says nothing new
	}
	api.SetCondition(conditions, c, now)
	return nil
}

func setContended(m *api.ObjectMeta, value string) {
	if value == "" {
		delete(m.Annotations, api.AnnotationContended)
		return
	}
	if m.Annotations == nil {
		m.Annotations = map[string]string{}
	}
	m.Annotations[api.AnnotationContended] = value
}

// keepContended gives the object the notes that stand, whatever its writer sent.
func keepContended(obj, cur api.Object) {
	value := ""
	if cur != nil {
		value = cur.Meta().Annotations[api.AnnotationContended]
	}
	setContended(obj.Meta(), value)
}

// keepContendedCondition does the same of the condition, where others write the status.
func keepContendedCondition(obj, cur api.Object) {
	to := api.ConditionsOf(obj)
	if to == nil {
		return
	}
	api.RemoveCondition(to, api.ConditionContended)
	if c := api.FindCondition(*api.ConditionsOf(cur), api.ConditionContended); c != nil {
		*to = append(*to, *c)
	}
}
