package conventions

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/drover-fleet/drover/api"
)

func points() []point {
	return append(append(resourcePoints(), writePoints()...), append(listPoints(), deletePoints()...)...)
}

func own(k *api.Kind) bool     { return k.Group() == api.Group }
func builtin(k *api.Kind) bool { return !own(k) }

// freelyNamed: a tombstone is named by what it is of.
func freelyNamed(k *api.Kind) bool { return k != api.KindTombstone }

func hasStatus(k *api.Kind) bool { return k.HasStatus }

func resourcePoints() []point {
	return []point{
		{"resources", "a new object answers 201 with its kind, name, uid, resourceVersion and time of creation", nil, func(c *try) error {
			o, err := c.create(1)
			if err != nil {
				return err
			}
			for _, f := range []string{"metadata.uid", "metadata.resourceVersion", "metadata.creationTimestamp"} {
				if o.at(f) == "" {
					return fmt.Errorf("%s is empty: %v", f, o)
				}
			}
			return same("object", o.at("apiVersion")+" "+o.at("kind")+" "+o.at("metadata.name"), c.kind.APIVersion+" "+c.kind.Kind+" "+c.name(1))
		}},
		{"resources", "what was created is read back; HEAD answers the same without a body", nil, func(c *try) error {
			o, err := c.create(1)
			if err != nil {
				return err
			}
			r, err := c.want(http.StatusOK, http.MethodGet, c.path(c.name(1)), nil)
			if err != nil {
				return err
			}
			if err := same("uid", r.body.at("metadata.uid"), o.at("metadata.uid")); err != nil {
				return err
			}
			head, err := c.want(http.StatusOK, http.MethodHead, c.path(c.name(1)), nil)
			if err != nil {
				return err
			}
			return same("bytes of HEAD", len(head.raw), 0)
		}},
		{"discovery", "the kind is listed with its verbs, plainly and aggregated, and described in OpenAPI by group, version and kind", nil, discovered},
		{"discovery", "an unchanged document is answered 304 to who has it", nil, func(c *try) error {
			for _, path := range []string{"/apis", "/openapi/v2", "/openapi/v3"} {
				r, err := c.want(http.StatusOK, http.MethodGet, path, nil)
				if err != nil {
					return err
				}
				if _, err := c.want(http.StatusNotModified, http.MethodGet, path, nil, "If-None-Match", r.header.Get("ETag")); err != nil {
					return err
				}
			}
			return nil
		}},
		{"status codes", "what is not there answers 404 NotFound with name, group and plural", nil, func(c *try) error {
			r, err := c.refused(http.StatusNotFound, "NotFound", http.MethodGet, c.path(c.name(9)), nil)
			if err != nil {
				return err
			}
			return same("details", r.body.at("details.name")+" "+r.body.at("details.group")+" "+r.body.at("details.kind"), c.name(9)+" "+c.kind.Group()+" "+c.kind.Plural)
		}},
		{"status codes", "a verb that a path does not have answers 405", nil, func(c *try) error {
			for _, m := range []string{http.MethodPost, http.MethodOptions} {
				if _, err := c.refused(http.StatusMethodNotAllowed, "MethodNotAllowed", m, c.path("x"), c.object("x")); err != nil {
					return err
				}
			}
			return nil
		}},
		{"status codes", "a body that is another kind, another name or no JSON answers 400; another media type 415; a form it lacks 406", nil, func(c *try) error {
			other := c.object(c.name(1))
			other["kind"] = "Nothing"
			if _, err := c.refused(http.StatusBadRequest, "BadRequest", http.MethodPost, c.collection(), other); err != nil {
				return err
			}
			if _, err := c.refused(http.StatusBadRequest, "BadRequest", http.MethodPut, c.path("another"), c.object(c.name(1))); err != nil {
				return err
			}
			if _, err := c.refused(http.StatusBadRequest, "BadRequest", http.MethodPost, c.collection(), "{"); err != nil {
				return err
			}
			if _, err := c.refused(http.StatusUnsupportedMediaType, "UnsupportedMediaType", http.MethodPost, c.collection(), "x", "Content-Type", "text/csv"); err != nil {
				return err
			}
			_, err := c.refused(http.StatusNotAcceptable, "NotAcceptable", http.MethodGet, c.collection(), nil, "Accept", "text/csv")
			return err
		}},
		{"forms", "objects, lists and events come as Table and as metadata alone to who asks", nil, forms},
	}
}

func discovered(c *try) error {
	at := "/apis/" + c.kind.APIVersion
	groups := "/apis"
	if c.kind.APIVersion == api.CoreV1 {
		at, groups = "/api/v1", "/api"
	}
	plain, err := c.want(http.StatusOK, http.MethodGet, at, nil)
	if err != nil {
		return err
	}
	const form = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	whole, err := c.want(http.StatusOK, http.MethodGet, groups, nil, "Accept", form)
	if err != nil {
		return err
	}
	if err := same("content type", whole.header.Get("Content-Type"), form); err != nil {
		return err
	}
	described, err := c.want(http.StatusOK, http.MethodGet, "/openapi/v3"+at, nil)
	if err != nil {
		return err
	}
	version := c.kind.APIVersion[strings.LastIndex(c.kind.APIVersion, "/")+1:]
	id := fmt.Sprintf(`{"group":%q,"kind":%q,"version":%q}`, c.kind.Group(), c.kind.Kind, version)
	for what, r := range map[string]struct{ in, want string }{
		"discovery":            {plain.raw, fmt.Sprintf(`{"name":%q,"singularName":%q,"namespaced":%v`, c.kind.Plural, c.kind.Singular, c.kind.Namespaced)},
		"aggregated discovery": {whole.raw, fmt.Sprintf(`{"resource":%q,"responseKind":%s`, c.kind.Plural, id)},
		"OpenAPI":              {described.raw, `"x-kubernetes-group-version-kind":[` + id + `]`},
	} {
		if !strings.Contains(r.in, r.want) {
			return fmt.Errorf("%s has no %s", what, r.want)
		}
	}
	return nil
}

func forms(c *try) error {
	if _, err := c.create(1); err != nil {
		return err
	}
	for _, f := range []struct{ path, accept, kind string }{
		{c.path(c.name(1)), "Table", "Table"},
		{c.mine(""), "Table", "Table"},
		{c.path(c.name(1)), "PartialObjectMetadata", "PartialObjectMetadata"},
		{c.mine(""), "PartialObjectMetadataList", "PartialObjectMetadataList"},
	} {
		r, err := c.want(http.StatusOK, http.MethodGet, f.path, nil, "Accept", "application/json;as="+f.accept+";g=meta.k8s.io;v=v1")
		if err != nil {
			return err
		}
		if err := same("form of "+f.path, r.body.at("apiVersion")+" "+r.body.at("kind"), "meta.k8s.io/v1 "+f.kind); err != nil {
			return err
		}
		if r.body["spec"] != nil || !strings.Contains(r.raw, c.name(1)) {
			return fmt.Errorf("%s as %s: %.300s", f.path, f.kind, r.raw)
		}
	}
	return nil
}

func writePoints() []point {
	return []point{
		{"idempotency", "a name that is taken answers 409 AlreadyExists", nil, func(c *try) error {
			if _, err := c.create(1); err != nil {
				return err
			}
			_, err := c.refused(http.StatusConflict, "AlreadyExists", http.MethodPost, c.collection(), c.object(c.name(1)))
			return err
		}},
		{"idempotency", "generateName makes a name of its own each time", freelyNamed, func(c *try) error {
			seen := map[string]bool{}
			for range 2 {
				o := c.object("")
				delete(o["metadata"].(doc), "name")
				o["metadata"].(doc)["generateName"] = c.id + "-"
				r, err := c.want(http.StatusCreated, http.MethodPost, c.collection(), o)
				if err != nil {
					return err
				}
				name := r.body.at("metadata.name")
				if !strings.HasPrefix(name, c.id+"-") || len(name) != len(c.id)+6 || seen[name] {
					return fmt.Errorf("name %q after %v", name, seen)
				}
				seen[name] = true
			}
			return nil
		}},
		{"metadata", "names are parts of paths, most of them DNS names: anything else answers 422 with the field", nil, func(c *try) error {
			r, err := c.refused(http.StatusUnprocessableEntity, "Invalid", http.MethodPost, c.collection(), c.object("not%a%name"))
			if err == nil && !strings.Contains(r.raw, `"field":"metadata.name"`) {
				err = fmt.Errorf("no cause names metadata.name: %s", r.raw)
			}
			return err
		}},
		{"metadata", "what the server decides is not the writer's: uid of another life answers 409, times and generation are kept", nil, func(c *try) error {
			o, err := c.create(1)
			if err != nil {
				return err
			}
			meta := doc(o["metadata"].(map[string]any))
			meta["creationTimestamp"], meta["generation"] = "2001-01-01T00:00:00Z", 77
			r, err := c.want(http.StatusOK, http.MethodPut, c.path(c.name(1)), o)
			if err != nil {
				return err
			}
			if r.body.at("metadata.creationTimestamp") == "2001-01-01T00:00:00Z" || r.body.at("metadata.generation") == "77" {
				return fmt.Errorf("taken from the writer: %s", r.raw)
			}
			meta["uid"] = "another"
			_, err = c.refused(http.StatusConflict, "Conflict", http.MethodPut, c.path(c.name(1)), o)
			return err
		}},
		{"concurrency", "an update of an older resourceVersion answers 409 Conflict; without one it is made on what stands; one that changes nothing makes no revision", nil, func(c *try) error {
			old, err := c.create(1)
			if err != nil {
				return err
			}
			o := c.object(c.name(1))
			o["metadata"].(doc)["annotations"] = doc{"a": "b"}
			first, err := c.want(http.StatusOK, http.MethodPut, c.path(c.name(1)), o)
			if err != nil {
				return err
			}
			again, err := c.want(http.StatusOK, http.MethodPut, c.path(c.name(1)), o)
			if err != nil {
				return err
			}
			if err := same("resourceVersion", again.body.at("metadata.resourceVersion"), first.body.at("metadata.resourceVersion")); err != nil {
				return err
			}
			_, err = c.refused(http.StatusConflict, "Conflict", http.MethodPut, c.path(c.name(1)), old)
			return err
		}},
		{"patch", "merge: null removes, maps merge; JSON: a failed test answers 422 and changes nothing", nil, func(c *try) error {
			if _, err := c.create(1); err != nil {
				return err
			}
			p := c.path(c.name(1))
			if _, err := c.want(http.StatusOK, http.MethodPatch, p, `{"metadata":{"annotations":{"a":"1","b":"2"}}}`, "Content-Type", "application/merge-patch+json"); err != nil {
				return err
			}
			r, err := c.want(http.StatusOK, http.MethodPatch, p, `{"metadata":{"annotations":{"a":null,"c":"3"}}}`, "Content-Type", "application/merge-patch+json")
			if err != nil {
				return err
			}
			if err := same("annotations", r.body.at("metadata.annotations"), "map[b:2 c:3]"); err != nil {
				return err
			}
			if _, err := c.refused(http.StatusUnprocessableEntity, "Invalid", http.MethodPatch, p,
				`[{"op":"remove","path":"/metadata/annotations/b"},{"op":"test","path":"/metadata/annotations/c","value":"x"}]`, "Content-Type", "application/json-patch+json"); err != nil {
				return err
			}
			r, err = c.want(http.StatusOK, http.MethodPatch, p, `[{"op":"copy","from":"/metadata/annotations/b","path":"/metadata/annotations/d"}]`, "Content-Type", "application/json-patch+json")
			if err != nil {
				return err
			}
			return same("annotations", r.body.at("metadata.annotations"), "map[b:2 c:3 d:2]")
		}},
		{"patch", "Kubernetes' own kinds take a strategic patch, which adds to finalizers", builtin, func(c *try) error {
			if _, err := c.create(1); err != nil {
				return err
			}
			for _, f := range []string{"a.example/x", "b.example/y"} {
				if _, err := c.want(http.StatusOK, http.MethodPatch, c.path(c.name(1)), `{"metadata":{"finalizers":["`+f+`"]}}`, "Content-Type", "application/strategic-merge-patch+json"); err != nil {
					return err
				}
			}
			r, err := c.want(http.StatusOK, http.MethodPatch, c.path(c.name(1)), `{"metadata":{"$deleteFromPrimitiveList/finalizers":["a.example/x"]}}`, "Content-Type", "application/strategic-merge-patch+json")
			if err != nil {
				return err
			}
			return same("finalizers", r.body.at("metadata.finalizers"), "[b.example/y]")
		}},
		{"patch", "a kind without strategic patches answers 415 and says which it takes", own, func(c *try) error {
			if _, err := c.create(1); err != nil {
				return err
			}
			r, err := c.refused(http.StatusUnsupportedMediaType, "UnsupportedMediaType", http.MethodPatch, c.path(c.name(1)), `{}`, "Content-Type", "application/strategic-merge-patch+json")
			if err == nil && !strings.Contains(r.header.Get("Accept-Patch"), "merge-patch") {
				err = fmt.Errorf("Accept-Patch is %q", r.header.Get("Accept-Patch"))
			}
			return err
		}},
		{"apply", "server-side apply makes or changes; the same again makes no revision; a field of another manager conflicts, naming both, unless forced", nil, applied},
		{"dry run", "dryRun=All answers as if, and keeps nothing; another value answers 400", nil, func(c *try) error {
			if _, err := c.want(http.StatusCreated, http.MethodPost, c.collection()+"?dryRun=All", c.object(c.name(1))); err != nil {
				return err
			}
			if _, err := c.refused(http.StatusNotFound, "NotFound", http.MethodGet, c.path(c.name(1)), nil); err != nil {
				return err
			}
			_, err := c.refused(http.StatusBadRequest, "BadRequest", http.MethodPost, c.collection()+"?dryRun=Some", c.object(c.name(1)))
			return err
		}},
		{"validation", "a field that the kind does not have answers 400 under Strict, a warning under Warn, nothing under Ignore", nil, func(c *try) error {
			o := c.object(c.name(1))
			o["colour"] = "red"
			if _, err := c.refused(http.StatusBadRequest, "BadRequest", http.MethodPost, c.collection()+"?fieldValidation=Strict", o); err != nil {
				return err
			}
			r, err := c.want(http.StatusCreated, http.MethodPost, c.collection()+"?fieldValidation=Warn&dryRun=All", o)
			if err != nil {
				return err
			}
			if !strings.Contains(r.header.Get("Warning"), "colour") {
				return fmt.Errorf("Warning is %q", r.header.Get("Warning"))
			}
			_, err = c.want(http.StatusCreated, http.MethodPost, c.collection()+"?fieldValidation=Ignore", o)
			return err
		}},
		{"spec and status", "a write to the object leaves status alone, and one to /status leaves the rest", hasStatus, func(c *try) error {
			if _, err := c.create(1); err != nil {
				return err
			}
			r, err := c.want(http.StatusOK, http.MethodGet, c.path(c.name(1))+"/status", nil)
			if err != nil {
				return err
			}
			before := r.body.at("metadata.generation")
			o := c.object(c.name(1))
			o["metadata"].(doc)["labels"] = doc{"changed": "by-status"}
			r, err = c.want(http.StatusOK, http.MethodPut, c.path(c.name(1))+"/status", o)
			if err != nil {
				return err
			}
			if err := same("label", r.body.at("metadata.labels.try"), c.id); err != nil {
				return err
			}
			return same("generation", r.body.at("metadata.generation"), before)
		}},
	}
}

func applied(c *try) error {
	const media = "application/apply-patch+yaml"
	give := func(color string) doc {
		o := c.object(c.name(1))
		o["metadata"].(doc)["annotations"] = doc{"color": color}
		return o
	}
	first, err := c.want(http.StatusCreated, http.MethodPatch, c.path(c.name(1))+"?fieldManager=anna", give("red"), "Content-Type", media)
	if err != nil {
		return err
	}
	again, err := c.want(http.StatusOK, http.MethodPatch, c.path(c.name(1))+"?fieldManager=anna", give("red"), "Content-Type", media)
	if err != nil {
		return err
	}
	if err := same("resourceVersion", again.body.at("metadata.resourceVersion"), first.body.at("metadata.resourceVersion")); err != nil {
		return err
	}
	r, err := c.refused(http.StatusConflict, "Conflict", http.MethodPatch, c.path(c.name(1))+"?fieldManager=bert", give("blue"), "Content-Type", media)
	if err != nil {
		return err
	}
	for _, part := range []string{"anna", "bert", "metadata.annotations.color", "FieldManagerConflict"} {
		if !strings.Contains(r.raw, part) {
			return fmt.Errorf("the conflict does not name %s: %s", part, r.raw)
		}
	}
	r, err = c.want(http.StatusOK, http.MethodPatch, c.path(c.name(1))+"?fieldManager=bert&force=true", give("blue"), "Content-Type", media)
	if err != nil {
		return err
	}
	return same("color", r.body.at("metadata.annotations.color"), "blue")
}
