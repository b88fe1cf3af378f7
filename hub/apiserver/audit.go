package apiserver

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/client/auditlog"
	"github.com/drover-fleet/drover/client/remote"
	"github.com/drover-fleet/drover/hub/audit"
)

// Audit puts requests on record; an *audit.Log is one.
type Audit interface {
	Policy() *audit.Policy
	Receipt(ctx context.Context, r auditlog.Record) error
	Outcome(r auditlog.Record)
}

// Lengths of a request id that a client may choose, in bytes. Shorter ones would collide by chance.
const (
	minRequestID = 16
	maxRequestID = 128
)

// maxItems bounds how many items of a transaction a record names.
const maxItems = 1000

// nameRequest takes the client's request id when it is a sound one, else makes one, and says it back.
func (x *exchange) nameRequest() {
	x.id = x.r.Header.Get(remote.HeaderRequestID)
	if !soundRequestID(x.id) {
		x.id = x.s.cfg.NewID()
	}
	x.w.Header().Set(remote.HeaderRequestID, x.id)
	x.w.Header().Set("Audit-Id", x.id)
}

func soundRequestID(id string) bool {
	if len(id) < minRequestID || len(id) > maxRequestID {
		return false
	}
	for i := range len(id) {
		c := id[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return true
}

// recorded is what the audit learns of a request on its way.
type recorded struct {
	level   audit.Level
	receipt bool // there is one
	crashed bool
	body    []byte          // where the policy wants it
	items   []auditlog.Item // of a transaction
	more    int             // items that were left out
	forced  bool
	dry     bool             // nothing is written: known once the options are read, wherever they stand
	object  *auditlog.Object // as it was answered: what the path does not say, a uid, or a name that was made up
}

// policyAttributes are what the audit's policy judges a request by.
func (x *exchange) policyAttributes() *audit.Attributes {
	rt := x.route
	a := &audit.Attributes{User: x.user.Name, Groups: x.user.Groups, Verb: rt.verb, Path: rt.path}
	if rt.verb == "operate" {
		a.Verb = "post"
	}
	if k := rt.ref.Kind; k != nil {
		a.Group, a.Resource, a.Sub, a.Namespace, a.Name = k.Group(), k.Plural, rt.sub, rt.ref.Namespace, rt.ref.Name
	}
	if rt.kind == routeTransactions {
		a.Verb, a.Group, a.Resource = "create", api.Group, "transactions"
	}
	return a
}

// record is what is known of the request now.
func (x *exchange) record() auditlog.Record {
	rt, rec := x.route, &x.audited
	r := auditlog.Record{
		RequestID: x.id, Actor: x.user.Actor(), Groups: x.user.Groups, By: x.by(), Source: x.r.RemoteAddr, Verb: rt.verb, Path: rt.path, Forced: x.forces(),
		Items: rec.items,
	}
	if k := rt.ref.Kind; k != nil {
		r.Object = &auditlog.Object{Group: k.Group(), Resource: k.Plural, Subresource: rt.sub, Kind: k.Kind, Namespace: rt.ref.Namespace, Name: rt.ref.Name}
		if o := rec.object; o != nil {
			r.Object.UID, r.Object.Name = o.UID, o.Name
		}
	}
	var notes []string
	if rec.dry {
		notes = append(notes, "dry run")
	}
	if rec.more > 0 {
		notes = append(notes, "more items than are named here")
	}
	r.Note = strings.Join(notes, "; ")
	return r
}

// forces tells whether the request overrides a safety.
func (x *exchange) forces() bool {
	return x.audited.forced || x.route.writes() && isTrue(x.r.URL.Query().Get("force"))
}

// receipt puts a write on record before it is tried, so that a crash in the middle is on record too. An error means: do not try it.
func (x *exchange) receipt() error {
	if !x.route.writes() {
		return nil
	}
	x.log(slog.LevelDebug, "request received")
	if x.s.cfg.Audit == nil {
		return nil
	}
	a := x.policyAttributes()
	x.audited.level = x.s.cfg.Audit.Policy().Level(a)
	if x.audited.level == audit.LevelNone && !x.forces() && x.by() == "" {
		return nil
	}
	r := x.record()
	if x.audited.level == audit.LevelRequest {
		r.Body = audit.Body(a, x.audited.body)
	}
	if err := x.s.cfg.Audit.Receipt(x.r.Context(), r); err != nil {
		x.refused("audit")
		return err
	}
	x.audited.receipt = true
	return nil
}

// keepBody reads the body ahead where the audit keeps it.
func (x *exchange) keepBody() error {
	if x.s.cfg.Audit == nil || !x.route.writes() || x.s.cfg.Audit.Policy().Level(x.policyAttributes()) != audit.LevelRequest {
		return nil
	}
	b, err := x.readBody()
	if err != nil {
		return err
	}
	x.audited.body = b
	x.r.Body = io.NopCloser(bytes.NewReader(b))
	return nil
}

// named notes what a transaction is about, before it is put on record.
func (x *exchange) named(verb string, obj api.Object) {
	if len(x.audited.items) >= maxItems {
		x.audited.more++
		return
	}
	k, ok := api.KindFor(obj)
	if !ok {
		return
	}
	m := obj.Meta()
	x.audited.items = append(x.audited.items, auditlog.Item{Verb: verb, Object: auditlog.Object{
		Group: k.Group(), Resource: k.Plural, Kind: k.Kind, Namespace: m.Namespace, Name: m.Name,
	}})
}

// answered notes the object of an answer.
func (x *exchange) answered(obj api.Object) {
	if m := obj.Meta(); x.route.writes() || x.route.ref.Name == m.Name {
		x.audited.object = &auditlog.Object{UID: m.UID, Name: m.Name}
	}
}

// outcome puts on record how a request ended: of everything with a receipt, every refusal, and the reads that the policy names.
func (x *exchange) outcome(took time.Duration) {
	level := slog.LevelDebug
	x.log(level, "request done", slog.Int("code", x.w.status), slog.String("outcome", x.w.outcome()), slog.Int64("ms", took.Milliseconds()))
	if x.s.cfg.Audit == nil {
		return
	}
	denied := auditlog.Refusal(x.w.status) != ""
	if !x.audited.receipt && !denied && !x.audited.crashed && x.by() == "" {
		if x.route.public() || x.s.cfg.Audit.Policy().Level(x.policyAttributes()) == audit.LevelNone || x.w.status == http.StatusNotFound && x.route.kind == routeNone {
			return
		}
	}
	r := x.record()
	r.Code, r.Reason, r.Ms, r.Decision = x.w.status, x.w.reason, took.Milliseconds(), auditlog.Allow
	switch {
	case x.audited.crashed:
		r.Reason = auditlog.ReasonCrashed
	case denied:
		r.Decision = auditlog.Deny
	case x.w.status == http.StatusGatewayTimeout && x.route.writes():
		r.Reason = auditlog.ReasonUnknown
	case x.there.Err() != nil && !x.route.lasting():
		r.Reason = auditlog.ReasonGone
	}
	x.s.cfg.Audit.Outcome(r)
}

// refused counts a request that was refused, by a reason of few.
func (x *exchange) refused(reason string) {
	if !x.counted && x.s.cfg.Refused != nil {
		x.counted = true
		x.s.cfg.Refused(reason)
	}
}

// countRefusal counts an answer that was not counted where it was decided.
func (x *exchange) countRefusal() {
	if reason := auditlog.Refusal(x.w.status); reason != "" {
		x.refused(reason)
	}
}

// by is who truly asks, where it is in another's name.
func (x *exchange) by() string {
	if x.user.By == nil {
		return ""
	}
	return x.user.By.Actor()
}

func (x *exchange) log(level slog.Level, msg string, more ...slog.Attr) {
	attrs := []slog.Attr{
		slog.String("request_id", x.id),
		slog.String("actor", x.user.Actor()),
		slog.String("verb", x.route.verb),
		slog.String("object", x.route.object()),
		slog.String("source", x.r.RemoteAddr),
	}
	x.s.cfg.Logger.LogAttrs(context.WithoutCancel(x.r.Context()), level, msg, append(attrs, more...)...)
}
