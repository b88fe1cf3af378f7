package api

// Workload is what a user declares: a template, where it goes, and how it moves there.
type Workload struct {
	TypeMeta `json:",inline"`
	Metadata ObjectMeta     `json:"metadata"`
	Spec     WorkloadSpec   `json:"spec"`
	Status   WorkloadStatus `json:"status,omitzero"`
}

// WorkloadSpec is the declared part of a Workload.
type WorkloadSpec struct {
	Placement Placement   `json:"placement"`
	Rollout   RolloutRule `json:"rollout,omitzero"`
	// RevisionHistoryLimit is how many old revisions stay for undo, 0 to 100; default 10.
	RevisionHistoryLimit *int32   `json:"revisionHistoryLimit,omitempty"`
	Template             Template `json:"template"`
}

// Placement selects devices. Exactly one of Everywhere and Replicas is set. A missing or empty selector selects nothing
// unless All is true.
type Placement struct {
	Everywhere  bool           `json:"everywhere,omitempty"`  // one copy on every selected device; excludes replicas
	Replicas    *int32         `json:"replicas,omitempty"`    // 0 to 100,000
	Selector    *LabelSelector `json:"selector,omitempty"`    // over labels of devices; empty selects nothing
	All         bool           `json:"all,omitempty"`         // true: every device, where there is no selector
	Tolerations []Toleration   `json:"tolerations,omitempty"` // taints that do not keep copies away
	// PriorityClassName names the PriorityClass of the copies: whose go first when devices are short. Absent: the class that is the
	// global default, or 0. Naming a class whose value is above 0 takes the right to use it.
	PriorityClassName string `json:"priorityClassName,omitempty"`
}

// RolloutRule says how a new revision moves over the fleet.
type RolloutRule struct {
	// MaxUnavailable is how many selected copies may be down at once, over all revisions: a number or "10%", rounded down,
	// never below 1; default "10%".
	MaxUnavailable *IntOrPercent `json:"maxUnavailable,omitempty"`
	// MinReadySeconds is how long a copy must have been ready to count as updated; default 0.
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`
	// ProgressDeadline is how long a rollout may go without a step forward, by the hub's clock; default 10m.
	ProgressDeadline Duration `json:"progressDeadline,omitzero"`
}

// Template is what runs on each device.
type Template struct {
	Metadata TemplateMeta `json:"metadata,omitzero"`
	Spec     PodSpec      `json:"spec"`
}

// TemplateMeta is the metadata that copies carry.
type TemplateMeta struct {
	Labels      map[string]string `json:"labels,omitempty"`      // of each copy
	Annotations map[string]string `json:"annotations,omitempty"` // of each copy
}

// PodSpec is the implemented part of a Kubernetes pod spec; any other pod field is refused by name.
type PodSpec struct {
	Containers []Container `json:"containers"`        // at least one
	Volumes    []Volume    `json:"volumes,omitempty"` // that containers mount
	// HostNetwork must be true or absent in this release: containers share the network of the agent.
	HostNetwork *bool `json:"hostNetwork,omitempty"`
	// RestartPolicy is Always (default), OnFailure or Never.
	RestartPolicy string `json:"restartPolicy,omitempty"`
	// TerminationGracePeriodSeconds is the time between SIGTERM and SIGKILL, 0 to 3600; default 30.
	TerminationGracePeriodSeconds *int64 `json:"terminationGracePeriodSeconds,omitempty"`
	// ServiceAccountName names the ServiceAccount, of the same namespace, whose tokens projected volumes hold. By itself it gives
	// containers nothing.
	ServiceAccountName string `json:"serviceAccountName,omitempty"`
}

// Container is one container of the template.
type Container struct {
	Name            string               `json:"name"`                      // unique in the template; a DNS label
	Image           string               `json:"image"`                     // by tag or digest; a tag becomes a digest at admission
	ImagePullPolicy string               `json:"imagePullPolicy,omitempty"` // IfNotPresent (default), Always, Never
	Command         []string             `json:"command,omitempty"`         // replaces the image's entrypoint
	Args            []string             `json:"args,omitempty"`            // replaces the image's cmd
	WorkingDir      string               `json:"workingDir,omitempty"`      // in which the command starts; default: the image's
	Env             []EnvVar             `json:"env,omitempty"`             // environment variables, in order; later ones may use earlier ones as $(NAME)
	Ports           []ContainerPort      `json:"ports,omitempty"`           // ports that the container listens on
	Resources       ResourceRequirements `json:"resources,omitzero"`
	VolumeMounts    []VolumeMount        `json:"volumeMounts,omitempty"` // where volumes of the template appear
	ReadinessProbe  *Probe               `json:"readinessProbe,omitempty"`
	Devices         []DeviceFile         `json:"devices,omitempty"` // device files of the board; a DevicePool must allow them
	SecurityContext *SecurityContext     `json:"securityContext,omitempty"`
}

// ContainerPort is a port that the container listens on, as in Kubernetes. Containers share the device's network, so a host port
// is the container's own port: HostPort is absent or equal to ContainerPort. Given, it is reserved: a DevicePool must allow it, and
// no other copy that wants it comes to the device.
type ContainerPort struct {
	Name          string `json:"name,omitempty"`     // for people and probes
	ContainerPort int32  `json:"containerPort"`      // 1 to 65535
	HostPort      int32  `json:"hostPort,omitempty"` // of the device; as containerPort under hostNetwork
	Protocol      string `json:"protocol,omitempty"` // TCP (default), UDP, SCTP
}

// DeviceFile is a device file of the board, given to the container under the same path. Permissions are of r (read), w (write) and
// m (make nodes); default "rw".
type DeviceFile struct {
	Path        string `json:"path"`                  // on the device, as /dev/video0
	Permissions string `json:"permissions,omitempty"` // any of r, w and m; default rw
}

// SecurityContext is the implemented part of Kubernetes'. A DevicePool must allow a privileged container.
type SecurityContext struct {
	// Privileged gives the container every capability and every device file, and lifts the kernel's filters from it.
	Privileged *bool `json:"privileged,omitempty"`
}

// EnvVar is one environment variable: a value or a reference to one.
type EnvVar struct {
	Name      string        `json:"name"`                // of the variable
	Value     string        `json:"value,omitempty"`     // as it stands, after $(NAME) is replaced
	ValueFrom *EnvVarSource `json:"valueFrom,omitempty"` // where the value is taken from instead
}

// EnvVarSource names where a value comes from. Exactly one field is set.
type EnvVarSource struct {
	FieldRef        *FieldRef    `json:"fieldRef,omitempty"`
	ConfigMapKeyRef *KeySelector `json:"configMapKeyRef,omitempty"`
	SecretKeyRef    *KeySelector `json:"secretKeyRef,omitempty"`
}

// FieldRef names a field of the device or the assignment: device.name, device.labels.X, device.annotations.X,
// assignment.name, assignment.ordinal, assignment.namespace.
type FieldRef struct {
	FieldPath string `json:"fieldPath"` // as device.name
}

// KeySelector names one key of a ConfigMap or Secret of the same namespace.
type KeySelector struct {
	Name     string `json:"name"`               // of the ConfigMap or Secret
	Key      string `json:"key"`                // in it
	Optional *bool  `json:"optional,omitempty"` // true: start without it where it is missing
}

// ResourceRequirements are what a container asks for and may use at most: cpu and memory.
type ResourceRequirements struct {
	Requests ResourceList `json:"requests,omitempty"` // what a device must have free
	Limits   ResourceList `json:"limits,omitempty"`   // what the container may use at most
}

// VolumeMount puts a volume into a container.
type VolumeMount struct {
	Name      string `json:"name"`               // of the volume
	MountPath string `json:"mountPath"`          // in the container, absolute
	ReadOnly  bool   `json:"readOnly,omitempty"` // true: the container cannot write to it
}

// Volume is a hostPath, an emptyDir or a projected volume.
type Volume struct {
	Name      string           `json:"name"` // that volumeMounts name it by
	HostPath  *HostPathVolume  `json:"hostPath,omitempty"`
	EmptyDir  *EmptyDirVolume  `json:"emptyDir,omitempty"`
	Projected *ProjectedVolume `json:"projected,omitempty"`
}

// ProjectedVolume holds files that the device gets from the hub and renews, in memory. Containers mount it read-only.
type ProjectedVolume struct {
	Sources []VolumeProjection `json:"sources"` // at least one, at most 16
	// DefaultMode are the permissions of the files, 0 to 0777 (511); default 0644 (420). The files belong to root.
	DefaultMode *int32 `json:"defaultMode,omitempty"`
}

// VolumeProjection is one source of a projected volume.
type VolumeProjection struct {
	ServiceAccountToken *TokenProjection `json:"serviceAccountToken"`
}

// TokenProjection is a file with a token of the template's service account, bound to the copy that runs: it ends with it.
type TokenProjection struct {
	// Audience is whom the token is for: who reads it must be meant by it. Default: the hub's API.
	Audience string `json:"audience,omitempty"`
	// ExpirationSeconds is how long the token is good, 600 to 86400; default 3600. The device renews it when a fifth of that is left.
	ExpirationSeconds *int64 `json:"expirationSeconds,omitempty"`
	Path              string `json:"path"` // of the file in the volume, relative, without ".."
}

// HostPathVolume is a path of the device. Type is as in Kubernetes: "", DirectoryOrCreate, Directory, FileOrCreate, File.
type HostPathVolume struct {
	Path string `json:"path"`           // absolute, on the device
	Type string `json:"type,omitempty"` // what must be there or is made: empty, DirectoryOrCreate, Directory, FileOrCreate or File
}

// EmptyDirVolume is a directory that lives as long as the assignment's spec, on the device's disk.
type EmptyDirVolume struct{}

// Probe runs a command in the container; exit code 0 means ready.
type Probe struct {
	Exec                *ExecAction `json:"exec"`
	InitialDelaySeconds int32       `json:"initialDelaySeconds,omitempty"` // default 0
	PeriodSeconds       int32       `json:"periodSeconds,omitempty"`       // default 10, at least 1
	TimeoutSeconds      int32       `json:"timeoutSeconds,omitempty"`      // default 1, at least 1
	SuccessThreshold    int32       `json:"successThreshold,omitempty"`    // default 1
	FailureThreshold    int32       `json:"failureThreshold,omitempty"`    // default 3
}

// ExecAction is a command line without a shell.
type ExecAction struct {
	Command []string `json:"command"` // program and arguments
}

// Toleration lets a copy onto a tainted device, as in Kubernetes.
type Toleration struct {
	Key      string `json:"key,omitempty"`      // of the taint; empty with Exists: every taint
	Operator string `json:"operator,omitempty"` // Equal (default) or Exists
	Value    string `json:"value,omitempty"`    // that the taint must have, with Equal
	Effect   string `json:"effect,omitempty"`   // "" = every effect
}

// WorkloadStatus is what controllers observed.
type WorkloadStatus struct {
	ObservedGeneration int64       `json:"observedGeneration,omitempty"`
	CurrentRevision    string      `json:"currentRevision,omitempty"` // the last revision whose rollout completed
	UpdatedRevision    string      `json:"updatedRevision,omitempty"` // the revision of the present spec
	Counts             Counts      `json:"counts,omitzero"`
	Conditions         []Condition `json:"conditions,omitempty"` // Available, Progressing, ImageResolved
	// Images are what the images of the present generation resolved to (repository@digest), by image as written. Admission writes
	// them with the condition ImageResolved in the same write as the spec; the image loop does when the registry was unreachable.
	Images map[string]string `json:"images,omitempty"`
	// Priority is the value of the class, as admission found it when the class was named: a class that is made anew with another
	// value changes nothing that stands. Absent: 0.
	Priority *int32 `json:"priority,omitempty"`
}

// Counts are copies: desired by the spec, reached (device reported on the updated revision), ready, updated (ready on the
// updated revision), failed, and pendingOffline (device away).
type Counts struct {
	Desired        int32 `json:"desired"`        // copies that the spec asks for
	Reached        int32 `json:"reached"`        // copies whose device reported on the updated revision
	Ready          int32 `json:"ready"`          // copies that are ready, of any revision
	Updated        int32 `json:"updated"`        // copies that are ready on the updated revision
	Failed         int32 `json:"failed"`         // copies that cannot run
	PendingOffline int32 `json:"pendingOffline"` // copies whose device is away
}

// WorkloadRevision is an immutable numbered template of a workload, with its images resolved to digests.
type WorkloadRevision struct {
	TypeMeta `json:",inline"`
	Metadata ObjectMeta           `json:"metadata"`
	Spec     WorkloadRevisionSpec `json:"spec"`
}

// WorkloadRevisionSpec never changes once written, save Revision, which grows when an old template becomes current again.
type WorkloadRevisionSpec struct {
	Workload string   `json:"workload"` // whose template this is
	Revision int64    `json:"revision"` // 1, 2, ...: the order in which templates became current
	Hash     string   `json:"hash"`     // of the template with its digests
	Template Template `json:"template"`
	// Images maps each image of the template to repository@digest. A revision is made only once all of them are resolved.
	Images map[string]string `json:"images,omitempty"`
}

// Assignment is one copy of a workload, bound or to be bound to a device. Its name and uid stay across revisions.
type Assignment struct {
	TypeMeta `json:",inline"`
	Metadata ObjectMeta       `json:"metadata"`
	Spec     AssignmentSpec   `json:"spec"`
	Status   AssignmentStatus `json:"status,omitzero"`
}

// AssignmentSpec: Revision belongs to the rollout controller, Device to the scheduler (or to the workload controller for
// everywhere-workloads, whose copies are born bound).
type AssignmentSpec struct {
	Workload string `json:"workload"`          // whose copy this is
	Ordinal  *int32 `json:"ordinal,omitempty"` // set for replicas
	Revision string `json:"revision"`          // name of the WorkloadRevision this copy should run
	Device   string `json:"device,omitempty"`  // empty: not bound yet
	// Resources is the sum of what the containers of Revision ask for. Admission writes it with Revision: it is what a
	// ResourceQuota is charged for the copy.
	Resources ResourceRequirements `json:"resources,omitzero"`
}

// Phases of an assignment, as the device reports them.
const (
	PhasePending   = "Pending"   // known to the hub, not reported by the device
	PhasePulling   = "Pulling"   // image being fetched
	PhaseStarting  = "Starting"  // containers being made or not ready yet
	PhaseRunning   = "Running"   // all containers run
	PhaseCrashLoop = "CrashLoop" // waiting for the next restart
	PhaseStopping  = "Stopping"
	PhaseCompleted = "Completed" // all ended well and restartPolicy does not start them again
	PhaseFailed    = "Failed"    // cannot run; the message says why
)

// AssignmentStatus is the gateway's, on behalf of the device.
type AssignmentStatus struct {
	Phase          string            `json:"phase,omitempty"`
	Ready          bool              `json:"ready,omitempty"`
	ReadySince     Time              `json:"readySince,omitzero"` // by the hub's clock: when the gateway first heard of it
	Message        string            `json:"message,omitempty"`
	SpecHash       string            `json:"specHash,omitempty"` // the hash of what runs
	Revision       string            `json:"revision,omitempty"` // the WorkloadRevision of what runs
	Digests        map[string]string `json:"digests,omitempty"`  // container name to image digest
	Containers     []ContainerStatus `json:"containers,omitempty"`
	BundleRevision string            `json:"bundleRevision,omitempty"` // store revision of the bundle the report answers
	ReportedAt     Time              `json:"reportedAt,omitzero"`      // hub's clock at the last change
	Conditions     []Condition       `json:"conditions,omitempty"`     // Scheduled, ...
}

// ContainerStatus is the state of one container on the device. Times are the device's and only labels.
type ContainerStatus struct {
	Name      string    `json:"name"`
	ID        string    `json:"id,omitempty"`
	State     string    `json:"state,omitempty"` // Waiting, Running, Exited
	Ready     bool      `json:"ready,omitempty"`
	StartedAt Time      `json:"startedAt,omitzero"`
	Restarts  int32     `json:"restarts"`
	LastExit  *LastExit `json:"lastExit,omitempty"`
	NextStart Time      `json:"nextStart,omitzero"`
	Message   string    `json:"message,omitempty"`
}

// LastExit is how a container last ended.
type LastExit struct {
	Code       int32  `json:"code"`                // exit code
	Reason     string `json:"reason,omitempty"`    // Completed, Error, OOMKilled
	FinishedAt Time   `json:"finishedAt,omitzero"` // by the device's clock
}

// Rollout is the move of a workload from one revision to another; kept as history.
type Rollout struct {
	TypeMeta `json:",inline"`
	Metadata ObjectMeta    `json:"metadata"`
	Spec     RolloutSpec   `json:"spec"`
	Status   RolloutStatus `json:"status,omitzero"`
}

// RolloutSpec names the two revisions. Paused and Aborted are the user's.
type RolloutSpec struct {
	Workload string `json:"workload"`       // that moves
	From     string `json:"from,omitempty"` // empty for the first
	To       string `json:"to"`             // the WorkloadRevision that it moves to
	// Revision is the number that To had when the rollout was made: the order of the workload's rollouts.
	Revision int64 `json:"revision,omitempty"`
	Paused   bool  `json:"paused,omitempty"`  // true: move no further until it is false
	Aborted  bool  `json:"aborted,omitempty"` // true: end here; what moved stays
}

// Phases of a rollout in this release.
const (
	RolloutPlanned     = "Planned"
	RolloutWaiting     = "Waiting" // images not resolved yet
	RolloutProgressing = "Progressing"
	RolloutPaused      = "Paused"
	RolloutCompleted   = "Completed"
	RolloutAborted     = "Aborted" // by a person, or superseded by a newer revision (the cause says which)
	RolloutFailed      = "Failed"  // progress deadline passed or copies failed; a newer revision takes over
)

// RolloutStatus is the rollout controller's.
type RolloutStatus struct {
	Phase              string       `json:"phase,omitempty"`
	Wave               int32        `json:"wave,omitempty"` // 1-based
	Waves              []WaveStatus `json:"waves,omitempty"`
	Cause              string       `json:"cause,omitempty"` // why it is where it is, in a sentence
	LastProgress       Time         `json:"lastProgress,omitzero"`
	Best               int32        `json:"best,omitempty"`           // high-water mark of copies told + reached + updated: only more is progress
	Moves              int64        `json:"moves,omitempty"`          // copies told so far: each batch changes it, so that no two are made from one observation
	OriginRevision     string       `json:"originRevision,omitempty"` // store revision of the rollout's creation: the cause of its moves
	ObservedGeneration int64        `json:"observedGeneration,omitempty"`
	Conditions         []Condition  `json:"conditions,omitempty"`
}

// WaveStatus counts one wave in the three words: reached, failed, pendingOffline.
type WaveStatus struct {
	Selected       int32 `json:"selected"`
	Reached        int32 `json:"reached"`
	Updated        int32 `json:"updated"`
	Failed         int32 `json:"failed"`
	PendingOffline int32 `json:"pendingOffline"`
	StartedAt      Time  `json:"startedAt,omitzero"`
	FinishedAt     Time  `json:"finishedAt,omitzero"`
}
