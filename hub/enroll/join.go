package enroll

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/wire"
	"github.com/drover-fleet/drover/client"
)

// PathJoin is where a new hub member asks to join: POST, CBOR, over TLS that it verified against the CA hash of its token.
const PathJoin = "/drover/v1/join"

// Member is one hub member as members know each other.
type Member struct {
	Name string `cbor:"1,keyasint"`
	Peer string `cbor:"2,keyasint"`           // host:port for Raft traffic
	URL  string `cbor:"3,keyasint"`           // https://host:port of its API
	ID   uint64 `cbor:"4,keyasint,omitempty"` // Raft id; given by the hub
}

// JoinRequest asks to become a member.
type JoinRequest struct {
	Token  wire.Secret `cbor:"1,keyasint"`
	CSR    []byte      `cbor:"2,keyasint"` // PKCS#10 DER, P-256
	Hosts  []string    `cbor:"3,keyasint"` // names and addresses for its certificate
	Member Member      `cbor:"4,keyasint"`
}

// Validate bounds the request.
func (q *JoinRequest) Validate() error {
	if err := api.CheckDNSName(q.Member.Name); err != nil {
		return fmt.Errorf("member name: %w", err)
	}
	if len(q.CSR) > 8<<10 || len(q.Hosts) > 32 || q.Member.Peer == "" || q.Member.URL == "" || len(q.Member.Peer)+len(q.Member.URL) > 1024 {
		return errors.New("want a request of at most 8 KiB, at most 32 hosts, and a peer address and URL of together at most 1024 bytes")
	}
	return nil
}

// Key is secret key material. It does not print.
type Key []byte

// Format writes a placeholder whatever the verb.
func (Key) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, wire.Redacted) }

// JoinReply makes a member of whoever has the request's key.
type JoinReply struct {
	Certificate []byte   `cbor:"1,keyasint"` // DER
	CA          [][]byte `cbor:"2,keyasint"`
	SealingKey  Key      `cbor:"3,keyasint"`
	ClusterID   string   `cbor:"4,keyasint"`
	Members     []Member `cbor:"5,keyasint"` // all, the new one included
}

// Join admits a hub member: it checks the token (for: hub), signs the certificate and adds the member. It is idempotent by key: whoever
// missed the answer asks again, without another use of the token.
func (e *Enroller) Join(ctx context.Context, q JoinRequest) (JoinReply, error) {
	if e.c.AddMember == nil || e.c.SealingKey == nil || e.c.Records == nil {
		return JoinReply{}, fault.Unavailable.Errorf("this hub member does not take new members")
	}
	key, err := CheckRequest(q.CSR)
	if err != nil {
		return JoinReply{}, err
	}
	fp, err := Fingerprint(key)
	if err != nil {
		return JoinReply{}, err
	}
	if err := e.admit(ctx, q, fp); err != nil {
		return JoinReply{}, err
	}
	cert, err := e.c.Authority.SignHub(q.CSR, q.Member.Name, q.Hosts)
	if err != nil {
		return JoinReply{}, err
	}
	members, err := e.c.AddMember(ctx, q.Member)
	if err != nil {
		return JoinReply{}, err
	}
	// Only now: until the hub has taken the member in, the one that has the name keeps it.
	if err := e.c.Records.Put(ctx, prefixKey+q.Member.Name, []byte(fp)); err != nil {
		return JoinReply{}, err
	}
	e.c.Logger.Info("hub member joins", "member", q.Member.Name, "peer", q.Member.Peer)
	return JoinReply{
		Certificate: cert.Raw, CA: [][]byte{e.c.Authority.CA()}, SealingKey: e.c.SealingKey(),
		ClusterID: e.c.Authority.ClusterID(), Members: members,
	}, nil
}

// admit takes one use of the token for a key that was not admitted under this name before. The token is checked every time: a key
// alone is not enough to get the cluster's sealing key.
func (e *Enroller) admit(ctx context.Context, q JoinRequest, fp string) error {
	mark := prefixJoin + strings.TrimPrefix(fp, "sha256:")
	for try := 0; ; try++ {
		name, known, err := e.c.Records.Read(ctx, mark)
		if err != nil {
			return err
		}
		j, err := checkToken(ctx, e.c.Client, q.Token, ForHub, e.c.Now())
		var no *refusal
		switch {
		case errors.As(err, &no) && j != nil && known && string(name) == q.Member.Name:
			return nil // the secret is right; the token's use was this key's own
		case errors.As(err, &no):
			return fault.Forbidden.Errorf("%s", no.message)
		case err != nil:
			return err
		case known && string(name) == q.Member.Name:
			return nil
		case known:
			return fault.Conflict.Errorf("this key joined as member %s before: join under that name, or with an empty directory", name)
		}
		if err := e.c.CheckMember(q.Member); err != nil {
			return err
		}
		_, err = e.c.Client.Transact(ctx, client.Transaction{Items: []client.TxItem{countUse(j)}})
		if fault.Is(err, fault.Conflict) && try < maxTries {
			continue
		}
		if err != nil {
			return err
		}
		if err := e.c.Records.Create(ctx, map[string][]byte{mark: []byte(q.Member.Name)}); err != nil && !fault.Is(err, fault.AlreadyExists) {
			return err
		}
		return nil
	}
}
