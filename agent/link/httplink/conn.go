package httplink

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/drover-fleet/drover/agent/link"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/wire"
)

const (
	contentType = "application/cbor"
	dialTimeout = 15 * time.Second
	// A write that does not get through for this long has lost its peer. Log streams may stand still that long for a slow reader.
	writeTimeout = 2 * time.Minute
	idleTimeout  = 90 * time.Second
	maxStatus    = 64 << 10
	// Secrets come sealed beside the bodies, each somewhat larger than its value.
	maxBodies = 2 * wire.MaxBodies
	// A poll's answer is a signed index and commands.
	maxPoll = wire.MaxDesired + 16*wire.MaxCommand + 64<<10
)

// Transport opens Conns over HTTPS.
type Transport struct{ Identity Identity }

// Open implements link.Transport.
func (t *Transport) Open(endpoint string) (link.Conn, error) { return t.Dial(endpoint) }

// Dial is Open with the concrete type, which enrolls, too.
func (t *Transport) Dial(endpoint string) (*Conn, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil, fault.Invalid.Errorf("hub endpoint %q: want https://HOST:PORT", endpoint)
	}
	d := &net.Dialer{Timeout: dialTimeout, KeepAlive: -1}
	tr := &http.Transport{
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := d.DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return &deadlined{c}, nil
		},
		TLSClientConfig: t.Identity.config(), TLSHandshakeTimeout: dialTimeout,
		MaxIdleConnsPerHost: 2, IdleConnTimeout: idleTimeout, DisableCompression: true,
		Protocols: new(http.Protocols),
	}
	tr.Protocols.SetHTTP1(true)
	return &Conn{base: strings.TrimSuffix(u.String(), "/"), transport: tr, client: &http.Client{
		Transport:     tr,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// deadlined gives every write a deadline, so that a blocked write is found even while nothing is read.
type deadlined struct{ net.Conn }

func (c *deadlined) Write(b []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

// Conn speaks with one member.
type Conn struct {
	base      string
	transport *http.Transport
	client    *http.Client
}

// Close implements link.Conn. Exchanges in progress end by their ctx.
func (c *Conn) Close() { c.transport.CloseIdleConnections() }

// Hello implements link.Conn.
func (c *Conn) Hello(ctx context.Context, m wire.Hello) (r wire.HelloReply, err error) {
	err = c.call(ctx, wire.PathHello, m, wire.MaxHello, &r)
	return r, err
}

// Poll implements link.Conn.
func (c *Conn) Poll(ctx context.Context, m wire.Poll) (r wire.PollReply, err error) {
	err = c.call(ctx, wire.PathPoll, m, maxPoll, &r)
	return r, err
}

// Bodies implements link.Conn.
func (c *Conn) Bodies(ctx context.Context, m wire.BodiesRequest) (r wire.BodiesReply, err error) {
	err = c.call(ctx, wire.PathBodies, m, maxBodies, &r)
	return r, err
}

// Report implements link.Conn.
func (c *Conn) Report(ctx context.Context, m wire.Report) (r wire.ReportReply, err error) {
	err = c.call(ctx, wire.PathReport, m, wire.MaxHello, &r)
	return r, err
}

// Token implements link.Conn.
func (c *Conn) Token(ctx context.Context, m wire.TokenRequest) (r wire.TokenReply, err error) {
	err = c.call(ctx, wire.PathToken, m, wire.MaxTokenReply, &r)
	return r, err
}

// Enroll asks for a certificate.
func (c *Conn) Enroll(ctx context.Context, m wire.EnrollRequest) (r wire.EnrollReply, err error) {
	err = c.call(ctx, wire.PathEnroll, m, wire.MaxEnroll, &r)
	return r, err
}

// Stream implements link.Conn.
func (c *Conn) Stream(ctx context.Context, id string, r io.Reader) error {
	// Behind NopCloser no length is known: the body is sent chunk by chunk as it comes.
	rq, err := http.NewRequestWithContext(ctx, http.MethodPut, c.base+wire.PathStream+url.PathEscape(id), io.NopCloser(r))
	if err != nil {
		return fault.Invalid.Errorf("stream %s: %w", id, err)
	}
	rs, err := c.client.Do(rq)
	if err != nil {
		return c.unreachable(err)
	}
	defer func() { _ = rs.Body.Close() }()
	return statusOf(rs)
}

func (c *Conn) call(ctx context.Context, path string, m any, limit int64, into any) error {
	data, err := wire.Encode(m)
	if err != nil {
		return err
	}
	rq, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, bytes.NewReader(data))
	if err != nil {
		return fault.Invalid.Errorf("request: %w", err)
	}
	rq.Header.Set("Content-Type", contentType)
	rs, err := c.client.Do(rq)
	if err != nil {
		return c.unreachable(err)
	}
	defer func() { _ = rs.Body.Close() }()
	if err := statusOf(rs); err != nil {
		return err
	}
	if rs.ContentLength > limit {
		return fault.SizeLimit("the hub's answer", rs.ContentLength, limit)
	}
	body, err := io.ReadAll(io.LimitReader(rs.Body, limit+1))
	if err != nil {
		return c.unreachable(err)
	}
	if err := wire.Decode(body, int(limit), into); err != nil {
		// The hub's answer is at fault here, not the device's request.
		return fault.Unavailable.Errorf("the hub's answer: %w", err)
	}
	return nil
}

// unreachable classifies what went wrong below HTTP. A refusal of our own keeps its class.
func (c *Conn) unreachable(err error) error {
	var f *fault.Error
	if errors.As(err, &f) {
		return f
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return fault.Unreachable.Wrap(fmt.Errorf("hub %s: %w", c.base, err))
}

// statusOf is the error that an answer tells of.
func statusOf(rs *http.Response) error {
	if rs.StatusCode >= 200 && rs.StatusCode < 300 {
		return nil
	}
	data, err := io.ReadAll(io.LimitReader(rs.Body, maxStatus))
	var s fault.Status
	if err == nil && json.Unmarshal(data, &s) == nil && s.Code == rs.StatusCode {
		err = fault.FromStatus(s)
	} else {
		err = fault.OfHTTP(rs.StatusCode).Errorf("the hub answers %s", rs.Status)
	}
	var f *fault.Error
	if errors.As(err, &f) && f.RetryAfter == 0 {
		if n, convErr := strconv.ParseUint(rs.Header.Get("Retry-After"), 10, 16); convErr == nil {
			f.RetryAfter = time.Duration(n) * time.Second
		}
	}
	return err
}
