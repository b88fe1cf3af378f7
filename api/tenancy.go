package api

// DevicePool says which namespaces may place workloads on the devices that it selects, and with which privileges. A device that no
// pool selects is open to every namespace, with no privilege beyond the default. Cluster-scoped.
type DevicePool struct {
	TypeMeta `json:",inline"`
	Metadata ObjectMeta       `json:"metadata"`
	Spec     DevicePoolSpec   `json:"spec"`
	Status   DevicePoolStatus `json:"status,omitzero"`
}

// DevicePoolSpec is the operator's.
type DevicePoolSpec struct {
	Selector   *LabelSelector `json:"selector,omitempty"` // over Device labels; empty selects nothing
	All        bool           `json:"all,omitempty"`      // every device; excludes Selector
	Namespaces []string       `json:"namespaces"`         // that may use the devices
	Allow      Privileges     `json:"allow,omitzero"`
	Weight     int32          `json:"weight,omitempty"` // of the pools that select a device the heaviest counts; of equals the first by name
}

// Privileges are what a workload may do on a device beyond the default.
type Privileges struct {
	HostNetwork *bool    `json:"hostNetwork,omitempty"`
	HostPorts   []int32  `json:"hostPorts,omitempty"`
	HostPaths   []string `json:"hostPaths,omitempty"` // a path and what lies below it
	Devices     []string `json:"devices,omitempty"`   // device files, as globs: /dev/video*
	Privileged  bool     `json:"privileged,omitempty"`
}

// DevicePoolStatus is the pool controller's.
type DevicePoolStatus struct {
	ObservedGeneration int64       `json:"observedGeneration,omitempty"`
	Devices            int32       `json:"devices,omitempty"` // for which this pool counts
	Conditions         []Condition `json:"conditions,omitempty"`
}

// ResourceQuota bounds what a namespace may hold, counted exactly in the write that adds.
type ResourceQuota struct {
	TypeMeta `json:",inline"`
	Metadata ObjectMeta          `json:"metadata"`
	Spec     ResourceQuotaSpec   `json:"spec"`
	Status   ResourceQuotaStatus `json:"status,omitzero"`
}

// ResourceQuotaSpec gives the limits by name: count/PLURAL[.GROUP], configmaps, secrets, requests.cpu, limits.memory and so on.
type ResourceQuotaSpec struct {
	Hard ResourceList `json:"hard,omitempty"`
}

// ResourceQuotaStatus is the limits with what is used of them, at the revision of the last change.
type ResourceQuotaStatus struct {
	Hard ResourceList `json:"hard,omitempty"`
	Used ResourceList `json:"used,omitempty"`
}

// PriorityClass names how important copies are against others, as in Kubernetes. Cluster-scoped.
type PriorityClass struct {
	TypeMeta      `json:",inline"`
	Metadata      ObjectMeta `json:"metadata"`
	Value         int32      `json:"value"`                   // the greater goes first; -1,000,000,000 to 1,000,000,000
	GlobalDefault bool       `json:"globalDefault,omitempty"` // of workloads that name no class; at most one class
	Description   string     `json:"description,omitempty"`
}
