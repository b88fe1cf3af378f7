package apiserver

import (
	_ "embed" // the table of descriptions
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/drover-fleet/drover/api"
)

// object is a JSON object of an OpenAPI document.
type object = map[string]any

// schema is one schema object of OpenAPI, as far as Drover uses it; both versions share it.
type schema struct {
	Ref           string             `json:"$ref,omitempty"`
	Description   string             `json:"description,omitempty"`
	Type          string             `json:"type,omitempty"`
	Format        string             `json:"format,omitempty"`
	Required      []string           `json:"required,omitempty"`
	Properties    map[string]*schema `json:"properties,omitempty"`
	Items         *schema            `json:"items,omitempty"`
	Additional    *schema            `json:"additionalProperties,omitempty"`
	AllOf         []*schema          `json:"allOf,omitempty"`
	OneOf         []*schema          `json:"oneOf,omitempty"`
	Kinds         []gvk              `json:"x-kubernetes-group-version-kind,omitempty"`
	ListType      string             `json:"x-kubernetes-list-type,omitempty"`
	PatchStrategy string             `json:"x-kubernetes-patch-strategy,omitempty"`
	PatchMergeKey string             `json:"x-kubernetes-patch-merge-key,omitempty"`
}

type gvk struct {
	Group   string `json:"group"`
	Kind    string `json:"kind"`
	Version string `json:"version"`
}

func gvkOf(k *api.Kind) gvk {
	version := k.APIVersion
	if i := strings.LastIndexByte(version, '/'); i >= 0 {
		version = version[i+1:]
	}
	return gvk{Group: k.Group(), Kind: k.Kind, Version: version}
}

// openapi_docs.json holds what the source of package api says of each type (under "") and field (under its JSON name).
//
//go:generate go test -count=1 -run TestDescriptionsAreThoseOfTheSource . -update
//go:embed openapi_docs.json
var openAPIDocsJSON []byte

type fieldDocs map[string]map[string]string

func readFieldDocs() (fieldDocs, error) {
	var docs fieldDocs
	if err := json.Unmarshal(openAPIDocsJSON, &docs); err != nil {
		return nil, fmt.Errorf("embedded descriptions: %w", err)
	}
	return docs, nil
}

// of is the description of a type (field "") or of a field. A field of which nothing is said is described by its type.
func (d fieldDocs) of(t reflect.Type, field string) string { return d[t.Name()][field] }

// schemaMaker turns Go types into schemas; structs become components.
type schemaMaker struct {
	docs    fieldDocs
	v3      bool
	group   string // prefix of the names of the types of the group at work
	schemas map[string]*schema
}

func newSchemaMaker(docs fieldDocs, v3 bool) *schemaMaker {
	return &schemaMaker{docs: docs, v3: v3, schemas: map[string]*schema{}}
}

// Prefixes of the names of types; those of Kubernetes' own types are Kubernetes'.
const (
	metaTypes = "io.k8s.apimachinery.pkg.apis.meta.v1."
	coreTypes = "io.k8s.api.core.v1."
	rbacTypes = "io.k8s.api.rbac.v1."
	ownTypes  = "dev.drover.fleet.v1."
)

func typesOf(apiVersion string) string {
	switch apiVersion {
	case api.CoreV1:
		return coreTypes
	case api.RBACV1:
		return rbacTypes
	}
	return ownTypes
}

// nameOf is a component's name. Types of Kubernetes' meta group are the same whichever kind leads to them.
func (g *schemaMaker) nameOf(t reflect.Type) string {
	switch reflect.New(t).Interface().(type) {
	case *api.ObjectMeta, *api.OwnerReference, *api.ManagedFieldsEntry, *api.LabelSelector, *api.LabelSelectorRequirement, *api.Condition:
		return metaTypes + strings.ToUpper(t.Name()[:1]) + t.Name()[1:]
	}
	return g.group + t.Name()
}

func (g *schemaMaker) refTo(name string) *schema {
	if g.v3 {
		return &schema{Ref: "#/components/schemas/" + name}
	}
	return &schema{Ref: "#/definitions/" + name}
}

// kind adds the components of a kind and of its list, and returns a reference to the kind's.
func (g *schemaMaker) kind(k *api.Kind) *schema {
	g.group = typesOf(k.APIVersion)
	t := reflect.TypeOf(k.New()).Elem()
	ref := g.of(t)
	id := gvkOf(k)
	g.schemas[g.nameOf(t)].Kinds = []gvk{id}
	list := g.nameOf(t) + "List"
	g.schemas[metaTypes+"ListMeta"] = listMetaSchema()
	g.schemas[list] = &schema{
		Description: k.Kind + "List is a page of " + k.Plural + " at one revision.", Type: "object", Required: []string{"items"},
		Kinds: []gvk{{Group: id.Group, Kind: id.Kind + "List", Version: id.Version}},
		Properties: map[string]*schema{
			"apiVersion": {Type: "string", Description: g.docs["TypeMeta"]["apiVersion"]},
			"kind":       {Type: "string", Description: g.docs["TypeMeta"]["kind"]},
			"items":      {Type: "array", Items: ref, Description: "The objects, ordered by namespace and name."},
			"metadata":   g.described(g.refTo(metaTypes+"ListMeta"), "Where to watch from, and how to go on."),
		},
	}
	return ref
}

func listMetaSchema() *schema {
	return &schema{Type: "object", Description: "ListMeta is the metadata of a list.", Properties: map[string]*schema{
		"resourceVersion":    {Type: "string", Description: "The revision at which the list was read; watch from here."},
		"continue":           {Type: "string", Description: "Token of the next page; empty on the last."},
		"remainingItemCount": {Type: "integer", Format: "int64", Description: "Objects after this page, where no selector drops some."},
	}}
}

func (g *schemaMaker) of(t reflect.Type) *schema {
	switch reflect.New(t).Interface().(type) {
	case *api.Time:
		return &schema{Type: "string", Format: "date-time"}
	case *api.Duration, *api.Quantity:
		return &schema{Type: "string"}
	case *api.IntOrPercent:
		if g.v3 {
			return &schema{Format: "int-or-string", OneOf: []*schema{{Type: "integer"}, {Type: "string"}}}
		}
		return &schema{Type: "string", Format: "int-or-string"}
	case *api.RawJSON:
		return &schema{Type: "object"}
	case *[]byte:
		return &schema{Type: "string", Format: "byte"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return g.of(t.Elem())
	case reflect.Slice:
		return &schema{Type: "array", Items: g.of(t.Elem()), ListType: "atomic"}
	case reflect.Map:
		return &schema{Type: "object", Additional: g.of(t.Elem())}
	case reflect.Struct:
		return g.component(t)
	case reflect.Bool:
		return &schema{Type: "boolean"}
	case reflect.Int, reflect.Int64:
		return &schema{Type: "integer", Format: "int64"}
	case reflect.Int32:
		return &schema{Type: "integer", Format: "int32"}
	}
	return &schema{Type: "string"}
}

func (g *schemaMaker) component(t reflect.Type) *schema {
	name := g.nameOf(t)
	if _, ok := g.schemas[name]; !ok {
		s := &schema{Type: "object", Description: g.docs.of(t, ""), Properties: map[string]*schema{}}
		g.schemas[name] = s // first, for a type may hold itself
		g.fields(s, t)
		slices.Sort(s.Required)
	}
	return g.refTo(name)
}

// fields adds a struct's fields under their JSON names. An embedded struct's are the outer one's.
func (g *schemaMaker) fields(s *schema, t reflect.Type) {
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			g.fields(s, f.Type)
			continue
		case name == "" || name == "-":
			continue
		}
		s.Properties[name] = patchedByKey(t, name, g.described(g.of(f.Type), g.docs.of(t, name)))
		if !strings.Contains(options, "omit") && name != "metadata" {
			s.Required = append(s.Required, name)
		}
	}
}

// patchedByKey marks the two lists that a strategic merge patch merges; every other is one value.
func patchedByKey(t reflect.Type, name string, s *schema) *schema {
	if t != reflect.TypeFor[api.ObjectMeta]() {
		return s
	}
	switch name {
	case "finalizers":
		s.PatchStrategy = "merge"
	case "ownerReferences":
		s.PatchStrategy, s.PatchMergeKey = "merge", "uid"
	}
	return s
}

// described adds a description. Beside a reference the third version allows nothing else, so it goes around it.
func (g *schemaMaker) described(s *schema, text string) *schema {
	if text == "" {
		return s
	}
	if s.Ref != "" && g.v3 {
		return &schema{Description: text, AllOf: []*schema{s}}
	}
	s.Description = text
	return s
}
