package remote

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/drover-fleet/drover/api"
)

// PathUsers is where a certificate for a person is asked for.
const PathUsers = PathHub + "users"

// UserRequest asks for a certificate for a person, whose key made the request.
type UserRequest struct {
	User              string   `json:"user"`
	Groups            []string `json:"groups,omitempty"`
	Request           []byte   `json:"request"`                     // PKCS#10 of an ECDSA key on P-256, PEM or DER
	ExpirationSeconds int64    `json:"expirationSeconds,omitempty"` // 600 to 31,536,000; 0 = 90 days
}

// UserCertificate is what the hub made of it.
type UserCertificate struct {
	User        string   `json:"user"`
	Groups      []string `json:"groups,omitempty"`
	Certificate []byte   `json:"certificate"` // PEM
	CA          []byte   `json:"ca"`          // PEM
	Servers     []string `json:"servers"`     // URLs of all members
	NotAfter    api.Time `json:"notAfter"`
}

// AddUser has the hub sign a person's certificate.
func (c *Client) AddUser(ctx context.Context, q UserRequest) (*UserCertificate, error) {
	body, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	var u UserCertificate
	if err := c.readInto(ctx, call{method: http.MethodPost, path: PathUsers, body: body, media: "application/json", firm: true}, &u); err != nil {
		return nil, err
	}
	return &u, nil
}
