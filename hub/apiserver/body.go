package apiserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
)

// readBody reads what the size limit lets through.
func (x *exchange) readBody() ([]byte, error) {
	b, err := io.ReadAll(x.r.Body)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, err
	case err != nil:
		return nil, fault.BadRequest.Errorf("read request body: %w", err)
	}
	return b, nil
}

// contentType is the media type of the body; clients that send none mean JSON, as in Kubernetes.
func (x *exchange) contentType() (string, error) {
	h := x.r.Header.Get("Content-Type")
	if h == "" {
		return "application/json", nil
	}
	media, _, err := mime.ParseMediaType(h)
	if err != nil {
		return "", fault.UnsupportedMedia.Errorf("content type %q: %w", clip(h), err)
	}
	return media, nil
}

// object reads the object that a create or update carries, completed and checked against the path.
func (x *exchange) object() (api.Object, error) {
	media, err := x.contentType()
	if err != nil {
		return nil, err
	}
	body, err := x.readBody()
	if err != nil {
		return nil, err
	}
	switch media {
	case "application/json":
		return x.decode(body)
	case "application/yaml":
		return x.decodeManifest(body)
	case protobufMedia:
		if body, err = protobufToJSON(body); err != nil {
			return nil, err
		}
		return x.decode(body)
	}
	return nil, fault.UnsupportedMedia.Errorf("content type %q: send application/json or application/yaml (kubectl create -f and apply -f do)", clip(media))
}

// decode reads JSON as strictly as the request asks for. A body that names no kind is of the path's.
func (x *exchange) decode(body []byte) (api.Object, error) {
	v, err := fieldValidation(x.r.URL.Query())
	if err != nil {
		return nil, err
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, fault.BadRequest.Errorf("request body is empty: send the object as JSON")
	}
	k := x.route.ref.Kind
	var obj api.Object
	if v == strictFields {
		obj, err = api.DecodeJSON(k, body)
	} else {
		var warnings []string
		obj, warnings, err = api.DecodeJSONWarn(k, body)
		if v == warnFields {
			x.warnAll(warnings)
		}
	}
	if err != nil {
		return nil, err
	}
	return obj, x.checkIdentity(obj)
}

func (x *exchange) decodeManifest(body []byte) (api.Object, error) {
	items, err := api.DecodeManifests("request body", body)
	if err != nil {
		return nil, err
	}
	if len(items) != 1 {
		return nil, fault.BadRequest.Errorf("the body holds %d objects: send one", len(items))
	}
	obj, k := items[0].Object, x.route.ref.Kind
	if t := obj.Type(); t.APIVersion != k.APIVersion || t.Kind != k.Kind {
		return nil, fault.BadRequest.Errorf("the body is a %s %s, the path is of %s %s", t.APIVersion, t.Kind, k.APIVersion, k.Kind)
	}
	return obj, x.checkIdentity(obj)
}

// checkIdentity fills kind, namespace and name from the path, and refuses a body that says otherwise.
func (x *exchange) checkIdentity(obj api.Object) error {
	ref, m := x.route.ref, obj.Meta()
	*obj.Type() = api.TypeMeta{APIVersion: ref.Kind.APIVersion, Kind: ref.Kind.Kind}
	switch {
	case ref.Kind.Namespaced && ref.Namespace == "":
		return fault.BadRequest.Errorf("%s belong to a namespace: use the path with namespaces/NAME", ref.Kind.Plural)
	case m.Namespace != "" && m.Namespace != ref.Namespace:
		return fault.BadRequest.Errorf("metadata.namespace is %q, the path says %q", clip(m.Namespace), ref.Namespace)
	case ref.Name != "" && m.Name != "" && m.Name != ref.Name:
		return fault.BadRequest.Errorf("metadata.name is %q, the path says %q", clip(m.Name), ref.Name)
	}
	m.Namespace = ref.Namespace
	if ref.Name != "" {
		m.Name = ref.Name
	}
	return nil
}

func (x *exchange) warnAll(warnings []string) {
	const atMost = 16 // headers are bounded too
	for i, w := range warnings {
		if i == atMost {
			x.w.warn("more warnings were left out")
			return
		}
		x.w.warn(w)
	}
}

// unmarshalStrict refuses fields that v does not have, and anything after the document.
func unmarshalStrict(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one document")
	}
	return nil
}
