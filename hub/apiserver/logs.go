package apiserver

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/wire"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/client/remote"
)

const plainText = "text/plain; charset=utf-8"

// deviceLog streams a container's log from the device that the assignment is bound to. The device's link is on one member: this
// one, or, when the log is not to be had here, another that the request is passed on to.
func (x *exchange) deviceLog() error {
	if x.s.cfg.Logs == nil {
		return noSuchPath(x.route.path)
	}
	q, err := logQuery(x.r.URL.Query())
	if err != nil {
		return err
	}
	obj, err := x.client().Get(x.r.Context(), x.route.ref, client.GetOptions{})
	if err != nil {
		return err
	}
	a, ok := obj.(*api.Assignment)
	if !ok {
		return fault.Internal.Errorf("assignment %s is a %T", x.route.ref.Name, obj)
	}
	if a.Spec.Device == "" {
		return fault.Unavailable.Errorf("assignment %q is not bound to a device yet: there is no log", x.route.ref.Name)
	}
	q.UID = a.Metadata.UID
	log, err := x.s.cfg.Logs.Logs(x.r.Context(), a.Spec.Device, q)
	if err == nil {
		defer log.Close()
		return x.stream(http.StatusOK, plainText, log)
	}
	// Timeout: what this member takes for a link may be dead, and the device's live one elsewhere.
	if x.r.Header.Get(remote.HeaderLocalOnly) != "" || !fault.Is(err, fault.Unavailable, fault.Timeout) {
		return err
	}
	return x.logElsewhere(a.Spec.Device, err)
}

func logQuery(v url.Values) (wire.Logs, error) {
	q := wire.Logs{Container: v.Get("container"), Follow: isTrue(v.Get("follow")), Previous: isTrue(v.Get("previous")), TailLines: -1}
	if len(q.Container) > 63 {
		return q, fault.BadRequest.Errorf("container %q: names have at most 63 bytes", clip(q.Container))
	}
	if text := v.Get("tailLines"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			return q, fault.BadRequest.Errorf("tailLines %q: want a number from 0 up", clip(text))
		}
		q.TailLines = n
	}
	return q, nil
}

// logElsewhere asks the other members in turn, each for what it has itself. Where none has it the device is linked to none,
// or does not answer here, which is what the error then says.
func (x *exchange) logElsewhere(device string, here error) error {
	if x.s.cfg.Members == nil || x.s.cfg.Peer == nil {
		return here
	}
	members, err := x.s.cfg.Members.Members(x.r.Context())
	if err != nil {
		return err
	}
	for _, m := range members {
		if m.Name == x.s.cfg.Member || m.URL == "" {
			continue
		}
		resp, err := x.passOn(m)
		if err != nil {
			x.s.cfg.Logger.Info("log not passed on", "request_id", x.id, "member", m.Name, "err", err)
			continue
		}
		if resp.StatusCode == http.StatusServiceUnavailable || resp.StatusCode == http.StatusGatewayTimeout {
			_ = resp.Body.Close()
			continue
		}
		defer resp.Body.Close()
		return x.stream(resp.StatusCode, resp.Header.Get("Content-Type"), resp.Body)
	}
	if fault.Is(here, fault.Timeout) {
		return here
	}
	return fault.Unavailable.Errorf("device %q has no link to any member of the hub now (%s): its log cannot be read until it is back", device, x.lastHeard(device))
}

// passOn sends the request to another member in this member's name, on behalf of who made it. The answer's body is the
// caller's to close.
func (x *exchange) passOn(m remote.Member) (*http.Response, error) {
	u, err := url.Parse(m.URL)
	if err != nil {
		return nil, fmt.Errorf("address of member %s: %w", m.Name, err)
	}
	u.Path, u.RawQuery = x.r.URL.Path, x.r.URL.RawQuery
	rq, err := http.NewRequestWithContext(x.r.Context(), http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	rq.Header.Set(remote.HeaderLocalOnly, "1")
	behalf, err := x.user.behalfHeader()
	if err != nil {
		return nil, err
	}
	rq.Header.Set(remote.HeaderOnBehalfOf, behalf)
	rq.Header.Set(remote.HeaderRequestID, x.id)
	return x.s.cfg.Peer.RoundTrip(rq)
}

func (x *exchange) lastHeard(device string) string {
	if x.s.cfg.Contacts != nil {
		if age, ok := x.s.cfg.Contacts.Last(device); ok {
			return "last contact " + humanDuration(age) + " ago"
		}
	}
	return "no contact known"
}

// stream copies as it comes, each piece flushed. What breaks after the start ends the body early; there is no other sign in
// HTTP, so the connection is cut and the client sees an unexpected end.
func (x *exchange) stream(status int, contentType string, from io.Reader) error {
	if status == http.StatusOK {
		contentType = plainText // never what a device may call it
	}
	x.w.start(status, contentType)
	if x.w.head {
		return nil
	}
	if err := x.w.flush(); err != nil {
		return nil // the client is gone
	}
	buf := make([]byte, 16<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if _, werr := x.w.Write(buf[:n]); werr != nil {
				return nil // the client is gone or takes nothing
			}
			if werr := x.w.flush(); werr != nil {
				return nil // the same
			}
		}
		switch {
		case err == io.EOF: // io.Reader's contract
			return nil
		case x.s.cfg.Lasting.Err() != nil:
			panic(http.ErrAbortHandler) // there may be more, at another member
		case context.Cause(x.r.Context()) != nil:
			return nil // the client is gone
		case err != nil:
			x.s.cfg.Logger.Warn("log broke off", "request_id", x.id, "object", x.route.object(), "err", err)
			panic(http.ErrAbortHandler)
		}
	}
}
