package wire

import "github.com/drover-fleet/drover/api/grant"

// Capability numbers the protocol's features. A device says what it speaks in Hello; a hub withholds what is beyond it.
//
//	1  2026-11-30  Hello, Desired with index, tombstones and what the device's pool allows, bodies by hash (containers with host
//	               ports, device files and privilege), Report, Command, log streams, sealed secrets, tokens of service accounts
type Capability uint32

// CapabilityNow is what this build speaks.
const CapabilityNow Capability = 1

// Size limits in bytes, checked before allocation.
const (
	MaxHello   = 64 << 10
	MaxDesired = 1 << 20
	MaxBody    = 1 << 20
	MaxBodies  = 4 << 20 // a device's bundle
	MaxReport  = 1 << 20
	MaxCommand = 16 << 10
	MaxEnroll  = 64 << 10

	MaxTokenRequest = 4 << 10
	MaxTokenReply   = 32 << 10
)

// Position orders what hubs say: a higher epoch, or the same epoch and a higher revision, is newer. Revision is the full
// store revision (epoch included); Epoch and EpochID name the history it belongs to.
type Position struct {
	ClusterID string `cbor:"1,keyasint"`
	Epoch     uint32 `cbor:"2,keyasint"`
	EpochID   string `cbor:"3,keyasint"`
	Revision  uint64 `cbor:"4,keyasint"`
}

// Hello opens a session. The device reports first, the hub decides after.
type Hello struct {
	Capability   Capability `cbor:"1,keyasint"`
	AgentVersion string     `cbor:"2,keyasint"`
	BootID       string     `cbor:"3,keyasint"`
	Session      uint64     `cbor:"4,keyasint"` // grows with each start of the agent, kept on the device
	Held         Position   `cbor:"5,keyasint"` // zero when it holds nothing
	BundleHash   Hash       `cbor:"6,keyasint,omitempty"`
	Facts        Facts      `cbor:"7,keyasint"`
	WallTime     int64      `cbor:"8,keyasint"` // device's clock, Unix nanoseconds; a label
}

// HelloReply sets the pace of the link.
type HelloReply struct {
	Capability  Capability `cbor:"1,keyasint"`
	PollSeconds uint32     `cbor:"2,keyasint"`           // how long the hub holds a poll
	WallTime    int64      `cbor:"3,keyasint"`           // hub's clock, a hint
	Endpoints   []string   `cbor:"4,keyasint,omitempty"` // every hub member's URL
	Acked       uint64     `cbor:"5,keyasint"`           // highest journal sequence that the hub keeps
	// Session is the highest session number that the hub knows of the device. Above that of the Hello it means: no session was
	// opened, number anew above this one (the device lost its count, or another holder of the same key is at work).
	Session uint64 `cbor:"6,keyasint,omitempty"`
}

// Hash is a SHA-256, 32 bytes.
type Hash []byte

// Poll asks for what is newer than Held. It is also the heartbeat.
type Poll struct {
	Session    uint64   `cbor:"1,keyasint"`
	Held       Position `cbor:"2,keyasint"`
	BundleHash Hash     `cbor:"3,keyasint,omitempty"`
}

// PollReply carries a signed Desired when it differs from what the device holds, and commands. Both absent: nothing new.
type PollReply struct {
	Desired  *Signed  `cbor:"1,keyasint,omitempty"` // of a Desired
	Commands []Signed `cbor:"2,keyasint,omitempty"` // each of a Command
}

// Desired is everything that one device should run, as an index; bodies are fetched by hash.
type Desired struct {
	Position    Position    `cbor:"1,keyasint"`
	Device      string      `cbor:"2,keyasint"`           // name; a device refuses another's
	Assignments []Entry     `cbor:"3,keyasint,omitempty"` // ordered by UID
	Tombstones  []Tombstone `cbor:"4,keyasint,omitempty"` // ordered by UID
	BundleHash  Hash        `cbor:"5,keyasint"`           // as ComputeBundleHash has it
	// Grant is what the device's pool allows. Absent: no pool counts for it. A device starts nothing that exceeds it.
	Grant *grant.Grant `cbor:"6,keyasint,omitempty"`
}

// Allowed is the grant under which the device works.
func (d *Desired) Allowed() grant.Grant {
	if d.Grant == nil {
		return grant.Grant{}
	}
	return *d.Grant
}

// Entry is one assignment of the index.
type Entry struct {
	UID      string `cbor:"1,keyasint"`
	SpecHash Hash   `cbor:"2,keyasint"` // of the encoded Assignment
	// Secrets are the bodies that the assignment needs besides its own, by hash of their sealed form's identity.
	Secrets []SecretRef `cbor:"3,keyasint,omitempty"`
}

// Tombstone orders the removal of an assignment. Only a tombstone removes.
type Tombstone struct {
	UID      string `cbor:"1,keyasint"`
	Name     string `cbor:"2,keyasint"` // namespace/name, for people
	Revision uint64 `cbor:"3,keyasint"`
}

// SecretRef names one version of one secret key. ID is a keyed hash of the value made by the hub: it changes with the value
// and tells nothing about it.
type SecretRef struct {
	Name string `cbor:"1,keyasint"` // namespace/secret/key
	ID   Hash   `cbor:"2,keyasint"`
}

// Assignment is the body of one copy: everything the device needs to run it, resolved at the hub.
type Assignment struct {
	UID        string      `cbor:"1,keyasint"`
	Namespace  string      `cbor:"2,keyasint"`
	Name       string      `cbor:"3,keyasint"`
	Workload   string      `cbor:"4,keyasint"`
	Revision   string      `cbor:"5,keyasint"` // name of the WorkloadRevision
	Containers []Container `cbor:"6,keyasint"`
	Volumes    []Volume    `cbor:"7,keyasint,omitempty"`
	Restart    Restart     `cbor:"8,keyasint"`
	GraceSecs  uint32      `cbor:"9,keyasint"`
	// CauseRev is the revision that last changed what stands here, for the journal. It is part of the hash, so it must change only
	// together with something else.
	CauseRev uint64 `cbor:"10,keyasint,omitempty"`
	// Account names the service account whose tokens volumes hold; "" where none does.
	Account string `cbor:"11,keyasint,omitempty"`
}

// Restart says what to do when a container ends.
type Restart uint8

// The restart policies.
const (
	RestartAlways    Restart = 0
	RestartOnFailure Restart = 1
	RestartNever     Restart = 2
)

// Container is one container, with every value resolved save secrets.
type Container struct {
	Name       string   `cbor:"1,keyasint"`
	Image      string   `cbor:"2,keyasint"` // repository@sha256:...
	ImageName  string   `cbor:"3,keyasint"` // as the user wrote it, for people
	Command    []string `cbor:"4,keyasint,omitempty"`
	Args       []string `cbor:"5,keyasint,omitempty"`
	WorkingDir string   `cbor:"6,keyasint,omitempty"`
	Env        []Env    `cbor:"7,keyasint,omitempty"`  // ordered as the user wrote it
	CPUMilli   uint64   `cbor:"8,keyasint,omitempty"`  // limit; 0 = none
	CPUShares  uint64   `cbor:"9,keyasint,omitempty"`  // request in millicores; 0 = none
	Memory     uint64   `cbor:"10,keyasint,omitempty"` // limit in bytes; 0 = none
	Mounts     []Mount  `cbor:"11,keyasint,omitempty"`
	Readiness  *Probe   `cbor:"12,keyasint,omitempty"`
	// HostPorts are ports of the device that the container reserves, 1 to 65535.
	HostPorts  []int32      `cbor:"13,keyasint,omitempty"`
	Devices    []DeviceFile `cbor:"14,keyasint,omitempty"`
	Privileged bool         `cbor:"15,keyasint,omitempty"`
}

// DeviceFile gives a device file to a container under the same path.
type DeviceFile struct {
	Path        string `cbor:"1,keyasint"`
	Permissions string `cbor:"2,keyasint"` // of r, w, m
}

// Env is a value, or a reference to a secret that the agent unseals as the container starts.
type Env struct {
	Name   string     `cbor:"1,keyasint"`
	Value  string     `cbor:"2,keyasint,omitempty"`
	Secret *SecretRef `cbor:"3,keyasint,omitempty"`
}

// Mount puts a volume into a container.
type Mount struct {
	Volume   string `cbor:"1,keyasint"`
	Path     string `cbor:"2,keyasint"`
	ReadOnly bool   `cbor:"3,keyasint,omitempty"`
}

// Volume is a path of the device (HostPath not empty), files with tokens in memory (Tokens not empty), or an empty directory.
type Volume struct {
	Name     string      `cbor:"1,keyasint"`
	HostPath string      `cbor:"2,keyasint,omitempty"`
	HostType string      `cbor:"3,keyasint,omitempty"` // as in Kubernetes
	Tokens   []TokenFile `cbor:"4,keyasint,omitempty"`
	FileMode uint32      `cbor:"5,keyasint,omitempty"` // permissions of the files with tokens
}

// TokenFile is a file with a token of the assignment's service account. The agent asks for the token and renews it.
type TokenFile struct {
	Path     string `cbor:"1,keyasint"` // within the volume: relative, clean
	Audience string `cbor:"2,keyasint"`
	LifeSecs uint32 `cbor:"3,keyasint"`
}

// Probe is a command that tells readiness.
type Probe struct {
	Command     []string `cbor:"1,keyasint"`
	DelaySecs   uint32   `cbor:"2,keyasint,omitempty"`
	PeriodSecs  uint32   `cbor:"3,keyasint"`
	TimeoutSecs uint32   `cbor:"4,keyasint"`
	Successes   uint32   `cbor:"5,keyasint"`
	Failures    uint32   `cbor:"6,keyasint"`
}

// BodiesRequest asks for bodies by hash and secrets by reference.
type BodiesRequest struct {
	Bodies  []Hash      `cbor:"1,keyasint,omitempty"`
	Secrets []SecretRef `cbor:"2,keyasint,omitempty"`
}

// BodiesReply answers with what the hub has, in any order. What is missing is asked for again after the next poll.
type BodiesReply struct {
	Bodies  [][]byte `cbor:"1,keyasint,omitempty"` // encoded Assignments: the device checks their hash
	Secrets []Sealed `cbor:"2,keyasint,omitempty"`
}

// Sealed is a secret value that only the holder of the device's key can open.
type Sealed struct {
	Ref        SecretRef `cbor:"1,keyasint"`
	Ephemeral  []byte    `cbor:"2,keyasint"` // P-256 public point, uncompressed
	Ciphertext []byte    `cbor:"3,keyasint"` // AES-256-GCM under HKDF-SHA-256(ECDH), Ref as additional data; see Seal
}

// Signed is a payload signed by a hub member whose certificate chains to the cluster CA.
type Signed struct {
	Payload     []byte `cbor:"1,keyasint"`
	Certificate []byte `cbor:"2,keyasint"` // DER
	Signature   []byte `cbor:"3,keyasint"` // ECDSA, ASN.1, over SHA-256(context || 0 || payload)
}

// Report is the latest state of what runs. It replaces every report before it; (Session, Sequence) orders them.
type Report struct {
	Session    uint64          `cbor:"1,keyasint"`
	Sequence   uint64          `cbor:"2,keyasint"`
	Held       Position        `cbor:"3,keyasint"`
	BundleHash Hash            `cbor:"4,keyasint,omitempty"`
	Statuses   []Status        `cbor:"5,keyasint,omitempty"` // every assignment the device holds, ordered by UID
	Gone       []string        `cbor:"6,keyasint,omitempty"` // UIDs of tombstones it holds no more in current or kept copy
	Conditions []Condition     `cbor:"7,keyasint,omitempty"`
	Journal    []JournalRecord `cbor:"8,keyasint,omitempty"` // not acknowledged yet, oldest first
	WallTime   int64           `cbor:"9,keyasint"`
	Facts      *Facts          `cbor:"10,keyasint,omitempty"` // when changed since Hello
}

// ReportReply acknowledges.
type ReportReply struct {
	Accepted bool   `cbor:"1,keyasint"` // false: not higher than a report that the hub has; the device goes on
	Acked    uint64 `cbor:"2,keyasint"` // highest journal sequence kept
}

// Status is one assignment as it runs.
type Status struct {
	UID        string            `cbor:"1,keyasint"`
	Phase      string            `cbor:"2,keyasint"` // the phases of api
	Ready      bool              `cbor:"3,keyasint,omitempty"`
	Message    string            `cbor:"4,keyasint,omitempty"`
	SpecHash   Hash              `cbor:"5,keyasint,omitempty"` // of what runs
	Revision   string            `cbor:"6,keyasint,omitempty"`
	Containers []ContainerStatus `cbor:"7,keyasint,omitempty"`
}

// ContainerStatus is one container as it runs. Times are the device's clock, Unix nanoseconds, labels only.
type ContainerStatus struct {
	Name       string `cbor:"1,keyasint"`
	ID         string `cbor:"2,keyasint,omitempty"`
	Digest     string `cbor:"3,keyasint,omitempty"`
	State      string `cbor:"4,keyasint"` // Waiting, Running, Exited
	Ready      bool   `cbor:"5,keyasint,omitempty"`
	StartedAt  int64  `cbor:"6,keyasint,omitempty"`
	Restarts   uint32 `cbor:"7,keyasint,omitempty"`
	Exited     bool   `cbor:"8,keyasint,omitempty"` // ExitCode and ExitedAt speak of the last end
	ExitCode   int32  `cbor:"9,keyasint,omitempty"`
	ExitReason string `cbor:"10,keyasint,omitempty"`
	ExitedAt   int64  `cbor:"11,keyasint,omitempty"`
	NextStart  int64  `cbor:"12,keyasint,omitempty"`
	Message    string `cbor:"13,keyasint,omitempty"`
}

// Condition is one observed aspect of the device.
type Condition struct {
	Type    string `cbor:"1,keyasint"`
	Status  string `cbor:"2,keyasint"`
	Reason  string `cbor:"3,keyasint,omitempty"`
	Message string `cbor:"4,keyasint,omitempty"`
}

// JournalRecord is something that happened on the device. Repeats of one thing are one record with counts.
type JournalRecord struct {
	Sequence  uint64 `cbor:"1,keyasint"`
	First     int64  `cbor:"2,keyasint"`
	Last      int64  `cbor:"3,keyasint"`
	Count     uint32 `cbor:"4,keyasint"`
	UID       string `cbor:"5,keyasint,omitempty"` // of the assignment
	Object    string `cbor:"6,keyasint,omitempty"` // namespace/name
	Reason    string `cbor:"7,keyasint"`           // Started, Exited, Drift, StateRecovered, ...
	Message   string `cbor:"8,keyasint,omitempty"`
	Revision  uint64 `cbor:"9,keyasint,omitempty"` // of the bundle it answers
	Container string `cbor:"10,keyasint,omitempty"`
}

// Facts are what the agent found out about its board.
type Facts struct {
	Platform     string `cbor:"1,keyasint"`
	Model        string `cbor:"2,keyasint,omitempty"`
	Serial       string `cbor:"3,keyasint,omitempty"`
	Kernel       string `cbor:"4,keyasint,omitempty"`
	OSImage      string `cbor:"5,keyasint,omitempty"`
	Hostname     string `cbor:"6,keyasint,omitempty"`
	Runtime      string `cbor:"7,keyasint,omitempty"`
	BootID       string `cbor:"8,keyasint,omitempty"`
	Cgroup       string `cbor:"9,keyasint,omitempty"`
	MemoryCgroup bool   `cbor:"10,keyasint,omitempty"`
	CPUs         uint32 `cbor:"11,keyasint,omitempty"`
	Memory       uint64 `cbor:"12,keyasint,omitempty"`
	Storage      uint64 `cbor:"13,keyasint,omitempty"`
	AgentVersion string `cbor:"14,keyasint,omitempty"`
}

// Command is one order to do something once. It is never retained; the device keeps a ledger of what it did.
type Command struct {
	ID        string `cbor:"1,keyasint"`
	ClusterID string `cbor:"2,keyasint"`
	Device    string `cbor:"3,keyasint"`
	IssuedAt  int64  `cbor:"4,keyasint"` // hub's clock
	TTLSecs   uint32 `cbor:"5,keyasint"` // counted by the device from receipt
	Verb      string `cbor:"6,keyasint"` // open-stream
	Stream    *Logs  `cbor:"7,keyasint,omitempty"`
}

// VerbOpenStream tells the device to open the stream named by the command's ID and send logs on it.
const VerbOpenStream = "open-stream"

// Logs asks for a container's log.
type Logs struct {
	UID       string `cbor:"1,keyasint"`
	Container string `cbor:"2,keyasint,omitempty"` // "" = the only one
	Follow    bool   `cbor:"3,keyasint,omitempty"`
	TailLines int64  `cbor:"4,keyasint,omitempty"` // -1 = all
	Previous  bool   `cbor:"5,keyasint,omitempty"`
	SinceNano int64  `cbor:"6,keyasint,omitempty"` // device's clock; 0 = all
}

// EnrollRequest asks for a certificate. It travels over TLS that the device verified against the CA hash in its token.
type EnrollRequest struct {
	Token Secret `cbor:"1,keyasint"` // as Token.Reveal has it
	Name  string `cbor:"2,keyasint"`
	CSR   []byte `cbor:"3,keyasint"` // PKCS#10 DER, P-256
	Facts Facts  `cbor:"4,keyasint"`
}

// EnrollReply is the answer: a certificate, or wait, or no.
type EnrollReply struct {
	State       string   `cbor:"1,keyasint"` // approved, pending, denied
	Message     string   `cbor:"2,keyasint,omitempty"`
	RetrySecs   uint32   `cbor:"3,keyasint,omitempty"`
	Certificate []byte   `cbor:"4,keyasint,omitempty"` // DER
	CA          [][]byte `cbor:"5,keyasint,omitempty"` // DER, every root to trust
	ClusterID   string   `cbor:"6,keyasint,omitempty"`
	Endpoints   []string `cbor:"7,keyasint,omitempty"`
}

// States of an EnrollReply.
const (
	EnrollApproved = "approved"
	EnrollPending  = "pending"
	EnrollDenied   = "denied"
)

// Paths of the messages over HTTPS, all POST with a CBOR body, save the stream.
const (
	PathEnroll = "/drover/v1/enroll"
	PathHello  = "/drover/v1/hello"
	PathPoll   = "/drover/v1/poll"
	PathBodies = "/drover/v1/bodies"
	PathReport = "/drover/v1/report"
	PathToken  = "/drover/v1/token"
	PathStream = "/drover/v1/streams/" // + command id; PUT with a streamed body
)
