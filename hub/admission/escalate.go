package admission

import (
	"fmt"
	"slices"
	"strings"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/hub/access"
	"github.com/drover-fleet/drover/hub/registry"
)

// mayUserWrite judges what the path and method of a request do not tell: whether an apply may create, and whether what is written gives
// somebody a right that its writer does not hold.
func (a *Admitter) mayUserWrite(rq *registry.AdmissionRequest) error {
	if rq.Verb == verbCreate {
		if err := a.need(rq, rightOn(rq, "create", "")); err != nil {
			return err
		}
	}
	if rq.New == nil || onlyCleanup(rq.Old, rq.New) {
		return nil
	}
	switch obj := rq.New.(type) {
	case *api.Role:
		return a.mayGiveRules(rq, obj.Metadata.Namespace, obj.Rules)
	case *api.ClusterRole:
		return a.mayWriteClusterRole(rq, obj)
	case *api.RoleBinding:
		return a.mayBind(rq, obj.Metadata.Namespace, obj.RoleRef)
	case *api.ClusterRoleBinding:
		return a.mayBind(rq, "", obj.RoleRef)
	case *api.JoinToken:
		return a.mayMakeToken(rq, obj)
	}
	return nil
}

// rightOn is a verb on the object that is written.
func rightOn(rq *registry.AdmissionRequest, verb, sub string) access.Attributes {
	m := rq.New.Meta()
	out := access.Attributes{Verb: verb, Group: rq.Kind.Group(), Resource: rq.Kind.Plural, Subresource: sub, Namespace: m.Namespace, Name: m.Name}
	if rq.Kind == api.KindNamespace {
		out.Namespace = m.Name
	}
	return out
}

// need refuses who lacks a right.
func (a *Admitter) need(rq *registry.AdmissionRequest, right access.Attributes) error {
	ok, err := a.has(rq, right)
	if err == nil && !ok {
		err = access.Forbidden(rq.Actor.User, &right, "")
	}
	return err
}

func (a *Admitter) has(rq *registry.AdmissionRequest, right access.Attributes) (bool, error) {
	d, err := a.cfg.Access.Authorize(rq.Actor.User, &right)
	return d.Allowed, err
}

// onlyCleanup: owners and finalizers may be dropped by whoever may write the object, so that it can go.
func onlyCleanup(old, obj api.Object) bool {
	if old == nil {
		return false
	}
	same := old.DeepCopyObject()
	was, is := same.Meta(), obj.Meta()
	if len(is.OwnerReferences) > len(was.OwnerReferences) || slices.ContainsFunc(is.Finalizers, func(f string) bool { return !slices.Contains(was.Finalizers, f) }) {
		return false
	}
	was.OwnerReferences, was.Finalizers, was.ManagedFields = is.OwnerReferences, is.Finalizers, is.ManagedFields
	equal, err := equalObjects(same, obj)
	return err == nil && equal
}

// mayGiveRules: every right of a role that is written must be held where the role counts, unless its writer has the verb escalate on it.
func (a *Admitter) mayGiveRules(rq *registry.AdmissionRequest, namespace string, rules []api.PolicyRule) error {
	if ok, err := a.has(rq, rightOn(rq, "escalate", "")); ok || err != nil {
		return err
	}
	return a.mustHold(rq, namespace, rules, "holds rights that you do not have")
}

func (a *Admitter) mustHold(rq *registry.AdmissionRequest, namespace string, rules []api.PolicyRule, what string) error {
	missing, err := a.cfg.Access.Covers(rq.Actor.User, namespace, rules)
	if err != nil || len(missing) == 0 {
		return err
	}
	const atMost = 10
	lines := make([]string, 0, atMost+1)
	for i, m := range missing {
		if i == atMost {
			lines = append(lines, fmt.Sprintf("and %d more", len(missing)-atMost))
			break
		}
		lines = append(lines, ruleText(m))
	}
	m := rq.New.Meta()
	resource := rq.Kind.Plural + "." + rq.Kind.Group()
	e := fault.Forbidden.Errorf("%s %q is forbidden: user %q (groups=%q) is attempting to grant RBAC permissions not currently held: it %s: %s",
		resource, m.Name, rq.Actor.User.Name, rq.Actor.User.Groups, what, strings.Join(lines, "; "))
	e.Details = fault.Details{Kind: rq.Kind.Plural, Group: rq.Kind.Group(), Name: m.Name}
	return e
}

// ruleText is a single right, as Kubernetes prints it.
func ruleText(r api.PolicyRule) string {
	if len(r.NonResourceURLs) > 0 {
		return fmt.Sprintf("{NonResourceURLs:%q, Verbs:%q}", r.NonResourceURLs, r.Verbs)
	}
	if len(r.ResourceNames) > 0 {
		return fmt.Sprintf("{APIGroups:%q, Resources:%q, ResourceNames:%q, Verbs:%q}", r.APIGroups, r.Resources, r.ResourceNames, r.Verbs)
	}
	return fmt.Sprintf("{APIGroups:%q, Resources:%q, Verbs:%q}", r.APIGroups, r.Resources, r.Verbs)
}

// mayWriteClusterRole: a role that gathers others can come to hold anything, so whoever makes it gather, or writes one that does, must hold
// everything. The labels by which it gathers are written with a role whose rules are judged as a whole at each write.
func (a *Admitter) mayWriteClusterRole(rq *registry.AdmissionRequest, r *api.ClusterRole) error {
	if err := a.mayGiveRules(rq, "", r.Rules); err != nil {
		return err
	}
	old, _ := rq.Old.(*api.ClusterRole)
	if r.AggregationRule == nil && (old == nil || old.AggregationRule == nil) {
		return nil
	}
	return a.mayGiveRules(rq, "", access.Everything())
}

// mayBind: whoever binds a role must hold its rights where the binding counts, or have the verb bind on the role. The role is the one that the
// write will find, and stays so until it is done.
func (a *Admitter) mayBind(rq *registry.AdmissionRequest, namespace string, ref api.RoleRef) error {
	role := access.Attributes{Verb: "bind", Group: api.RBACGroup, Namespace: namespace, Name: ref.Name}
	var kind *api.Kind
	switch ref.Kind {
	case api.KindClusterRole.Kind:
		kind = api.KindClusterRole
	case api.KindRole.Kind:
		kind = api.KindRole
	default:
		return nil // validation says what is wrong with it
	}
	role.Resource = kind.Plural
	if ok, err := a.has(rq, role); ok || err != nil {
		return err
	}
	what := api.Ref{Kind: kind, Name: ref.Name}
	if kind.Namespaced {
		what.Namespace = namespace
	}
	rules, err := rulesOf(rq, what)
	if err != nil {
		return err
	}
	return a.mustHold(rq, namespace, rules, fmt.Sprintf("binds %s %q, which holds rights that you do not have", ref.Kind, ref.Name))
}

// rulesOf reads a role within the write. One that is not there cannot be judged, so it cannot be bound.
func rulesOf(rq *registry.AdmissionRequest, ref api.Ref) ([]api.PolicyRule, error) {
	if rq.Load == nil {
		return nil, fault.Internal.Errorf("admission cannot read %s", ref)
	}
	obj, err := rq.Load(ref)
	if err != nil {
		return nil, err
	}
	switch r := obj.(type) {
	case *api.Role:
		return r.Rules, nil
	case *api.ClusterRole:
		return r.Rules, nil
	}
	return nil, fault.ObjectNotFound(ref.Kind.Plural+"."+api.RBACGroup, ref.Name)
}

// mayMakeToken: a token by which a hub member joins gives every secret of the hub, so it needs a right of its own, create on
// jointokens/hub, beside that to write tokens.
func (a *Admitter) mayMakeToken(rq *registry.AdmissionRequest, t *api.JoinToken) error {
	if t.Spec.For != api.TokenForHub {
		return nil
	}
	return a.need(rq, rightOn(rq, "create", "hub"))
}
