package access

import (
	"slices"
	"strings"

	"github.com/drover-fleet/drover/api"
)

// all is what stands for every verb, group or resource.
const all = "*"

// Attributes are what somebody asks for: a verb on a resource, or on a path that is no resource.
type Attributes struct {
	Verb        string // get, list, watch, create, update, patch, delete, deletecollection and others; of a path the method in lower case
	Group       string // "" is the core group
	Resource    string // plural
	Subresource string
	Namespace   string // "" is the cluster's scope, and every namespace at once
	Name        string // "" where the request names none
	Path        string // of what is no resource; then only Verb matters beside it
}

// named are the verbs that only a rule naming them gives.
func named(verb string) bool { return verb == "bind" || verb == "escalate" || verb == "impersonate" }

func verbMatches(r *api.PolicyRule, verb string) bool {
	return slices.Contains(r.Verbs, verb) || slices.Contains(r.Verbs, all) && !named(verb)
}

func hasOrAll(list []string, v string) bool {
	return slices.Contains(list, all) || slices.Contains(list, v)
}

func resourceMatches(r *api.PolicyRule, resource, sub string) bool {
	for _, have := range r.Resources {
		switch {
		case have == all:
			return true
		case sub == "":
			if have == resource {
				return true
			}
		case have == resource+"/"+sub, have == "*/"+sub:
			return true
		}
	}
	return false
}

// nameMatches: a rule with names covers no request without one, such as a create or the list of a collection.
func nameMatches(r *api.PolicyRule, name string) bool {
	return len(r.ResourceNames) == 0 || slices.Contains(r.ResourceNames, name)
}

func pathMatches(r *api.PolicyRule, path string) bool {
	for _, have := range r.NonResourceURLs {
		if pathCovers(have, path) {
			return true
		}
	}
	return false
}

// pathCovers: a "*" at the end stands for whatever follows, "*" alone for everything.
func pathCovers(have, path string) bool {
	if have == all || have == path {
		return true
	}
	prefix, ok := strings.CutSuffix(have, all)
	return ok && strings.HasPrefix(path, prefix)
}

// Matches reports whether the rule gives what is asked for.
func Matches(r *api.PolicyRule, a *Attributes) bool {
	if a.Path != "" {
		return verbMatches(r, a.Verb) && pathMatches(r, a.Path)
	}
	return verbMatches(r, a.Verb) && hasOrAll(r.APIGroups, a.Group) && resourceMatches(r, a.Resource, a.Subresource) && nameMatches(r, a.Name)
}

// Uncovered returns the single rights of wanted that held does not give; none: all is covered. A right is taken apart into one verb on one
// resource of one group, with at most one name, or on one path. As in Kubernetes one rule must cover it; "*" is covered by "*" alone.
func Uncovered(held, wanted []api.PolicyRule) []api.PolicyRule {
	var missing []api.PolicyRule
	for i := range wanted {
		for _, right := range apart(&wanted[i]) {
			if !slices.ContainsFunc(held, func(h api.PolicyRule) bool { return covers(&h, &right) }) {
				missing = append(missing, right)
			}
		}
	}
	return missing
}

// apart lists the single rights of a rule.
func apart(r *api.PolicyRule) []api.PolicyRule {
	var out []api.PolicyRule
	for _, verb := range r.Verbs {
		for _, url := range r.NonResourceURLs {
			out = append(out, api.PolicyRule{Verbs: []string{verb}, NonResourceURLs: []string{url}})
		}
		for _, group := range r.APIGroups {
			for _, resource := range r.Resources {
				one := api.PolicyRule{Verbs: []string{verb}, APIGroups: []string{group}, Resources: []string{resource}}
				if len(r.ResourceNames) == 0 {
					out = append(out, one)
				}
				for _, name := range r.ResourceNames {
					one.ResourceNames = []string{name}
					out = append(out, one)
				}
			}
		}
	}
	return out
}

// covers: a single right is given by one rule.
func covers(held, right *api.PolicyRule) bool {
	if !verbMatches(held, right.Verbs[0]) {
		return false
	}
	if len(right.NonResourceURLs) > 0 {
		return slices.ContainsFunc(held.NonResourceURLs, func(have string) bool { return pathCovers(have, right.NonResourceURLs[0]) })
	}
	if !hasOrAll(held.APIGroups, right.APIGroups[0]) || !resourceCovers(held, right.Resources[0]) {
		return false
	}
	if len(held.ResourceNames) == 0 {
		return true
	}
	return len(right.ResourceNames) > 0 && slices.Contains(held.ResourceNames, right.ResourceNames[0])
}

// resourceCovers compares resources as rules write them: "*/scale" covers "workloads/scale", and only "*" covers "*".
func resourceCovers(held *api.PolicyRule, resource string) bool {
	if slices.Contains(held.Resources, all) || slices.Contains(held.Resources, resource) {
		return true
	}
	_, sub, ok := strings.Cut(resource, "/")
	return ok && slices.Contains(held.Resources, "*/"+sub)
}
