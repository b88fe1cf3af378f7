package httpgw

import (
	"context"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/wire"
	"github.com/drover-fleet/drover/hub/audit"
	"github.com/drover-fleet/drover/hub/enroll"
	"github.com/drover-fleet/drover/hub/fair"
	"github.com/drover-fleet/drover/hub/gateway"
)

const (
	readTimeout  = 30 * time.Second // for a request's body
	writeTimeout = 30 * time.Second // for a reply
	contentType  = "application/cbor"
	maxContacts  = 4 << 20
)

// Devices is what hub/gateway does for devices.
type Devices interface {
	Hello(context.Context, gateway.Peer, wire.Hello) (wire.HelloReply, error)
	Poll(context.Context, gateway.Peer, wire.Poll) (wire.PollReply, error)
	Bodies(context.Context, gateway.Peer, wire.BodiesRequest) (wire.BodiesReply, error)
	Report(context.Context, gateway.Peer, wire.Report) (wire.ReportReply, error)
	Token(context.Context, gateway.Peer, wire.TokenRequest) (wire.TokenReply, error)
	Stream(ctx context.Context, p gateway.Peer, id string, body io.Reader, interrupt func()) error
}

// Enroller is what hub/enroll does for those who have no certificate yet.
type Enroller interface {
	Enroll(ctx context.Context, q wire.EnrollRequest, source string) (wire.EnrollReply, error)
	Join(ctx context.Context, q enroll.JoinRequest) (enroll.JoinReply, error)
}

// Config of a Handler. Devices and Contacts are required; without Enroller nobody enrolls here.
type Config struct {
	Devices  Devices
	Contacts *gateway.Contacts
	Enroller Enroller
	Logger   *slog.Logger
	// IsMember, when set, says whether a certificate is that of a hub member now: it outlives its owner's removal, and its replacement.
	IsMember func(cert *x509.Certificate) bool
	// Audit puts refused requests on record, Seats say whose turn it is, and Polls who may hold one more poll or stream. Nil: nobody does.
	Audit Audit
	Seats *fair.Seats
	Polls *fair.Shares
	// Refused, when set, hears of each refusal by its reason. It must not block.
	Refused func(reason string)
	// Observe, when set, hears of each request that was answered: what message it was and the HTTP status. It must not block.
	Observe func(message string, code int)
}

// Messages of devices and of those who become one, for who counts.
const (
	messageHello    = "hello"
	messagePoll     = "poll"
	messageBodies   = "bodies"
	messageReport   = "report"
	messageToken    = "token"
	messageStream   = "stream"
	messageEnroll   = "enroll"
	messageJoin     = "join"
	messageContacts = "contacts" // of other members
)

// Messages lists all of them.
func Messages() []string {
	return []string{messageHello, messagePoll, messageBodies, messageReport, messageToken, messageStream, messageEnroll, messageJoin, messageContacts}
}

// counted tells what was answered to a message.
func (h *handler) counted(message string, fn http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s := &statusWriter{ResponseWriter: w}
		fn(s, r.WithContext(audit.WithSource(r.Context(), r.RemoteAddr)))
		if h.c.Observe != nil {
			h.c.Observe(message, s.status)
		}
		h.refused(message, r, s.status)
	}
}

// statusWriter keeps the status; 0 when nothing was answered.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// New makes the handler of every path of the device protocol. The server in front of it asks for client certificates and
// verifies those given (tls.VerifyClientCertIfGiven).
func New(c Config) http.Handler {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	h := &handler{c}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+wire.PathHello, h.counted(messageHello, h.device(call(c.Devices.Hello, wire.MaxHello))))
	mux.HandleFunc("POST "+wire.PathPoll, h.counted(messagePoll, h.device(call(c.Devices.Poll, wire.MaxHello))))
	mux.HandleFunc("POST "+wire.PathBodies, h.counted(messageBodies, h.device(call(c.Devices.Bodies, wire.MaxDesired))))
	mux.HandleFunc("POST "+wire.PathReport, h.counted(messageReport, h.device(call(c.Devices.Report, wire.MaxReport))))
	mux.HandleFunc("POST "+wire.PathToken, h.counted(messageToken, h.device(call(c.Devices.Token, wire.MaxTokenRequest))))
	mux.HandleFunc("PUT "+wire.PathStream+"{id}", h.counted(messageStream, h.device(h.stream)))
	mux.HandleFunc("POST "+PathContacts, h.counted(messageContacts, h.contacts))
	if c.Enroller != nil {
		mux.HandleFunc("POST "+wire.PathEnroll, h.counted(messageEnroll, h.enroll))
		mux.HandleFunc("POST "+enroll.PathJoin, h.counted(messageJoin, h.join))
	}
	return mux
}

type handler struct{ c Config }

// device runs fn for a request that carries a device's certificate.
func (h *handler) device(fn func(http.ResponseWriter, *http.Request, gateway.Peer) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		p, err := peerOf(r)
		if err == nil {
			err = h.inTurn(r, p.Device, func() error { return fn(w, r, p) })
		}
		h.fail(w, r, err)
	}
}

// call decodes a request, calls fn and encodes its reply.
func call[Q, R any](fn func(context.Context, gateway.Peer, Q) (R, error), limit int) func(http.ResponseWriter, *http.Request, gateway.Peer) error {
	return func(w http.ResponseWriter, r *http.Request, p gateway.Peer) error {
		var q Q
		if err := read(w, r, limit, &q); err != nil {
			return err
		}
		reply, err := fn(r.Context(), p, q)
		if err != nil {
			return err
		}
		return write(w, reply)
	}
}

func (h *handler) stream(w http.ResponseWriter, r *http.Request, p gateway.Peer) error {
	rc := http.NewResponseController(w)
	if err := rc.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	interrupt := func() {
		if err := rc.SetReadDeadline(time.Unix(1, 0)); err != nil {
			h.c.Logger.Debug("stream not interrupted", "device", p.Device, "err", err)
		}
	}
	if err := h.c.Devices.Stream(r.Context(), p, r.PathValue("id"), r.Body, interrupt); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (h *handler) enroll(w http.ResponseWriter, r *http.Request) {
	var q wire.EnrollRequest
	leave, err := h.strangersTurn(r)
	if err == nil {
		defer leave()
		err = read(w, r, wire.MaxEnroll, &q)
	}
	if err == nil {
		var reply wire.EnrollReply
		if reply, err = h.c.Enroller.Enroll(r.Context(), q, r.RemoteAddr); err == nil {
			err = write(w, reply)
		}
	}
	h.fail(w, r, err)
}

func (h *handler) join(w http.ResponseWriter, r *http.Request) {
	var q enroll.JoinRequest
	leave, err := h.strangersTurn(r)
	if err == nil {
		defer leave()
		err = read(w, r, wire.MaxEnroll, &q)
	}
	if err == nil {
		var reply enroll.JoinReply
		if reply, err = h.c.Enroller.Join(r.Context(), q); err == nil {
			err = write(w, reply)
		}
	}
	h.fail(w, r, err)
}

// peerOf is the device that the request's verified client certificate names.
func peerOf(r *http.Request) (gateway.Peer, error) {
	cert, err := clientCert(r, wire.OrgDevices)
	if err != nil {
		return gateway.Peer{}, err
	}
	key, ok := cert.PublicKey.(*ecdsa.PublicKey)
	if !ok {
		return gateway.Peer{}, fault.Forbidden.Errorf("certificate of %s has a key of type %T, want ECDSA", cert.Subject.CommonName, cert.PublicKey)
	}
	sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	return gateway.Peer{
		Device: cert.Subject.CommonName, Fingerprint: "sha256:" + hex.EncodeToString(sum[:]), Key: key, Source: r.RemoteAddr,
	}, nil
}

func clientCert(r *http.Request, org string) (*x509.Certificate, error) {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return nil, fault.Unauthorized.Errorf("a client certificate of this cluster is needed")
	}
	cert := r.TLS.VerifiedChains[0][0]
	if !slices.Equal(cert.Subject.Organization, []string{org}) {
		return nil, fault.Forbidden.Errorf("certificate of %q is of %q; this path is for %s", cert.Subject.CommonName, cert.Subject.Organization, org)
	}
	return cert, nil
}

// read takes a body of at most limit bytes. The size is checked before anything is allocated, and while reading.
func read(w http.ResponseWriter, r *http.Request, limit int, into any) error {
	if t := r.Header.Get("Content-Type"); t != contentType {
		return fault.UnsupportedMedia.Errorf("content type %q, want %s", t, contentType)
	}
	if coding := r.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return fault.UnsupportedMedia.Errorf("content encoding %.40q: send the body as it is", coding)
	}
	if r.ContentLength > int64(limit) {
		return fault.SizeLimit("request body", r.ContentLength, int64(limit))
	}
	rc := http.NewResponseController(w)
	if err := rc.SetReadDeadline(time.Now().Add(readTimeout)); err != nil {
		return err
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(limit)))
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return fault.TooLarge.Errorf("request body is above the limit of %d bytes", limit)
	}
	if err != nil {
		return fault.BadRequest.Errorf("read request body: %w", err)
	}
	// A deadline left standing would end a held poll.
	if err := rc.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	return wire.Decode(body, limit, into)
}

func write(w http.ResponseWriter, v any) error {
	data, err := wire.Encode(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", contentType)
	return send(w, http.StatusOK, data)
}

func send(w http.ResponseWriter, status int, data []byte) error {
	if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(status)
	_, _ = w.Write(data) // the client went away: nobody is left to tell
	return nil
}

// fail answers with err, if there is one.
func (h *handler) fail(w http.ResponseWriter, r *http.Request, err error) {
	if err == nil {
		return
	}
	status := fault.StatusOf(err)
	if status.Code >= 500 && fault.ClassOf(err) == fault.Internal {
		h.c.Logger.Error("request failed", "path", strings.TrimSuffix(r.URL.Path, r.PathValue("id")), "err", err)
	}
	if after := fault.RetryAfter(err); after > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(int64((after+time.Second-1)/time.Second), 10))
	}
	data, err := json.Marshal(status)
	if err != nil {
		h.c.Logger.Error("status not encoded", "err", err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := send(w, status.Code, data); err != nil {
		h.c.Logger.Debug("answer not sent", "err", err)
	}
}
