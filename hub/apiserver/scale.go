package apiserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
)

// The kind that /scale answers with, so that every tool that scales something can scale a workload.
const (
	scaleGroup      = "autoscaling"
	scaleVersion    = "v1"
	scaleKind       = "Scale"
	scaleAPIVersion = scaleGroup + "/" + scaleVersion
)

// scale is Kubernetes' autoscaling/v1 Scale of a workload with replicas.
type scale struct {
	api.TypeMeta `json:",inline"`
	Metadata     api.ObjectMeta `json:"metadata"`
	Spec         scaleSpec      `json:"spec,omitzero"`
	Status       scaleStatus    `json:"status,omitzero"`
}

type scaleSpec struct {
	Replicas int32 `json:"replicas,omitempty"`
}

type scaleStatus struct {
	Replicas int32  `json:"replicas"`
	Selector string `json:"selector,omitempty"` // over labels of assignments
}

func scaleOf(w *api.Workload) scale {
	m := w.Metadata
	s := scale{
		TypeMeta: api.TypeMeta{APIVersion: scaleAPIVersion, Kind: scaleKind},
		Metadata: api.ObjectMeta{Name: m.Name, Namespace: m.Namespace, UID: m.UID, ResourceVersion: m.ResourceVersion, CreationTimestamp: m.CreationTimestamp},
		Status:   scaleStatus{Replicas: w.Status.Counts.Desired, Selector: api.LabelWorkload + "=" + m.Name},
	}
	if n := w.Spec.Placement.Replicas; n != nil {
		s.Spec.Replicas = *n
	}
	return s
}

func (x *exchange) workload(c client.Client) (*api.Workload, error) {
	obj, err := c.Get(x.r.Context(), x.route.ref, client.GetOptions{})
	if err != nil {
		return nil, err
	}
	w, ok := obj.(*api.Workload)
	if !ok {
		return nil, fault.Internal.Errorf("%T has no scale", obj)
	}
	return w, nil
}

func (x *exchange) getScale() error {
	if err := wantsJSON(x.r.Header.Get("Accept")); err != nil {
		return err
	}
	w, err := x.workload(x.client())
	if err != nil {
		return err
	}
	return x.w.json(http.StatusOK, scaleOf(w))
}

// updateScale takes a whole Scale; patchScale changes the one that stands. Both write the workload's number of replicas and nothing else.
func (x *exchange) updateScale() error {
	body, err := x.jsonBody()
	if err != nil {
		return err
	}
	return x.writeScale(func(scale) (*scale, error) { return x.decodeScale(body) }, nil)
}

func (x *exchange) patchScale() error {
	media, err := x.contentType()
	if err != nil {
		return err
	}
	body, err := x.readBody()
	if err != nil {
		return err
	}
	if media == applyPatch {
		return x.applyScale(body)
	}
	change, err := newEdit(media, body)
	if err != nil {
		return err
	}
	return x.writeScale(func(s scale) (*scale, error) {
		after, err := edited(s, change)
		if err != nil {
			return nil, err
		}
		return x.decodeScale(after)
	}, nil)
}

// applyScale is server-side apply of the number of replicas. A manager that applied another number is in the way unless forced.
func (x *exchange) applyScale(body []byte) error {
	manager := x.r.URL.Query().Get("fieldManager")
	if manager == "" {
		return fault.BadRequest.Errorf("fieldManager is required for an apply: it names who owns the fields")
	}
	body, err := jsonOf(body)
	if err != nil {
		return err
	}
	wanted, err := x.decodeScale(body)
	if err != nil {
		return err
	}
	return x.writeScale(func(scale) (*scale, error) { return wanted, nil }, func(w *api.Workload) error {
		if isTrue(x.r.URL.Query().Get("force")) || w.Spec.Placement.Replicas == nil || *w.Spec.Placement.Replicas == wanted.Spec.Replicas {
			return nil
		}
		return scaleConflict(w, manager)
	})
}

// scaleConflict names another manager that applied the number of replicas.
func scaleConflict(w *api.Workload, manager string) error {
	replicas := fieldpath.MakePathOrDie("spec", "placement", "replicas")
	i := slices.IndexFunc(w.Metadata.ManagedFields, func(m api.ManagedFieldsEntry) bool {
		set := fieldpath.NewSet()
		return m.Operation == "Apply" && m.Manager != manager && set.FromJSON(bytes.NewReader(m.FieldsV1)) == nil && set.Has(replicas)
	})
	if i < 0 {
		return nil
	}
	other := w.Metadata.ManagedFields[i].Manager
	e := fault.Conflict.Errorf("Workload %s/%s: %q wants spec.placement.replicas, which is managed by %q; leave it to that manager, or apply with force",
		w.Metadata.Namespace, w.Metadata.Name, manager, other)
	e.Details = fault.Details{Kind: api.KindWorkload.Plural, Name: w.Metadata.Name, Causes: []fault.Cause{
		{Reason: "FieldManagerConflict", Field: "spec.placement.replicas", Message: fmt.Sprintf("conflict with %q", other)},
	}}
	return e
}

// decodeScale reads a Scale strictly and checks it against the path. Its status is the hub's and passed over.
func (x *exchange) decodeScale(body []byte) (*scale, error) {
	var s scale
	if err := unmarshalStrict(body, &s); err != nil {
		return nil, fault.BadRequest.Errorf("Scale: %w", err)
	}
	ref := x.route.ref
	switch {
	case s.Kind != "" && s.Kind != scaleKind, s.APIVersion != "" && s.APIVersion != scaleAPIVersion:
		return nil, fault.BadRequest.Errorf("the body is a %s %s: send a %s %s", clip(s.APIVersion), clip(s.Kind), scaleAPIVersion, scaleKind)
	case s.Metadata.Name != "" && s.Metadata.Name != ref.Name:
		return nil, fault.BadRequest.Errorf("metadata.name is %q, the path says %q", clip(s.Metadata.Name), ref.Name)
	case s.Metadata.Namespace != "" && s.Metadata.Namespace != ref.Namespace:
		return nil, fault.BadRequest.Errorf("metadata.namespace is %q, the path says %q", clip(s.Metadata.Namespace), ref.Namespace)
	case s.Spec.Replicas < 0:
		return nil, fault.InvalidObject(scaleKind, ref.Name, []fault.Cause{{Reason: "FieldValueInvalid", Field: "spec.replicas", Message: "must be 0 or more"}})
	}
	return &s, nil
}

// writeScale is the read-modify-write of the workload behind a Scale. A resourceVersion that the Scale carries is the precondition.
func (x *exchange) writeScale(change func(scale) (*scale, error), may func(*api.Workload) error) error {
	o, err := x.writeOptions("")
	if err != nil {
		return err
	}
	c := x.client()
	for attempt := 1; ; attempt++ {
		w, err := x.workload(c)
		if err != nil {
			return err
		}
		old := scaleOf(w)
		s, err := change(old)
		if err != nil {
			return err
		}
		if err := scalable(w, s); err != nil {
			return err
		}
		if may != nil {
			if err := may(w); err != nil {
				return err
			}
		}
		next := api.Copy(w)
		next.Spec.Placement.Replicas = &s.Spec.Replicas
		if s.Metadata.ResourceVersion != "" {
			next.Metadata.ResourceVersion = s.Metadata.ResourceVersion
		}
		stands, err := c.Update(x.writeContext(), next, o)
		if err == nil {
			return x.w.json(http.StatusOK, scaleOf(stands.(*api.Workload)))
		}
		raced := next.Metadata.ResourceVersion == w.Metadata.ResourceVersion && fault.Is(err, fault.Conflict)
		if !raced || attempt == maxRaces {
			return err
		}
	}
}

// scalable refuses to give a number to a workload that has one copy a device, and to another life of the name.
func scalable(w *api.Workload, s *scale) error {
	switch {
	case s.Metadata.UID != "" && s.Metadata.UID != w.Metadata.UID:
		return fault.ObjectConflict(api.KindWorkload.Plural, w.Metadata.Name, "another object of this name (uid "+w.Metadata.UID+") has taken the place of the one meant")
	case w.Spec.Placement.Replicas == nil:
		return fault.InvalidObject(api.KindWorkload.Kind, w.Metadata.Name, []fault.Cause{{
			Reason: "FieldValueForbidden", Field: "spec.placement",
			Message: "the workload runs everywhere: one copy on every selected device, so it has no number of replicas to set; " +
				"select other devices, or declare placement.replicas instead of placement.everywhere",
		}})
	}
	return nil
}

// edited is the JSON of a value after a change.
func edited(v any, change edit) ([]byte, error) {
	before, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var doc any
	if err := unmarshalNumbers(before, &doc); err != nil {
		return nil, err
	}
	if doc, err = change(doc); err != nil {
		return nil, err
	}
	return json.Marshal(doc)
}
