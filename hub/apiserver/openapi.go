package apiserver

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"sync"

	"github.com/drover-fleet/drover/api"
)

// openAPI holds the OpenAPI v3 documents, made at the first request from the Go types of the kinds: enough for kubectl explain
// and for kubectl to find out that the server validates fields itself.
type openAPI struct {
	once sync.Once
	docs map[string]openAPIDoc // by group and version's path: api/v1
	err  error
}

type openAPIDoc struct {
	body []byte
	hash string
}

func (o *openAPI) load() (map[string]openAPIDoc, error) {
	o.once.Do(func() {
		o.docs = map[string]openAPIDoc{}
		for path, apiVersion := range map[string]string{"api/v1": api.CoreV1, "apis/" + api.FleetV1: api.FleetV1, "apis/" + api.RBACV1: api.RBACV1} {
			body, err := json.Marshal(openAPIOf("/"+path, apiVersion))
			if err != nil {
				o.err = err
				return
			}
			sum := sha256.Sum256(body)
			o.docs[path] = openAPIDoc{body: body, hash: hex.EncodeToString(sum[:8])}
		}
	})
	return o.docs, o.err
}

func (x *exchange) openAPIv3() error {
	docs, err := x.s.openAPI.load()
	if err != nil {
		return err
	}
	rest := strings.TrimPrefix(strings.TrimPrefix(x.route.path, "/openapi/v3"), "/")
	if rest != "" {
		doc := docs[rest]
		x.w.Header().Set("ETag", `"`+doc.hash+`"`)
		return x.w.bytes(http.StatusOK, "application/json", doc.body)
	}
	paths := map[string]any{}
	for path, doc := range docs {
		paths[path] = map[string]string{"serverRelativeURL": "/openapi/v3/" + path + "?hash=" + doc.hash}
	}
	return x.w.json(http.StatusOK, map[string]any{"paths": paths})
}

// openAPIv2 answers with a document that describes nothing. kubectl before 1.25 looks a kind up in it before it creates or
// applies, and leaves validation to the server where it finds none; the server's is strict.
func (x *exchange) openAPIv2() error {
	// Clients ask by a name with "@v1.0", which is no media type; the answer's name has ".v1.0", as from Kubernetes.
	if strings.Contains(x.r.Header.Get("Accept"), "application/com.github.proto-openapi.spec.v2") {
		return x.w.bytes(http.StatusOK, "application/com.github.proto-openapi.spec.v2.v1.0+protobuf", []byte("\x0a\x032.0")) // field 1, swagger: "2.0"
	}
	return x.w.json(http.StatusOK, object{"swagger": "2.0", "info": object{"title": "Drover", "version": api.Version}, "paths": object{}})
}

// object is a JSON object of an OpenAPI document.
type object = map[string]any

func openAPIOf(base, apiVersion string) object {
	g := &schemaMaker{schemas: object{}}
	paths := object{}
	for _, k := range api.Kinds() {
		if k.APIVersion != apiVersion {
			continue
		}
		ref := g.of(reflect.TypeOf(k.New()).Elem())
		name, _ := ref["$ref"].(string)
		schema, _ := g.schemas[strings.TrimPrefix(name, schemaPrefix)].(object)
		schema["x-kubernetes-group-version-kind"] = []object{gvk(k)}
		at := base + "/" + k.Plural
		if k.Namespaced {
			at = base + "/namespaces/{namespace}/" + k.Plural
		}
		paths[at] = operations(k, ref, "get", "post", "delete")
		paths[at+"/{name}"] = operations(k, ref, "get", "put", "patch", "delete")
	}
	return object{
		"openapi":    "3.0.0",
		"info":       object{"title": "Drover", "version": apiVersion},
		"paths":      paths,
		"components": object{"schemas": g.schemas},
	}
}

func gvk(k *api.Kind) object {
	version := api.CoreV1
	if k.Group() != "" {
		version = api.Version
	}
	return object{"group": k.Group(), "version": version, "kind": k.Kind}
}

func operations(k *api.Kind, ref object, methods ...string) object {
	out := object{}
	for _, m := range methods {
		op := object{
			"x-kubernetes-group-version-kind": gvk(k),
			"responses":                       object{"200": object{"description": "OK", "content": object{"application/json": object{"schema": ref}}}},
		}
		if m != "get" && m != "delete" {
			op["parameters"] = []object{queryParameter("dryRun"), queryParameter("fieldManager"), queryParameter("fieldValidation")}
		}
		out[m] = op
	}
	return out
}

func queryParameter(name string) object {
	return object{"name": name, "in": "query", "schema": object{"type": "string", "uniqueItems": true}}
}

const schemaPrefix = "#/components/schemas/"

// schemaMaker turns Go types into schemas; structs become components.
type schemaMaker struct{ schemas object }

func (g *schemaMaker) of(t reflect.Type) object {
	switch reflect.New(t).Interface().(type) {
	case *api.Time:
		return object{"type": "string", "format": "date-time"}
	case *api.Duration, *api.Quantity:
		return object{"type": "string"}
	case *api.IntOrPercent:
		return object{"x-kubernetes-int-or-string": true}
	case *api.RawJSON:
		return object{"type": "object"}
	case *[]byte:
		return object{"type": "string", "format": "byte"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return g.of(t.Elem())
	case reflect.Slice:
		return object{"type": "array", "items": g.of(t.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": g.of(t.Elem())}
	case reflect.Struct:
		return g.component(t)
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int32:
		return object{"type": "integer", "format": "int32"}
	case reflect.Int64:
		return object{"type": "integer", "format": "int64"}
	}
	return object{"type": "string"}
}

func (g *schemaMaker) component(t reflect.Type) object {
	name := "dev.drover.fleet.v1." + t.Name()
	if _, ok := g.schemas[name]; !ok {
		properties := object{}
		schema := object{"type": "object", "properties": properties}
		g.schemas[name] = schema
		var required []string
		for i := range t.NumField() {
			required = append(required, g.field(properties, t.Field(i))...)
		}
		if len(required) > 0 {
			schema["required"] = required
		}
	}
	return object{"$ref": schemaPrefix + name}
}

// field adds a field under its JSON name and returns the names of those that must be given. An embedded struct's fields are
// the outer one's.
func (g *schemaMaker) field(properties object, f reflect.StructField) (required []string) {
	name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	if f.Anonymous && name == "" {
		for i := range f.Type.NumField() {
			required = append(required, g.field(properties, f.Type.Field(i))...)
		}
		return required
	}
	if name == "" || name == "-" {
		return nil
	}
	properties[name] = g.of(f.Type)
	if !strings.Contains(options, "omit") && name != "metadata" {
		required = append(required, name)
	}
	return required
}
