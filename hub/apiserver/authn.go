package apiserver

import (
	"crypto/x509"
	"net/http"
	"slices"

	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/wire"
	"github.com/drover-fleet/drover/client/remote"
)

// User is who makes a request: the subject of a client certificate that the listener verified. Group is its organisation,
// one of wire's; both are empty for somebody without a certificate.
type User struct {
	Name  string
	Group string
}

// Actor is the name that the journal of causes and the audit keep.
func (u User) Actor() string {
	switch u.Group {
	case wire.OrgAdmins:
		return "user:" + u.Name
	case wire.OrgHubs:
		return "hub:" + u.Name
	case wire.OrgDevices:
		return "device:" + u.Name
	}
	return "anonymous"
}

// authenticate says who it is. A hub member may speak for a person whose request it passes on; nobody else may, and no member that was
// removed.
func (s *Server) authenticate(r *http.Request, rt route) (User, error) {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		if rt.public() {
			return User{}, nil
		}
		return User{}, fault.Unauthorized.Errorf("no client certificate: use the kubeconfig that drover-hub --init wrote (admin.kubeconfig) or drover kubeconfig printed")
	}
	u, err := userOf(r.TLS.VerifiedChains[0][0])
	if err != nil {
		return u, err
	}
	behalf := r.Header.Get(remote.HeaderOnBehalfOf)
	switch {
	case u.Group == wire.OrgHubs && !rt.public() && s.cfg.IsMember != nil && !s.cfg.IsMember(u.Name):
		return u, fault.Forbidden.Errorf("%s is no member of the hub any more, or not yet one as far as %s knows", u.Name, s.cfg.Member)
	case behalf == "":
		return u, nil
	case u.Group != wire.OrgHubs:
		return u, fault.Forbidden.Errorf("only a hub member may send %s", remote.HeaderOnBehalfOf)
	case len(behalf) > maxUserName:
		return u, fault.BadRequest.Errorf("%s is longer than %d bytes", remote.HeaderOnBehalfOf, maxUserName)
	}
	return User{Name: behalf, Group: wire.OrgAdmins}, nil
}

const maxUserName = 200

// userOf reads the subject. A certificate of two groups is refused: which of them it acts as would be a guess.
func userOf(c *x509.Certificate) (User, error) {
	var groups []string
	for _, o := range c.Subject.Organization {
		if o == wire.OrgAdmins || o == wire.OrgHubs || o == wire.OrgDevices {
			groups = append(groups, o)
		}
	}
	slices.Sort(groups)
	groups = slices.Compact(groups)
	if len(groups) != 1 || c.Subject.CommonName == "" || len(c.Subject.CommonName) > maxUserName {
		return User{}, fault.Unauthorized.Errorf("the client certificate names no person, member or device of this hub")
	}
	return User{Name: c.Subject.CommonName, Group: groups[0]}, nil
}

// authorize says whether the user may. In this release people with an admin's certificate may do everything that
// admission lets people do; devices have their own paths and nothing here; members use what members need.
func authorize(u User, rt route) error {
	switch {
	case rt.public() || u.Group == wire.OrgAdmins:
		return nil
	case u.Group == wire.OrgHubs && (rt.forMembers() || rt.kind == routeNone): // a newer member hears that this one lacks a path
		return nil
	case u.Group == wire.OrgDevices:
		return fault.Forbidden.Errorf("device %q may not use the operators' API: a device reaches its own objects only, by its link", u.Name)
	}
	e := fault.Forbidden.Errorf("%s may not %s %s", u.Actor(), rt.verb, rt.object())
	e.Details = rt.details()
	return e
}
