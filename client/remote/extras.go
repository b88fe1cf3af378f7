package remote

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
)

// Link is one write in a chain of causes, newest first; see the hub's registry, which makes it.
type Link struct {
	Revision  string   `json:"revision"`
	Time      api.Time `json:"time"`
	Epoch     uint32   `json:"epoch"`
	Actor     string   `json:"actor"`
	Verb      string   `json:"verb"`
	Object    string   `json:"object"`
	RequestID string   `json:"requestID,omitempty"`
	Cause     string   `json:"cause,omitempty"`
	// Diff is what the write changed, as the hub renders it.
	Diff  json.RawMessage `json:"diff,omitempty"`
	Depth int             `json:"depth,omitempty"`
}

// Chain explains the present state of an object.
type Chain struct {
	Object   string `json:"object"`
	Links    []Link `json:"links"`
	Effects  []Link `json:"effects,omitempty"`
	Complete bool   `json:"complete"`
	End      string `json:"end,omitempty"`
}

// Why returns the chain of causes of an object, at most limit links (0: the hub's default).
func (c *Client) Why(ctx context.Context, ref api.Ref, limit int) (*Chain, error) {
	if ref.Kind == nil {
		return nil, fault.BadRequest.Errorf("kind is missing")
	}
	q := url.Values{"apiVersion": {ref.Kind.APIVersion}, "kind": {ref.Kind.Kind}, "name": {ref.Name}}
	set(q, "namespace", ref.Namespace)
	if limit > 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	var chain Chain
	if err := c.readInto(ctx, call{method: http.MethodGet, path: PathWhy, query: q}, &chain); err != nil {
		return nil, err
	}
	return &chain, nil
}

// Members lists the hub's members as the one that answers knows them.
func (c *Client) Members(ctx context.Context) ([]Member, error) {
	var l MemberList
	if err := c.readInto(ctx, call{method: http.MethodGet, path: PathMembers}, &l); err != nil {
		return nil, err
	}
	return l.Items, nil
}

// Version is the hub's answer to /version.
type Version struct {
	GitVersion string `json:"gitVersion"`
	GoVersion  string `json:"goVersion"`
	Platform   string `json:"platform"`
}

// Version asks the hub what it runs.
func (c *Client) Version(ctx context.Context) (Version, error) {
	var v Version
	err := c.readInto(ctx, call{method: http.MethodGet, path: "/version"}, &v)
	return v, err
}

// LogOptions choose what of a container's log is read.
type LogOptions struct {
	Container string // "" = the only one
	Follow    bool
	Previous  bool   // of the run before the present one
	TailLines *int64 // nil = all
}

// Logs streams the log of an assignment's container as it comes. The caller closes the stream; an end that is not the log's end
// is an error of Read. A device that has no link is Unavailable at once.
func (c *Client) Logs(ctx context.Context, namespace, assignment string, o LogOptions) (io.ReadCloser, error) {
	path, err := pathOf(api.Ref{Kind: api.KindAssignment, Namespace: namespace, Name: assignment})
	if err != nil {
		return nil, err
	}
	q := url.Values{}
	set(q, "container", o.Container)
	if o.Follow {
		q.Set("follow", "true")
	}
	if o.Previous {
		q.Set("previous", "true")
	}
	if o.TailLines != nil {
		q.Set("tailLines", strconv.FormatInt(*o.TailLines, 10))
	}
	resp, err := c.do(ctx, call{method: http.MethodGet, path: path + "/log", query: q, firm: true})
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// Metrics reads what the member that answers first tells Prometheus, at most most bytes of it.
func (c *Client) Metrics(ctx context.Context, most int64) ([]byte, error) {
	resp, err := c.do(ctx, call{method: http.MethodGet, path: "/metrics", accept: "text/plain"})
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, most))
	if err != nil {
		return nil, fault.Unreachable.Errorf("read metrics: %w", err)
	}
	return b, nil
}
