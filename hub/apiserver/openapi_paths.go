package apiserver

import (
	"net/http"
	"slices"
	"strings"

	"github.com/drover-fleet/drover/api"
)

// operation is one method of a path in OpenAPI.
type operation struct {
	Description string            `json:"description,omitempty"`
	ID          string            `json:"operationId,omitempty"`
	Consumes    []string          `json:"consumes,omitempty"` // version 2
	Produces    []string          `json:"produces,omitempty"` // version 2
	Parameters  []parameter       `json:"parameters,omitempty"`
	Body        object            `json:"requestBody,omitempty"` // version 3
	Responses   map[string]answer `json:"responses"`
	Action      string            `json:"x-kubernetes-action,omitempty"`
	Kind        gvk               `json:"x-kubernetes-group-version-kind"`
}

type answer struct {
	Description string  `json:"description"`
	Schema      *schema `json:"schema,omitempty"`  // version 2
	Content     object  `json:"content,omitempty"` // version 3
}

type parameter struct {
	Name        string  `json:"name"`
	In          string  `json:"in"`
	Description string  `json:"description,omitempty"`
	Required    bool    `json:"required,omitempty"`
	Type        string  `json:"type,omitempty"`   // version 2
	Schema      *schema `json:"schema,omitempty"` // version 3; of a body in version 2
}

// method is one thing that can be done at one of a kind's two paths, with the query's parameters.
type method struct {
	http, action string
	collection   bool
	query        []string
}

func methods() []method {
	write := []string{"dryRun", "fieldManager", "fieldValidation"}
	remove := []string{"dryRun", "gracePeriodSeconds", "propagationPolicy", "orphanDependents"}
	pick := []string{"labelSelector", "fieldSelector", "limit", "continue", "resourceVersion", "resourceVersionMatch"}
	return []method{
		{http.MethodGet, "list", true, append([]string{"watch", "allowWatchBookmarks", "sendInitialEvents", "timeoutSeconds"}, pick...)},
		{http.MethodPost, "post", true, write},
		{http.MethodDelete, "deletecollection", true, append(slices.Clone(remove), pick...)},
		{http.MethodGet, "get", false, []string{"resourceVersion"}},
		{http.MethodPut, "put", false, write},
		{http.MethodPatch, "patch", false, append([]string{"force"}, write...)},
		{http.MethodDelete, "delete", false, remove},
	}
}

// parameterDoc says what a query's parameter does.
func parameterDoc(name string) (typ, help string) {
	switch name {
	case "watch":
		return "boolean", "Stream changes instead of listing."
	case "allowWatchBookmarks":
		return "boolean", "Send bookmarks, which carry only a resourceVersion to resume from."
	case "sendInitialEvents":
		return "boolean", "Begin a watch with what is there, ended by a marked bookmark. Needs resourceVersionMatch=NotOlderThan."
	case "timeoutSeconds":
		return "integer", "Longest life of the watch, in seconds."
	case "labelSelector", "fieldSelector":
		return "string", "Only objects that match."
	case "limit":
		return "integer", "Most objects of one page; more are had by continue."
	case "continue":
		return "string", "Token of the page before, whose revision goes on."
	case "resourceVersion":
		return "string", "Empty: the newest. 0: what this member has. Else at least as new as this, or exactly with resourceVersionMatch=Exact."
	case "resourceVersionMatch":
		return "string", "NotOlderThan or Exact."
	case "dryRun":
		return "string", "All: do everything but keep it."
	case "fieldManager":
		return "string", "Who owns the fields that are written."
	case "fieldValidation":
		return "string", "Strict (default), Warn or Ignore: what becomes of fields that the kind does not have."
	case "force":
		return "boolean", "Apply only: take fields over from other managers."
	case "gracePeriodSeconds":
		return "integer", "Taken, without effect: a workload's own grace period rules on the device."
	case "propagationPolicy":
		return "string", "Background, Foreground or Orphan: what becomes of dependents."
	case "orphanDependents":
		return "boolean", "Old form of propagationPolicy=Orphan."
	}
	return "string", ""
}

// bodyTypes are what an operation takes. kubectl sends a strategic merge patch to whatever lists one.
func bodyTypes(m method, k *api.Kind) []string {
	own := k.Group() == api.Group
	switch {
	case m.http == http.MethodPatch && own:
		return []string{jsonPatch, mergePatch, applyPatch}
	case m.http == http.MethodPatch:
		return []string{jsonPatch, mergePatch, strategicPatch, applyPatch}
	case own:
		return []string{"application/json", "application/yaml"}
	}
	return []string{"application/json", "application/yaml", protobufMedia}
}

// pathsOf are the paths of a kind with their operations.
func pathsOf(base string, k *api.Kind, ref *schema, v3 bool) map[string]object {
	at := base + "/" + k.Plural
	inside := []parameter{}
	if k.Namespaced {
		at = base + "/namespaces/{namespace}/" + k.Plural
		inside = append(inside, pathParameter("namespace", v3))
	}
	out := map[string]object{at: {}, at + "/{name}": {}}
	if len(inside) > 0 {
		out[at]["parameters"] = inside
	}
	out[at+"/{name}"]["parameters"] = append(slices.Clone(inside), pathParameter("name", v3))
	for _, m := range methods() {
		path := at + "/{name}"
		if m.collection {
			path = at
		}
		out[path][strings.ToLower(m.http)] = operationOf(m, k, ref, v3)
	}
	return out
}

func pathParameter(name string, v3 bool) parameter {
	p := parameter{Name: name, In: "path", Required: true, Type: "string", Description: "The object's " + name + "."}
	if v3 {
		p.Type, p.Schema = "", &schema{Type: "string"}
	}
	return p
}

func operationOf(m method, k *api.Kind, ref *schema, v3 bool) operation {
	op := operation{
		Description: strings.ToUpper(m.action[:1]) + m.action[1:] + " " + k.Plural, ID: m.action + k.APIVersion + k.Kind,
		Action: m.action, Kind: gvkOf(k),
	}
	for _, name := range m.query {
		typ, help := parameterDoc(name)
		p := parameter{Name: name, In: "query", Type: typ, Description: help}
		if v3 {
			p.Type, p.Schema = "", &schema{Type: typ}
		}
		op.Parameters = append(op.Parameters, p)
	}
	writes := m.http == http.MethodPost || m.http == http.MethodPut || m.http == http.MethodPatch
	if v3 {
		op.Responses = map[string]answer{"200": {Description: "OK", Content: object{"application/json": object{"schema": ref}}}}
		if writes {
			content := object{}
			for _, media := range bodyTypes(m, k) {
				content[media] = object{"schema": ref}
			}
			op.Body = object{"content": content, "required": true}
		}
		return op
	}
	op.Responses = map[string]answer{"200": {Description: "OK", Schema: ref}}
	op.Produces = []string{"application/json"}
	if writes {
		op.Consumes = bodyTypes(m, k)
		op.Parameters = append(op.Parameters, parameter{Name: "body", In: "body", Required: true, Schema: ref})
	}
	return op
}

// openAPIv3Of is the document of one group and version.
func openAPIv3Of(docs fieldDocs, base, apiVersion string) object {
	g := newSchemaMaker(docs, true)
	paths := map[string]object{}
	for _, k := range api.Kinds() {
		if k.APIVersion != apiVersion {
			continue
		}
		for path, ops := range pathsOf(base, k, g.kind(k), true) {
			paths[path] = ops
		}
	}
	return object{
		"openapi":    "3.0.0",
		"info":       object{"title": "Drover", "version": apiVersion},
		"paths":      paths,
		"components": object{"schemas": g.schemas},
	}
}

// swagger is the document of all groups in OpenAPI 2.
type swagger struct {
	Version     string             `json:"swagger"`
	Info        swaggerInfo        `json:"info"`
	Paths       map[string]object  `json:"paths"`
	Definitions map[string]*schema `json:"definitions"`
}

type swaggerInfo struct {
	Title   string `json:"title"`
	Version string `json:"version"`
}

func openAPIv2Of(docs fieldDocs) *swagger {
	g := newSchemaMaker(docs, false)
	d := &swagger{Version: "2.0", Info: swaggerInfo{Title: "Drover", Version: api.Version}, Paths: map[string]object{}, Definitions: g.schemas}
	for path, apiVersion := range openAPIPaths() {
		for _, k := range api.Kinds() {
			if k.APIVersion != apiVersion {
				continue
			}
			for at, ops := range pathsOf("/"+path, k, g.kind(k), false) {
				d.Paths[at] = ops
			}
		}
	}
	return d
}
