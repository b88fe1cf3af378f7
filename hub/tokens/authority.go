package tokens

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/wire"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/hub/access"
)

// Audience is the hub's own: a token for it opens the hub's API.
const Audience = api.HubAudience

// Lives of tokens.
const (
	MinLife     = 10 * time.Minute
	MaxLife     = 48 * time.Hour
	DefaultLife = time.Hour
	leeway      = 10 * time.Second
)

// Bounds of what a token holds, in bytes or pieces.
const (
	MaxToken     = 16 << 10
	maxAudiences = 10
	maxAudience  = 253
)

// Extras of the identity that a token gives.
const (
	ExtraCredential     = "authentication.kubernetes.io/credential-id"
	ExtraAssignmentName = "fleet.drover.dev/assignment-name"
	ExtraAssignmentUID  = "fleet.drover.dev/assignment-uid"
)

// Config of an Authority; Now defaults to time.Now.
type Config struct {
	Member  string // this member's name
	Backend Backend
	Sealer  Sealer
	Client  client.Client         // as this hub member; accounts and bound objects are read through it
	Cluster func() (string, bool) // the cluster's id, once it is known: who signs
	Now     func() time.Time
}

// Authority makes and reads tokens. Safe for concurrent use.
type Authority struct {
	c    Config
	keys *ring
}

// New makes an Authority.
func New(c Config) (*Authority, error) {
	if c.Backend == nil || c.Sealer == nil || c.Client == nil || c.Cluster == nil {
		return nil, errors.New("tokens: backend, sealer, client and cluster must be set")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Authority{c: c, keys: &ring{b: c.Backend, sealer: c.Sealer, actor: "hub:" + c.Member, now: c.Now}}, nil
}

// Bound names what a token is bound to: an Assignment or a Secret in the account's namespace.
type Bound struct {
	Kind *api.Kind
	Name string
	UID  string // "" = whatever has the name now
}

// Request asks for a token.
type Request struct {
	Namespace, Account string
	UID                string        // of the account; "" = whatever has the name now
	Audiences          []string      // none: [Audience]
	Life               time.Duration // 0: [DefaultLife]
	Bound              *Bound
}

// Token is a token with what it is good for. Its text does not print.
type Token struct {
	Text      wire.Secret
	Audiences []string
	Made      time.Time
	Expires   time.Time
}

// claims are the token's contents, named as Kubernetes names them.
type claims struct {
	jwt.RegisteredClaims
	Private private `json:"kubernetes.io"`
}

type private struct {
	Namespace  string `json:"namespace"`
	Account    object `json:"serviceaccount"`
	Assignment object `json:"assignment,omitzero"`
	Secret     object `json:"secret,omitzero"`
}

type object struct {
	Name string `json:"name"`
	UID  string `json:"uid"`
}

// Issue makes a token. Errors: fault.Invalid for what cannot be asked for, fault.NotFound where account or bound object are not there, fault.Conflict
// where they are others than the ones meant.
func (a *Authority) Issue(ctx context.Context, rq Request) (Token, error) {
	if err := rq.complete(); err != nil {
		return Token{}, err
	}
	issuer, err := a.issuer()
	if err != nil {
		return Token{}, err
	}
	account, err := a.living(ctx, api.Ref{Kind: api.KindServiceAccount, Namespace: rq.Namespace, Name: rq.Account}, rq.UID)
	if err != nil {
		return Token{}, err
	}
	p := private{Namespace: rq.Namespace, Account: object{rq.Account, account}}
	if b := rq.Bound; b != nil {
		uid, err := a.living(ctx, api.Ref{Kind: b.Kind, Namespace: rq.Namespace, Name: b.Name}, b.UID)
		if err != nil {
			return Token{}, err
		}
		if bound := (object{b.Name, uid}); b.Kind == api.KindSecret {
			p.Secret = bound
		} else {
			p.Assignment = bound
		}
	}
	now := a.c.Now().Truncate(time.Second)
	t := Token{Audiences: rq.Audiences, Made: now, Expires: now.Add(rq.Life)}
	text, err := a.sign(ctx, &claims{
		RegisteredClaims: jwt.RegisteredClaims{
			Issuer: issuer, Subject: access.AccountName(rq.Namespace, rq.Account), Audience: rq.Audiences, ID: rand.Text(),
			IssuedAt: jwt.NewNumericDate(now), NotBefore: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(t.Expires),
		},
		Private: p,
	})
	t.Text = wire.Secret(text)
	return t, err
}

func (rq *Request) complete() error {
	if len(rq.Audiences) == 0 {
		rq.Audiences = []string{Audience}
	}
	if len(rq.Audiences) > maxAudiences {
		return fault.Invalid.Errorf("spec.audiences: %d of them; the limit is %d", len(rq.Audiences), maxAudiences)
	}
	for _, s := range rq.Audiences {
		if s == "" || len(s) > maxAudience {
			return fault.Invalid.Errorf("spec.audiences: an audience has 1 to %d bytes", maxAudience)
		}
	}
	if rq.Life == 0 {
		rq.Life = DefaultLife
	}
	if rq.Life < MinLife || rq.Life > MaxLife {
		return fault.Invalid.Errorf("spec.expirationSeconds: %d is not %d to %d", int64(rq.Life/time.Second), int64(MinLife/time.Second), int64(MaxLife/time.Second))
	}
	if b := rq.Bound; b != nil && b.Kind != api.KindAssignment && b.Kind != api.KindSecret {
		return fault.Invalid.Errorf("spec.boundObjectRef: a token is bound to an Assignment or a Secret")
	}
	return nil
}

func (a *Authority) issuer() (string, error) {
	cluster, ok := a.c.Cluster()
	if !ok {
		return "", fault.NoQuorum("this member does not know its cluster yet")
	}
	return "urn:drover:" + cluster, nil
}

// living returns the uid of an object that is there to stay, and is the one meant.
func (a *Authority) living(ctx context.Context, ref api.Ref, uid string) (string, error) {
	obj, err := a.c.Client.Get(ctx, ref, client.GetOptions{})
	if err != nil {
		return "", err
	}
	m := obj.Meta()
	switch {
	case m.DeletionTimestamp != nil:
		return "", fault.NotFound.Errorf("%s %q is being deleted", ref.Kind.Plural, ref.Name)
	case uid != "" && m.UID != uid:
		return "", fault.Conflict.Errorf("%s %q has uid %s, not %.64q", ref.Kind.Plural, ref.Name, m.UID, uid)
	}
	return m.UID, nil
}

func (a *Authority) sign(ctx context.Context, c *claims) (string, error) {
	k, err := a.keys.signing(ctx)
	if err != nil {
		return "", err
	}
	t := jwt.NewWithClaims(jwt.SigningMethodES256, c)
	t.Header["kid"] = k.id
	text, err := t.SignedString(k.private)
	if err != nil {
		return "", fmt.Errorf("sign a token: %w", err)
	}
	return text, nil
}

// Rotate makes a new key at once. With forget every token that was made before ends.
func (a *Authority) Rotate(ctx context.Context, forget bool) error {
	if err := a.c.Backend.Barrier(ctx); err != nil {
		return err
	}
	old, err := a.keys.all(ctx)
	if err != nil {
		return err
	}
	_, err = a.keys.make(ctx, old, forget)
	return err
}

// Verify says whose token it is, and which of the audiences it is for; none given means [Audience]. fault.Unauthorized says what is wrong
// with it.
func (a *Authority) Verify(ctx context.Context, text string, audiences []string) (access.Identity, []string, error) {
	if len(text) > MaxToken {
		return access.Identity{}, nil, bad("is %d bytes; the limit is %d bytes", len(text), MaxToken)
	}
	c, err := a.parse(ctx, text)
	if err != nil {
		return access.Identity{}, nil, err
	}
	if len(audiences) == 0 {
		audiences = []string{Audience}
	}
	var matched []string
	for _, s := range audiences {
		if slices.Contains(c.Audience, s) {
			matched = append(matched, s)
		}
	}
	if len(matched) == 0 {
		return access.Identity{}, nil, bad("is for another audience")
	}
	if err := a.stands(ctx, c); err != nil {
		return access.Identity{}, nil, err
	}
	return c.identity(), matched, nil
}

// bad never repeats anything of the token.
func bad(format string, args ...any) error {
	return fault.Unauthorized.Errorf("the bearer token %s", fmt.Sprintf(format, args...))
}

// parse checks signature, issuer and times.
func (a *Authority) parse(ctx context.Context, text string) (*claims, error) {
	issuer, err := a.issuer()
	if err != nil {
		return nil, err
	}
	var c claims
	var broken error // of the hub, not of the token
	_, err = jwt.ParseWithClaims(text, &c, func(t *jwt.Token) (any, error) {
		id, _ := t.Header["kid"].(string)
		k, err := a.find(ctx, id)
		if err != nil {
			broken = err
			return nil, err
		}
		if k == nil {
			return nil, errUnknownKey
		}
		return &k.private.PublicKey, nil
	}, jwt.WithValidMethods([]string{jwt.SigningMethodES256.Alg()}), jwt.WithIssuer(issuer), jwt.WithExpirationRequired(), jwt.WithIssuedAt(),
		jwt.WithLeeway(leeway), jwt.WithTimeFunc(a.c.Now), jwt.WithStrictDecoding())
	switch {
	case broken != nil:
		return nil, broken
	case err == nil:
		return &c, c.check()
	case errors.Is(err, jwt.ErrTokenExpired):
		return nil, bad("has expired: ask for another one")
	case errors.Is(err, jwt.ErrTokenNotValidYet), errors.Is(err, jwt.ErrTokenUsedBeforeIssued):
		return nil, bad("is not good yet: is a clock wrong?")
	case errors.Is(err, jwt.ErrTokenInvalidIssuer):
		return nil, bad("is of another hub")
	case errors.Is(err, errUnknownKey):
		return nil, bad("is signed by a key that this hub does not have (any more)")
	}
	return nil, bad("is none that this hub has made")
}

var errUnknownKey = errors.New("unknown key")

// find looks a key up here, and once more when this member has caught up: another may have made it just now.
func (a *Authority) find(ctx context.Context, id string) (*key, error) {
	k, err := a.keys.byID(ctx, id)
	if k != nil || err != nil || !soundID(id) || !a.keys.mayAsk() {
		return k, err
	}
	if err := a.c.Backend.Barrier(ctx); err != nil {
		return nil, err
	}
	return a.keys.byID(ctx, id)
}

// check refuses what this hub would never have signed.
func (c *claims) check() error {
	p := &c.Private
	switch {
	case c.IssuedAt == nil || c.NotBefore == nil || c.ID == "" || c.ExpiresAt.Sub(c.IssuedAt.Time) > MaxLife,
		p.Namespace == "" || p.Account.Name == "" || p.Account.UID == "" || c.Subject != access.AccountName(p.Namespace, p.Account.Name),
		p.Assignment != (object{}) && p.Assignment.UID == "", p.Secret != (object{}) && p.Secret.UID == "":
		return bad("is none that this hub has made")
	}
	return nil
}

// stands checks that the account and what the token is bound to live.
func (a *Authority) stands(ctx context.Context, c *claims) error {
	for _, o := range []struct {
		kind *api.Kind
		object
	}{{api.KindServiceAccount, c.Private.Account}, {api.KindAssignment, c.Private.Assignment}, {api.KindSecret, c.Private.Secret}} {
		if o.UID == "" {
			continue
		}
		ok, err := a.lives(ctx, api.Ref{Kind: o.kind, Namespace: c.Private.Namespace, Name: o.Name}, o.UID)
		if err != nil {
			return err
		}
		if !ok {
			return bad("is no longer good: its %s was deleted", o.kind.Singular)
		}
	}
	return nil
}

// lives asks this member first. What it does not have it may not have yet.
func (a *Authority) lives(ctx context.Context, ref api.Ref, uid string) (bool, error) {
	for _, stale := range []bool{true, false} {
		obj, err := a.c.Client.Get(ctx, ref, client.GetOptions{Stale: stale})
		if err != nil && !fault.Is(err, fault.NotFound) {
			return false, err
		}
		if err == nil && obj.Meta().UID == uid {
			return obj.Meta().DeletionTimestamp == nil, nil
		}
	}
	return false, nil
}

func (c *claims) identity() access.Identity {
	p := &c.Private
	extra := map[string][]string{ExtraCredential: {"JTI=" + c.ID}}
	if p.Assignment.UID != "" {
		extra[ExtraAssignmentName], extra[ExtraAssignmentUID] = []string{p.Assignment.Name}, []string{p.Assignment.UID}
	}
	return access.NewServiceAccount(p.Namespace, p.Account.Name, p.Account.UID, extra)
}
