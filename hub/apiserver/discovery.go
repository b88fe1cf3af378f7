package apiserver

import (
	"encoding/json"
	"mime"
	"net/http"
	"runtime"
	"slices"
	"strings"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
)

// kubernetesMinor is the minor version of Kubernetes whose conventions are followed; kubectl compares it with its own.
const kubernetesMinor = "32"

type versionInfo struct {
	Major        string `json:"major"`
	Minor        string `json:"minor"`
	GitVersion   string `json:"gitVersion"`
	GitCommit    string `json:"gitCommit"`
	GitTreeState string `json:"gitTreeState"`
	BuildDate    string `json:"buildDate"`
	GoVersion    string `json:"goVersion"`
	Compiler     string `json:"compiler"`
	Platform     string `json:"platform"`
}

// version answers with the API level as a Kubernetes version, and Drover's own version as its build part.
func (x *exchange) version() error {
	return x.w.json(http.StatusOK, versionInfo{
		Major: "1", Minor: kubernetesMinor, GitVersion: "v1." + kubernetesMinor + ".0+drover." + x.s.cfg.Version,
		GoVersion: runtime.Version(), Compiler: runtime.Compiler, Platform: runtime.GOOS + "/" + runtime.GOARCH,
	})
}

// discovery answers what is served: one document a group and version, or, for clients that ask for the aggregated form at /api and /apis,
// everything below in one. Both have an ETag of their content.
func (x *exchange) discovery() error {
	doc, media := x.plainDiscovery(), "application/json"
	if x.route.path == "/api" || x.route.path == "/apis" {
		if v := aggregatedVersion(x.r.Header.Get("Accept")); v != "" {
			doc, media = aggregated(x.route.path, v), "application/json;g=apidiscovery.k8s.io;v="+v+";as=APIGroupDiscoveryList"
		}
	}
	if media == "application/json" {
		if err := wantsPlain(x.r.Header.Get("Accept")); err != nil {
			return err
		}
	}
	body, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	return x.sendDocument(newOpenAPIDoc(append(body, '\n')), media)
}

// wantsPlain refuses a client that takes only forms of JSON that this path does not have.
func wantsPlain(accept string) error {
	if strings.TrimSpace(accept) == "" {
		return nil
	}
	for part := range strings.SplitSeq(accept, ",") {
		if media, params, err := mime.ParseMediaType(strings.TrimSpace(part)); err == nil && isJSON(media) && params["as"] == "" {
			return nil
		}
	}
	return fault.NotAcceptable.Errorf("only application/json can be answered here, not %q", clip(accept))
}

// aggregatedVersion is the version of the aggregated form that a client asks for before the plain one; empty: the plain one.
func aggregatedVersion(accept string) string {
	for part := range strings.SplitSeq(accept, ",") {
		media, params, err := mime.ParseMediaType(strings.TrimSpace(part))
		if err != nil || !isJSON(media) {
			continue
		}
		if params["as"] == "" {
			return ""
		}
		if params["g"] == "apidiscovery.k8s.io" && params["as"] == "APIGroupDiscoveryList" && (params["v"] == "v2" || params["v"] == "v2beta1") {
			return params["v"]
		}
	}
	return ""
}

func (x *exchange) plainDiscovery() any {
	switch x.route.path {
	case "/":
		return map[string][]string{"paths": servedPaths()}
	case "/api":
		return apiVersions{Kind: "APIVersions", Versions: []string{api.CoreV1}, Addresses: []clientAddress{}}
	case "/apis":
		l := apiGroupList{Kind: "APIGroupList", APIVersion: "v1"}
		for _, gv := range groupVersions() {
			l.Groups = append(l.Groups, groupOf(gv))
		}
		return l
	case "/api/v1":
		return resourcesOf(api.CoreV1)
	}
	name := strings.TrimPrefix(x.route.path, "/apis/")
	if strings.Contains(name, "/") {
		return resourcesOf(name)
	}
	for _, gv := range groupVersions() {
		if g := groupOf(gv); g.Name == name {
			g.Kind, g.APIVersion = "APIGroup", "v1"
			return g
		}
	}
	return nil // parseRoute serves no other group
}

// groupVersions are the groups beside the core, each with its one version.
func groupVersions() []string {
	return []string{api.FleetV1, api.RBACV1, authenticationV1, authorizationV1}
}

func servedPaths() []string {
	paths := []string{
		"/api", "/api/v1", "/apis", "/drover/v1/members", "/drover/v1/why", "/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/version",
	}
	for _, gv := range groupVersions() {
		paths = append(paths, "/apis/"+groupOf(gv).Name, "/apis/"+gv)
	}
	for path := range openAPIPaths() {
		paths = append(paths, "/openapi/v3/"+path)
	}
	slices.Sort(paths)
	return paths
}

type apiVersions struct {
	Kind      string          `json:"kind"`
	Versions  []string        `json:"versions"`
	Addresses []clientAddress `json:"serverAddressByClientCIDRs"`
}

type clientAddress struct {
	ClientCIDR    string `json:"clientCIDR"`
	ServerAddress string `json:"serverAddress"`
}

type apiGroupList struct {
	Kind       string     `json:"kind"`
	APIVersion string     `json:"apiVersion"`
	Groups     []apiGroup `json:"groups"`
}

type apiGroup struct {
	Kind       string         `json:"kind,omitempty"`
	APIVersion string         `json:"apiVersion,omitempty"`
	Name       string         `json:"name"`
	Versions   []groupVersion `json:"versions"`
	Preferred  groupVersion   `json:"preferredVersion"`
}

type groupVersion struct {
	GroupVersion string `json:"groupVersion"`
	Version      string `json:"version"`
}

func groupOf(apiVersion string) apiGroup {
	name, version, _ := strings.Cut(apiVersion, "/")
	v := groupVersion{GroupVersion: apiVersion, Version: version}
	return apiGroup{Name: name, Versions: []groupVersion{v}, Preferred: v}
}

type apiResourceList struct {
	Kind         string        `json:"kind"`
	APIVersion   string        `json:"apiVersion"`
	GroupVersion string        `json:"groupVersion"`
	Resources    []apiResource `json:"resources"`
}

// apiResource is one entry of discovery. Group and Version stand where the kind is of another group than the list.
type apiResource struct {
	Name       string   `json:"name"`
	Singular   string   `json:"singularName"`
	Namespaced bool     `json:"namespaced"`
	Group      string   `json:"group,omitempty"`
	Version    string   `json:"version,omitempty"`
	Kind       string   `json:"kind"`
	Verbs      []string `json:"verbs"`
	ShortNames []string `json:"shortNames,omitempty"`
	Categories []string `json:"categories,omitempty"`
}

// resourcesOf lists the kinds of a group and version with their subresources.
func resourcesOf(apiVersion string) apiResourceList {
	l := apiResourceList{Kind: "APIResourceList", APIVersion: "v1", GroupVersion: apiVersion, Resources: []apiResource{}}
	for _, k := range api.Kinds() {
		if k.APIVersion != apiVersion {
			continue
		}
		l.Resources = append(l.Resources, apiResource{
			Name: k.Plural, Singular: k.Singular, Namespaced: k.Namespaced, Kind: k.Kind, ShortNames: k.ShortNames, Categories: categories(k),
			Verbs: []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"},
		})
		l.Resources = append(l.Resources, subresources(k)...)
	}
	l.Resources = append(l.Resources, reviewResources(apiVersion)...)
	return l
}

func subresources(k *api.Kind) []apiResource {
	var out []apiResource
	if k.HasStatus {
		out = append(out, apiResource{Name: k.Plural + "/status", Namespaced: k.Namespaced, Kind: k.Kind, Verbs: []string{"get", "patch", "update"}})
	}
	switch k {
	case api.KindAssignment:
		out = append(out, apiResource{Name: k.Plural + "/log", Namespaced: true, Kind: k.Kind, Verbs: []string{"get"}})
	case api.KindServiceAccount:
		out = append(out, apiResource{
			Name: k.Plural + "/token", Namespaced: true, Group: authenticationGroup, Version: "v1", Kind: "TokenRequest", Verbs: []string{"create"},
		})
	case api.KindWorkload:
		out = append(out, apiResource{
			Name: k.Plural + "/scale", Namespaced: true, Group: scaleGroup, Version: scaleVersion, Kind: scaleKind, Verbs: []string{"get", "patch", "update"},
		})
	}
	return out
}

// categories: "all" is what kubectl get all shows, "drover" is everything of ours.
func categories(k *api.Kind) []string {
	switch k {
	case api.KindWorkload, api.KindAssignment, api.KindRollout:
		return []string{"all", "drover"}
	}
	if strings.HasPrefix(k.APIVersion, api.Group+"/") {
		return []string{"drover"}
	}
	return nil
}
