package httpgw

import (
	"net"
	"net/http"
	"strings"

	"github.com/drover-fleet/drover/api/wire"
	"github.com/drover-fleet/drover/client/auditlog"
	"github.com/drover-fleet/drover/hub/fair"
)

// Audit puts on record what was refused; an *audit.Log is one.
type Audit interface {
	Outcome(r auditlog.Record)
}

// inTurn runs fn when it is the device's turn. Polls and streams, which last, are counted apart.
func (h *handler) inTurn(r *http.Request, device string, fn func() error) error {
	var leave func()
	var err error
	switch lasts := r.URL.Path == wire.PathPoll || strings.HasPrefix(r.URL.Path, wire.PathStream); {
	case lasts && h.c.Polls != nil:
		leave, err = h.c.Polls.Take(device)
	case !lasts && h.c.Seats != nil:
		leave, err = h.c.Seats.Enter(r.Context(), fair.Devices, device, 1)
	default:
		return fn()
	}
	if err != nil {
		return err
	}
	defer leave()
	return fn()
}

// strangersTurn waits for the turn of somebody without a certificate, who is told from others by the address.
func (h *handler) strangersTurn(r *http.Request) (leave func(), err error) {
	if h.c.Seats == nil {
		return func() {}, nil
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	return h.c.Seats.Enter(r.Context(), fair.Strangers, host, 1)
}

// refused counts an answer that refuses, and puts it on record.
func (h *handler) refused(message string, r *http.Request, status int) {
	reason := auditlog.Refusal(status)
	if reason == "" {
		return
	}
	if h.c.Refused != nil && status != http.StatusTooManyRequests { // which hub/fair has counted
		h.c.Refused(reason)
	}
	if h.c.Audit == nil || message == messageEnroll || message == messageJoin { // which are on record whatever becomes of them
		return
	}
	h.c.Audit.Outcome(auditlog.Record{
		Actor: actorOf(r), Source: r.RemoteAddr, Verb: message, Path: r.URL.Path, Code: status, Reason: reason, Decision: auditlog.Deny,
	})
}

// actorOf names the certificate that a request came with, whether or not it may do anything.
func actorOf(r *http.Request) string {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return "anonymous"
	}
	s := r.TLS.VerifiedChains[0][0].Subject
	if len(s.Organization) == 1 {
		switch s.Organization[0] {
		case wire.OrgDevices:
			return "device:" + s.CommonName
		case wire.OrgHubs:
			return "hub:" + s.CommonName
		}
	}
	return "user:" + s.CommonName
}
