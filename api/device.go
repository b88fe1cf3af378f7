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
	Taints        []Taint `json:"taints,omitempty"`
}

// Taint keeps copies without a matching toleration away. Effect is NoSchedule.
type Taint struct {
	Key    string `json:"key"`
	Value  string `json:"value,omitempty"`
	Effect string `json:"effect"`
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
	Fingerprint         string `json:"fingerprint,omitempty"` // sha256:HEX of the public key
	Serial              string `json:"serial,omitempty"`      // of the board, a hint only
	CertificateNotAfter Time   `json:"certificateNotAfter,omitzero"`
	Session             int64  `json:"session,omitempty"`  // highest session number seen
	Sequence            int64  `json:"sequence,omitempty"` // highest report sequence of that session that was written
	// JournalAcked is the highest sequence of the device\'s own journal that the hub keeps.
	JournalAcked int64 `json:"journalAcked,omitempty"`
}

// DeviceFacts are what the agent found out about its board.
type DeviceFacts struct {
	Platform     string `json:"platform,omitempty"` // linux/arm64/v8
	Model        string `json:"model,omitempty"`
	Kernel       string `json:"kernel,omitempty"`
	OSImage      string `json:"osImage,omitempty"`
	AgentVersion string `json:"agentVersion,omitempty"`
	Runtime      string `json:"runtime,omitempty"`
	BootID       string `json:"bootID,omitempty"`
	Cgroup       string `json:"cgroup,omitempty"` // v1 or v2
	MemoryCgroup bool   `json:"memoryCgroup,omitempty"`
	Hostname     string `json:"hostname,omitempty"`
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
	Revision string `json:"revision,omitempty"`
	Hash     string `json:"hash,omitempty"`
}

// DeviceClock is the device's clock against the hub's, at the last contact.
type DeviceClock struct {
	Offset  Duration `json:"offset,omitzero"` // device minus hub
	Trusted bool     `json:"trusted,omitempty"`
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
	Device    string `json:"device"`
	UID       string `json:"uid"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Workload  string `json:"workload"`
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
	Device      string            `json:"device"` // the name it wants
	Fingerprint string            `json:"fingerprint"`
	Token       string            `json:"token"` // name of the JoinToken, not its secret
	Labels      map[string]string `json:"labels,omitempty"`
	CSR         []byte            `json:"csr"` // PKCS#10, DER
	Source      string            `json:"source,omitempty"`
	Facts       DeviceFacts       `json:"facts,omitzero"`
	Approved    bool              `json:"approved,omitempty"`
	Denied      bool              `json:"denied,omitempty"`
	// Replace allows the request to take over the name of a device that exists with another key.
	Replace bool `json:"replace,omitempty"`
}

// EnrollmentRequestStatus holds the answer.
type EnrollmentRequestStatus struct {
	Phase       string `json:"phase,omitempty"` // Pending, Approved, Denied, Conflict
	Message     string `json:"message,omitempty"`
	Certificate []byte `json:"certificate,omitempty"` // DER, once signed
}
