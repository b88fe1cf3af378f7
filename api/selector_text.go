package api

import (
	"fmt"
	"slices"
	"strings"

	"github.com/drover-fleet/drover/api/fault"
)

const maxSelectorText = 8192

// ParseSelector reads the query form: requirements joined by commas, each KEY=V, KEY==V, KEY!=V, KEY in (A,B),
// KEY notin (A,B), KEY or !KEY. An empty text selects everything, as in Kubernetes' lists.
func ParseSelector(text string) (Selector, error) {
	s := Everything()
	if len(text) > maxSelectorText {
		return Nothing(), fault.SizeLimit("label selector", int64(len(text)), maxSelectorText)
	}
	p := selectorParser{text: text}
	if p.blank(); p.rest() == "" {
		return s, nil
	}
	for {
		r, err := p.requirement()
		if err == nil {
			if errs := r.check("requirement"); len(errs) > 0 {
				err = errs[0]
			}
		}
		if err != nil {
			return Nothing(), fault.BadRequest.Errorf("label selector %q: %w", clip(text), err)
		}
		s.reqs = append(s.reqs, r)
		if p.blank(); p.rest() == "" {
			return s, nil
		}
		if !p.take(",") {
			return Nothing(), fault.BadRequest.Errorf("label selector %q: want a comma before %q", clip(text), clip(p.rest()))
		}
	}
}

type selectorParser struct {
	text string
	at   int
}

func (p *selectorParser) rest() string { return p.text[p.at:] }

func (p *selectorParser) blank() {
	for p.at < len(p.text) && (p.text[p.at] == ' ' || p.text[p.at] == '\t') {
		p.at++
	}
}

func (p *selectorParser) take(s string) bool {
	p.blank()
	if !strings.HasPrefix(p.rest(), s) {
		return false
	}
	p.at += len(s)
	return true
}

// word reads up to a blank or a character of the grammar; it may be empty.
func (p *selectorParser) word() string {
	p.blank()
	end := strings.IndexAny(p.rest(), " \t,=!()")
	if end < 0 {
		end = len(p.rest())
	}
	w := p.rest()[:end]
	p.at += end
	return w
}

func (p *selectorParser) requirement() (LabelSelectorRequirement, error) {
	if p.take("!") {
		return LabelSelectorRequirement{Key: p.word(), Operator: OpDoesNotExist}, nil
	}
	r := LabelSelectorRequirement{Key: p.word(), Operator: OpExists}
	switch {
	case r.Key == "":
		return r, fmt.Errorf("want a key before %q", clip(p.rest()))
	case p.take("=="), p.take("="):
		r.Operator, r.Values = OpIn, []string{p.word()}
		return r, nil
	case p.take("!="):
		r.Operator, r.Values = OpNotIn, []string{p.word()}
		return r, nil
	}
	before := p.at
	switch w := p.word(); w {
	case "in":
		r.Operator = OpIn
	case "notin":
		r.Operator = OpNotIn
	case "":
		return r, nil
	default:
		p.at = before
		return r, fmt.Errorf("want =, !=, in or notin after %q, not %q", r.Key, clip(w))
	}
	values, err := p.set()
	r.Values = values
	return r, err
}

// set reads (A,B,...).
func (p *selectorParser) set() ([]string, error) {
	if !p.take("(") {
		return nil, fmt.Errorf("want a list in parentheses, as (a,b)")
	}
	var values []string
	for {
		values = append(values, p.word())
		if p.take(")") {
			return values, nil
		}
		if !p.take(",") {
			return nil, fmt.Errorf("the list in parentheses does not end")
		}
	}
}

// String is the query form.
func (s Selector) String() string {
	parts := make([]string, len(s.reqs))
	for i, r := range s.reqs {
		switch {
		case r.Operator == OpExists:
			parts[i] = r.Key
		case r.Operator == OpDoesNotExist:
			parts[i] = "!" + r.Key
		case len(r.Values) == 1 && r.Operator == OpIn:
			parts[i] = r.Key + "=" + r.Values[0]
		case len(r.Values) == 1:
			parts[i] = r.Key + "!=" + r.Values[0]
		case r.Operator == OpIn:
			parts[i] = r.Key + " in (" + strings.Join(r.Values, ",") + ")"
		default:
			parts[i] = r.Key + " notin (" + strings.Join(r.Values, ",") + ")"
		}
	}
	return strings.Join(parts, ",")
}

// FieldRequirement is one KEY=VALUE or KEY!=VALUE.
type FieldRequirement struct {
	Field string
	Value string
	Not   bool
}

// FieldSelector is a list of requirements, all of which must hold; empty selects everything.
type FieldSelector []FieldRequirement

// ParseFieldSelector reads requirements joined by commas, each FIELD=V, FIELD==V or FIELD!=V, over the fields that the kind can
// select by.
func ParseFieldSelector(k *Kind, text string) (FieldSelector, error) {
	if len(text) > maxSelectorText {
		return nil, fault.SizeLimit("field selector", int64(len(text)), maxSelectorText)
	}
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	known := SelectableFields(k)
	var sel FieldSelector
	for part := range strings.SplitSeq(text, ",") {
		i := strings.IndexByte(part, '=')
		if i < 0 {
			return nil, fault.BadRequest.Errorf("field selector %q: want FIELD=VALUE or FIELD!=VALUE", clip(part))
		}
		field, value := part[:i], strings.TrimPrefix(part[i+1:], "=")
		field, not := strings.CutSuffix(field, "!")
		r := FieldRequirement{Field: strings.TrimSpace(field), Value: strings.TrimSpace(value), Not: not}
		if !slices.Contains(known, r.Field) {
			return nil, fault.BadRequest.Errorf("field selector: %s cannot be selected by %q; want one of %s", k.Plural, clip(r.Field), strings.Join(known, ", "))
		}
		sel = append(sel, r)
	}
	return sel, nil
}

// SelectableFields lists what objects of the kind can be selected by.
func SelectableFields(k *Kind) []string {
	fields := []string{"metadata.name"}
	if k.Namespaced {
		fields = append(fields, "metadata.namespace")
	}
	switch k {
	case KindAssignment:
		fields = append(fields, "spec.device", "spec.workload", "spec.revision", "status.phase")
	case KindRollout:
		fields = append(fields, "spec.workload", "status.phase")
	case KindWorkloadRevision:
		fields = append(fields, "spec.workload")
	case KindTombstone:
		fields = append(fields, "spec.device", "spec.workload")
	case KindEnrollmentRequest:
		fields = append(fields, "spec.device", "status.phase")
	case KindNamespace:
		fields = append(fields, "status.phase")
	case KindSecret:
		fields = append(fields, "type")
	case KindEvent:
		fields = append(fields, "involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid",
			"involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath", "type", "reason")
	}
	return fields
}

// FieldValue is the value of a selectable field; "" for any other.
func FieldValue(o Object, field string) string {
	switch field {
	case "metadata.name":
		return o.Meta().Name
	case "metadata.namespace":
		return o.Meta().Namespace
	}
	switch o := o.(type) {
	case *Assignment:
		return pick(field, "spec.device", o.Spec.Device, "spec.workload", o.Spec.Workload, "spec.revision", o.Spec.Revision, "status.phase", o.Status.Phase)
	case *Rollout:
		return pick(field, "spec.workload", o.Spec.Workload, "status.phase", o.Status.Phase)
	case *WorkloadRevision:
		return pick(field, "spec.workload", o.Spec.Workload)
	case *Tombstone:
		return pick(field, "spec.device", o.Spec.Device, "spec.workload", o.Spec.Workload)
	case *EnrollmentRequest:
		return pick(field, "spec.device", o.Spec.Device, "status.phase", o.Status.Phase)
	case *Namespace:
		return pick(field, "status.phase", o.Status.Phase)
	case *Secret:
		return pick(field, "type", o.SecretType)
	case *Event:
		r := o.InvolvedObject
		return pick(field, "involvedObject.kind", r.Kind, "involvedObject.namespace", r.Namespace, "involvedObject.name", r.Name,
			"involvedObject.uid", r.UID, "involvedObject.apiVersion", r.APIVersion, "involvedObject.resourceVersion", r.ResourceVersion,
			"involvedObject.fieldPath", r.FieldPath, "type", o.EventType, "reason", o.Reason)
	}
	return ""
}

// pick returns the value that follows field in pairs.
func pick(field string, pairs ...string) string {
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i] == field {
			return pairs[i+1]
		}
	}
	return ""
}

// Matches reports whether all requirements hold.
func (s FieldSelector) Matches(o Object) bool {
	for _, r := range s {
		if (FieldValue(o, r.Field) == r.Value) == r.Not {
			return false
		}
	}
	return true
}

// Exact returns the value that the field must have, when the selector says so: a caller may then read fewer objects.
func (s FieldSelector) Exact(field string) (string, bool) {
	for _, r := range s {
		if r.Field == field && !r.Not {
			return r.Value, true
		}
	}
	return "", false
}
