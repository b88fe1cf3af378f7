package api

// Device is one board with one identity key. Cluster-scoped; the name is what people call the board.
type Device struct {
	TypeMeta `json:",inline"`
	Metadata ObjectMeta   `json:"metadata"`
	Spec     DeviceSpec   `json:"spec,omitzero"`
	Status   DeviceStatus `json:"status,omitzero"`
}

// DeviceSpec is the operator's.
type DeviceSpec struct {
	Unschedulable bool    `json:"unschedulable,omitempty"` // cordon
	Taints        []Taint `json:"taints,omitempty"`        // keep copies without a matching toleration away
}

// Taint keeps copies without a matching toleration away. Effect is NoSchedule.
type Taint struct {
	Key    string `json:"key"`             // name of the taint
	Value  string `json:"value,omitempty"` // what a toleration must equal
	Effect string `json:"effect"`          // NoSchedule
}

// DeviceStatus is the gateway's, on behalf of the device, save the condition Connected, which is the presence controller's.
type DeviceStatus struct {
	Identity    DeviceIdentity `json:"identity,omitzero"`
	Facts       DeviceFacts    `json:"facts,omitzero"`
	Capacity    ResourceList   `json:"capacity,omitempty"`
	Allocatable ResourceList   `json:"allocatable,omitempty"`
	Bundle      DeviceBundle   `json:"bundle,omitzero"`
	Clock       DeviceClock    `json:"clock,omitzero"`
	Conditions  []Condition    `json:"conditions,omitempty"` // Ready, Connected, RuntimeUnavailable, LimitsNotEnforced, ...
	// LastContact is computed when read, from what the hub members know in memory; never stored.
	LastContact Time `json:"lastContact,omitzero"`
}

// DeviceIdentity is the identity the hub signed.
type DeviceIdentity struct {
	Fingerprint         string `json:"fingerprint,omitempty"`        // sha256:HEX of the public key
	Serial              string `json:"serial,omitempty"`             // of the board, a hint only
	CertificateNotAfter Time   `json:"certificateNotAfter,omitzero"` // when the present certificate ends
	Session             int64  `json:"session,omitempty"`            // highest session number seen
	Sequence            int64  `json:"sequence,omitempty"`           // highest report sequence of that session that was written
	// JournalAcked is the highest sequence of the device\'s own journal that the hub keeps.
	JournalAcked int64 `json:"journalAcked,omitempty"`
}

// DeviceFacts are what the agent found out about its board.
type DeviceFacts struct {
	Platform     string `json:"platform,omitempty"`     // linux/arm64/v8
	Model        string `json:"model,omitempty"`        // of the board
	Kernel       string `json:"kernel,omitempty"`       // release of the kernel
	OSImage      string `json:"osImage,omitempty"`      // name of the operating system
	AgentVersion string `json:"agentVersion,omitempty"` // of drover-agent
	Runtime      string `json:"runtime,omitempty"`      // name and version of the container runtime
	BootID       string `json:"bootID,omitempty"`       // of the present boot
	Cgroup       string `json:"cgroup,omitempty"`       // v1 or v2
	MemoryCgroup bool   `json:"memoryCgroup,omitempty"` // whether limits on memory can be enforced
	Hostname     string `json:"hostname,omitempty"`     // as the device names itself
}

// DeviceBundle compares what the device should hold, holds, and runs.
type DeviceBundle struct {
	Desired BundleRef `json:"desired,omitzero"`
	Held    BundleRef `json:"held,omitzero"`
	// Inputs are, by plural of the kind, the newest revision that went into Desired. A hub member whose own view of any of these kinds
	// is older may not say what the device should run.
	Inputs map[string]string `json:"inputs,omitempty"`
}

// BundleRef names a bundle: the store revision at which its content last changed, and its content hash.
type BundleRef struct {
	Revision string `json:"revision,omitempty"` // store revision at which the content last changed
	Hash     string `json:"hash,omitempty"`     // of the content
}

// DeviceClock is the device's clock against the hub's, at the last contact.
type DeviceClock struct {
	Offset  Duration `json:"offset,omitzero"`   // device minus hub
	Trusted bool     `json:"trusted,omitempty"` // whether the device has verified its time
}

// Tombstone orders a device to stop an assignment that was deleted or moved away while the device may still hold it. The
// registry writes it in the same command as that deletion or move; it goes when the device reports that neither its current
// nor its kept copy holds the assignment, or when the device itself is deleted. Cluster-scoped; named DEVICE.UID.
type Tombstone struct {
	TypeMeta `json:",inline"`
	Metadata ObjectMeta    `json:"metadata"`
	Spec     TombstoneSpec `json:"spec"`
}

// TombstoneSpec names what is to stop, where.
type TombstoneSpec struct {
	Device    string `json:"device"`    // that may still hold the assignment
	UID       string `json:"uid"`       // of the assignment
	Namespace string `json:"namespace"` // of the assignment
	Name      string `json:"name"`      // of the assignment
	Workload  string `json:"workload"`  // of the assignment
}

// JoinToken lets devices (or hub members) enroll. The secret itself is printed once at creation and never stored.
type JoinToken struct {
	TypeMeta `json:",inline"`
	Metadata ObjectMeta      `json:"metadata"`
	Spec     JoinTokenSpec   `json:"spec"`
	Status   JoinTokenStatus `json:"status,omitzero"`
}

// JoinTokenSpec says what the token is good for.
type JoinTokenSpec struct {
	// For is device (default) or hub.
	For     string            `json:"for,omitempty"`
	Uses    int32             `json:"uses,omitempty"`    // 1 to 100,000; default 1
	Expires Time              `json:"expires,omitzero"`  // default 24 h after creation
	Labels  map[string]string `json:"labels,omitempty"`  // given to each device that joins by it
	Approve bool              `json:"approve,omitempty"` // true: a person must approve each request
	// SecretHash is sha256:HEX of the secret.
	SecretHash string `json:"secretHash,omitempty"`
}

// JoinTokenStatus counts uses.
type JoinTokenStatus struct {
	Used int32 `json:"used,omitempty"`
}

// EnrollmentRequest is a device that knocks. Its name is derived from the key's fingerprint, so that a retry finds it.
type EnrollmentRequest struct {
	TypeMeta `json:",inline"`
	Metadata ObjectMeta              `json:"metadata"`
	Spec     EnrollmentRequestSpec   `json:"spec"`
	Status   EnrollmentRequestStatus `json:"status,omitzero"`
}

// EnrollmentRequestSpec is what the device asked with; Approved and Denied are the operator's.
type EnrollmentRequestSpec struct {
	Device      string            `json:"device"`             // the name it wants
	Fingerprint string            `json:"fingerprint"`        // sha256:HEX of the device's public key
	Token       string            `json:"token"`              // name of the JoinToken, not its secret
	Labels      map[string]string `json:"labels,omitempty"`   // that the device gets from its token
	CSR         []byte            `json:"csr"`                // PKCS#10, DER
	Source      string            `json:"source,omitempty"`   // address that the request came from
	Facts       DeviceFacts       `json:"facts,omitzero"`     // of the board
	Approved    bool              `json:"approved,omitempty"` // set by a person: let the device in
	Denied      bool              `json:"denied,omitempty"`   // set by a person: refuse it
	// Replace allows the request to take over the name of a device that exists with another key.
	Replace bool `json:"replace,omitempty"`
}

// EnrollmentRequestStatus holds the answer.
type EnrollmentRequestStatus struct {
	Phase       string `json:"phase,omitempty"` // Pending, Approved, Denied, Conflict
	Message     string `json:"message,omitempty"`
	Certificate []byte `json:"certificate,omitempty"` // DER, once signed
}
