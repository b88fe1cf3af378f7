package access

import (
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
)

// Decision is the answer to what somebody asks for.
type Decision struct {
	Allowed bool
	Reason  string // which binding gives it; empty where nothing does
}

// Authorize answers by roles and bindings. The error is fault.Unavailable until they were read once. Members and devices get no
// right here: what they may follows from their kind, and whoever asks for them decides that before.
func (p *Policy) Authorize(id *Identity, a *Attributes) (Decision, error) {
	if !id.Ruled() {
		return Decision{}, nil
	}
	if id.IsAdmin() {
		return Decision{true, "member of the admins' group"}, nil
	}
	if !p.Synced() {
		return Decision{}, notSynced()
	}
	namespace := a.Namespace
	if a.Path != "" {
		namespace = ""
	}
	var d Decision
	p.mu.RLock()
	defer p.mu.RUnlock()
	p.eachLocked(id, namespace, func(b *binding, rules []api.PolicyRule, whom string) bool {
		if a.Path != "" && b.key.namespace != "" {
			return true
		}
		for i := range rules {
			if Matches(&rules[i], a) {
				d = Decision{true, b.why(whom)}
				return false
			}
		}
		return true
	})
	return d, nil
}

// RulesOf returns every rule that somebody has in a namespace, those of the whole cluster included; "" has those of the cluster only.
// Rules on paths count only where a ClusterRoleBinding gives them, so that those of others are left out.
func (p *Policy) RulesOf(id *Identity, namespace string) ([]api.PolicyRule, error) {
	if !id.Ruled() {
		return nil, nil
	}
	if id.IsAdmin() {
		return Everything(), nil
	}
	if !p.Synced() {
		return nil, notSynced()
	}
	var out []api.PolicyRule
	p.mu.RLock()
	defer p.mu.RUnlock()
	p.eachLocked(id, namespace, func(b *binding, rules []api.PolicyRule, _ string) bool {
		for i := range rules {
			if r := rules[i]; b.key.namespace == "" || len(r.NonResourceURLs) == 0 {
				out = append(out, r)
			}
		}
		return true
	})
	return out, nil
}

// Covers returns the single rights of wanted that somebody lacks in a namespace, or in the whole cluster where it is "".
func (p *Policy) Covers(id *Identity, namespace string, wanted []api.PolicyRule) (missing []api.PolicyRule, err error) {
	if id.IsAdmin() {
		return nil, nil
	}
	held, err := p.RulesOf(id, namespace)
	if err != nil {
		return nil, err
	}
	return Uncovered(held, wanted), nil
}

// Everything is what an admin may.
func Everything() []api.PolicyRule {
	return []api.PolicyRule{
		{Verbs: []string{all}, APIGroups: []string{all}, Resources: []string{all}},
		{Verbs: []string{all}, NonResourceURLs: []string{all}},
		{Verbs: []string{"bind", "escalate", "impersonate"}, APIGroups: []string{all}, Resources: []string{all}},
	}
}

func notSynced() error {
	e := fault.Unavailable.Errorf("this member has not read the roles and bindings yet: try again in a moment, or ask another member")
	e.RetryAfter = time.Second
	return e
}

// Forbidden is the refusal in Kubernetes' words. why, when not empty, is added.
func Forbidden(id *Identity, a *Attributes, why string) error {
	if why != "" {
		why = ": " + why
	}
	if a.Path != "" {
		return fault.Forbidden.Errorf("forbidden: User %q cannot %s path %q%s", id.Name, a.Verb, a.Path, why)
	}
	what := a.Resource
	if a.Group != "" {
		what += "." + a.Group
	}
	if a.Name != "" {
		what += " \"" + a.Name + "\""
	}
	resource := a.Resource
	if a.Subresource != "" {
		resource += "/" + a.Subresource
	}
	scope := "at the cluster scope"
	if a.Namespace != "" {
		scope = "in the namespace \"" + a.Namespace + "\""
	}
	e := fault.Forbidden.Errorf("%s is forbidden: User %q cannot %s resource %q in API group %q %s%s", what, id.Name, a.Verb, resource, a.Group, scope, why)
	e.Details = fault.Details{Name: a.Name, Group: a.Group, Kind: a.Resource}
	return e
}
