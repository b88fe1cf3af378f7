package apiserver

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client/remote"
)

// Operation is one thing that an operator may ask of the hub itself, at remote.PathHub and its name. One of the three is set.
type Operation struct {
	Read   func(ctx context.Context) (any, error)               // GET; answered as JSON
	Write  func(ctx context.Context, q url.Values) (any, error) // POST; on record like every write
	Stream func(ctx context.Context, w io.Writer) (err error)   // GET; bytes that may take long
}

func (rt route) streams() bool {
	return rt.kind == routeHub && strings.TrimPrefix(rt.path, remote.PathHub) == remote.HubSnapshotOp
}

// hubRoute leaves the method to the operation.
func hubRoute(path string, r *http.Request) (route, bool) {
	if !strings.HasPrefix(path, remote.PathHub) {
		return route{}, false
	}
	verb := "get"
	if !reads(r) {
		verb = "operate"
	}
	return route{kind: routeHub, verb: verb, path: path, serve: (*exchange).operation}, true
}

func (x *exchange) operation() error {
	op, ok := x.s.cfg.Operations[strings.TrimPrefix(x.route.path, remote.PathHub)]
	if !ok {
		return noSuchPath(x.route.path)
	}
	want := http.MethodGet
	if op.Write != nil {
		want = http.MethodPost
	}
	if x.r.Method != want {
		return fault.MethodNotAllowed.Errorf("%s is not allowed at %s: use %s", x.r.Method, x.route.path, want)
	}
	if op.Stream != nil {
		return x.pour(op)
	}
	ctx := x.r.Context()
	var answer any
	var err error
	if op.Read != nil {
		answer, err = op.Read(ctx)
	} else {
		answer, err = op.Write(ctx, x.r.URL.Query())
	}
	if err != nil {
		return err
	}
	if answer == nil {
		answer = struct{}{}
	}
	return x.w.json(http.StatusOK, answer)
}

// pour streams an operation's bytes. Once they have begun a failure can only cut the stream off, which its format shows.
func (x *exchange) pour(op Operation) error {
	w := &pouring{x: x}
	err := op.Stream(x.r.Context(), w)
	switch {
	case err == nil || !x.w.started:
		return err
	case context.Cause(x.r.Context()) != nil:
		return nil // the client is gone
	}
	x.s.cfg.Logger.Warn("stream broke off", "request_id", x.id, "object", x.route.object(), "err", err)
	panic(http.ErrAbortHandler)
}

type pouring struct{ x *exchange }

func (p *pouring) Write(b []byte) (int, error) {
	p.x.w.start(http.StatusOK, "application/octet-stream")
	return p.x.w.Write(b)
}
