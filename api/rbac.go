package api

// PolicyRule allows verbs on resources, or on paths that are no resources, as in Kubernetes. "*" stands for all of a list, save for the
// verbs bind, escalate and impersonate, which a rule must name.
type PolicyRule struct {
	Verbs           []string `json:"verbs"`                     // get, list, watch, create, update, patch, delete, deletecollection, or *
	APIGroups       []string `json:"apiGroups,omitempty"`       // "" is the core group
	Resources       []string `json:"resources,omitempty"`       // workloads, workloads/status, */scale, *
	ResourceNames   []string `json:"resourceNames,omitempty"`   // empty: every name
	NonResourceURLs []string `json:"nonResourceURLs,omitempty"` // /metrics, /drover/v1/*; only in a ClusterRole
}

// Role is a set of rights within its namespace.
type Role struct {
	TypeMeta `json:",inline"`
	Metadata ObjectMeta   `json:"metadata"`
	Rules    []PolicyRule `json:"rules"` // what the role allows
}

// ClusterRole is a set of rights that a ClusterRoleBinding gives everywhere and a RoleBinding within its namespace.
type ClusterRole struct {
	TypeMeta        `json:",inline"`
	Metadata        ObjectMeta       `json:"metadata"`
	Rules           []PolicyRule     `json:"rules"`                     // what the role allows
	AggregationRule *AggregationRule `json:"aggregationRule,omitempty"` // the hub fills the rules in
}

// AggregationRule gathers the rules of every ClusterRole that one of the selectors matches.
type AggregationRule struct {
	ClusterRoleSelectors []LabelSelector `json:"clusterRoleSelectors,omitempty"` // over labels of ClusterRoles
}

// RoleRef names the role that a binding gives; it never changes.
type RoleRef struct {
	APIGroup string `json:"apiGroup"` // rbac.authorization.k8s.io
	Kind     string `json:"kind"`     // Role or ClusterRole
	Name     string `json:"name"`     // of the role
}

// Subject is whom a binding gives a role: a User, a Group or a ServiceAccount.
type Subject struct {
	Kind      string `json:"kind"`                // User, Group or ServiceAccount
	APIGroup  string `json:"apiGroup,omitempty"`  // rbac.authorization.k8s.io for User and Group, "" for ServiceAccount
	Name      string `json:"name"`                // of the subject
	Namespace string `json:"namespace,omitempty"` // of a ServiceAccount
}

// RoleBinding gives a Role or ClusterRole to subjects within its namespace.
type RoleBinding struct {
	TypeMeta `json:",inline"`
	Metadata ObjectMeta `json:"metadata"`
	Subjects []Subject  `json:"subjects,omitempty"` // who gets the role
	RoleRef  RoleRef    `json:"roleRef"`
}

// ClusterRoleBinding gives a ClusterRole to subjects everywhere.
type ClusterRoleBinding struct {
	TypeMeta `json:",inline"`
	Metadata ObjectMeta `json:"metadata"`
	Subjects []Subject  `json:"subjects,omitempty"` // who gets the role
	RoleRef  RoleRef    `json:"roleRef"`
}

// ServiceAccount is an identity for programs, as in Kubernetes. Its tokens are made on request and live for a short time.
type ServiceAccount struct {
	TypeMeta `json:",inline"`
	Metadata ObjectMeta `json:"metadata"`
}
