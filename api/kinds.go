package api

import (
	"slices"
	"strings"
)

// Kind describes one kind of object: its names and paths.
type Kind struct {
	APIVersion string // FleetV1, CoreV1 or RBACV1
	Kind       string // Workload
	Plural     string // workloads: the path element and the store's key prefix
	Singular   string
	ShortNames []string
	Namespaced bool
	HasStatus  bool // has a /status subresource, and user writes to the main path leave status alone
	// HasGeneration: metadata.generation counts changes of spec.
	HasGeneration bool
	New           func() Object
}

// The kinds of this release, written out.
var (
	KindWorkload          = &Kind{FleetV1, "Workload", "workloads", "workload", []string{"wl"}, true, true, true, func() Object { return new(Workload) }}
	KindWorkloadRevision  = &Kind{FleetV1, "WorkloadRevision", "workloadrevisions", "workloadrevision", []string{"wr"}, true, false, false, func() Object { return new(WorkloadRevision) }}
	KindAssignment        = &Kind{FleetV1, "Assignment", "assignments", "assignment", []string{"as"}, true, true, true, func() Object { return new(Assignment) }}
	KindRollout           = &Kind{FleetV1, "Rollout", "rollouts", "rollout", []string{"ro"}, true, true, true, func() Object { return new(Rollout) }}
	KindDevice            = &Kind{FleetV1, "Device", "devices", "device", []string{"dev"}, false, true, true, func() Object { return new(Device) }}
	KindJoinToken         = &Kind{FleetV1, "JoinToken", "jointokens", "jointoken", []string{"jt"}, false, true, true, func() Object { return new(JoinToken) }}
	KindEnrollmentRequest = &Kind{FleetV1, "EnrollmentRequest", "enrollmentrequests", "enrollmentrequest", []string{"er"}, false, true, true, func() Object { return new(EnrollmentRequest) }}
	KindTombstone         = &Kind{FleetV1, "Tombstone", "tombstones", "tombstone", []string{"ts"}, false, false, false, func() Object { return new(Tombstone) }}
	KindDevicePool        = &Kind{FleetV1, "DevicePool", "devicepools", "devicepool", []string{"dp"}, false, true, true, func() Object { return new(DevicePool) }}
	KindResourceQuota     = &Kind{FleetV1, "ResourceQuota", "resourcequotas", "resourcequota", []string{"quota"}, true, true, true, func() Object { return new(ResourceQuota) }}
	KindPriorityClass     = &Kind{FleetV1, "PriorityClass", "priorityclasses", "priorityclass", []string{"pc"}, false, false, false, func() Object { return new(PriorityClass) }}
	KindNamespace         = &Kind{CoreV1, "Namespace", "namespaces", "namespace", []string{"ns"}, false, true, false, func() Object { return new(Namespace) }}
	KindConfigMap         = &Kind{CoreV1, "ConfigMap", "configmaps", "configmap", []string{"cm"}, true, false, false, func() Object { return new(ConfigMap) }}
	KindSecret            = &Kind{CoreV1, "Secret", "secrets", "secret", nil, true, false, false, func() Object { return new(Secret) }}
	KindEvent             = &Kind{CoreV1, "Event", "events", "event", []string{"ev"}, true, false, false, func() Object { return new(Event) }}
	KindServiceAccount    = &Kind{CoreV1, "ServiceAccount", "serviceaccounts", "serviceaccount", []string{"sa"}, true, false, false, func() Object { return new(ServiceAccount) }}

	KindRole               = &Kind{RBACV1, "Role", "roles", "role", nil, true, false, false, func() Object { return new(Role) }}
	KindClusterRole        = &Kind{RBACV1, "ClusterRole", "clusterroles", "clusterrole", nil, false, false, false, func() Object { return new(ClusterRole) }}
	KindRoleBinding        = &Kind{RBACV1, "RoleBinding", "rolebindings", "rolebinding", nil, true, false, false, func() Object { return new(RoleBinding) }}
	KindClusterRoleBinding = &Kind{RBACV1, "ClusterRoleBinding", "clusterrolebindings", "clusterrolebinding", nil, false, false, false, func() Object { return new(ClusterRoleBinding) }}
)

// Kinds lists every kind in the order in which discovery shows them.
func Kinds() []*Kind {
	return []*Kind{
		KindNamespace, KindConfigMap, KindSecret, KindServiceAccount, KindEvent,
		KindWorkload, KindWorkloadRevision, KindAssignment, KindRollout, KindDevice, KindJoinToken, KindEnrollmentRequest, KindTombstone,
		KindDevicePool, KindResourceQuota, KindPriorityClass,
		KindRole, KindClusterRole, KindRoleBinding, KindClusterRoleBinding,
	}
}

// KindOf finds a kind by apiVersion and kind.
func KindOf(apiVersion, kind string) (*Kind, bool) {
	for _, k := range Kinds() {
		if k.APIVersion == apiVersion && k.Kind == kind {
			return k, true
		}
	}
	return nil, false
}

// KindFor finds the kind of an object by its Go type.
func KindFor(o Object) (*Kind, bool) {
	switch o.(type) {
	case *Workload:
		return KindWorkload, true
	case *WorkloadRevision:
		return KindWorkloadRevision, true
	case *Assignment:
		return KindAssignment, true
	case *Rollout:
		return KindRollout, true
	case *Device:
		return KindDevice, true
	case *JoinToken:
		return KindJoinToken, true
	case *EnrollmentRequest:
		return KindEnrollmentRequest, true
	case *Tombstone:
		return KindTombstone, true
	case *Namespace:
		return KindNamespace, true
	case *ConfigMap:
		return KindConfigMap, true
	case *Secret:
		return KindSecret, true
	case *Event:
		return KindEvent, true
	case *ServiceAccount:
		return KindServiceAccount, true
	case *DevicePool:
		return KindDevicePool, true
	case *ResourceQuota:
		return KindResourceQuota, true
	case *PriorityClass:
		return KindPriorityClass, true
	case *Role:
		return KindRole, true
	case *ClusterRole:
		return KindClusterRole, true
	case *RoleBinding:
		return KindRoleBinding, true
	case *ClusterRoleBinding:
		return KindClusterRoleBinding, true
	}
	return nil, false
}

// KindByName finds a kind as people name it: plural, singular, kind or short name, with any letter case, optionally followed by
// ".GROUP" (".fleet.drover.dev").
func KindByName(name string) (*Kind, bool) {
	name, group, qualified := strings.Cut(strings.ToLower(name), ".")
	for _, k := range Kinds() {
		if qualified && k.Group() != group {
			continue
		}
		if name == k.Plural || name == k.Singular || name == strings.ToLower(k.Kind) || slices.Contains(k.ShortNames, name) {
			return k, true
		}
	}
	return nil, false
}

// Group is the API group: "" for core kinds.
func (k *Kind) Group() string {
	group, _, ok := strings.Cut(k.APIVersion, "/")
	if !ok {
		return ""
	}
	return group
}

// String is the kind's name.
func (k *Kind) String() string { return k.Kind }

// RefOf names the object; a namespaced kind without a namespace is in the default one.
func RefOf(o Object) (Ref, bool) {
	k, ok := KindFor(o)
	if !ok {
		return Ref{}, false
	}
	r := Ref{Kind: k, Name: o.Meta().Name}
	if k.Namespaced {
		if r.Namespace = o.Meta().Namespace; r.Namespace == "" {
			r.Namespace = DefaultNS
		}
	}
	return r, true
}

// String is kind/name, or kind/namespace/name.
func (r Ref) String() string {
	name := r.Name
	if r.Namespace != "" {
		name = r.Namespace + "/" + name
	}
	if r.Kind == nil {
		return name
	}
	return r.Kind.Singular + "/" + name
}
