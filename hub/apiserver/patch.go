package apiserver

import (
	"encoding/json"
	"net/http"

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

// patchStrategic: for Drover's own kinds there is none, as for every custom resource.
func (x *exchange) patchStrategic() error {
	if k := x.route.ref.Kind; k.Group() == api.Group {
		return fault.UnsupportedMedia.Errorf("%s has no strategic merge patch: send one of %s (kubectl patch --type=merge)", k.Kind, patchTypes)
	}
	return x.patchWith(strategicPatch)
}

func (x *exchange) patchWith(media string) error {
	body, err := x.readBody()
	if err != nil {
		return err
	}
	if media == jsonPatch {
		ops, err := parseJSONPatch(body)
		if err != nil {
			return err
		}
		return x.patchByOps(ops)
	}
	change, err := newEdit(media, body)
	if err != nil {
		return err
	}
	return x.patchBy(change)
}

// patchByOps: what a patch tests, copies or moves it reads, and a refusal of what came of it may repeat it. So that takes the right to get.
func (x *exchange) patchByOps(ops patchOps) error {
	if ops.read() {
		if err := x.may(on(x.route.ref, "get", "")); err != nil {
			return err
		}
	}
	return x.patchBy(ops.apply)
}

// patchBy is a read-modify-write. Where the patch gives no resourceVersion the one that was read is the precondition, and
// the change is made again on what another wrote in between.
func (x *exchange) patchBy(change edit) error {
	render, err := x.renderer()
	if err != nil {
		return err
	}
	o, err := x.writeOptions(x.route.sub)
	if err != nil {
		return err
	}
	c := x.client()
	for attempt := 1; ; attempt++ {
		old, err := c.Get(x.r.Context(), x.route.ref, client.GetOptions{})
		if err != nil {
			return err
		}
		obj, err := x.edited(old, change)
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
func (x *exchange) edited(old api.Object, change edit) (api.Object, error) {
	after, err := edited(old, change)
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
	if media != mergePatch && media != strategicPatch {
		return nil, fault.UnsupportedMedia.Errorf("content type %q: patches are %s", clip(media), patchTypes)
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
		return func(doc any) (any, error) {
			out, gone, err := strategicInto(doc, m, "")
			if gone {
				return nil, fault.BadRequest.Errorf("the whole object cannot be removed by a patch")
			}
			return out, err
		}, nil
	}
	return func(doc any) (any, error) { return mergeInto(doc, m), nil }, nil
}

// applyOne is server-side apply of one object: made when it is not there, its fields owned by the manager.
func (x *exchange) applyOne() error {
	render, err := x.renderer()
	if err != nil {
		return err
	}
	q := x.r.URL.Query()
	o, err := x.writeOptions("")
	if err != nil {
		return err
	}
	if o.FieldManager == "" {
		return fault.BadRequest.Errorf("fieldManager is required for an apply: it names who owns the fields")
	}
	if x.route.sub == "status" {
		return x.applyStatus()
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

// applyStatus is server-side apply of a status: the fields given are set, lists as a whole, the others stay. Status has one writer by
// design, so its fields have no managers and there is nothing to conflict with.
func (x *exchange) applyStatus() error {
	body, err := x.readBody()
	if err != nil {
		return err
	}
	if body, err = jsonOf(body); err != nil {
		return err
	}
	applied, err := x.decode(body)
	if err != nil {
		return err
	}
	var given map[string]any
	if err := unmarshalNumbers(body, &given); err != nil {
		return fault.BadRequest.Errorf("request body: %w", err)
	}
	patch := map[string]any{"status": given["status"]}
	if rv := applied.Meta().ResourceVersion; rv != "" {
		patch["metadata"] = map[string]any{"resourceVersion": rv}
	}
	if patch["status"] == nil {
		return fault.BadRequest.Errorf("an apply to /status needs a status")
	}
	return x.patchBy(func(doc any) (any, error) { return mergeInto(doc, patch), nil })
}

// jsonOf refuses a body of another form. Server-side apply is named after YAML, of which JSON is a part.
func jsonOf(body []byte) ([]byte, error) {
	if !json.Valid(body) {
		return nil, fault.UnsupportedMedia.Errorf("an apply to a subresource is sent as JSON")
	}
	return body, nil
}
