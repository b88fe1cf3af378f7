package apiserver

import (
	"encoding/json"
	"net/url"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
)

// renderer turns objects into the form that a client asked for. Within one watch the columns are sent once.
type renderer struct {
	kind        *api.Kind
	form        form
	include     string // what a table's rows carry of the object: None, Metadata, Object
	columns     []column
	columnsSent bool
}

func (x *exchange) renderer() (*renderer, error) {
	f, err := negotiate(x.r.Header.Get("Accept"))
	if err != nil {
		return nil, err
	}
	return newRenderer(x.route.ref.Kind, f, x.r.URL.Query(), newPrinter(x.s.cfg.Now()))
}

func newRenderer(k *api.Kind, f form, q url.Values, p printer) (*renderer, error) {
	r := &renderer{kind: k, form: f, include: q.Get("includeObject"), columns: p.columns(k)}
	switch r.include {
	case "":
		r.include = "Metadata"
	case "None", "Metadata", "Object":
	default:
		return nil, fault.BadRequest.Errorf("includeObject %q: want None, Metadata or Object", clip(r.include))
	}
	return r, nil
}

// one renders a single object.
func (r *renderer) one(obj api.Object) (any, error) {
	switch r.form.as {
	case "Table":
		return r.table(listMeta{ResourceVersion: obj.Meta().ResourceVersion}, []api.Object{obj}, true)
	case "PartialObjectMetadata":
		return r.partial(obj), nil
	}
	return obj, nil
}

// event renders the object of a watch event.
func (r *renderer) event(obj api.Object) (any, error) {
	if r.form.as != "Table" {
		return r.one(obj)
	}
	if obj.Meta().Name == "" { // a bookmark is no row
		return r.table(listMeta{ResourceVersion: obj.Meta().ResourceVersion}, nil, false)
	}
	t, err := r.table(listMeta{ResourceVersion: obj.Meta().ResourceVersion}, []api.Object{obj}, !r.columnsSent)
	r.columnsSent = true
	return t, err
}

// many renders a page of a list.
func (r *renderer) many(meta listMeta, items []api.Object) (any, error) {
	if r.form.as == "Table" {
		return r.table(meta, items, true)
	}
	l := objectList{Kind: r.kind.Kind + "List", APIVersion: r.kind.APIVersion, Metadata: meta, Items: make([]json.RawMessage, 0, len(items))}
	if r.form.as == "PartialObjectMetadata" {
		l.Kind, l.APIVersion = "PartialObjectMetadataList", r.form.apiVersion()
	}
	for _, obj := range items {
		doc, err := r.one(obj)
		if err != nil {
			return nil, err
		}
		b, err := json.Marshal(doc)
		if err != nil {
			return nil, err
		}
		l.Items = append(l.Items, b)
	}
	return l, nil
}

// partialObject is Kubernetes' PartialObjectMetadata.
type partialObject struct {
	Kind       string          `json:"kind"`
	APIVersion string          `json:"apiVersion"`
	Metadata   *api.ObjectMeta `json:"metadata"`
}

func (r *renderer) partial(obj api.Object) partialObject {
	return partialObject{Kind: "PartialObjectMetadata", APIVersion: r.form.apiVersion(), Metadata: obj.Meta()}
}

// table is Kubernetes' Table.
type table struct {
	Kind              string             `json:"kind"`
	APIVersion        string             `json:"apiVersion"`
	Metadata          listMeta           `json:"metadata"`
	ColumnDefinitions []columnDefinition `json:"columnDefinitions"`
	Rows              []tableRow         `json:"rows"`
}

type columnDefinition struct {
	Name        string `json:"name"`
	Type        string `json:"type"`
	Format      string `json:"format"`
	Description string `json:"description"`
	Priority    int32  `json:"priority"` // above 0: wide output only
}

type tableRow struct {
	Cells  []any `json:"cells"`
	Object any   `json:"object,omitempty"`
}

func (r *renderer) table(meta listMeta, items []api.Object, withColumns bool) (*table, error) {
	t := &table{Kind: "Table", APIVersion: r.form.apiVersion(), Metadata: meta, Rows: make([]tableRow, 0, len(items))}
	if withColumns {
		t.ColumnDefinitions = make([]columnDefinition, 0, len(r.columns))
		for _, c := range r.columns {
			t.ColumnDefinitions = append(t.ColumnDefinitions, c.definition())
		}
	}
	for _, obj := range items {
		row := tableRow{Cells: make([]any, 0, len(r.columns))}
		for _, c := range r.columns {
			row.Cells = append(row.Cells, c.cell(obj))
		}
		switch r.include {
		case "Metadata":
			row.Object = partialObject{Kind: "PartialObjectMetadata", APIVersion: r.form.apiVersion(), Metadata: obj.Meta()}
		case "Object":
			row.Object = obj
		}
		t.Rows = append(t.Rows, row)
	}
	return t, nil
}
