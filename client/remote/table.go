package remote

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
)

// tableMedia asks the hub to render rows, as kubectl does, so that columns are decided in one place.
const tableMedia = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"

// Table is Kubernetes' Table: what the hub thinks worth showing of objects.
type Table struct {
	Columns []Column `json:"columnDefinitions"`
	Rows    []Row    `json:"rows"`
	Meta    struct {
		ResourceVersion string `json:"resourceVersion"`
		Continue        string `json:"continue"`
	} `json:"metadata"`
}

// Column is the head of a column. Priority above 0 is for wide output only.
type Column struct {
	Name     string `json:"name"`
	Priority int32  `json:"priority"`
}

// Row is one object, with its metadata.
type Row struct {
	Cells  []any `json:"cells"`
	Object struct {
		Metadata api.ObjectMeta `json:"metadata"`
	} `json:"object"`
}

// Table renders the objects of a kind, or the one that name selects, as rows. It reads all pages.
func (c *Client) Table(ctx context.Context, k *api.Kind, name string, o client.ListOptions) (*Table, error) {
	if name != "" {
		path, err := pathOf(api.Ref{Kind: k, Namespace: o.Namespace, Name: name})
		if err != nil {
			return nil, err
		}
		var t Table
		return &t, c.readInto(ctx, call{method: http.MethodGet, path: path, accept: tableMedia}, &t)
	}
	q := url.Values{}
	set(q, "labelSelector", o.LabelSelector)
	set(q, "fieldSelector", o.FieldSelector)
	set(q, "resourceVersion", o.ResourceVersion)
	q.Set("limit", "500")
	all := &Table{}
	for {
		var page Table
		if err := c.readInto(ctx, call{method: http.MethodGet, path: collection(k, o.Namespace), query: q, accept: tableMedia}, &page); err != nil {
			return nil, err
		}
		all.Columns, all.Meta = page.Columns, page.Meta
		all.Rows = append(all.Rows, page.Rows...)
		if page.Meta.Continue == "" {
			return all, nil
		}
		q.Set("continue", page.Meta.Continue)
		q.Del("resourceVersion")
	}
}

// WatchTable calls row for every change after the revision, as rows, until ctx ends or the watch does. The columns are those
// of Table.
func (c *Client) WatchTable(ctx context.Context, k *api.Kind, o client.WatchOptions, row func(client.EventType, Row) error) error {
	q := url.Values{"watch": {"1"}, "resourceVersion": {o.ResourceVersion}}
	set(q, "labelSelector", o.LabelSelector)
	set(q, "fieldSelector", o.FieldSelector)
	resp, err := c.do(ctx, call{method: http.MethodGet, path: collection(k, o.Namespace), query: q, accept: tableMedia})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	for d := json.NewDecoder(resp.Body); ; {
		var e struct {
			Type   client.EventType `json:"type"`
			Object json.RawMessage  `json:"object"`
		}
		if err := d.Decode(&e); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if errors.Is(err, io.EOF) {
				return fault.Unavailable.Errorf("the watch has ended: resume from the last resourceVersion seen")
			}
			return fault.Unavailable.Errorf("the watch broke off: %w", err)
		}
		if err := rowsOf(e.Type, e.Object, row); err != nil {
			return err
		}
	}
}

func rowsOf(typ client.EventType, object json.RawMessage, row func(client.EventType, Row) error) error {
	switch typ {
	case client.Bookmark:
		return nil
	case client.Added, client.Modified, client.Deleted:
	default:
		var st fault.Status
		if err := json.Unmarshal(object, &st); err != nil || st.Status != "Failure" {
			return fault.Internal.Errorf("the watch sent an event of type %q", typ)
		}
		return fault.FromStatus(st)
	}
	var t Table
	if err := json.Unmarshal(object, &t); err != nil {
		return fault.Internal.Errorf("decode a watched row: %w", err)
	}
	for _, r := range t.Rows {
		if err := row(typ, r); err != nil {
			return err
		}
	}
	return nil
}
