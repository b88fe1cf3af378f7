package admission

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/hub/access"
	"github.com/drover-fleet/drover/hub/registry"
)

// Images turns an image as written into repository@digest; *Resolver is one. Errors: fault.Invalid when there is no such
// image, fault.Unavailable when it cannot be known now.
type Images interface {
	Resolve(ctx context.Context, image string) (string, error)
}

// Config is what admission stands on. Images and Logger are required.
type Config struct {
	Images Images
	Logger *slog.Logger
	Access *access.Policy   // decides what people may give; default: none, so that only admins may give anything
	Now    func() time.Time // default time.Now
}

// Admitter is the registry's Admitter. Safe for concurrent use.
type Admitter struct {
	cfg  Config
	memo memo
}

var _ registry.Admitter = (*Admitter)(nil)

// New returns an Admitter.
func New(cfg Config) (*Admitter, error) {
	if cfg.Images == nil || cfg.Logger == nil {
		return nil, errors.New("admission: images and logger must be set")
	}
	if cfg.Access == nil {
		cfg.Access = access.NewPolicy()
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Admitter{cfg: cfg}, nil
}

// Admit judges one object of a write: first whether the actor may write what it writes, then what must be filled in.
func (a *Admitter) Admit(ctx context.Context, rq *registry.AdmissionRequest) error {
	if isPerson(rq.Actor) {
		if err := mayPersonWrite(rq); err != nil {
			return err
		}
	}
	if rq.Actor.User != nil {
		if err := a.mayUserWrite(rq); err != nil {
			return err
		}
	}
	if rq.Verb != verbCreate && rq.Verb != verbUpdate {
		return nil
	}
	switch obj := rq.New.(type) {
	case *api.Workload:
		if err := a.resolvePriority(rq, obj); err != nil {
			return err
		}
		return a.resolveImages(ctx, rq, obj)
	case *api.Assignment:
		return fillResources(rq, obj)
	case *api.PriorityClass:
		return checkClass(rq, obj)
	case *api.JoinToken:
		return checkToken(rq, obj)
	}
	return nil
}

// Verbs of admission requests.
const (
	verbCreate = "create"
	verbUpdate = "update"
	verbStatus = "status"
	verbDelete = "delete"
)

// isPerson tells people from the parts of Drover, which write in their own names. Whoever is unknown is taken for a person:
// that is the smaller right.
func isPerson(a registry.Actor) bool {
	kind, _, _ := strings.Cut(a.Name, ":")
	switch kind {
	case "controller", "device", "hub":
		return false
	}
	return true
}
