package hub

import (
	"context"
	"encoding/pem"
	"net/url"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/client/cache"
	"github.com/drover-fleet/drover/client/remote"
	"github.com/drover-fleet/drover/hub/tokens"
)

// newRights makes what this member decides by: the roles, with the informers that feed them once they run, and the tokens.
func (h *Hub) newRights() (err error) {
	h.roles = cache.NewSet(h.as("hub:"+h.id.Name), cache.Options{Random: random, Logger: h.log})
	h.access.Follow(h.roles.Of)
	h.tokens, err = tokens.New(tokens.Config{
		Member: h.id.Name, Backend: h.replica, Sealer: h.sealer, Client: h.as("hub:" + h.id.Name),
		Cluster: func() (string, bool) {
			id := h.cluster.Load()
			if id == nil {
				return "", false
			}
			return *id, true
		},
	})
	return err
}

// followRights keeps the roles as new as this member's copy.
func (h *Hub) followRights(ctx context.Context) error { return h.roles.Run(ctx) }

// users signs certificates for persons.
type users struct{ h *Hub }

// SignUser implements apiserver.Users.
func (u users) SignUser(_ context.Context, q remote.UserRequest, life time.Duration) (*remote.UserCertificate, error) {
	a := u.h.authority.Load()
	if a == nil {
		return nil, errNotYet
	}
	request := q.Request
	if block, _ := pem.Decode(request); block != nil {
		request = block.Bytes
	}
	cert, err := a.SignPerson(request, q.User, q.Groups, life)
	if err != nil {
		return nil, err
	}
	encode := func(der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}) }
	return &remote.UserCertificate{
		User: q.User, Groups: q.Groups, Certificate: encode(cert.Raw), CA: encode(a.CA()), Servers: u.h.urls(), NotAfter: api.TimeOf(cert.NotAfter),
	}, nil
}

// rotateTokenKey has tokens signed by a new key from now on. With forget=true every token that was made before ends.
func (h *Hub) rotateTokenKey(ctx context.Context, q url.Values) (any, error) {
	return nil, h.tokens.Rotate(ctx, q.Get("forget") == "true")
}
