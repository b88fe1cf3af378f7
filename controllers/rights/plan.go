package rights

import (
	"reflect"
	"slices"

	"github.com/drover-fleet/drover/api"
)

// planRole is the role as it should stand, or nil where it does, or where there is and should be none. cur is nil when there is none.
func planRole(name string, cur *api.ClusterRole, all []*api.ClusterRole) *api.ClusterRole {
	want := find(Roles(), name)
	switch {
	case cur == nil && want == nil, cur != nil && cur.Metadata.DeletionTimestamp != nil:
		return nil
	case cur == nil:
		return want
	}
	rules := cur.Rules
	switch {
	case cur.AggregationRule != nil:
		rules = gathered(cur, all)
	case want != nil && cur.Metadata.Annotations[AutoUpdate] != "false":
		rules = union(rules, want.Rules)
	}
	if reflect.DeepEqual(rules, cur.Rules) || len(rules) == 0 && len(cur.Rules) == 0 {
		return nil
	}
	next := api.Copy(cur)
	next.Rules = rules
	return next
}

// gathered are the rules of the roles that the selectors match, in the order of names, each rule once. Roles that gather themselves count
// with the rules that they have.
func gathered(of *api.ClusterRole, all []*api.ClusterRole) []api.PolicyRule {
	var rules []api.PolicyRule
	for _, r := range all { // by name
		if r.Metadata.Name == of.Metadata.Name || !selected(of.AggregationRule, r.Metadata.Labels) {
			continue
		}
		rules = union(rules, r.Rules)
	}
	return rules[:min(len(rules), api.MaxRules)]
}

func selected(a *api.AggregationRule, labels map[string]string) bool {
	for i := range a.ClusterRoleSelectors {
		if s, err := a.ClusterRoleSelectors[i].Selector(); err == nil && s.Matches(labels) {
			return true
		}
	}
	return false
}

// union is have with what of more is not in it. have is not changed.
func union(have, more []api.PolicyRule) []api.PolicyRule {
	out := slices.Clone(have)
	for _, r := range more {
		if !slices.ContainsFunc(out, func(o api.PolicyRule) bool { return reflect.DeepEqual(o, r) }) {
			out = append(out, r)
		}
	}
	return out
}

// planBinding is the binding as it should stand, or nil where it does, or where there is and should be none.
func planBinding(name string, cur *api.ClusterRoleBinding) *api.ClusterRoleBinding {
	want := find(Bindings(), name)
	switch {
	case want == nil, cur != nil && (cur.Metadata.DeletionTimestamp != nil || cur.Metadata.Annotations[AutoUpdate] == "false" || cur.RoleRef != want.RoleRef):
		return nil
	case cur == nil:
		return want
	}
	var missing []api.Subject
	for _, s := range want.Subjects {
		if !slices.Contains(cur.Subjects, s) {
			missing = append(missing, s)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	next := api.Copy(cur)
	next.Subjects = append(next.Subjects, missing...)
	return next
}

func find[T api.Object](list []T, name string) T {
	var none T
	for _, o := range list {
		if o.Meta().Name == name {
			return o
		}
	}
	return none
}
