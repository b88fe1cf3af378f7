package apiserver

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/wire"
	"github.com/drover-fleet/drover/client/remote"
	"github.com/drover-fleet/drover/hub/access"
	"github.com/drover-fleet/drover/hub/tokens"
)

// Bounds of what a request may say of who makes it, in bytes or pieces.
const (
	maxUserName = 200
	maxGroups   = 64
	maxBehalf   = 16 << 10
)

// User is who a request is made as. By is who makes it, where that is somebody else: by impersonation, or a member that passes it on.
type User struct {
	access.Identity
	By *access.Identity
}

// Tokens makes and reads tokens of service accounts; *tokens.Authority is one.
type Tokens interface {
	// Verify says whose token it is, and for which of the audiences; none means the hub's own. fault.Unauthorized: it is not good.
	Verify(ctx context.Context, token string, audiences []string) (access.Identity, []string, error)
	Issue(ctx context.Context, rq tokens.Request) (tokens.Token, error)
}

// authenticate says who it is: by a client certificate, else by a bearer token, else nobody. Then the request may be made as somebody
// else, by a member that passes it on or by impersonation.
func (s *Server) authenticate(r *http.Request, rt route) (User, error) {
	id, err := s.identify(r)
	if err != nil {
		return User{Identity: id}, err
	}
	if id.Kind == access.Member && !rt.public() && s.cfg.IsMember != nil && !s.cfg.IsMember(r.TLS.VerifiedChains[0][0]) {
		return User{Identity: id}, fault.Forbidden.Errorf("%s is no member of the hub any more, or not yet one as far as %s knows, or another key has taken its place", id.Name, s.cfg.Member)
	}
	if behalf := r.Header.Get(remote.HeaderOnBehalfOf); behalf != "" {
		return onBehalf(id, behalf)
	}
	return s.impersonate(r, id)
}

func (s *Server) identify(r *http.Request) (access.Identity, error) {
	if err := refuseQueryTokens(r); err != nil {
		return access.Identity{}, err
	}
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		return identityOf(r.TLS.VerifiedChains[0][0])
	}
	header := r.Header.Get("Authorization")
	if header == "" {
		return access.Anonymous(), nil
	}
	scheme, token, _ := strings.Cut(header, " ")
	token = strings.TrimSpace(token)
	switch {
	case !strings.EqualFold(scheme, "Bearer"):
		return access.Identity{}, fault.Unauthorized.Errorf("Authorization: only Bearer is known here: use a token of a service account, or a client certificate")
	case len(token) > tokens.MaxToken:
		return access.Identity{}, fault.Unauthorized.Errorf("bearer token of %d bytes; the limit is %d bytes", len(token), tokens.MaxToken)
	case s.cfg.Tokens == nil:
		return access.Identity{}, fault.Unauthorized.Errorf("this member takes no bearer tokens: use a client certificate")
	}
	id, _, err := s.cfg.Tokens.Verify(r.Context(), token, nil)
	return id, err
}

// refuseQueryTokens: what stands in a URL gets into logs and histories.
func refuseQueryTokens(r *http.Request) error {
	q := r.URL.Query()
	for _, name := range []string{"access_token", "bearer_token", "id_token", "token"} {
		if q.Has(name) {
			return fault.Unauthorized.Errorf("query parameter %s: a token in a URL is refused, for URLs are logged; send it as Authorization: Bearer, and make another one", name)
		}
	}
	return nil
}

// identityOf reads the subject of a verified certificate. One of members or devices has that organisation alone: which of several it
// acts as would be a guess. Everybody else is a person, whose organisations are groups.
func identityOf(c *x509.Certificate) (access.Identity, error) {
	name, orgs := c.Subject.CommonName, c.Subject.Organization
	if name == "" || len(name) > maxUserName || len(orgs) > maxGroups {
		return access.Identity{}, fault.Unauthorized.Errorf("the client certificate names no person, member or device of this hub")
	}
	for kind, org := range map[access.Kind]string{access.Member: wire.OrgHubs, access.Device: wire.OrgDevices} {
		switch {
		case !slices.Contains(orgs, org):
		case len(orgs) != 1:
			return access.Identity{}, fault.Unauthorized.Errorf("the client certificate is of %s and of other organisations: it must be of one", org)
		default:
			return access.Identity{Kind: kind, Name: name, Groups: []string{org}}, nil
		}
	}
	for _, s := range append([]string{name}, orgs...) {
		if err := access.CheckPersonal(s); err != nil {
			return access.Identity{}, fault.Unauthorized.Errorf("the client certificate: %w", err)
		}
	}
	return access.NewPerson(name, orgs...), nil
}

// onBehalf: a hub member passes on a request with who made it, which it has authenticated. Nobody else may.
func onBehalf(id access.Identity, header string) (User, error) {
	switch {
	case id.Kind != access.Member:
		return User{Identity: id}, fault.Forbidden.Errorf("only a hub member may send %s", remote.HeaderOnBehalfOf)
	case len(header) > maxBehalf:
		return User{Identity: id}, fault.BadRequest.Errorf("%s is %d bytes; the limit is %d bytes", remote.HeaderOnBehalfOf, len(header), maxBehalf)
	}
	var whose access.Identity
	if err := unmarshalStrict([]byte(header), &whose); err != nil || whose.Name == "" {
		return User{Identity: id}, fault.BadRequest.Errorf("%s: want who made the request, as JSON", remote.HeaderOnBehalfOf)
	}
	if !whose.Ruled() {
		return User{Identity: id}, fault.Forbidden.Errorf("%s: a request of a %s is not passed on", remote.HeaderOnBehalfOf, whose.Kind)
	}
	return User{Identity: whose, By: &id}, nil
}

// behalfHeader says who made a request that is passed on to another member.
func (u User) behalfHeader() (string, error) {
	b, err := json.Marshal(u.Identity)
	return string(b), err
}
