package apiserver

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client/remote"
	"github.com/drover-fleet/drover/hub/access"
)

// Users signs certificates for persons.
type Users interface {
	// SignUser signs what the request's key may be called. fault.Invalid for a request that is none.
	SignUser(ctx context.Context, q remote.UserRequest, life time.Duration) (*remote.UserCertificate, error)
}

// Lives of a person's certificate.
const (
	minUserLife     = 10 * time.Minute
	maxUserLife     = 365 * 24 * time.Hour
	defaultUserLife = 90 * 24 * time.Hour

	maxRequestBytes = 16 << 10 // of a PKCS#10 request
)

// addUser has a certificate made for a colleague, by whoever may act as the colleague and as each of the groups.
func (x *exchange) addUser() error {
	if x.s.cfg.Users == nil {
		return noSuchPath(x.route.path)
	}
	body, err := x.readBody()
	if err != nil {
		return err
	}
	var q remote.UserRequest
	if err := unmarshalStrict(body, &q); err != nil {
		return fault.BadRequest.Errorf("request of a certificate: %w", hideValues(err))
	}
	life, err := checkUser(&q)
	if err != nil {
		return err
	}
	for _, a := range impersonations(&access.Identity{Name: q.User, Groups: q.Groups}) {
		if err := x.may(a); err != nil {
			return err
		}
	}
	made, err := x.s.cfg.Users.SignUser(x.r.Context(), q, life)
	if err != nil {
		return err
	}
	x.s.cfg.Logger.Info("certificate made for a person", "request_id", x.id, "by", x.user.Actor(), "user", q.User, "groups", q.Groups, "until", made.NotAfter)
	return x.w.json(http.StatusCreated, made)
}

func checkUser(q *remote.UserRequest) (life time.Duration, err error) {
	if err := access.CheckPersonal(q.User); err != nil {
		return 0, fault.Invalid.Errorf("user: %w", err)
	}
	if len(q.Groups) > maxGroups {
		return 0, fault.Invalid.Errorf("groups: %d of them; the limit is %d", len(q.Groups), maxGroups)
	}
	for i, g := range q.Groups {
		if err := access.CheckPersonal(g); err != nil {
			return 0, fault.Invalid.Errorf("groups[%d]: %w", i, err)
		}
		if slices.Contains(q.Groups[:i], g) {
			return 0, fault.Invalid.Errorf("groups[%d]: %q stands twice", i, g)
		}
	}
	if len(q.Request) == 0 || len(q.Request) > maxRequestBytes {
		return 0, fault.Invalid.Errorf("request: %d bytes; want a PKCS#10 request of at most %d bytes", len(q.Request), maxRequestBytes)
	}
	life = defaultUserLife
	if s := q.ExpirationSeconds; s != 0 {
		if s < int64(minUserLife/time.Second) || s > int64(maxUserLife/time.Second) {
			return 0, fault.Invalid.Errorf("expirationSeconds: %d is not %d to %d", s, int64(minUserLife/time.Second), int64(maxUserLife/time.Second))
		}
		life = time.Duration(s) * time.Second
	}
	return life, nil
}
