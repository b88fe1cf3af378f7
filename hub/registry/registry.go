package registry

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/await"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/hub/access"
	"github.com/drover-fleet/drover/store"
)

// Backend is the replicated store as one member has it. hub/replica is the real one.
type Backend interface {
	store.Reader
	store.Watchable
	store.Journal
	// Barrier returns once this member's reads show every write that was acknowledged before the call.
	Barrier(ctx context.Context) error
	// AtLeast returns once this member's reads show everything up to a revision; store.ErrAhead and store.ErrOtherEpoch when there is none such.
	AtLeast(ctx context.Context, want store.Revision) error
	// Propose has the command ordered and applied at most once, and returns what it came to on this member. It fills
	// Level, RequestID, Writer, Sequence and Time where they are empty. Errors are of the classes of api/fault.
	Propose(ctx context.Context, c *store.Command) (store.Result, error)
}

// Actor is on whose behalf a client works.
type Actor struct {
	Name string // user:admin, device:pi-07, controller:workload, hub:h1
	// Term, when not zero, fences every write: it is refused once another term of office has begun.
	Term uint64
	// User is the person or service account in whose name the actor writes, for rules about rights. Nil for the hub's own parts and for
	// devices, which RBAC does not rule.
	User *access.Identity
	// RequestID names the request in the journal; a write repeated with the same id after an unknown outcome is found to be
	// done already. Empty: each write gets an id of its own.
	RequestID string
}

// Admitter judges and completes writes: defaults by policy, image digests, who may write what.
type Admitter interface {
	// Admit is called once for each object of a write, after defaults and before validation; again when a conflict makes the
	// write be planned anew. It may change rq.New, but not its identity. An error refuses the whole write.
	Admit(ctx context.Context, rq *AdmissionRequest) error
}

// AdmissionRequest is one object of a write.
type AdmissionRequest struct {
	Actor  Actor
	Verb   string // create, update, status or delete; an apply is a create or an update
	Kind   *api.Kind
	Old    api.Object // what stands; nil at creation; not to be changed
	New    api.Object // nil at deletion
	DryRun bool
	// Load reads another object as the write will find it, what it has planned before included; nil where there is none. The write then
	// rests on it: it is planned anew when the object changes first.
	Load     func(ref api.Ref) (api.Object, error)
	Warnings []string // for the person who writes; see WithWarnings
	// State is what stands, with what the request plans. While objects are admitted it has the items before; when they are validated
	// all of them. The write does not rest on it.
	State State
}

// State reads objects at the revision of a plan. What it returns must not be changed.
type State interface {
	// All lists a kind, of one namespace when it is given, ordered by key.
	All(k *api.Kind, namespace string) ([]api.Object, error)
	// Labels visits the labels of every object of a cluster-scoped kind, until visit returns false. It costs far less than All.
	Labels(k *api.Kind, visit func(name string, labels map[string]string) (more bool)) error
}

// Validator is an Admitter that also judges objects once the whole request is planned: what depends on other objects does not depend
// on the order of a set.
type Validator interface {
	// Validate is called for each object that is made or changed; rq.New must not be changed.
	Validate(ctx context.Context, rq *AdmissionRequest) error
}

// Options of a registry. Sealer must be set.
type Options struct {
	Sealer *Sealer
	Admit  Admitter         // nil admits everything
	Now    func() time.Time // nil: time.Now
	NewUID func() string    // nil: random UUIDs
	Logger *slog.Logger     // nil: none
	Waiter await.Waiter     // how writes wait for each other; nil: by the runtime's clock
}

// Registry serves objects over one member's backend. Safe for concurrent use.
type Registry struct {
	b     Backend
	o     Options
	codec codec
	turns turns
}

// New makes a registry. It reads and writes nothing yet.
func New(b Backend, o Options) (*Registry, error) {
	if b == nil || o.Sealer == nil {
		return nil, errors.New("registry: backend and sealer must be set")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.NewUID == nil {
		o.NewUID = uuid.NewString
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Registry{b: b, o: o, codec: codec{o.Sealer}, turns: turns{waiter: await.Or(o.Waiter)}}, nil
}

// As returns the client through which the actor works.
func (r *Registry) As(a Actor) client.Client { return &actorClient{r: r, actor: a} }

// actorClient is client.Client for one actor; write.go, read.go and watch.go have its methods.
type actorClient struct {
	r     *Registry
	actor Actor
}

var _ client.Client = (*actorClient)(nil)

// EnsureNamespace creates the namespace unless it exists.
func EnsureNamespace(ctx context.Context, c client.Client, name string) error {
	_, err := c.Create(ctx, &api.Namespace{
		TypeMeta: api.TypeMeta{APIVersion: api.CoreV1, Kind: "Namespace"},
		Metadata: api.ObjectMeta{Name: name},
	}, client.WriteOptions{})
	if fault.Is(err, fault.AlreadyExists) {
		return nil
	}
	return err
}

type warningsKey struct{}

// WithWarnings has warn called with each warning that admission gives to writes under the context.
func WithWarnings(ctx context.Context, warn func(string)) context.Context {
	return context.WithValue(ctx, warningsKey{}, warn)
}

func sendWarnings(ctx context.Context, warnings []string) {
	if warn, ok := ctx.Value(warningsKey{}).(func(string)); ok {
		for _, w := range warnings {
			warn(w)
		}
	}
}

type repeatKey struct{}

// WithRepeat has tell called when a write under the context was done before, so that its answer is of now and not of what it carried.
func WithRepeat(ctx context.Context, tell func()) context.Context {
	return context.WithValue(ctx, repeatKey{}, tell)
}
