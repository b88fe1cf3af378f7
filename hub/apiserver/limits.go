package apiserver

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/drover-fleet/drover/api/fault"
)

// Bounds of what stands before a body. net/http bounds headers too, at the listener's MaxHeaderBytes, where the connection is cut; these
// are below that, so that who sends too much is told, counted and put on record.
const (
	maxURL      = 16 << 10 // bytes of path and query
	maxHeader   = 32 << 10 // bytes of all headers
	maxQuery    = 64       // parameters
	maxSelector = 4 << 10  // bytes of one selector
)

// A body comes at bodyRate bytes a second at least, after bodyGrace.
const (
	bodyGrace = 5 * time.Second
	bodyRate  = 4 << 10
)

// checkSize refuses by what is announced at once, and whatever goes on past the limit as it is read.
func (x *exchange) checkSize() error {
	if err := x.checkHead(); err != nil {
		return err
	}
	limit := x.s.cfg.Limits.Object
	if x.route.kind == routeTransactions {
		limit = x.s.cfg.Limits.Transaction
	}
	if x.r.ContentLength > limit {
		// The body is not read: the connection goes, rather than 2 GiB being drained. HTTP/2 ends the stream alone.
		x.hangUp()
		return fault.SizeLimit("request body", x.r.ContentLength, limit)
	}
	if x.r.Body != nil {
		x.r.Body = http.MaxBytesReader(x.w.raw, x.r.Body, limit)
	}
	return nil
}

func (x *exchange) checkHead() error {
	if n := len(x.r.URL.RequestURI()); n > maxURL {
		return fault.SizeLimit("request path and query", int64(n), maxURL)
	}
	if n := headerBytes(x.r.Header); n > maxHeader {
		x.hangUp()
		return fault.SizeLimit("request header", int64(n), maxHeader)
	}
	if n := strings.Count(x.r.URL.RawQuery, "&") + 1; n > maxQuery {
		return fault.BadRequest.Errorf("the query has %d parameters; the limit is %d", n, maxQuery)
	}
	if coding := x.r.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		x.hangUp()
		return fault.UnsupportedMedia.Errorf("content encoding %q: send the body as it is; only answers are compressed", clip(coding))
	}
	q := x.r.URL.Query()
	for _, name := range []string{"labelSelector", "fieldSelector"} {
		for _, v := range q[name] {
			if len(v) > maxSelector {
				return fault.BadRequest.Errorf("%s is %d bytes; the limit is %d bytes", name, len(v), maxSelector)
			}
		}
	}
	return nil
}

func headerBytes(h http.Header) int {
	n := 0
	for name, values := range h {
		for _, v := range values {
			n += len(name) + len(v) + 4 // as HTTP/1 writes it
		}
	}
	return n
}

// hangUp ends an HTTP/1 connection after the answer, so that no body is drained for it.
func (x *exchange) hangUp() {
	if x.r.ProtoMajor == 1 {
		x.w.Header().Set("Connection", "close")
	}
}

// paceBody cuts off a client that trickles its body: by a deadline for the whole, and one that each byte pushes on.
func (x *exchange) paceBody(until time.Time) {
	x.w.readBodyUntil(until)
	if x.r.Body != nil && x.r.Body != http.NoBody {
		x.r.Body = &pacedBody{x: x, body: x.r.Body, began: time.Now(), until: until}
	}
}

// pacedBody is a request's body. Its deadline is when the next byte is due at bodyRate.
type pacedBody struct {
	x     *exchange
	body  io.ReadCloser
	began time.Time
	until time.Time
	n     int64
}

func (b *pacedBody) Read(p []byte) (int, error) {
	due := b.began.Add(b.x.s.cfg.Limits.BodyGrace + time.Duration(b.n)*time.Second/bodyRate)
	if due.After(b.until) {
		due = b.until
	}
	b.x.w.readBodyUntil(due)
	n, err := b.body.Read(p)
	b.n += int64(n)
	if err != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		b.x.hangUp()
		b.x.refused("slow_body")
		err = fault.BadRequest.Errorf("the request body comes too slowly: %d bytes in %s; %d bytes a second are expected", b.n, time.Since(b.began).Round(time.Millisecond), bodyRate)
	}
	if err != nil { // a deadline left standing would end a watch of what comes later
		b.x.w.readBodyUntil(b.until)
	}
	return n, err
}

func (b *pacedBody) Close() error { return b.body.Close() }
