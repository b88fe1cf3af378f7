package apiserver

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client/auditlog"
	"github.com/drover-fleet/drover/client/remote"
)

// AuditFiles is where this member's audit can be read; an *audit.Log is one.
type AuditFiles interface {
	Dir() string
	// Newer is closed once there are records above seq.
	Newer(seq uint64) <-chan struct{}
}

// Bounds of one answer.
const (
	auditDefault = 1000
	auditMost    = 10_000
	auditBytes   = 32 << 20
)

// auditRoute is the path of the audit. One that follows lasts like a watch.
func auditRoute(path string, r *http.Request) (route, error, bool) {
	if path != remote.PathAudit {
		return route{}, nil, false
	}
	rt := route{kind: routeAudit, verb: "get", path: path, serve: (*exchange).readAudit}
	if isTrue(r.URL.Query().Get("follow")) {
		rt.verb = "watch"
	}
	return rt, rt.checkMethod(r), true
}

// readAudit streams records of this member, a line each: the newest that match, oldest first, and then, unless it follows, a line that says
// whether older ones were left out. With verify it answers whether the chain holds.
func (x *exchange) readAudit() error {
	if x.s.cfg.AuditFiles == nil {
		return noSuchPath(x.route.path)
	}
	v := x.r.URL.Query()
	if isTrue(v.Get("verify")) {
		report, err := auditlog.Verify(x.r.Context(), x.s.cfg.AuditFiles.Dir())
		if err != nil {
			return err
		}
		report.Member = x.s.cfg.Member
		return x.w.json(http.StatusOK, report)
	}
	q, limit, err := auditQuery(v)
	if err != nil {
		return err
	}
	found, err := auditlog.Newest(x.r.Context(), x.s.cfg.AuditFiles.Dir(), q, limit, auditBytes)
	if err != nil {
		return err
	}
	x.w.start(http.StatusOK, remote.MediaLines)
	if x.w.head {
		return nil
	}
	if x.sendLines(found.Lines) != nil {
		return nil // the client is gone
	}
	if x.route.verb != "watch" {
		end, err := json.Marshal(remote.AuditEnd{End: true, Member: x.s.cfg.Member, More: found.More, Last: found.Last})
		if err != nil {
			return err
		}
		_ = x.sendLines([][]byte{end}) // the client is gone
		return nil
	}
	return x.followAudit(q, found.Last)
}

func (x *exchange) sendLines(lines [][]byte) error {
	if len(lines) == 0 {
		return x.w.flush()
	}
	if _, err := x.w.Write(append(bytes.Join(lines, []byte("\n")), '\n')); err != nil {
		return err
	}
	return x.w.flush()
}

// followAudit goes on as records come, in steps, so that a busy member is not read for each of them.
func (x *exchange) followAudit(q auditlog.Query, last uint64) error {
	const step = 250 * time.Millisecond
	ctx := x.r.Context()
	for {
		select {
		case <-x.s.cfg.AuditFiles.Newer(last):
		case <-ctx.Done():
			return nil
		}
		select {
		case <-time.After(step):
		case <-ctx.Done():
			return nil
		}
		q.After = last
		found, err := auditlog.Newest(ctx, x.s.cfg.AuditFiles.Dir(), q, auditMost, auditBytes)
		if err != nil {
			return nil // what was sent stands; who follows asks again from there
		}
		if x.sendLines(found.Lines) != nil {
			return nil // the client is gone
		}
		last = max(last, found.Last)
	}
}

func auditQuery(v url.Values) (q auditlog.Query, limit int, err error) {
	q = auditlog.Query{
		Actor: v.Get("actor"), Kind: v.Get("kind"), Namespace: v.Get("namespace"), Name: v.Get("name"), RequestID: v.Get("requestID"), Denied: isTrue(v.Get("denied")),
	}
	for name, into := range map[string]*time.Time{"since": &q.Since, "until": &q.Until} {
		if text := v.Get(name); text != "" {
			if *into, err = time.Parse(time.RFC3339, text); err != nil {
				return q, 0, fault.BadRequest.Errorf("%s %q: want a time as 2026-11-30T09:00:00Z", name, clip(text))
			}
		}
	}
	if text := v.Get("after"); text != "" {
		if q.After, err = strconv.ParseUint(text, 10, 64); err != nil {
			return q, 0, fault.BadRequest.Errorf("after %q: want the number of a record", clip(text))
		}
	}
	limit = auditDefault
	if text := v.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return q, 0, fault.BadRequest.Errorf("limit %q: want a number from 1 up", clip(text))
		}
		limit = min(n, auditMost)
	}
	return q, limit, nil
}
