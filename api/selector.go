package api

import (
	"fmt"
	"slices"
)

// LabelSelector is Kubernetes': matchLabels and matchExpressions, all of which must hold. An absent or empty selector
// selects nothing, unless "all: true" stands beside it.
type LabelSelector struct {
	MatchLabels      map[string]string          `json:"matchLabels,omitempty"`      // labels that must have just these values
	MatchExpressions []LabelSelectorRequirement `json:"matchExpressions,omitempty"` // further requirements; all must hold
}

// LabelSelectorRequirement is one expression: In, NotIn, Exists or DoesNotExist.
type LabelSelectorRequirement struct {
	Key      string   `json:"key"`              // the label
	Operator string   `json:"operator"`         // In, NotIn, Exists or DoesNotExist
	Values   []string `json:"values,omitempty"` // of In and NotIn
}

// Operators of a LabelSelectorRequirement.
const (
	OpIn           = "In"
	OpNotIn        = "NotIn"
	OpExists       = "Exists"
	OpDoesNotExist = "DoesNotExist"
)

// Selector is a compiled selector. The zero value selects nothing; see [Everything].
type Selector struct {
	all  bool // an empty list of requirements selects everything instead of nothing
	reqs []LabelSelectorRequirement
}

// Everything selects all.
func Everything() Selector { return Selector{all: true} }

// Nothing selects none.
func Nothing() Selector { return Selector{} }

// IsEverything reports whether the selector has no requirement and selects all.
func (s Selector) IsEverything() bool { return s.all && len(s.reqs) == 0 }

// Matches reports whether all requirements hold for the labels. As in Kubernetes, NotIn and != hold for an absent key.
func (s Selector) Matches(labels map[string]string) bool {
	if len(s.reqs) == 0 {
		return s.all
	}
	for i := range s.reqs {
		if !s.reqs[i].holds(labels) {
			return false
		}
	}
	return true
}

func (r *LabelSelectorRequirement) holds(labels map[string]string) bool {
	v, ok := labels[r.Key]
	switch r.Operator {
	case OpIn:
		return ok && slices.Contains(r.Values, v)
	case OpNotIn:
		return !ok || !slices.Contains(r.Values, v)
	case OpExists:
		return ok
	case OpDoesNotExist:
		return !ok
	}
	return false
}

// IsEmpty reports a selector that is absent or has no requirement.
func (l *LabelSelector) IsEmpty() bool {
	return l == nil || len(l.MatchLabels) == 0 && len(l.MatchExpressions) == 0
}

// Selector compiles. A nil or empty selector selects nothing.
func (l *LabelSelector) Selector() (Selector, error) {
	if l == nil {
		return Nothing(), nil
	}
	if errs := l.check("selector"); len(errs) > 0 {
		return Nothing(), errs[0]
	}
	var s Selector
	for _, k := range sortedKeys(l.MatchLabels) {
		s.reqs = append(s.reqs, LabelSelectorRequirement{Key: k, Operator: OpIn, Values: []string{l.MatchLabels[k]}})
	}
	for _, e := range l.MatchExpressions {
		s.reqs = append(s.reqs, LabelSelectorRequirement{Key: e.Key, Operator: e.Operator, Values: slices.Clone(e.Values)})
	}
	return s, nil
}

// Selector compiles the selector of a placement: everything when All is set.
func (p *Placement) DeviceSelector() (Selector, error) {
	if p.All {
		return Everything(), nil
	}
	return p.Selector.Selector()
}

func (l *LabelSelector) check(path string) []FieldError {
	var errs []FieldError
	for _, k := range sortedKeys(l.MatchLabels) {
		at := path + ".matchLabels" + key(k)
		errs = appendErr(errs, at, CheckLabelKey(k))
		errs = appendErr(errs, at, CheckLabelValue(l.MatchLabels[k]))
	}
	for i := range l.MatchExpressions {
		errs = append(errs, l.MatchExpressions[i].check(fmt.Sprintf("%s.matchExpressions[%d]", path, i))...)
	}
	return errs
}

func (r *LabelSelectorRequirement) check(path string) []FieldError {
	errs := appendErr(nil, path+".key", CheckLabelKey(r.Key))
	switch r.Operator {
	case OpIn, OpNotIn:
		if len(r.Values) == 0 {
			errs = append(errs, FieldError{path + ".values", r.Operator + " needs at least one value"})
		}
	case OpExists, OpDoesNotExist:
		if len(r.Values) > 0 {
			errs = append(errs, FieldError{path + ".values", r.Operator + " takes no values; remove them"})
		}
	default:
		errs = append(errs, FieldError{path + ".operator", unknownValue(r.Operator, OpIn, OpNotIn, OpExists, OpDoesNotExist)})
	}
	for i, v := range r.Values {
		errs = appendErr(errs, fmt.Sprintf("%s.values[%d]", path, i), CheckLabelValue(v))
	}
	return errs
}
