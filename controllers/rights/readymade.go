package rights

import (
	"github.com/drover-fleet/drover/api"
)

// AutoUpdate is the annotation by which an operator switches the upkeep of a ready-made role off.
const AutoUpdate = "rbac.authorization.kubernetes.io/autoupdate"

const (
	labelBootstrap = "kubernetes.io/bootstrapping"
	bootstrap      = "rbac-defaults"

	groupAdmins        = "drover:admins"
	groupAuthenticated = "system:authenticated"
)

func read() []string  { return []string{"get", "list", "watch"} }
func write() []string { return []string{"create", "update", "patch", "delete", "deletecollection"} }
func both() []string  { return append(read(), write()...) }

func on(group string, verbs []string, resources ...string) api.PolicyRule {
	return api.PolicyRule{Verbs: verbs, APIGroups: []string{group}, Resources: resources}
}

func at(verbs []string, urls ...string) api.PolicyRule {
	return api.PolicyRule{Verbs: verbs, NonResourceURLs: urls}
}

func get() []string { return []string{"get"} }

// Roles are the ready-made ones.
func Roles() []*api.ClusterRole {
	return []*api.ClusterRole{
		role("admin", []api.PolicyRule{
			on("*", []string{"*"}, "*"),
			at([]string{"*"}, "*"),
			on("*", []string{"bind", "escalate", "impersonate"}, "*"),
		}),
		role("operator", operator()),
		role("viewer", viewer()),
		role("installer", []api.PolicyRule{
			on(api.Group, append(read(), "create"), "jointokens"),
			on(api.Group, append(read(), "update", "patch"), "enrollmentrequests"),
			on(api.Group, read(), "devices"),
		}),
		role("system:discovery", []api.PolicyRule{
			at(get(), "/", "/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/readyz", "/openapi", "/openapi/*", "/version", "/version/"),
		}),
		role("system:basic-user", []api.PolicyRule{
			on("authorization.k8s.io", []string{"create"}, "selfsubjectaccessreviews", "selfsubjectrulesreviews"),
			on("authentication.k8s.io", []string{"create"}, "selfsubjectreviews"),
		}),
	}
}

// operator runs a fleet: everything but who may what, who may use which devices, and the hub itself.
func operator() []api.PolicyRule {
	return []api.PolicyRule{
		on("", both(), "namespaces", "configmaps", "secrets", "serviceaccounts", "events"),
		on(api.Group, both(), "workloads", "workloads/scale", "assignments", "rollouts", "devices", "jointokens", "enrollmentrequests"),
		on(api.Group, read(), "workloads/status", "assignments/status", "rollouts/status", "devices/status", "workloadrevisions", "tombstones",
			"devicepools", "resourcequotas", "priorityclasses", "devicepools/status", "resourcequotas/status"),
		on(api.Group, get(), "assignments/log"),
		on(api.Group, []string{"use"}, "priorityclasses"),
		on(api.RBACGroup, read(), "roles", "clusterroles", "rolebindings", "clusterrolebindings"),
		at(get(), "/drover/v1/members", "/drover/v1/hub/status", "/metrics"),
	}
}

// viewer reads everything but secrets and who may what.
func viewer() []api.PolicyRule {
	return []api.PolicyRule{
		on("", read(), "namespaces", "configmaps", "serviceaccounts", "events"),
		on(api.Group, read(), "workloads", "workloads/status", "workloads/scale", "workloadrevisions", "assignments", "assignments/status", "rollouts", "rollouts/status",
			"devices", "devices/status", "jointokens", "enrollmentrequests", "tombstones", "devicepools", "devicepools/status", "resourcequotas",
			"resourcequotas/status", "priorityclasses"),
		on(api.Group, get(), "assignments/log"),
		at(get(), "/drover/v1/members", "/drover/v1/hub/status", "/metrics"),
	}
}

// Bindings are the ready-made ones. That of the admins' group is for people to read: its members may everything anyway.
func Bindings() []*api.ClusterRoleBinding {
	return []*api.ClusterRoleBinding{
		bindingTo("admin", groupAdmins),
		bindingTo("system:discovery", groupAuthenticated),
		bindingTo("system:basic-user", groupAuthenticated),
	}
}

func meta(name string) api.ObjectMeta {
	return api.ObjectMeta{Name: name, Labels: map[string]string{labelBootstrap: bootstrap}, Annotations: map[string]string{AutoUpdate: "true"}}
}

func role(name string, rules []api.PolicyRule) *api.ClusterRole {
	return &api.ClusterRole{Metadata: meta(name), Rules: rules}
}

func bindingTo(name, group string) *api.ClusterRoleBinding {
	return &api.ClusterRoleBinding{
		Metadata: meta(name), RoleRef: api.RoleRef{APIGroup: api.RBACGroup, Kind: api.KindClusterRole.Kind, Name: name},
		Subjects: []api.Subject{{Kind: api.SubjectGroup, APIGroup: api.RBACGroup, Name: group}},
	}
}
