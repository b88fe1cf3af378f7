package apiserver

import (
	"net/http"
	"runtime"
	"strings"

	"github.com/drover-fleet/drover/api"
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

// discovery answers in the plain form; clients that ask for the aggregated form first fall back to it.
func (x *exchange) discovery() error {
	if _, err := negotiate(x.r.Header.Get("Accept")); err != nil {
		return err
	}
	switch x.route.path {
	case "/":
		return x.w.json(http.StatusOK, map[string][]string{"paths": servedPaths()})
	case "/api":
		return x.w.json(http.StatusOK, apiVersions{Kind: "APIVersions", Versions: []string{api.CoreV1}, Addresses: []clientAddress{}})
	case "/apis":
		return x.w.json(http.StatusOK, apiGroupList{Kind: "APIGroupList", APIVersion: "v1", Groups: []apiGroup{groupOf(api.Group), groupOf(api.RBACGroup)}})
	case "/apis/" + api.Group, "/apis/" + api.RBACGroup:
		g := groupOf(strings.TrimPrefix(x.route.path, "/apis/"))
		g.Kind, g.APIVersion = "APIGroup", "v1"
		return x.w.json(http.StatusOK, g)
	case "/api/v1":
		return x.w.json(http.StatusOK, resourcesOf(api.CoreV1))
	}
	return x.w.json(http.StatusOK, resourcesOf(strings.TrimPrefix(x.route.path, "/apis/")))
}

func servedPaths() []string {
	return []string{
		"/api", "/api/v1", "/apis", "/apis/" + api.Group, "/apis/" + api.FleetV1, "/apis/" + api.RBACGroup, "/apis/" + api.RBACV1, "/drover/v1/members", "/drover/v1/why",
		"/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/version",
	}
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

func groupOf(name string) apiGroup {
	v := groupVersion{GroupVersion: name + "/" + api.Version, Version: api.Version}
	return apiGroup{Name: name, Versions: []groupVersion{v}, Preferred: v}
}

type apiResourceList struct {
	Kind         string        `json:"kind"`
	APIVersion   string        `json:"apiVersion"`
	GroupVersion string        `json:"groupVersion"`
	Resources    []apiResource `json:"resources"`
}

type apiResource struct {
	Name       string   `json:"name"`
	Singular   string   `json:"singularName"`
	Namespaced bool     `json:"namespaced"`
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
		if k.HasStatus {
			l.Resources = append(l.Resources, apiResource{Name: k.Plural + "/status", Namespaced: k.Namespaced, Kind: k.Kind, Verbs: []string{"get", "patch", "update"}})
		}
		if k == api.KindAssignment {
			l.Resources = append(l.Resources, apiResource{Name: k.Plural + "/log", Namespaced: true, Kind: k.Kind, Verbs: []string{"get"}})
		}
	}
	return l
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
