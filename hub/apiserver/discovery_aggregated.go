package apiserver

import "strings"

// The aggregated form of discovery, apidiscovery.k8s.io: every group, version and resource below a path in one document.

type groupDiscoveryList struct {
	Kind       string           `json:"kind"`
	APIVersion string           `json:"apiVersion"`
	Metadata   struct{}         `json:"metadata"`
	Items      []groupDiscovery `json:"items"`
}

type groupDiscovery struct {
	Metadata struct {
		Name string `json:"name,omitempty"`
	} `json:"metadata"`
	Versions []versionDiscovery `json:"versions"`
}

type versionDiscovery struct {
	Version   string              `json:"version"`
	Resources []resourceDiscovery `json:"resources"`
	Freshness string              `json:"freshness"` // Current: this member knows by itself
}

type resourceDiscovery struct {
	Resource     string                 `json:"resource"`
	ResponseKind gvk                    `json:"responseKind"`
	Scope        string                 `json:"scope"` // Cluster or Namespaced
	Singular     string                 `json:"singularResource"`
	Verbs        []string               `json:"verbs"`
	ShortNames   []string               `json:"shortNames,omitempty"`
	Categories   []string               `json:"categories,omitempty"`
	Subresources []subresourceDiscovery `json:"subresources,omitempty"`
}

type subresourceDiscovery struct {
	Subresource  string   `json:"subresource"`
	ResponseKind gvk      `json:"responseKind"`
	Verbs        []string `json:"verbs"`
}

// aggregated is the document of a path; the core group's is at /api and has an empty name.
func aggregated(path, version string) groupDiscoveryList {
	l := groupDiscoveryList{Kind: "APIGroupDiscoveryList", APIVersion: "apidiscovery.k8s.io/" + version, Items: []groupDiscovery{}}
	if path == "/api" {
		l.Items = append(l.Items, groupDiscoveryOf("", "v1", "v1"))
		return l
	}
	for _, gv := range groupVersions() {
		group, v, _ := strings.Cut(gv, "/")
		l.Items = append(l.Items, groupDiscoveryOf(group, v, gv))
	}
	return l
}

func groupDiscoveryOf(group, version, apiVersion string) groupDiscovery {
	g := groupDiscovery{Versions: []versionDiscovery{{Version: version, Freshness: "Current", Resources: []resourceDiscovery{}}}}
	g.Metadata.Name = group
	at := &g.Versions[0].Resources
	for _, r := range resourcesOf(apiVersion).Resources {
		kind := gvk{Group: group, Version: version, Kind: r.Kind}
		if r.Version != "" {
			kind.Group, kind.Version = r.Group, r.Version
		}
		if _, sub, ok := strings.Cut(r.Name, "/"); ok {
			last := &(*at)[len(*at)-1]
			last.Subresources = append(last.Subresources, subresourceDiscovery{Subresource: sub, ResponseKind: kind, Verbs: r.Verbs})
			continue
		}
		scope := "Cluster"
		if r.Namespaced {
			scope = "Namespaced"
		}
		*at = append(*at, resourceDiscovery{
			Resource: r.Name, ResponseKind: kind, Scope: scope, Singular: r.Singular, Verbs: r.Verbs, ShortNames: r.ShortNames, Categories: r.Categories,
		})
	}
	return g
}
