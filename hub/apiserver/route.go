package apiserver

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client/remote"
)

type routeKind uint8

// The kinds of routes. Discovery covers version and OpenAPI too.
const (
	routeNone routeKind = iota
	routeHealth
	routeDiscovery
	routeObjects
	routeLog
	routeTransactions
	routeWhy
	routeMembers
	routeHub
	routeMetrics
	routeReview
	routeToken
	routeUsers
	routeAudit
)

// route is what a request's path and method mean.
type route struct {
	kind   routeKind
	verb   string // get, list, watch, create, update, patch, delete, deletecollection
	path   string
	ref    api.Ref // for objects and logs; Name is empty for a collection
	sub    string  // subresource: "", "status", "log"
	review *review // of what kind the question is
	serve  func(x *exchange) error
}

func (rt route) public() bool {
	return rt.kind == routeHealth || (rt.kind == routeDiscovery && rt.path == "/version")
}

// forMembers is what one member asks of another in its own name.
func (rt route) forMembers() bool {
	return rt.kind == routeMembers || rt.kind == routeMetrics || (rt.kind == routeDiscovery && rt.verb == "get")
}

// lasting requests have no deadline of their own.
func (rt route) lasting() bool { return rt.verb == "watch" || rt.kind == routeLog || rt.streams() }

func (rt route) writes() bool {
	switch rt.verb {
	case "create", "update", "patch", "delete", "deletecollection", "transact", "operate":
		return true
	}
	return false
}

// object names what the request is about, for people: "Workload default/camera".
func (rt route) object() string {
	if rt.ref.Kind == nil {
		return rt.path
	}
	name := rt.ref.Kind.Kind
	switch {
	case rt.ref.Namespace != "" && rt.ref.Name != "":
		name += " " + rt.ref.Namespace + "/" + rt.ref.Name
	case rt.ref.Namespace != "":
		name += " " + rt.ref.Namespace + "/*"
	case rt.ref.Name != "":
		name += " " + rt.ref.Name
	}
	if rt.sub != "" {
		name += " (" + rt.sub + ")"
	}
	return name
}

func (rt route) details() fault.Details {
	if rt.ref.Kind == nil {
		return fault.Details{}
	}
	return fault.Details{Name: rt.ref.Name, Group: rt.ref.Kind.Group(), Kind: rt.ref.Kind.Plural}
}

const maxAuditPath = 256

// parseRoute reads path and method. It looks at nothing else but the query's watch.
func parseRoute(r *http.Request) (route, error) {
	path := r.URL.Path
	if trimmed := strings.TrimSuffix(path, "/"); trimmed != "" && reads(r) {
		path = trimmed // whoever writes may have meant a name that came out empty
	}
	rt := route{path: path, verb: strings.ToLower(r.Method)}
	if len(rt.path) > maxAuditPath {
		rt.path = rt.path[:maxAuditPath]
	}
	if err := checkPath(r.URL, path); err != nil {
		return rt, err
	}
	if fixed, ok := fixedRoute(path); ok {
		fixed.path = path
		return fixed, fixed.checkMethod(r)
	}
	if of, ok, err := reviewRoute(path, r); ok {
		return of, err
	}
	if of, err, ok := auditRoute(path, r); ok {
		return of, err
	}
	if of, ok := hubRoute(path, r); ok {
		return of, nil
	}
	for prefix, apiVersion := range map[string]string{"/api/v1/": api.CoreV1, "/apis/" + api.FleetV1 + "/": api.FleetV1, "/apis/" + api.RBACV1 + "/": api.RBACV1} {
		if rest, ok := strings.CutPrefix(path, prefix); ok {
			return objectRoute(rt, r, apiVersion, strings.Split(rest, "/"))
		}
	}
	return rt, noSuchPath(path)
}

func reads(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// checkPath refuses paths that could be read in two ways. Nothing is cleaned: a client whose name is empty or "..", or holds a slash,
// does not mean the object that a cleaned path leads to.
func checkPath(u *url.URL, path string) error {
	if strings.Contains(strings.ToLower(u.RawPath), "%2f") {
		return fault.BadRequest.Errorf("path: a name may not hold a slash, not even as %%2F")
	}
	for i, part := range strings.Split(strings.TrimPrefix(path, "/"), "/") {
		switch {
		case part == "" && path != "/":
			return fault.BadRequest.Errorf("path: the part after slash %d is empty: a namespace or name is missing", i+1)
		case part == "." || part == "..":
			return fault.BadRequest.Errorf("path: %q is no name", part)
		}
	}
	return nil
}

func noSuchPath(path string) error {
	if len(path) > maxAuditPath {
		path = path[:maxAuditPath]
	}
	return fault.NotFound.Errorf("the server could not find the requested resource: nothing is served at %q", path)
}

// fixedRoute lists the paths without a variable part.
func fixedRoute(path string) (route, bool) {
	switch path {
	case "/healthz", "/livez", "/readyz":
		return route{kind: routeHealth, verb: "get", serve: (*exchange).health}, true
	case "/version":
		return route{kind: routeDiscovery, verb: "get", serve: (*exchange).version}, true
	case "/", "/api", "/apis", "/apis/" + api.Group, "/apis/" + api.RBACGroup, "/api/v1", "/apis/" + api.FleetV1, "/apis/" + api.RBACV1,
		"/apis/" + authenticationGroup, "/apis/" + authenticationV1, "/apis/" + authorizationGroup, "/apis/" + authorizationV1:
		return route{kind: routeDiscovery, verb: "get", serve: (*exchange).discovery}, true
	case "/openapi/v3", "/openapi/v3/api/v1", "/openapi/v3/apis/" + api.FleetV1, "/openapi/v3/apis/" + api.RBACV1:
		return route{kind: routeDiscovery, verb: "get", serve: (*exchange).openAPIv3}, true
	case "/openapi/v2":
		return route{kind: routeDiscovery, verb: "get", serve: (*exchange).openAPIv2}, true
	case "/apis/" + api.FleetV1 + "/transactions":
		return route{kind: routeTransactions, verb: "transact", serve: (*exchange).transact}, true
	case "/drover/v1/why":
		return route{kind: routeWhy, verb: "get", serve: (*exchange).why}, true
	case "/drover/v1/members":
		return route{kind: routeMembers, verb: "get", serve: (*exchange).members}, true
	case remote.PathUsers:
		return route{kind: routeUsers, verb: "operate", serve: (*exchange).addUser}, true
	case "/metrics":
		return route{kind: routeMetrics, verb: "get", serve: (*exchange).metrics}, true
	}
	return route{}, false
}

func (rt route) checkMethod(r *http.Request) error {
	want := http.MethodGet
	if rt.kind == routeTransactions || rt.kind == routeUsers {
		want = http.MethodPost
	}
	if r.Method == want || (want == http.MethodGet && r.Method == http.MethodHead) {
		return nil
	}
	return fault.MethodNotAllowed.Errorf("%s is not allowed at %s: use %s", r.Method, rt.path, want)
}

// objectRoute reads what stands behind group and version: [namespaces/NS/]PLURAL[/NAME[/SUB]].
func objectRoute(rt route, r *http.Request, apiVersion string, parts []string) (route, error) {
	namespace := ""
	// namespaces/NS and namespaces/NS/status are the Namespace itself; its kinds' paths go on with a plural.
	if parts[0] == "namespaces" && len(parts) >= 3 && (apiVersion != api.CoreV1 || kindByPlural(apiVersion, parts[2]) != nil) {
		namespace, parts = parts[1], parts[2:]
	}
	k := kindByPlural(apiVersion, parts[0])
	if k == nil || len(parts) > 3 || (namespace != "" && !k.Namespaced) {
		return rt, noSuchPath(r.URL.Path)
	}
	rt.kind, rt.ref = routeObjects, api.Ref{Kind: k, Namespace: namespace}
	if len(parts) > 1 {
		rt.ref.Name = parts[1]
		if k.Namespaced && namespace == "" {
			return rt, noSuchPath(r.URL.Path)
		}
	}
	if len(parts) > 2 {
		rt.sub = parts[2]
		if !hasSubresource(k, rt.sub) {
			return rt, noSuchPath(r.URL.Path)
		}
	}
	return rt.withVerb(r)
}

func hasSubresource(k *api.Kind, sub string) bool {
	return (sub == "status" && k.HasStatus) || (sub == "log" && k == api.KindAssignment) || (sub == "scale" && k == api.KindWorkload) ||
		(sub == "token" && k == api.KindServiceAccount)
}

func kindByPlural(apiVersion, plural string) *api.Kind {
	for _, k := range api.Kinds() {
		if k.APIVersion == apiVersion && k.Plural == plural {
			return k
		}
	}
	return nil
}

// withVerb is the table of methods: on the left a collection's, on the right an object's.
func (rt route) withVerb(r *http.Request) (route, error) {
	collection := rt.ref.Name == ""
	watch := isTrue(r.URL.Query().Get("watch"))
	switch method := r.Method; {
	case rt.sub == "log" && method == http.MethodGet:
		rt.kind, rt.verb, rt.serve = routeLog, "get", (*exchange).deviceLog
	case rt.sub == "token" && method == http.MethodPost:
		rt.kind, rt.verb, rt.serve = routeToken, "create", (*exchange).tokenRequest
	case rt.sub == "log", rt.sub == "token":
		return rt, rt.notAllowed(r)
	case isRead(method) && collection && watch:
		rt.verb, rt.serve = "watch", (*exchange).watch
	case isRead(method) && collection:
		rt.verb, rt.serve = "list", (*exchange).list
	case isRead(method) && watch && rt.sub == "":
		rt.verb, rt.serve = "watch", (*exchange).watch
	case rt.sub == "scale":
		return rt.scale(r)
	case isRead(method):
		rt.verb, rt.serve = "get", (*exchange).get
	case method == http.MethodPost && collection:
		rt.verb, rt.serve = "create", (*exchange).create
	case method == http.MethodDelete && collection:
		rt.verb, rt.serve = "deletecollection", (*exchange).deleteCollection
	case method == http.MethodPut && !collection:
		rt.verb, rt.serve = "update", (*exchange).update
	case method == http.MethodPatch && !collection:
		rt.verb, rt.serve = "patch", (*exchange).patch
	case method == http.MethodDelete && !collection && rt.sub == "":
		rt.verb, rt.serve = "delete", (*exchange).delete
	default:
		return rt, rt.notAllowed(r)
	}
	return rt, nil
}

func (rt route) scale(r *http.Request) (route, error) {
	switch {
	case isRead(r.Method):
		rt.verb, rt.serve = "get", (*exchange).getScale
	case r.Method == http.MethodPut:
		rt.verb, rt.serve = "update", (*exchange).updateScale
	case r.Method == http.MethodPatch:
		rt.verb, rt.serve = "patch", (*exchange).patchScale
	default:
		return rt, rt.notAllowed(r)
	}
	return rt, nil
}

func (rt route) notAllowed(r *http.Request) error {
	e := fault.MethodNotAllowed.Errorf("%s is not supported on %s", r.Method, rt.object())
	e.Details = rt.details()
	return e
}

func isRead(method string) bool { return method == http.MethodGet || method == http.MethodHead }

// isTrue reads a query's boolean as Kubernetes does: "1" and "true".
func isTrue(s string) bool { return s == "1" || strings.EqualFold(s, "true") }
