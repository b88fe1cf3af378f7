package api

import (
	"strings"
	"testing"
)

func rule(change func(*PolicyRule)) PolicyRule {
	r := PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets"}}
	if change != nil {
		change(&r)
	}
	return r
}

func TestRolesAndBindingsFollowKubernetesRules(t *testing.T) {
	url := func(u string) PolicyRule { return PolicyRule{Verbs: []string{"get"}, NonResourceURLs: []string{u}} }
	role := func(name string, rules ...PolicyRule) Object {
		return &Role{Metadata: ObjectMeta{Name: name, Namespace: "default"}, Rules: rules}
	}
	cluster := func(a *AggregationRule, rules ...PolicyRule) Object {
		return &ClusterRole{Metadata: ObjectMeta{Name: "c"}, Rules: rules, AggregationRule: a}
	}
	bind := func(ref RoleRef, s ...Subject) Object {
		return &RoleBinding{Metadata: ObjectMeta{Name: "b", Namespace: "default"}, RoleRef: ref, Subjects: s}
	}
	toRole := RoleRef{Kind: "Role", Name: "r"}
	for _, tt := range []struct {
		name string
		obj  Object
		want string // field at fault; "" = fine
	}{
		{"a rule", role("r", rule(nil)), ""},
		{"a name as Kubernetes has them", role("system:Node_x", rule(nil)), ""},
		{"a name with a slash", role("a/b"), "metadata.name"},
		{"a name with a percent sign", role("a%2fb"), "metadata.name"},
		{"a name that is a step up", role(".."), "metadata.name"},
		{"no verb", role("r", rule(func(r *PolicyRule) { r.Verbs = nil })), "rules[0].verbs"},
		{"no group", role("r", rule(func(r *PolicyRule) { r.APIGroups = nil })), "rules[0].apiGroups"},
		{"no resource", role("r", rule(func(r *PolicyRule) { r.Resources = nil })), "rules[0].resources"},
		{"paths in a role", role("r", url("/metrics")), "rules[0].nonResourceURLs"},
		{"paths in a cluster role", cluster(nil, url("/drover/v1/*")), ""},
		{"every path", cluster(nil, url("*")), ""},
		{"a star within a path", cluster(nil, url("/a/*/b")), "rules[0].nonResourceURLs[0]"},
		{"paths beside resources", cluster(nil, rule(func(r *PolicyRule) { r.NonResourceURLs = []string{"/x"} })), "rules[0].nonResourceURLs"},
		{"too many rules", role("r", make([]PolicyRule, MaxRules+1)...), "rules"},
		{"gathers nothing", cluster(&AggregationRule{}), "aggregationRule.clusterRoleSelectors"},
		{"gathers by an empty selector", cluster(&AggregationRule{ClusterRoleSelectors: []LabelSelector{{}}}), "aggregationRule.clusterRoleSelectors[0]"},
		{"a user", bind(toRole, Subject{Kind: "User", Name: "alice"}), ""},
		{"an account", bind(toRole, Subject{Kind: "ServiceAccount", Name: "ci", Namespace: "default"}), ""},
		{"an account of no namespace", bind(toRole, Subject{Kind: "ServiceAccount", Name: "ci"}), "subjects[0].namespace"},
		{"a device", bind(toRole, Subject{Kind: "Device", Name: "pi"}), "subjects[0].kind"},
		{"nobody", bind(toRole, Subject{Kind: "Group"}), "subjects[0].name"},
		{"another group", bind(RoleRef{Kind: "Role", Name: "r", APIGroup: "x"}), "roleRef.apiGroup"},
		{"no kind", bind(RoleRef{Name: "r"}), "roleRef.kind"},
		{"no name", bind(RoleRef{Kind: "Role"}), "roleRef.name"},
		{"a role for the whole cluster", &ClusterRoleBinding{Metadata: ObjectMeta{Name: "b"}, RoleRef: toRole}, "roleRef.kind"},
	} {
		Default(tt.obj)
		errs := Validate(tt.obj)
		if tt.want == "" && len(errs) > 0 || tt.want != "" && (len(errs) == 0 || errs[0].Path != tt.want) {
			t.Errorf("%s: got %v, want a fault at %q", tt.name, errs, tt.want)
		}
	}
}

func TestABindingKeepsItsRole(t *testing.T) {
	old := &RoleBinding{Metadata: ObjectMeta{Name: "b", Namespace: "default"}, RoleRef: RoleRef{RBACGroup, "Role", "r"}}
	obj := Copy(old)
	obj.RoleRef.Name = "admin"
	if errs := ValidateUpdate(old, obj); len(errs) != 1 || errs[0].Path != "roleRef" || !strings.Contains(errs[0].Message, "may not change") {
		t.Errorf("got %v, want roleRef may not change", errs)
	}
}
