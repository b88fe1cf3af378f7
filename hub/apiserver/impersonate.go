package apiserver

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/hub/access"
)

// Kubernetes' headers of impersonation.
const (
	headerAsUser  = "Impersonate-User"
	headerAsGroup = "Impersonate-Group"
	headerAsUID   = "Impersonate-Uid"
	headerAsExtra = "Impersonate-Extra-"

	authenticationGroup = "authentication.k8s.io"
)

// impersonate reads whom the request is to be made as, and whether who makes it may. Without such headers it is made as oneself.
func (s *Server) impersonate(r *http.Request, id access.Identity) (User, error) {
	as, asked, err := askedFor(r.Header)
	if err != nil || !asked {
		return User{Identity: id}, err
	}
	for _, a := range impersonations(&as) {
		if err := s.allow(&id, &a); err != nil {
			return User{Identity: id}, err
		}
	}
	return User{Identity: completed(as), By: &id}, nil
}

func askedFor(h http.Header) (as access.Identity, asked bool, err error) {
	as = access.Identity{Name: h.Get(headerAsUser), UID: h.Get(headerAsUID), Groups: h.Values(headerAsGroup)}
	pieces := len(as.Groups)
	for key, values := range h {
		rest, ok := strings.CutPrefix(key, headerAsExtra)
		if !ok {
			continue
		}
		name, err := url.PathUnescape(strings.ToLower(rest))
		if err != nil || name == "" {
			return as, true, fault.BadRequest.Errorf("%s%s: want a key, percent-encoded", headerAsExtra, clip(rest))
		}
		if as.Extra == nil {
			as.Extra = map[string][]string{}
		}
		as.Extra[name] = append(as.Extra[name], values...)
		pieces += len(values)
	}
	switch {
	case as.Name == "" && as.UID == "" && pieces == 0:
		return as, false, nil
	case as.Name == "":
		return as, true, fault.BadRequest.Errorf("groups, uid or extras are to be impersonated without a user: send %s", headerAsUser)
	case len(h.Values(headerAsUser)) > 1 || len(h.Values(headerAsUID)) > 1:
		return as, true, fault.BadRequest.Errorf("%s and %s may stand once", headerAsUser, headerAsUID)
	case pieces > maxGroups:
		return as, true, fault.BadRequest.Errorf("%d groups and extras are to be impersonated; the limit is %d", pieces, maxGroups)
	}
	return as, true, nil
}

// impersonations lists what one must be allowed to impersonate, as Kubernetes does.
func impersonations(as *access.Identity) []access.Attributes {
	user := access.Attributes{Verb: "impersonate", Resource: "users", Name: as.Name}
	if ns, name, ok := access.AccountOf(as.Name); ok {
		user = access.Attributes{Verb: "impersonate", Resource: "serviceaccounts", Namespace: ns, Name: name}
	}
	out := []access.Attributes{user}
	for _, g := range as.Groups {
		out = append(out, access.Attributes{Verb: "impersonate", Resource: "groups", Name: g})
	}
	if as.UID != "" {
		out = append(out, access.Attributes{Verb: "impersonate", Group: authenticationGroup, Resource: "uids", Name: as.UID})
	}
	for key, values := range as.Extra {
		for _, v := range values {
			out = append(out, access.Attributes{Verb: "impersonate", Group: authenticationGroup, Resource: "userextras", Subresource: key, Name: v})
		}
	}
	return out
}

// completed gives the one impersonated the groups that go without saying.
func completed(as access.Identity) access.Identity {
	as.Kind = access.Person
	ns, _, isAccount := access.AccountOf(as.Name)
	switch {
	case isAccount:
		as.Kind = access.ServiceAccount
		if len(as.Groups) == 0 {
			as.Groups = access.AccountGroups(ns)
		}
	case as.Name == access.NameNobody:
		as.Kind = access.Nobody
		if !slices.Contains(as.Groups, access.GroupNobody) {
			as.Groups = append(as.Groups, access.GroupNobody)
		}
		return as
	}
	if !slices.Contains(as.Groups, access.GroupAuthenticated) && !slices.Contains(as.Groups, access.GroupNobody) {
		as.Groups = append(as.Groups, access.GroupAuthenticated)
	}
	return as
}
