package remote

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/drover-fleet/drover/client/auditlog"
)

// PathAudit is where a member's audit is read: lines of client/auditlog's records, then an AuditEnd.
const PathAudit = "/drover/v1/audit"

// MediaLines is a stream of JSON documents, one a line.
const MediaLines = "application/x-ndjson"

// AuditEnd is the last line of an answer that does not follow.
type AuditEnd struct {
	End    bool   `json:"end"`
	Member string `json:"member"`
	More   bool   `json:"more,omitempty"` // older records match too, and were left out
	Last   uint64 `json:"last,omitempty"` // number of the newest record read
}

// Audit reads the audit of the member that answers first: of one member if the Client knows only one. limit 0: the hub's default. The
// caller closes the stream.
func (c *Client) Audit(ctx context.Context, q auditlog.Query, limit int, follow bool) (io.ReadCloser, error) {
	v := url.Values{}
	set(v, "actor", q.Actor)
	set(v, "kind", q.Kind)
	set(v, "namespace", q.Namespace)
	set(v, "name", q.Name)
	set(v, "requestID", q.RequestID)
	for name, t := range map[string]time.Time{"since": q.Since, "until": q.Until} {
		if !t.IsZero() {
			v.Set(name, t.UTC().Format(time.RFC3339Nano))
		}
	}
	if q.Denied {
		v.Set("denied", "true")
	}
	if q.After > 0 {
		v.Set("after", strconv.FormatUint(q.After, 10))
	}
	if limit > 0 {
		v.Set("limit", strconv.Itoa(limit))
	}
	if follow {
		v.Set("follow", "true")
	}
	resp, err := c.do(ctx, call{method: http.MethodGet, path: PathAudit, query: v, accept: MediaLines})
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// AuditVerify asks the member that answers first whether its audit's chain holds.
func (c *Client) AuditVerify(ctx context.Context) (*auditlog.Report, error) {
	var r auditlog.Report
	if err := c.readInto(ctx, call{method: http.MethodGet, path: PathAudit, query: url.Values{"verify": {"true"}}}, &r); err != nil {
		return nil, err
	}
	return &r, nil
}
