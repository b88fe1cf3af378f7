package apiserver

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
)

// The content types of patches.
const (
	mergePatch     = "application/merge-patch+json"
	jsonPatch      = "application/json-patch+json"
	strategicPatch = "application/strategic-merge-patch+json"
	applyPatch     = "application/apply-patch+yaml"

	patchTypes = applyPatch + ", " + mergePatch + ", " + jsonPatch
)

func (x *exchange) patch() error {
	media, err := x.contentType()
	if err != nil {
		return err
	}
	switch media {
	case applyPatch:
		return x.applyOne()
	case mergePatch, jsonPatch:
		return x.patchWith(media)
	case strategicPatch:
		return x.patchStrategic()
	}
	return fault.UnsupportedMedia.Errorf("content type %q: patches are %s", clip(media), patchTypes)
}

// patchStrategic: for Drover's own kinds there is none, as for every custom resource. A core kind's has the meaning of a merge
// patch as long as it has no directives and touches no list that it would merge by key.
func (x *exchange) patchStrategic() error {
	if x.route.ref.Kind.APIVersion != api.CoreV1 {
		return fault.UnsupportedMedia.Errorf("%s has no strategic merge patch: send one of %s (kubectl patch --type=merge)", x.route.ref.Kind.Kind, patchTypes)
	}
	return x.patchWith(strategicPatch)
}

// patchWith is a read-modify-write. Where the patch gives no resourceVersion the one that was read is the precondition, and
// the change is made again on what another wrote in between.
func (x *exchange) patchWith(media string) error {
	render, err := x.renderer()
	if err != nil {
		return err
	}
	o, err := writeOptions(x.r.URL.Query(), x.route.sub)
	if err != nil {
		return err
	}
	body, err := x.readBody()
	if err != nil {
		return err
	}
	edit, err := newEdit(media, body)
	if err != nil {
		return err
	}
	c := x.client()
	for attempt := 1; ; attempt++ {
		old, err := c.Get(x.r.Context(), x.route.ref, client.GetOptions{})
		if err != nil {
			return err
		}
		obj, err := x.edited(old, edit)
		if err != nil {
			return err
		}
		stands, err := c.Update(x.writeContext(), obj, o)
		if err == nil {
			return x.sendObject(http.StatusOK, render, stands)
		}
		raced := obj.Meta().ResourceVersion == old.Meta().ResourceVersion && fault.Is(err, fault.Conflict)
		if !raced || attempt == maxRaces {
			return err
		}
	}
}

// edited is the object after the patch. The precondition is the patch's own resourceVersion, or the one that was read.
func (x *exchange) edited(old api.Object, edit edit) (api.Object, error) {
	before, err := json.Marshal(old)
	if err != nil {
		return nil, err
	}
	var doc any
	if err := unmarshalNumbers(before, &doc); err != nil {
		return nil, err
	}
	if doc, err = edit(doc); err != nil {
		return nil, err
	}
	after, err := json.Marshal(doc)
	if err != nil {
		return nil, err
	}
	if limit := x.s.cfg.Limits.Object; int64(len(after)) > limit {
		return nil, fault.SizeLimit("the patched object", int64(len(after)), limit)
	}
	obj, err := x.decode(after)
	if err != nil {
		return nil, err
	}
	if obj.Meta().ResourceVersion == "" {
		obj.Meta().ResourceVersion = old.Meta().ResourceVersion
	}
	return obj, nil
}

// edit changes a decoded JSON document and returns it; it may be called more than once, each time with a fresh document.
type edit func(doc any) (any, error)

func newEdit(media string, body []byte) (edit, error) {
	if media == jsonPatch {
		ops, err := parseJSONPatch(body)
		if err != nil {
			return nil, err
		}
		return ops.apply, nil
	}
	var patch any
	if err := unmarshalNumbers(body, &patch); err != nil {
		return nil, fault.BadRequest.Errorf("the patch is not JSON: %w", err)
	}
	m, ok := patch.(map[string]any)
	if !ok {
		return nil, fault.BadRequest.Errorf("the patch must be a JSON object")
	}
	if media == strategicPatch {
		if err := plainStrategic(m); err != nil {
			return nil, err
		}
	}
	return func(doc any) (any, error) { return mergeInto(doc, m), nil }, nil
}

// plainStrategic refuses what a strategic merge patch would do otherwise than a merge patch.
func plainStrategic(m map[string]any) error {
	refuse := func(what string) error {
		return fault.UnsupportedMedia.Errorf("strategic merge patch with %s is not supported: send one of %s", what, patchTypes)
	}
	if meta, ok := m["metadata"].(map[string]any); ok {
		for _, list := range []string{"finalizers", "ownerReferences"} {
			if _, ok := meta[list]; ok {
				return refuse("metadata." + list)
			}
		}
	}
	if directive := findDirective(m); directive != "" {
		return refuse("the directive " + clip(directive))
	}
	return nil
}

func findDirective(m map[string]any) string {
	for k, v := range m {
		if strings.HasPrefix(k, "$") {
			return k
		}
		if sub, ok := v.(map[string]any); ok {
			if d := findDirective(sub); d != "" {
				return d
			}
		}
	}
	return ""
}

// applyOne is server-side apply of one object: made when it is not there, its fields owned by the manager.
func (x *exchange) applyOne() error {
	render, err := x.renderer()
	if err != nil {
		return err
	}
	q := x.r.URL.Query()
	o, err := writeOptions(q, "")
	if err != nil {
		return err
	}
	if o.FieldManager == "" {
		return fault.BadRequest.Errorf("fieldManager is required for an apply: it names who owns the fields")
	}
	if x.route.sub != "" {
		return fault.UnsupportedMedia.Errorf("apply on the subresource %s is not supported: send %s", x.route.sub, mergePatch)
	}
	obj, err := x.appliedObject()
	if err != nil {
		return err
	}
	res, err := x.client().Transact(x.writeContext(), client.Transaction{
		Items:        []client.TxItem{{Verb: client.TxApply, Object: obj}},
		FieldManager: o.FieldManager, Force: isTrue(q.Get("force")), DryRun: o.DryRun,
	})
	if err != nil {
		return err
	}
	status := http.StatusOK
	if res[0].Action == "created" {
		status = http.StatusCreated
	}
	return x.sendObject(status, render, res[0].Object)
}

// appliedObject reads the body as JSON where it is, for kubectl sends that, else as YAML.
func (x *exchange) appliedObject() (api.Object, error) {
	body, err := x.readBody()
	if err != nil {
		return nil, err
	}
	var obj api.Object
	if json.Valid(body) {
		obj, err = x.decode(body)
	} else {
		obj, err = x.decodeManifest(body)
	}
	if err != nil {
		return nil, err
	}
	if len(obj.Meta().ManagedFields) > 0 {
		return nil, fault.BadRequest.Errorf("metadata.managedFields must be absent in an apply")
	}
	return obj, nil
}
