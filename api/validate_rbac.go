package api

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of roles and bindings. A role of the largest size is still taken apart right by right in a moment.
const (
	MaxRules    = 500
	maxRuleList = 500 // entries of one list of a rule
	MaxSubjects = 500
)

// Kinds of subjects beside ServiceAccount.
const (
	SubjectUser  = "User"
	SubjectGroup = "Group"
)

func isRBAC(k *Kind) bool { return k.APIVersion == RBACV1 }

// CheckPathName wants what can stand as one part of a path: not "." or "..", no slash and no percent sign, printable, at most 253 bytes. Roles
// and bindings are named so, as in Kubernetes: "system:discovery".
func CheckPathName(s string) error {
	switch {
	case s == "":
		return fmt.Errorf("is empty")
	case len(s) > MaxNameLen:
		return fmt.Errorf("%q is %d bytes; the limit is %d", clip(s), len(s), MaxNameLen)
	case s == "." || s == "..":
		return fmt.Errorf("%q is no name", s)
	case strings.ContainsAny(s, "/%"):
		return fmt.Errorf("%q has a '/' or '%%'", clip(s))
	case strings.ContainsFunc(s, func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) || unicode.IsSpace(r) }):
		return fmt.Errorf("%q has a character that cannot be printed, or a space", clip(s))
	}
	return nil
}

func checkRules(rules []PolicyRule, clusterWide bool) []FieldError {
	if len(rules) > MaxRules {
		return []FieldError{{"rules", fmt.Sprintf("are %d; the limit is %d", len(rules), MaxRules)}}
	}
	var errs []FieldError
	for i := range rules {
		errs = append(errs, checkRule("rules"+index(i), &rules[i], clusterWide)...)
	}
	return errs
}

func checkRule(path string, r *PolicyRule, clusterWide bool) []FieldError {
	var errs []FieldError
	bad := func(field, message string) { errs = append(errs, FieldError{path + field, message}) }
	for name, list := range map[string][]string{".verbs": r.Verbs, ".apiGroups": r.APIGroups, ".resources": r.Resources, ".resourceNames": r.ResourceNames, ".nonResourceURLs": r.NonResourceURLs} {
		if len(list) > maxRuleList {
			return []FieldError{{path + name, fmt.Sprintf("are %d; the limit is %d", len(list), maxRuleList)}}
		}
	}
	if len(r.Verbs) == 0 {
		bad(".verbs", "needs at least one verb")
	}
	for i, v := range r.Verbs {
		if v == "" {
			bad(".verbs"+index(i), "is empty")
		}
	}
	if len(r.NonResourceURLs) > 0 {
		if !clusterWide {
			bad(".nonResourceURLs", "can stand in a ClusterRole only: paths belong to no namespace")
		}
		if len(r.APIGroups) > 0 || len(r.Resources) > 0 || len(r.ResourceNames) > 0 {
			bad(".nonResourceURLs", "cannot stand beside resources: make two rules")
		}
		for i, u := range r.NonResourceURLs {
			if u != "*" && !strings.HasPrefix(u, "/") || strings.Contains(strings.TrimSuffix(u, "*"), "*") {
				bad(".nonResourceURLs"+index(i), fmt.Sprintf("%q: want a path that begins with a slash, with at most one \"*\", at its end", clip(u)))
			}
		}
		return errs
	}
	if len(r.APIGroups) == 0 {
		bad(".apiGroups", `needs at least one group; "" is the core group`)
	}
	if len(r.Resources) == 0 {
		bad(".resources", "needs at least one resource")
	}
	for i, res := range r.Resources {
		if res == "" || strings.HasPrefix(res, "/") {
			bad(".resources"+index(i), fmt.Sprintf("%q: want workloads, workloads/status, */scale or *", clip(res)))
		}
	}
	return errs
}

func checkClusterRole(o *ClusterRole) []FieldError {
	errs := checkRules(o.Rules, true)
	a := o.AggregationRule
	if a == nil {
		return errs
	}
	if len(a.ClusterRoleSelectors) == 0 {
		errs = append(errs, FieldError{"aggregationRule.clusterRoleSelectors", "needs at least one selector"})
	}
	for i := range a.ClusterRoleSelectors {
		s := &a.ClusterRoleSelectors[i]
		path := "aggregationRule.clusterRoleSelectors" + index(i)
		if s.IsEmpty() {
			errs = append(errs, FieldError{path, "is empty and selects nothing"})
		} else if _, err := s.Selector(); err != nil {
			errs = append(errs, FieldError{path, err.Error()})
		}
	}
	return errs
}

func checkBinding(ref *RoleRef, subjects []Subject, namespaced bool) []FieldError {
	var errs []FieldError
	bad := func(path, message string) { errs = append(errs, FieldError{path, message}) }
	if ref.APIGroup != RBACGroup {
		bad("roleRef.apiGroup", unknownValue(ref.APIGroup, RBACGroup))
	}
	switch {
	case ref.Kind == KindClusterRole.Kind, ref.Kind == KindRole.Kind && namespaced:
	case namespaced:
		bad("roleRef.kind", unknownValue(ref.Kind, KindRole.Kind, KindClusterRole.Kind))
	default:
		bad("roleRef.kind", unknownValue(ref.Kind, KindClusterRole.Kind))
	}
	errs = appendErr(errs, "roleRef.name", CheckPathName(ref.Name))
	if len(subjects) > MaxSubjects {
		bad("subjects", fmt.Sprintf("are %d; the limit is %d", len(subjects), MaxSubjects))
		return errs
	}
	for i := range subjects {
		errs = append(errs, checkSubject("subjects"+index(i), &subjects[i])...)
	}
	return errs
}

func checkSubject(path string, s *Subject) []FieldError {
	var errs []FieldError
	bad := func(field, message string) { errs = append(errs, FieldError{path + field, message}) }
	if s.Name == "" {
		bad(".name", "is missing")
	}
	switch s.Kind {
	case KindServiceAccount.Kind:
		if s.Name != "" {
			errs = appendErr(errs, path+".name", CheckDNSName(s.Name))
		}
		if s.APIGroup != "" {
			bad(".apiGroup", unknownValue(s.APIGroup, ""))
		}
		if s.Namespace == "" {
			bad(".namespace", "is missing: a service account lies in a namespace")
		} else {
			errs = appendErr(errs, path+".namespace", CheckDNSLabel(s.Namespace))
		}
	case SubjectUser, SubjectGroup:
		if s.APIGroup != RBACGroup {
			bad(".apiGroup", unknownValue(s.APIGroup, RBACGroup))
		}
		if s.Namespace != "" {
			bad(".namespace", s.Kind+"s lie in no namespace; remove it")
		}
	default:
		bad(".kind", unknownValue(s.Kind, SubjectUser, SubjectGroup, KindServiceAccount.Kind))
	}
	return errs
}

// defaultBinding fills in the groups, which people leave out.
func defaultBinding(ref *RoleRef, subjects []Subject) {
	setDefault(&ref.APIGroup, RBACGroup)
	for i := range subjects {
		if k := subjects[i].Kind; k == SubjectUser || k == SubjectGroup {
			setDefault(&subjects[i].APIGroup, RBACGroup)
		}
	}
}
