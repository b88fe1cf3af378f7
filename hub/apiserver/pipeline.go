package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/hub/fair"
)

// Server is the operators' API of one member. It is safe for concurrent use.
type Server struct {
	cfg     Config
	watches *fair.Shares // of watches and logs
	lists   sizes        // what lists came to of late
	openAPI *openAPI
}

// New returns the handler of everything under /api, /apis, /openapi, /version, /healthz, /livez, /readyz, and of
// /metrics and /drover/v1/{why,members,hub/*}. The caller mounts it beside the device gateway's paths.
func New(cfg Config) (*Server, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("API server: %w", err)
	}
	return &Server{
		cfg:     cfg,
		watches: fair.NewShares("watches and logs", cfg.Limits.Watches, max(1, cfg.Limits.Watches/2), cfg.Refused),
		openAPI: new(openAPI),
	}, nil
}

// exchange is one request on its way through the pipeline.
type exchange struct {
	s     *Server
	w     *response
	r     *http.Request // its context carries the deadline
	id    string        // request id
	user  User
	route route

	audited recorded
	there   context.Context // ends when the client goes away
	counted bool            // its refusal is

	repeated bool // the write was done before: it answers with what stands, not with what the request holds
}

// ServeHTTP is the pipeline. Each step either passes the request on or answers with a Status:
//
//	size → who → may → its turn (hub/fair) → receipt (hub/audit) → handler → registry (admission, validation, precondition, consensus)
//
// The registry's part is reached through the client that Config.Clients gives for the user.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{s: s, r: r, there: r.Context(), w: newResponse(w, r, s.cfg.Limits.Write)}
	started := s.cfg.Now()
	x.nameRequest()
	defer func() {
		took := s.cfg.Now().Sub(started)
		x.countRefusal()
		x.outcome(took)
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
	var err, lost error
	x.route, lost = parseRoute(x.r)
	if err := x.checkSize(); err != nil {
		if id, unknown := x.s.identify(x.r); unknown == nil {
			x.user = User{Identity: id} // for the record
		}
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
	leave, err := x.takeTurn()
	if err != nil {
		return err
	}
	defer leave()
	cancel := x.setDeadline()
	defer cancel()
	if err := x.keepBody(); err != nil {
		return err
	}
	if x.route.kind != routeTransactions { // which is put on record once it is known what it holds
		if err := x.receipt(); err != nil {
			return err
		}
	}
	return x.route.serve(x)
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
	x.paceBody(time.Now().Add(limit))
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
	x.audited.crashed = true
	x.s.cfg.Logger.Error("request crashed", "request_id", x.id, "path", x.r.URL.Path, "panic", fmt.Sprintf("%.200v", p), "stack", string(debug.Stack()))
	x.fail(fault.Internal.Errorf("internal error; the hub's log has it under request id %s", x.id))
	x.w.finish()
}
