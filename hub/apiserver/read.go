package apiserver

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/hub/registry"
)

func (x *exchange) client() client.Client { return x.clientFor(x.id) }

func (x *exchange) clientFor(requestID string) client.Client {
	return x.s.cfg.Clients.As(registry.Actor{Name: x.user.Actor(), User: &x.user.Identity, RequestID: requestID})
}

func (x *exchange) get() error {
	render, err := x.renderer()
	if err != nil {
		return err
	}
	q := x.r.URL.Query()
	if err := checkRevision(q.Get("resourceVersion")); err != nil {
		return err
	}
	obj, err := x.client().Get(x.r.Context(), x.route.ref, getOptions(q.Get("resourceVersion")))
	if err != nil {
		return err
	}
	return x.sendObject(http.StatusOK, render, obj)
}

func getOptions(rv string) client.GetOptions {
	if rv == "0" {
		return client.GetOptions{Stale: true}
	}
	return client.GetOptions{ResourceVersion: rv}
}

// sendObject answers with one object in the form that was asked for.
func (x *exchange) sendObject(status int, render *renderer, obj api.Object) error {
	x.answered(obj)
	if x.route.kind == routeObjects && x.route.writes() && (x.route.verb != "create" || x.repeated) {
		var err error
		if obj, err = x.shown(x.route.ref, obj); err != nil {
			return err
		}
	}
	doc, err := render.one(x.s.present(obj))
	if err != nil {
		return err
	}
	return x.w.json(status, doc)
}

// listMeta is Kubernetes' metadata of a list.
type listMeta struct {
	ResourceVersion    string `json:"resourceVersion,omitempty"`
	Continue           string `json:"continue,omitempty"`
	RemainingItemCount *int64 `json:"remainingItemCount,omitempty"`
}

type objectList struct {
	Kind       string            `json:"kind"`
	APIVersion string            `json:"apiVersion"`
	Metadata   listMeta          `json:"metadata"`
	Items      []json.RawMessage `json:"items"`
}

func (x *exchange) list() error {
	render, err := x.renderer()
	if err != nil {
		return err
	}
	q, ref := x.r.URL.Query(), x.route.ref
	o, err := listOptions(q, ref.Namespace)
	if err != nil {
		return err
	}
	if l, ok := x.encodedLister(render, ref.Kind); ok {
		return x.listEncoded(l, ref.Kind, o)
	}
	page, err := x.client().List(x.r.Context(), ref.Kind, o)
	if err != nil {
		return err
	}
	meta := metaOf(o, page.ResourceVersion, page.Continue, page.Remaining)
	items := slices.Clone(page.Items)
	for i, obj := range items {
		items[i] = x.s.present(obj)
	}
	doc, err := render.many(meta, items)
	if err != nil {
		return err
	}
	defer func() { x.s.lists.note(x.listKey(), ref.Kind.Plural, x.w.size) }()
	return x.w.json(http.StatusOK, doc)
}

// present completes an object for its reader: with what is computed as a device is read.
func (s *Server) present(obj api.Object) api.Object {
	d, ok := obj.(*api.Device)
	if !ok || s.cfg.Contacts == nil {
		return obj
	}
	age, ok := s.cfg.Contacts.Last(d.Metadata.Name)
	if !ok {
		return obj
	}
	d = api.Copy(d)
	d.Status.LastContact = api.TimeOf(s.cfg.Now().Add(-max(age, 0)))
	return d
}
