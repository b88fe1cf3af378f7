package apiserver

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client/remote"
	"github.com/drover-fleet/drover/hub/registry"
)

// Links of a chain of causes that one answer holds.
const (
	whyDefault = 100
	whyMost    = 1000
)

// why answers with the chain of causes of an object, which may be gone by now.
func (x *exchange) why() error {
	if x.s.cfg.Why == nil {
		return noSuchPath(x.route.path)
	}
	q := x.r.URL.Query()
	k, ok := api.KindOf(q.Get("apiVersion"), q.Get("kind"))
	if !ok {
		return fault.BadRequest.Errorf("no kind %q in %q: give apiVersion, kind, namespace and name", clip(q.Get("kind")), clip(q.Get("apiVersion")))
	}
	ref := api.Ref{Kind: k, Namespace: q.Get("namespace"), Name: q.Get("name")}
	if ref.Name == "" || k.Namespaced != (ref.Namespace != "") {
		return fault.BadRequest.Errorf("%s: give name, and namespace exactly where the kind has one", k.Plural)
	}
	if err := x.may(on(ref, "get", "")); err != nil {
		return err
	}
	limit := whyDefault
	if text := q.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return fault.BadRequest.Errorf("limit %q: want a number from 1 up", clip(text))
		}
		limit = min(n, whyMost)
	}
	chain, err := x.s.cfg.Why.Why(x.r.Context(), ref, limit)
	if err != nil {
		return err
	}
	if err := x.mask(chain.Links, chain.Effects); err != nil {
		return err
	}
	return x.w.json(http.StatusOK, chain)
}

// members lists the hub's members as this one knows them.
func (x *exchange) members() error {
	if x.s.cfg.Members == nil {
		return noSuchPath(x.route.path)
	}
	all, err := x.s.cfg.Members.Members(x.r.Context())
	if err != nil {
		return err
	}
	if all == nil {
		all = []remote.Member{}
	}
	return x.w.json(http.StatusOK, remote.MemberList{Items: all})
}

// mask leaves of links to objects that the asker may not get only the kind and the revision.
func (x *exchange) mask(chains ...[]registry.Link) error {
	may := map[string]bool{}
	for _, links := range chains {
		for i := range links {
			title := links[i].Object
			ok, known := may[title]
			if !known {
				var err error
				if ok, err = x.mayGetTitled(title); err != nil {
					return err
				}
				may[title] = ok
			}
			if !ok {
				kind, _, _ := strings.Cut(title, " ")
				links[i] = registry.Link{Revision: links[i].Revision, Object: kind, Depth: links[i].Depth}
			}
		}
	}
	return nil
}

// mayGetTitled judges an object by its title in the journal, as "Workload default/camera". What is no object's is for admins.
func (x *exchange) mayGetTitled(title string) (bool, error) {
	if x.user.IsAdmin() {
		return true, nil
	}
	name, rest, _ := strings.Cut(title, " ")
	for _, k := range api.Kinds() {
		if k.Kind != name || rest == "" {
			continue
		}
		ref := api.Ref{Kind: k, Name: rest}
		if k.Namespaced {
			ref.Namespace, ref.Name, _ = strings.Cut(rest, "/")
		}
		a := on(ref, "get", "")
		d, err := x.s.cfg.Access.Authorize(&x.user.Identity, &a)
		return d.Allowed, err
	}
	return false, nil
}
