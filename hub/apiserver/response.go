package apiserver

import (
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/drover-fleet/drover/api/fault"
)

// gzipFrom is the size in bytes from which an answer is compressed for a client that takes it; as in Kubernetes.
const gzipFrom = 128 << 10

// response writes one answer. Every write has a deadline, so that a client that reads nothing holds nothing.
type response struct {
	raw     http.ResponseWriter
	ctl     *http.ResponseController
	write   time.Duration // deadline of one write
	gzip    bool          // the client takes gzip
	head    bool
	status  int
	reason  string // of the Status sent, for the audit
	started bool
	size    int // bytes of a whole body, before they are compressed
	// cacheFor is the Cache-Control of an answer that may be kept; empty: none may.
	cacheFor string
}

func newResponse(w http.ResponseWriter, r *http.Request, write time.Duration) *response {
	return &response{
		raw: w, ctl: http.NewResponseController(w), write: write,
		gzip: acceptsGzip(r.Header.Get("Accept-Encoding")), head: r.Method == http.MethodHead,
	}
}

func acceptsGzip(header string) bool {
	for part := range strings.SplitSeq(header, ",") {
		coding, params, _ := strings.Cut(part, ";")
		if strings.TrimSpace(coding) == "gzip" {
			return strings.ReplaceAll(params, " ", "") != "q=0"
		}
	}
	return false
}

// Header is the answer's header, until the first write.
func (w *response) Header() http.Header { return w.raw.Header() }

// readBodyUntil cuts off a client that trickles its body. Not every server supports deadlines; those that do not have
// their own.
func (w *response) readBodyUntil(t time.Time) { _ = w.ctl.SetReadDeadline(t) }

// start sends the header once.
func (w *response) start(status int, contentType string) {
	if w.started {
		return
	}
	w.started, w.status = true, status
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", cmp.Or(w.cacheFor, "no-cache, private"))
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.raw.WriteHeader(status)
}

// Write sends bytes within the write deadline.
func (w *response) Write(b []byte) (int, error) {
	if err := w.ctl.SetWriteDeadline(time.Now().Add(w.write)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0, err
	}
	return w.raw.Write(b)
}

// flush sends what was written, and lifts the deadline: HTTP/2 would cut an idle stream when it passes, written to or not.
func (w *response) flush() error {
	if err := w.ctl.SetWriteDeadline(time.Now().Add(w.write)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if err := w.ctl.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if err := w.ctl.SetWriteDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

// json sends one document.
func (w *response) json(status int, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	return w.bytes(status, "application/json", append(b, '\n'))
}

// bytes sends a whole body, compressed where that pays.
func (w *response) bytes(status int, contentType string, b []byte) error {
	w.size = len(b)
	w.Header().Add("Vary", "Accept-Encoding")
	if !w.gzip || len(b) < gzipFrom {
		w.Header().Set("Content-Length", strconv.Itoa(len(b)))
		w.start(status, contentType)
		if w.head {
			return nil
		}
		_, _ = w.Write(b) // the client is gone or too slow: nobody is left to tell
		return nil
	}
	w.Header().Set("Content-Encoding", "gzip")
	w.start(status, contentType)
	z, _ := compressors.Get().(*gzip.Writer)
	z.Reset(w)
	_, _ = z.Write(b)
	_ = z.Close()
	compressors.Put(z)
	return nil
}

// compressors are kept for the next answer: each holds most of a MiB.
var compressors = sync.Pool{New: func() any {
	z, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
	if err != nil {
		panic(err) // of a level that there is not
	}
	return z
}}

// warn adds a Warning header as RFC 7234 and Kubernetes write it.
func (w *response) warn(text string) {
	quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", " ", "\r", " ").Replace(text)
	w.Header().Add("Warning", `299 - "`+quoted+`"`)
}

// finish flushes what a handler left.
func (w *response) finish() {
	if !w.started {
		w.start(http.StatusOK, "application/json")
	}
}

// outcome is one word for the audit.
func (w *response) outcome() string {
	switch {
	case w.reason != "":
		return w.reason
	case w.status >= http.StatusBadRequest:
		return http.StatusText(w.status)
	}
	return "ok"
}

// fail answers with the Status of an error, or, where the answer has begun, only puts it on record.
func (x *exchange) fail(err error) {
	st := x.statusOf(err)
	x.w.reason = st.Reason
	if fault.ClassOf(err) == fault.Internal {
		x.s.cfg.Logger.Error("request failed", "request_id", x.id, "object", x.route.object(), "err", err)
	}
	if x.w.started {
		return
	}
	if after := fault.RetryAfter(err); after > 0 {
		x.w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(after.Seconds()))))
	}
	if st.Code == http.StatusUnsupportedMediaType {
		x.w.Header().Set("Accept-Patch", patchTypes)
	}
	_ = x.w.json(st.Code, st)
}

// statusOf completes an error's Status with what the path says of the object.
func (x *exchange) statusOf(err error) fault.Status {
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		err = fault.TooLarge.Errorf("request body is more than %d bytes; the limit is %d bytes", tooLarge.Limit, tooLarge.Limit)
	}
	st := fault.StatusOf(err)
	d := x.route.details()
	if d.Kind == "" || st.Status == "Success" {
		return st
	}
	if st.Details == nil {
		st.Details = new(fault.StatusDetails)
	}
	// An error about another object (a missing namespace, say) keeps its own details.
	if st.Details.Kind == "" || st.Details.Kind == x.route.ref.Kind.Kind {
		st.Details.Kind = d.Kind
	}
	if st.Details.Kind == d.Kind {
		st.Details.Group = d.Group
		if st.Details.Name == "" {
			st.Details.Name = d.Name
		}
	}
	return st
}
