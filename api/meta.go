package api

// Group and version of Drover's own objects, and of the core objects it shares with Kubernetes.
const (
	Group       = "fleet.drover.dev"
	Version     = "v1"
	FleetV1     = Group + "/" + Version
	CoreV1      = "v1"
	RBACGroup   = "rbac.authorization.k8s.io"
	RBACV1      = RBACGroup + "/v1"
	MetaV1      = "meta.k8s.io/v1"
	DefaultNS   = "default"
	LabelPrefix = Group + "/"
)

// Well-known labels and annotations. LabelArch is set by the hub from a device's facts.
const (
	LabelArch     = LabelPrefix + "arch"
	LabelHostname = LabelPrefix + "hostname"
	LabelWorkload = LabelPrefix + "workload"
	LabelDevice   = LabelPrefix + "device"
	LabelRevision = LabelPrefix + "revision"
)

// TypeMeta names the kind of an object, as Kubernetes does.
type TypeMeta struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
}

// ObjectMeta is Kubernetes' metadata. Times are RFC 3339 in UTC with second resolution.
type ObjectMeta struct {
	Name                       string               `json:"name,omitempty"`
	GenerateName               string               `json:"generateName,omitempty"`
	Namespace                  string               `json:"namespace,omitempty"`
	UID                        string               `json:"uid,omitempty"`
	ResourceVersion            string               `json:"resourceVersion,omitempty"`
	Generation                 int64                `json:"generation,omitempty"`
	CreationTimestamp          Time                 `json:"creationTimestamp,omitzero"`
	DeletionTimestamp          *Time                `json:"deletionTimestamp,omitempty"`
	DeletionGracePeriodSeconds *int64               `json:"deletionGracePeriodSeconds,omitempty"`
	Labels                     map[string]string    `json:"labels,omitempty"`
	Annotations                map[string]string    `json:"annotations,omitempty"`
	OwnerReferences            []OwnerReference     `json:"ownerReferences,omitempty"`
	Finalizers                 []string             `json:"finalizers,omitempty"`
	ManagedFields              []ManagedFieldsEntry `json:"managedFields,omitempty"`
}

// OwnerReference names the object whose deletion deletes this one.
type OwnerReference struct {
	APIVersion         string `json:"apiVersion"`
	Kind               string `json:"kind"`
	Name               string `json:"name"`
	UID                string `json:"uid"`
	Controller         *bool  `json:"controller,omitempty"`
	BlockOwnerDeletion *bool  `json:"blockOwnerDeletion,omitempty"`
}

// ManagedFieldsEntry records which fields one manager set, as Kubernetes' server-side apply writes it.
type ManagedFieldsEntry struct {
	Manager     string  `json:"manager,omitempty"`
	Operation   string  `json:"operation,omitempty"` // Apply or Update
	APIVersion  string  `json:"apiVersion,omitempty"`
	Time        *Time   `json:"time,omitempty"`
	FieldsType  string  `json:"fieldsType,omitempty"` // FieldsV1
	FieldsV1    RawJSON `json:"fieldsV1,omitempty"`
	Subresource string  `json:"subresource,omitempty"`
}

// Condition is one observed aspect of an object, as Kubernetes writes it. Status is "True", "False" or "Unknown".
type Condition struct {
	Type               string `json:"type"`
	Status             string `json:"status"`
	ObservedGeneration int64  `json:"observedGeneration,omitempty"`
	LastTransitionTime Time   `json:"lastTransitionTime,omitzero"`
	Reason             string `json:"reason,omitempty"`
	Message            string `json:"message,omitempty"`
}

// The three values of Condition.Status.
const (
	True    = "True"
	False   = "False"
	Unknown = "Unknown"
)

// Object is any object of the API.
type Object interface {
	// Meta returns the metadata itself, not a copy.
	Meta() *ObjectMeta
	// TypeMeta returns apiVersion and kind themselves, not a copy.
	Type() *TypeMeta
	// DeepCopyObject returns a copy that shares nothing with the original.
	DeepCopyObject() Object
}

// Ref names one object: Kind is the entry of [Kinds], Namespace is empty for cluster-scoped kinds.
type Ref struct {
	Kind      *Kind
	Namespace string
	Name      string
}
