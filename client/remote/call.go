package remote

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/retry"
)

// Limits of answers, in bytes. A list may be as large as all objects of a kind; a refusal may not.
const (
	maxAnswer  = 512 << 20
	maxRefusal = 1 << 20
)

// call is one request, which may be sent to more than one member.
type call struct {
	method string
	path   string
	query  url.Values
	body   []byte
	media  string // content type of the body
	accept string // form of the answer; "" = JSON
	id     string // request id, the same at every attempt
	// firm: Unavailable is an answer, not a reason to ask again, once every member was asked.
	firm bool
}

// do sends the call until a member answers: to each member in turn, the one that answered last first, round after round
// with back-off. Every call may be sent again: reads have no effect, and writes carry an id by which they are done once.
// The caller closes the body.
func (c *Client) do(ctx context.Context, q call) (*http.Response, error) {
	if q.id = c.newID(); q.method == http.MethodGet {
		q.id = ""
	}
	deadline := time.Now().Add(c.o.Patience)
	attempts := retry.Attempts{Policy: c.policy, Random: c.random}
	for {
		resp, err := c.round(ctx, q)
		if err == nil || !again(err) || q.firm && fault.Is(err, fault.Unavailable) {
			return resp, err
		}
		wait := attempts.Failed(err)
		if ctx.Err() != nil || time.Now().Add(wait).After(deadline) {
			return nil, err
		}
		if pause(ctx, wait) != nil {
			return nil, err
		}
	}
}

// again reports whether another round may end otherwise. The hub's own Timeout is the answer of a member that tried for as
// long as it may, and its Ahead that of one which asked the leader first. Servers that are all strangers stay so.
func again(err error) bool {
	return !errors.Is(err, errStrangers) && fault.Is(err, fault.Unavailable, fault.Unreachable, fault.TooManyRequests)
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// errStrangers is the cause of an error when no server that is given is a member of this hub.
var errStrangers = errors.New("every server is a stranger")

// round asks each member once. Unless all failed to be reached, the last refusal that came from a member is the error.
func (c *Client) round(ctx context.Context, q call) (*http.Response, error) {
	var refused error
	var silent []string
	strangers := 0
	for _, server := range c.order() {
		resp, err := c.attempt(ctx, server, q)
		if err == nil {
			c.prefer(server)
			return resp, nil
		}
		switch {
		case fault.Is(err, fault.Unreachable):
			silent = append(silent, fmt.Sprintf("%s: %v", server, err))
			if isStranger(err) {
				strangers++
			}
		case again(err) || fault.Is(err, fault.Ahead):
			refused = err
		default:
			return nil, err
		}
		if ctx.Err() != nil {
			break
		}
	}
	if refused != nil {
		return nil, refused
	}
	if err := ctx.Err(); err != nil && len(silent) == 0 {
		return nil, fault.Timeout.Errorf("no member asked: %w", err)
	}
	e := fault.Unreachable.Errorf("no member of the hub answers (%s)", strings.Join(silent, "; "))
	e.Cause = ctx.Err()
	if e.Cause == nil && strangers == len(silent) {
		e.Cause = errStrangers
	}
	return nil, e
}

func isStranger(err error) bool {
	var verify *tls.CertificateVerificationError
	return errors.As(err, &verify)
}

// attempt sends the call to one member. Errors are the member's own refusals, or Unreachable where none came.
func (c *Client) attempt(ctx context.Context, server string, q call) (*http.Response, error) {
	u := server + q.path
	if len(q.query) > 0 {
		u += "?" + q.query.Encode()
	}
	rq, err := http.NewRequestWithContext(ctx, q.method, u, bytes.NewReader(q.body))
	if err != nil {
		return nil, fault.BadRequest.Errorf("request: %w", err)
	}
	if q.body == nil {
		rq.Body, rq.GetBody, rq.ContentLength = nil, nil, 0
	}
	rq.Header.Set("Accept", cmp.Or(q.accept, jsonMedia))
	rq.Header.Set("User-Agent", c.o.UserAgent)
	if q.media != "" {
		rq.Header.Set("Content-Type", q.media)
	}
	if q.id != "" {
		rq.Header.Set(HeaderRequestID, q.id)
	}
	if err := c.authorize(rq.Header); err != nil {
		return nil, err
	}
	resp, err := c.http.Do(rq)
	if err != nil {
		return nil, silence(err)
	}
	if resp.StatusCode >= http.StatusOK && resp.StatusCode < http.StatusMultipleChoices {
		c.passWarnings(resp.Header)
		return resp, nil
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusUnauthorized {
		c.bearer.forget()
	}
	return nil, refusalOf(resp)
}

// silence is the error of a member that gave no answer. A client certificate that is refused is the hub's decision, not
// silence: no other member will think otherwise.
func silence(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	var alert tls.AlertError
	var verify *tls.CertificateVerificationError
	switch {
	case errors.As(err, &alert) && ofCertificate(alert):
		return fault.Unauthorized.Errorf("the hub refuses the client certificate: %w", err)
	case errors.As(err, &verify):
		return fault.Unreachable.Errorf("not a member of this hub: %w", err)
	}
	return fault.Unreachable.Errorf("%w", err)
}

// ofCertificate: bad_certificate to certificate_unknown, unknown_ca, access_denied, certificate_required (RFC 8446, section 6).
func ofCertificate(a tls.AlertError) bool {
	return (a >= 42 && a <= 46) || a == 48 || a == 49 || a == 116
}

// refusalOf reads the Status of a refusal; an answer without one came from something that is not a member.
func refusalOf(resp *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	var st fault.Status
	if err == nil && json.Unmarshal(body, &st) == nil && st.Kind == "Status" && st.Status == "Failure" {
		return fault.FromStatus(st)
	}
	e := fault.OfHTTP(resp.StatusCode).Errorf("HTTP %s without a Status from %s", resp.Status, resp.Request.URL.Host)
	if secs, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && secs > 0 {
		e.RetryAfter = time.Duration(secs) * time.Second
	}
	return e
}

// passWarnings reads Warning headers of the form that Kubernetes sends: 299 - "text".
func (c *Client) passWarnings(h http.Header) {
	for _, w := range h.Values("Warning") {
		_, quoted, ok := strings.Cut(w, ` - "`)
		if text, end := strings.CutSuffix(quoted, `"`); ok && end {
			c.o.Warn(strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(text))
		}
	}
}

// read does a call and returns the whole body. A body that breaks off is asked for again by the caller's caller.
func (c *Client) read(ctx context.Context, q call) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.o.Patience+c.o.Attempt)
	defer cancel()
	resp, err := c.do(ctx, q)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, fault.Unavailable.Errorf("the answer broke off: %w", err)
	}
	if len(b) > maxAnswer {
		return nil, fault.TooLarge.Errorf("the answer is more than %d bytes: ask for less with limit", maxAnswer)
	}
	return b, nil
}

func (c *Client) readInto(ctx context.Context, q call, v any) error {
	b, err := c.read(ctx, q)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fault.Internal.Errorf("decode answer of %s: %w", q.path, err)
	}
	return nil
}
