package api

// Namespace groups objects, as in Kubernetes.
type Namespace struct {
	TypeMeta `json:",inline"`
	Metadata ObjectMeta      `json:"metadata"`
	Spec     NamespaceSpec   `json:"spec,omitzero"`
	Status   NamespaceStatus `json:"status,omitzero"`
}

// NamespaceSpec is empty in Drover; it is there for Kubernetes' tools.
type NamespaceSpec struct{}

// NamespaceStatus has the phase Active or Terminating.
type NamespaceStatus struct {
	Phase string `json:"phase,omitempty"`
}

// ConfigMap holds configuration, as in Kubernetes.
type ConfigMap struct {
	TypeMeta   `json:",inline"`
	Metadata   ObjectMeta        `json:"metadata"`
	Data       map[string]string `json:"data,omitempty"`
	BinaryData map[string][]byte `json:"binaryData,omitempty"`
	Immutable  *bool             `json:"immutable,omitempty"`
}

// Secret holds secret values, as in Kubernetes. Its values never print; the registry seals them before they are proposed.
type Secret struct {
	TypeMeta   `json:",inline"`
	Metadata   ObjectMeta        `json:"metadata"`
	SecretType string            `json:"type,omitempty"`
	Data       map[string][]byte `json:"data,omitempty"`
	StringData map[string]string `json:"stringData,omitempty"` // write-only, merged into data
	Immutable  *bool             `json:"immutable,omitempty"`
}

// Event tells of something that happened to an object, as in Kubernetes.
type Event struct {
	TypeMeta       `json:",inline"`
	Metadata       ObjectMeta      `json:"metadata"`
	InvolvedObject ObjectReference `json:"involvedObject"`
	Reason         string          `json:"reason,omitempty"`
	Message        string          `json:"message,omitempty"`
	Source         EventSource     `json:"source,omitzero"`
	FirstTimestamp Time            `json:"firstTimestamp,omitzero"`
	LastTimestamp  Time            `json:"lastTimestamp,omitzero"`
	Count          int32           `json:"count,omitempty"`
	EventType      string          `json:"type,omitempty"` // Normal or Warning
}

// ObjectReference names an object in an event.
type ObjectReference struct {
	APIVersion      string `json:"apiVersion,omitempty"`
	Kind            string `json:"kind,omitempty"`
	Namespace       string `json:"namespace,omitempty"`
	Name            string `json:"name,omitempty"`
	UID             string `json:"uid,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	FieldPath       string `json:"fieldPath,omitempty"`
}

// EventSource names who reports an event.
type EventSource struct {
	Component string `json:"component,omitempty"`
	Host      string `json:"host,omitempty"`
}
