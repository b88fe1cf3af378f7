package apiserver

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/wire"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/client/remote"
	"github.com/drover-fleet/drover/hub/access"
	"github.com/drover-fleet/drover/hub/fair"
	"github.com/drover-fleet/drover/hub/registry"
)

// Clients gives the view of the system that one actor has; a *registry.Registry is one. The actor's RequestID is the
// request's: a write that is sent again under it, because its first answer was lost, is found to be done.
type Clients interface {
	As(a registry.Actor) client.Client
}

// Whyer explains objects by the journal of causes; a *registry.Registry is one.
type Whyer interface {
	Why(ctx context.Context, ref api.Ref, limit int) (registry.Chain, error)
}

// Logs opens the log of a container on a device that is linked to this member. fault.Unavailable: its link is not here.
type Logs interface {
	Logs(ctx context.Context, device string, q wire.Logs) (io.ReadCloser, error)
}

// Contacts knows how long ago any member heard of a device; lastContact is computed from it when a device is read.
type Contacts interface {
	Last(device string) (age time.Duration, ok bool)
}

// Members lists the hub's members as this one knows them.
type Members interface {
	Members(ctx context.Context) ([]remote.Member, error)
}

// MembersFunc is a Members of one function.
type MembersFunc func(ctx context.Context) ([]remote.Member, error)

// Members calls f.
func (f MembersFunc) Members(ctx context.Context) ([]remote.Member, error) { return f(ctx) }

// Check is one named aspect of readiness; nil is well.
type Check struct {
	Name string
	Ask  func(ctx context.Context) error
}

// Limits bound what one client, and all of them, may hold. A zero field takes its default.
type Limits struct {
	Object      int64         // bytes of a request body with one object; default 1 MiB
	Transaction int64         // bytes of a transaction's body; default 8 MiB
	Request     time.Duration // whole time of a request that is not a watch or log; default 30 s
	Watch       time.Duration // longest life of a watch; default 60 min, spread downwards by up to half
	Write       time.Duration // a client that takes nothing for so long is cut off; default 15 s
	Watches     int           // open watches and logs in all; default 4096
	BodyGrace   time.Duration // after which a body must have come at a least rate; default 5 s
}

func (l Limits) withDefaults() Limits {
	return Limits{
		Object:      orDefault(l.Object, 1<<20),
		Transaction: orDefault(l.Transaction, 8<<20),
		Request:     orDefault(l.Request, 30*time.Second),
		Watch:       orDefault(l.Watch, time.Hour),
		Write:       orDefault(l.Write, 15*time.Second),
		Watches:     orDefault(l.Watches, 4096),
		BodyGrace:   orDefault(l.BodyGrace, bodyGrace),
	}
}

func orDefault[T int | int64 | time.Duration](v, def T) T {
	if v <= 0 {
		return def
	}
	return v
}

// Config is what the API server stands on. Clients and Logger are required; without one of the others its endpoint answers
// 404 and says so.
type Config struct {
	Clients  Clients
	Why      Whyer
	Logs     Logs
	Contacts Contacts
	Members  Members
	Ready    []Check // of /readyz; /livez only tells that the process serves
	// Operations are what an operator may ask of the hub itself, by name.
	Operations map[string]Operation

	// Metrics is what /metrics answers, in Prometheus' text format; an error beside text is for the log.
	Metrics func() ([]byte, error)
	// Observe, when set, hears of each request that was answered: its verb, the HTTP status, how long it took, and whether it was
	// a watch or a log, which last as long as the client likes. It must not block.
	Observe func(verb string, code int, took time.Duration, lasting bool)

	// IsMember, when set, says whether a certificate is that of a member now: it outlives its owner's removal, and its replacement.
	IsMember func(cert *x509.Certificate) bool

	// Access decides by roles and bindings. Default: none, so that only admins may anything.
	Access *access.Policy
	// Tokens makes and reads bearer tokens; without it none is taken.
	Tokens Tokens
	// Users signs certificates for persons.
	Users Users
	// Audit puts requests on record; nil: nobody does. Seats say whose turn it is; nil: seats of its own.
	Audit Audit
	// AuditFiles is where the audit is read.
	AuditFiles AuditFiles
	Seats      *fair.Seats
	// Refused, when set, hears of each refusal by its reason, of which there are few. It must not block.
	Refused func(reason string)

	Member  string // this member's name
	Version string // of Drover, as "0.1.0"
	// Peer carries requests to other members with this member's certificate; logs are passed on by it. It must bound the wait
	// for the header of an answer (http.Transport's ResponseHeaderTimeout).
	Peer http.RoundTripper

	// Lasting ends when the member is about to stop: watches and logs end with it, and clients go on at another member. Default:
	// never.
	Lasting context.Context

	Limits Limits
	Logger *slog.Logger
	Now    func() time.Time // default time.Now
	NewID  func() string    // of a request that brings none; default crypto/rand.Text
}

func (c *Config) validate() error {
	var errs []error
	if c.Clients == nil {
		errs = append(errs, errors.New("clients are missing"))
	}
	if c.Logger == nil {
		errs = append(errs, errors.New("logger is missing"))
	}
	if c.Lasting == nil {
		c.Lasting = context.Background()
	}
	if c.Access == nil {
		c.Access = access.NewPolicy()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.NewID == nil {
		c.NewID = rand.Text
	}
	if c.Seats == nil {
		c.Seats = fair.New(fair.Config{Refused: c.Refused})
	}
	c.Limits = c.Limits.withDefaults()
	return errors.Join(errs...)
}
