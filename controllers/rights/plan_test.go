package rights

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-fleet/drover/api"
)

func TestReadyMadeRolesAreMadeAndKeptUpUnlessAnOperatorSaysNo(t *testing.T) {
	viewer := find(Roles(), "viewer")
	if diff := cmp.Diff(viewer, planRole("viewer", nil, nil)); diff != "" {
		t.Errorf("missing: (-want +got)\n%s", diff)
	}
	if got := planRole("viewer", viewer, nil); got != nil {
		t.Errorf("as it should be: got %+v, want nothing to do", got)
	}
	own := api.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{"x"}, Resources: []string{"y"}}
	cut := api.Copy(viewer)
	cut.Rules = []api.PolicyRule{own, viewer.Rules[0]}
	got := planRole("viewer", cut, nil)
	if got == nil || !cmp.Equal(got.Rules[0], own) || len(got.Rules) != len(viewer.Rules)+1 {
		t.Errorf("rules taken away, one added: got %+v, want all of the release and the one added", got)
	}
	cut.Metadata.Annotations[AutoUpdate] = "false"
	if got := planRole("viewer", cut, nil); got != nil {
		t.Errorf("switched off: got %+v, want nothing to do", got)
	}
	if got := planRole("own", &api.ClusterRole{Metadata: api.ObjectMeta{Name: "own"}}, nil); got != nil {
		t.Errorf("an operator's own role: got %+v, want nothing to do", got)
	}
	if got := planBinding("system:discovery", nil); got == nil || got.Subjects[0].Name != groupAuthenticated {
		t.Errorf("binding: got %+v, want it made", got)
	}
	none := find(Bindings(), "system:discovery")
	none.Subjects = nil
	if got := planBinding("system:discovery", none); got == nil || len(got.Subjects) != 1 {
		t.Errorf("binding without its subject: got %+v, want it back", got)
	}
	none.Metadata.Annotations[AutoUpdate] = "false"
	if got := planBinding("system:discovery", none); got != nil {
		t.Errorf("binding switched off: got %+v, want nothing to do", got)
	}
}

func TestARoleGathersTheRulesOfThoseItSelectsAndNoOthers(t *testing.T) {
	rule := func(r string) []api.PolicyRule {
		return []api.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{r}}}
	}
	labelled := func(name, value string, rules []api.PolicyRule) *api.ClusterRole {
		return &api.ClusterRole{Metadata: api.ObjectMeta{Name: name, Labels: map[string]string{"to": value}}, Rules: rules}
	}
	all := labelled("all", "all", append(rule("stale"), rule("a")...))
	all.AggregationRule = &api.AggregationRule{ClusterRoleSelectors: []api.LabelSelector{{MatchLabels: map[string]string{"to": "all"}}, {MatchLabels: map[string]string{"to": "more"}}}}
	roles := []*api.ClusterRole{labelled("a", "all", rule("a")), all, labelled("b", "more", rule("b")), labelled("c", "none", rule("c")), labelled("d", "all", rule("a"))}
	got := planRole("all", all, roles)
	if want := slices.Concat(rule("a"), rule("b")); got == nil || !cmp.Equal(got.Rules, want) {
		t.Fatalf("got %+v, want %+v", got, want)
	}
	if again := planRole("all", got, roles); again != nil {
		t.Errorf("as it should be: got %+v, want nothing to do", again)
	}
}

// TestWhatReadyMadeRolesDoNotGive: each ready-made role in a line of what it must not give.
func TestWhatReadyMadeRolesDoNotGive(t *testing.T) {
	for name, never := range map[string][]string{
		"viewer":            {"secrets", "serviceaccounts/token", "jointokens/hub", "*"},
		"installer":         {"secrets", "workloads", "jointokens/hub", "serviceaccounts", "*"},
		"operator":          {"serviceaccounts/token", "jointokens/hub", "*"},
		"system:basic-user": {"subjectaccessreviews", "tokenreviews", "*"},
	} {
		r := find(Roles(), name)
		for _, rule := range r.Rules {
			for _, res := range never {
				if slices.Contains(rule.Resources, res) {
					t.Errorf("%s gives %v on %s", name, rule.Verbs, res)
				}
			}
			if slices.Contains(rule.Verbs, "*") || slices.Contains(rule.NonResourceURLs, "*") {
				t.Errorf("%s gives everything: %+v", name, rule)
			}
			if name == "viewer" && len(rule.Resources) > 0 {
				for _, v := range rule.Verbs {
					if !slices.Contains(read(), v) {
						t.Errorf("viewer gives %s on %v", v, rule.Resources)
					}
				}
			}
			if name == "operator" && slices.Contains(rule.APIGroups, api.RBACGroup) && !cmp.Equal(rule.Verbs, read()) {
				t.Errorf("operator gives %v on %v", rule.Verbs, rule.Resources)
			}
		}
	}
}
