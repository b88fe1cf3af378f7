package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/drover-fleet/drover/api/fault"
)

// Server is the operators' API of one member. It is safe for concurrent use.
type Server struct {
	cfg      Config
	watches  chan struct{} // one slot a watch or log
	inFlight chan struct{} // one slot a request of any other kind
	openAPI  *openAPI
}

// New returns the handler of everything under /api, /apis, /openapi, /version, /healthz, /livez, /readyz, and of
// /metrics and /drover/v1/{why,members,hub/*}. The caller mounts it beside the device gateway's paths.
func New(cfg Config) (*Server, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("API server: %w", err)
	}
	return &Server{
		cfg:      cfg,
		watches:  make(chan struct{}, cfg.Limits.Watches),
		inFlight: make(chan struct{}, cfg.Limits.InFlight),
		openAPI:  new(openAPI),
	}, nil
}

// maxURL bounds path and query, in bytes; net/http bounds the headers (the listener's MaxHeaderBytes).
const maxURL = 16 << 10

// exchange is one request on its way through the pipeline.
type exchange struct {
	s     *Server
	w     *response
	r     *http.Request // its context carries the deadline
	id    string        // request id
	user  User
	route route
}

// ServeHTTP is the pipeline. Each step either passes the request on or answers with a Status:
//
//	size → who → may → in flight and deadline → handler → registry (admission, validation, precondition, consensus)
//
// The registry's part is reached through the client that Config.Clients gives for the user.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{s: s, r: r, w: newResponse(w, r, s.cfg.Limits.Write)}
	started := s.cfg.Now()
	x.nameRequest()
	defer func() {
		took := s.cfg.Now().Sub(started)
		x.audit(took)
		if s.cfg.Observe != nil {
			s.cfg.Observe(x.route.verb, x.w.status, took, x.route.lasting())
		}
	}()
	defer func() {
		if p := recover(); p != nil {
			x.crashed(p)
		}
	}()
	if err := x.pipeline(); err != nil {
		x.fail(err)
	}
	x.w.finish()
}

func (x *exchange) pipeline() error {
	if n := len(x.r.URL.RequestURI()); n > maxURL {
		return fault.SizeLimit("request path and query", int64(n), maxURL)
	}
	var err, lost error
	x.route, lost = parseRoute(x.r)
	if err := x.capBody(); err != nil {
		return err
	}
	if x.user, err = x.s.authenticate(x.r, x.route); err != nil {
		return err
	}
	if err := x.authorize(); err != nil {
		return err
	}
	if lost != nil {
		return lost // what is served and what is not is told to those who may ask
	}
	x.receipt()
	release, err := x.admitInFlight()
	if err != nil {
		return err
	}
	defer release()
	cancel := x.setDeadline()
	defer cancel()
	return x.route.serve(x)
}

// capBody refuses by the announced length at once, and whatever goes on past the limit as it is read.
func (x *exchange) capBody() error {
	limit := x.s.cfg.Limits.Object
	if x.route.kind == routeTransactions {
		limit = x.s.cfg.Limits.Transaction
	}
	if x.r.ContentLength > limit {
		// The body is not read: the connection goes, rather than 2 GiB being drained. HTTP/2 ends the stream alone.
		if x.r.ProtoMajor == 1 {
			x.w.Header().Set("Connection", "close")
		}
		return fault.SizeLimit("request body", x.r.ContentLength, limit)
	}
	if x.r.Body != nil {
		x.r.Body = http.MaxBytesReader(x.w.raw, x.r.Body, limit)
	}
	return nil
}

// admitInFlight takes a slot: watches and logs, which last, have their own, so that neither starves the other.
func (x *exchange) admitInFlight() (release func(), err error) {
	if x.route.kind == routeHealth {
		return func() {}, nil
	}
	slots, what := x.s.inFlight, "requests"
	if x.route.lasting() {
		slots, what = x.s.watches, "watches and logs"
	}
	select {
	case slots <- struct{}{}:
		return func() { <-slots }, nil
	default:
		return nil, fault.SlowDown(time.Second, "this member serves %d %s already", cap(slots), what)
	}
}

func (x *exchange) setDeadline() context.CancelFunc {
	if x.route.lasting() {
		ctx, cancel := context.WithCancel(x.r.Context())
		x.r = x.r.WithContext(ctx)
		detach := context.AfterFunc(x.s.cfg.Lasting, cancel)
		return func() {
			detach()
			cancel()
		}
	}
	limit := x.s.cfg.Limits.Request
	if d, err := time.ParseDuration(x.r.URL.Query().Get("timeout")); err == nil && d > 0 && d < limit {
		limit = d
	}
	x.w.readBodyUntil(time.Now().Add(limit))
	ctx, cancel := context.WithTimeout(x.r.Context(), limit)
	x.r = x.r.WithContext(ctx)
	return cancel
}

// crashed answers a panic, which stays one request's: it goes to the log with its stack, and to the client without. Its value
// is not logged in full, for it may hold what the request held.
func (x *exchange) crashed(p any) {
	if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(p)
	}
	x.s.cfg.Logger.Error("request crashed", "request_id", x.id, "path", x.r.URL.Path, "panic", fmt.Sprintf("%.200v", p), "stack", string(debug.Stack()))
	x.fail(fault.Internal.Errorf("internal error; the hub's log has it under request id %s", x.id))
	x.w.finish()
}
