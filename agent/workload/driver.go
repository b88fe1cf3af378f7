package workload

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/drover-fleet/drover/api/grant"
	"github.com/drover-fleet/drover/api/wire"
)

// Errors that callers branch on. A Driver wraps them.
var (
	// ErrUnavailable: the runtime did not answer. Nothing is known, so nothing is decided.
	ErrUnavailable = errors.New("container runtime is not available")
	// ErrImageMissing: a container cannot be made since its image is not here any more.
	ErrImageMissing = errors.New("image is not on the device")
	// ErrNoPlatform: the image has nothing for this board. Trying again is no use.
	ErrNoPlatform = errors.New("image has no build for this platform")
)

// Phase of a container in the runtime.
type State uint8

// The states.
const (
	Made     State = iota // recorded, no process: new, or its process is gone (reboot, stopped by hand)
	Prepared              // a process was made but not begun
	Running
	Paused
	Exited // ended, its exit code is known
)

func (s State) String() string {
	return [...]string{"Made", "Prepared", "Running", "Paused", "Exited"}[s]
}

// Container is one container of ours as the runtime holds it.
type Container struct {
	ID       string
	UID      string // of the assignment
	Name     string // of the container within the assignment
	Object   string // namespace/name of the assignment, for people
	RunHash  string
	Image    string // repository@digest
	Grace    time.Duration
	Recovery []byte // as given to Create

	Run   Run // the last start
	State State
	// Valid when State is Exited.
	ExitCode int32
	ExitedAt int64 // device's clock, Unix nanoseconds
	OOM      bool
}

// Run identifies one start of a container. The zero value: never started.
type Run struct {
	Number uint32        // 1 for the first start of this container
	BootID string        // boot in which it started
	Boot   time.Duration // time since boot at the start
	Wall   int64         // device's clock at the start, Unix nanoseconds; a label
}

// Spec is a container to make.
type Spec struct {
	ID       string
	UID      string
	Object   string
	RunHash  string
	Hostname string
	Grace    time.Duration
	C        wire.Container
	Volumes  []wire.Volume
	// Recovery is kept beside the container by the runtime and comes back in Container: with it, what ran can be rebuilt
	// when the agent's own files are lost. It holds nothing secret in clear.
	Recovery []byte
	// Grant is what the device's pool allows: links on the board may lead to nothing else.
	Grant grant.Grant
}

// SecretEnv is a secret environment variable in clear. It exists in memory only and does not print.
type SecretEnv struct {
	Name  string
	Value []byte
}

func (s SecretEnv) String() string   { return s.Name + "=(secret)" }
func (s SecretEnv) GoString() string { return s.String() }

// LogOptions select a part of a container's log.
type LogOptions struct {
	Follow   bool
	Tail     int64 // lines from the end; negative: all
	Previous bool  // of the run before the last start
}

// Lifecycle changes containers. Every method is idempotent: called again after a crash at any point it completes what was
// begun, and it succeeds when what it asks for is so already. An unknown id is an error of Start only.
type Lifecycle interface {
	// Create makes a container without a process. Its image must be here (ErrImageMissing).
	Create(ctx context.Context, s Spec) error
	// Start starts a process as run number r, hands it its secrets, and resumes it when it was paused. When that run is up
	// already, it only completes what an earlier Start left undone. Host paths and device files are looked up anew under s.Grant.
	Start(ctx context.Context, s Spec, r Run, secrets []SecretEnv) error
	// Stop ends the process: SIGTERM (or the image's signal), after grace SIGKILL. The container stays.
	Stop(ctx context.Context, id string, grace time.Duration) error
	// Remove deletes the container and its writable layer. Anything that still runs in it is killed.
	Remove(ctx context.Context, id string) error
	// Forget deletes what an assignment leaves on disk (volumes, logs) once its containers are removed.
	Forget(ctx context.Context, uid string) error
}

// Images brings images to the device.
type Images interface {
	// HasImage tells whether ref (repository@digest) is complete and unpacked; what is complete is unpacked on the way, what
	// was imported under another name is found by its digest. It never uses the network.
	HasImage(ctx context.Context, ref string) (bool, error)
	// Pull fetches, verifies and unpacks ref.
	Pull(ctx context.Context, ref string) error
}

// Inspector looks at containers.
type Inspector interface {
	// List is every container that carries this device's labels. An error is not an empty list.
	List(ctx context.Context) ([]Container, error)
	// Exec runs a command in a running container and gives its exit code.
	Exec(ctx context.Context, id string, command []string, timeout time.Duration) (int, error)
	// Logs reads a container's log. The reader ends when ctx does.
	Logs(ctx context.Context, uid, name string, o LogOptions) (io.ReadCloser, error)
	// Watch calls changed whenever a list may have changed, and once at the start. It returns when ctx ends or the runtime
	// goes away.
	Watch(ctx context.Context, changed func()) error
}

// TokenID names a file with a token: of an assignment, by volume and path in it.
type TokenID struct{ UID, Volume, Path string }

// TokenTerms are what a token is asked for as. A file whose terms changed is asked for anew.
type TokenTerms struct {
	Account  string `cbor:"1,keyasint"`
	Audience string `cbor:"2,keyasint"`
	LifeSecs uint32 `cbor:"3,keyasint"`
	Mode     uint32 `cbor:"4,keyasint"` // permissions of the file
}

// HeldToken is a file with a token that is there. The token itself is in no value of this package.
type HeldToken struct {
	TokenID
	Terms  TokenTerms
	BootID string        // boot in which the times count
	Renew  time.Duration // since boot: another one is due
	Until  time.Duration // since boot: it is good until then
}

// Tokens keeps files with tokens of service accounts in memory that goes with the device's power, and never on a disk. It needs no
// container runtime. Calls for one file come one at a time.
type Tokens interface {
	// TokenFiles lists what earlier lives of the agent put there since the device started.
	TokenFiles(ctx context.Context) ([]HeldToken, error)
	// PutToken makes text the content of the file, at once: who reads it sees the old one or the new one, whole.
	PutToken(ctx context.Context, t HeldToken, text []byte) error
	// DropToken removes the file; none is fine. Forget removes all of an assignment.
	DropToken(ctx context.Context, id TokenID) error
}

// Driver is a container runtime as the agent needs it. Safe for concurrent use, save that the caller runs at most one
// Lifecycle call per assignment at a time.
type Driver interface {
	Inspector
	Images
	Lifecycle
	Tokens
}
