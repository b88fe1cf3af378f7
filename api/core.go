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
	Data       map[string]string `json:"data,omitempty"`       // text by key
	BinaryData map[string][]byte `json:"binaryData,omitempty"` // bytes by key, as base64; no key stands in both
	Immutable  *bool             `json:"immutable,omitempty"`  // true: data never changes again
}

// Secret holds secret values, as in Kubernetes. Its values never print; the registry seals them before they are proposed.
type Secret struct {
	TypeMeta   `json:",inline"`
	Metadata   ObjectMeta        `json:"metadata"`
	SecretType string            `json:"type,omitempty"`       // what the secret is for; Opaque by default; never changes
	Data       map[string][]byte `json:"data,omitempty"`       // values by key, as base64
	StringData map[string]string `json:"stringData,omitempty"` // write-only, merged into data
	Immutable  *bool             `json:"immutable,omitempty"`  // true: data never changes again
}

// Event tells of something that happened to an object, as in Kubernetes.
type Event struct {
	TypeMeta       `json:",inline"`
	Metadata       ObjectMeta      `json:"metadata"`
	InvolvedObject ObjectReference `json:"involvedObject"`
	Reason         string          `json:"reason,omitempty"`  // one word for programs
	Message        string          `json:"message,omitempty"` // a sentence for people
	Source         EventSource     `json:"source,omitzero"`
	FirstTimestamp Time            `json:"firstTimestamp,omitzero"` // of the first of those counted
	LastTimestamp  Time            `json:"lastTimestamp,omitzero"`  // of the last of those counted
	Count          int32           `json:"count,omitempty"`         // how often it happened
	EventType      string          `json:"type,omitempty"`          // Normal or Warning
	// EventTime, Series, Action, Related and the reporter are of Kubernetes' newer form of events; its recorders write them.
	EventTime          Time             `json:"eventTime,omitzero"`
	Series             *EventSeries     `json:"series,omitempty"`             // of events that go on
	Action             string           `json:"action,omitempty"`             // what was done or failed
	Related            *ObjectReference `json:"related,omitempty"`            // a second object that took part
	ReportingComponent string           `json:"reportingComponent,omitempty"` // the program that reports
	ReportingInstance  string           `json:"reportingInstance,omitempty"`  // which of its instances
}

// EventSeries counts an event that goes on.
type EventSeries struct {
	Count            int32 `json:"count,omitempty"`           // how often so far
	LastObservedTime Time  `json:"lastObservedTime,omitzero"` // of the last
}

// ObjectReference names an object in an event.
type ObjectReference struct {
	APIVersion      string `json:"apiVersion,omitempty"`      // group and version of the kind
	Kind            string `json:"kind,omitempty"`            // of the object
	Namespace       string `json:"namespace,omitempty"`       // empty for cluster-scoped kinds
	Name            string `json:"name,omitempty"`            // of the object
	UID             string `json:"uid,omitempty"`             // of the object
	ResourceVersion string `json:"resourceVersion,omitempty"` // at which the object was meant
	FieldPath       string `json:"fieldPath,omitempty"`       // the part of the object that is meant
}

// EventSource names who reports an event.
type EventSource struct {
	Component string `json:"component,omitempty"` // the part of the hub or the agent that reports
	Host      string `json:"host,omitempty"`      // where it runs
}
