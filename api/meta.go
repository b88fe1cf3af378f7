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
	APIVersion string `json:"apiVersion,omitempty"` // group and version of the kind, as fleet.drover.dev/v1 or v1
	Kind       string `json:"kind,omitempty"`       // what the object is, as Workload
}

// ObjectMeta is Kubernetes' metadata. Times are RFC 3339 in UTC with second resolution.
type ObjectMeta struct {
	Name                       string               `json:"name,omitempty"`                       // unique in the namespace for its kind; never changes
	GenerateName               string               `json:"generateName,omitempty"`               // beginning of a name that the hub completes, where name is empty
	Namespace                  string               `json:"namespace,omitempty"`                  // empty for cluster-scoped kinds
	UID                        string               `json:"uid,omitempty"`                        // made by the hub; tells two lives of one name apart
	ResourceVersion            string               `json:"resourceVersion,omitempty"`            // the hub's revision at the last change; the precondition of an update that carries it
	Generation                 int64                `json:"generation,omitempty"`                 // counts changes of the spec
	CreationTimestamp          Time                 `json:"creationTimestamp,omitzero"`           // by the hub's clock
	DeletionTimestamp          *Time                `json:"deletionTimestamp,omitempty"`          // when deletion was asked for; set while finalizers hold the object
	DeletionGracePeriodSeconds *int64               `json:"deletionGracePeriodSeconds,omitempty"` // always 0: the grace period of a workload rules on the device
	Labels                     map[string]string    `json:"labels,omitempty"`                     // what selectors select by
	Annotations                map[string]string    `json:"annotations,omitempty"`                // what tools and people keep with the object; nothing selects by them
	OwnerReferences            []OwnerReference     `json:"ownerReferences,omitempty"`            // objects whose deletion deletes this one
	Finalizers                 []string             `json:"finalizers,omitempty"`                 // who must act before the object goes; each removes its own
	ManagedFields              []ManagedFieldsEntry `json:"managedFields,omitempty"`              // which manager set which fields; kept by the hub
}

// OwnerReference names the object whose deletion deletes this one.
type OwnerReference struct {
	APIVersion         string `json:"apiVersion"`                   // of the owner
	Kind               string `json:"kind"`                         // of the owner
	Name               string `json:"name"`                         // of the owner, in the same namespace or cluster-scoped
	UID                string `json:"uid"`                          // of the owner: one of the same name made later owns nothing
	Controller         *bool  `json:"controller,omitempty"`         // true: the owner manages this object; at most one does
	BlockOwnerDeletion *bool  `json:"blockOwnerDeletion,omitempty"` // true: a deletion in the foreground waits for this object
}

// ManagedFieldsEntry records which fields one manager set, as Kubernetes' server-side apply writes it.
type ManagedFieldsEntry struct {
	Manager     string  `json:"manager,omitempty"`     // who set the fields
	Operation   string  `json:"operation,omitempty"`   // Apply or Update
	APIVersion  string  `json:"apiVersion,omitempty"`  // in which the fields are named
	Time        *Time   `json:"time,omitempty"`        // of the last change of the set
	FieldsType  string  `json:"fieldsType,omitempty"`  // FieldsV1
	FieldsV1    RawJSON `json:"fieldsV1,omitempty"`    // the set of fields, as a tree of names
	Subresource string  `json:"subresource,omitempty"` // through which they were set: status or scale; empty for the object itself
}

// Condition is one observed aspect of an object, as Kubernetes writes it. Status is "True", "False" or "Unknown".
type Condition struct {
	Type               string `json:"type"`                         // what is observed, as Available
	Status             string `json:"status"`                       // True, False or Unknown
	ObservedGeneration int64  `json:"observedGeneration,omitempty"` // of the spec that was looked at
	LastTransitionTime Time   `json:"lastTransitionTime,omitzero"`  // when status last changed
	Reason             string `json:"reason,omitempty"`             // one word for programs
	Message            string `json:"message,omitempty"`            // a sentence for people
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
