package apiserver

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/hub/registry"
)

// maxRaces is how often a read-modify-write of this package is repeated when others write in between.
const maxRaces = 8

// writeContext has admission's warnings put into the answer's headers, and a repeated write noticed.
func (x *exchange) writeContext() context.Context {
	return registry.WithRepeat(registry.WithWarnings(x.r.Context(), x.w.warn), func() { x.repeated = true })
}

func (x *exchange) create() error {
	render, err := x.renderer()
	if err != nil {
		return err
	}
	o, err := x.writeOptions(x.route.sub)
	if err != nil {
		return err
	}
	obj, err := x.object()
	if err != nil {
		return err
	}
	x.route.ref.Name = obj.Meta().Name
	made, err := x.client().Create(x.writeContext(), obj, o)
	if err != nil {
		return err
	}
	x.route.ref.Name = made.Meta().Name
	return x.sendObject(http.StatusCreated, render, made)
}

func (x *exchange) update() error {
	render, err := x.renderer()
	if err != nil {
		return err
	}
	o, err := x.writeOptions(x.route.sub)
	if err != nil {
		return err
	}
	obj, err := x.object()
	if err != nil {
		return err
	}
	stands, err := x.client().Update(x.writeContext(), obj, o)
	if err != nil {
		return err
	}
	return x.sendObject(http.StatusOK, render, stands)
}

// deleteOptions is Kubernetes' body of a deletion.
type deleteOptions struct {
	Kind               string   `json:"kind"`
	APIVersion         string   `json:"apiVersion"`
	GracePeriodSeconds *int64   `json:"gracePeriodSeconds"`
	PropagationPolicy  *string  `json:"propagationPolicy"`
	OrphanDependents   *bool    `json:"orphanDependents"`
	DryRun             []string `json:"dryRun"`
	Preconditions      *struct {
		UID             *string `json:"uid"`
		ResourceVersion *string `json:"resourceVersion"`
	} `json:"preconditions"`
}

// deletion reads the options of a deletion from body and query. gracePeriodSeconds is taken and has no effect, as for every
// Kubernetes kind but pods: the workload's own grace period rules on the device.
func (x *exchange) deletion() (client.DeleteOptions, error) {
	var o client.DeleteOptions
	body, err := x.readBody()
	if err != nil {
		return o, err
	}
	if media, err := x.contentType(); err == nil && media == protobufMedia && len(body) > 0 {
		if body, err = protobufToJSON(body); err != nil {
			return o, err
		}
	}
	var in deleteOptions
	if err := unmarshalOptional(body, &in); err != nil {
		return o, err
	}
	q := x.r.URL.Query()
	if o.DryRun, err = dryRun(append(in.DryRun, q["dryRun"]...)); err != nil {
		return o, err
	}
	x.audited.dry = o.DryRun
	if p := in.Preconditions; p != nil {
		o.UID, o.ResourceVersion = deref(p.UID), deref(p.ResourceVersion)
	}
	o.Propagation = deref(in.PropagationPolicy)
	if o.Propagation == "" {
		o.Propagation = q.Get("propagationPolicy")
	}
	if err := in.fromQuery(q); err != nil {
		return o, err
	}
	if in.GracePeriodSeconds != nil && *in.GracePeriodSeconds < 0 {
		return o, invalidOption("DeleteOptions", "gracePeriodSeconds", "FieldValueInvalid", "must be 0 or more")
	}
	if in.OrphanDependents != nil {
		if o.Propagation != "" {
			return o, invalidOption("DeleteOptions", "propagationPolicy", "FieldValueInvalid", "orphanDependents and propagationPolicy may not both be set")
		}
		if *in.OrphanDependents {
			o.Propagation = "Orphan"
		}
	}
	switch o.Propagation {
	case "", "Background", "Foreground", "Orphan":
		return o, checkRevision(o.ResourceVersion)
	}
	return o, invalidOption("DeleteOptions", "propagationPolicy", "FieldValueNotSupported", "want Background, Foreground or Orphan, not "+strconv.Quote(clip(o.Propagation)))
}

// fromQuery takes what the body does not say from the query.
func (in *deleteOptions) fromQuery(q url.Values) error {
	if text := q.Get("gracePeriodSeconds"); text != "" && in.GracePeriodSeconds == nil {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return fault.BadRequest.Errorf("gracePeriodSeconds %q: want a number", clip(text))
		}
		in.GracePeriodSeconds = &n
	}
	if text := q.Get("orphanDependents"); text != "" && in.OrphanDependents == nil {
		orphan := isTrue(text)
		in.OrphanDependents = &orphan
	}
	return nil
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// delete answers with a Status that has the uid of what went, or with the object where finalizers still hold it, so that a
// client can wait for the end of exactly that object.
func (x *exchange) delete() error {
	render, err := x.renderer()
	if err != nil {
		return err
	}
	o, err := x.deletion()
	if err != nil {
		return err
	}
	c, ref := x.client(), x.route.ref
	for range maxRaces {
		victim, err := c.Get(x.r.Context(), ref, client.GetOptions{})
		if err != nil {
			return x.deleteUnseen(c, o, err)
		}
		once := o
		if once.UID == "" {
			once.UID = victim.Meta().UID
		}
		err = c.Delete(x.writeContext(), ref, once)
		if o.UID == "" && o.ResourceVersion == "" && fault.Is(err, fault.Conflict) {
			continue // another object took the name between the two calls
		}
		if err != nil {
			return err
		}
		if left, err := c.Get(x.r.Context(), ref, client.GetOptions{}); err == nil && left.Meta().UID == victim.Meta().UID && !o.DryRun {
			return x.sendObject(http.StatusOK, render, left)
		}
		return x.w.json(http.StatusOK, x.deleted(victim.Meta().UID))
	}
	return fault.Conflict.Errorf("%s kept being replaced while it was deleted; try again", ref.Name)
}

// deleteUnseen leaves the verdict on an object that is not there to the registry, which knows a repeated request.
func (x *exchange) deleteUnseen(c client.Client, o client.DeleteOptions, err error) error {
	if !fault.Is(err, fault.NotFound) {
		return err
	}
	if err := c.Delete(x.writeContext(), x.route.ref, o); err != nil {
		return err
	}
	return x.w.json(http.StatusOK, x.deleted(o.UID))
}

func (x *exchange) deleted(uid string) fault.Status {
	d := x.route.details()
	st := fault.StatusOf(nil)
	st.Details = &fault.StatusDetails{Name: d.Name, Group: d.Group, Kind: d.Kind, UID: uid}
	return st
}

// deletePage is how many objects of a collection are listed at a time.
const deletePage = 500

// deleteCollection deletes what the selectors match as it is found; it is no transaction, as in Kubernetes. What another
// deletes first is no error.
func (x *exchange) deleteCollection() error {
	q, ref := x.r.URL.Query(), x.route.ref
	if ref.Kind.Namespaced && ref.Namespace == "" {
		return fault.MethodNotAllowed.Errorf("%s can be deleted in one namespace at a time", ref.Kind.Plural)
	}
	list, err := listOptions(q, ref.Namespace)
	if err != nil {
		return err
	}
	o, err := x.deletion()
	if err != nil {
		return err
	}
	if list.Limit == 0 {
		list.Limit = deletePage
	}
	c := x.client()
	for {
		page, err := c.List(x.r.Context(), ref.Kind, list)
		if err != nil {
			return err
		}
		for _, obj := range page.Items {
			if err := x.deleteOne(c, obj, o); err != nil {
				return err
			}
		}
		if page.Continue == "" || q.Get("limit") != "" {
			return x.w.json(http.StatusOK, x.deleted(""))
		}
		list.Continue, list.ResourceVersion = page.Continue, ""
	}
}

func (x *exchange) deleteOne(c client.Client, obj api.Object, o client.DeleteOptions) error {
	m := obj.Meta()
	o.UID = m.UID
	ref := api.Ref{Kind: x.route.ref.Kind, Namespace: m.Namespace, Name: m.Name}
	err := c.Delete(x.writeContext(), ref, o)
	if fault.Is(err, fault.NotFound, fault.Conflict) {
		return nil
	}
	return err
}
