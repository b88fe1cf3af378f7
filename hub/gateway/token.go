package gateway

import (
	"context"
	"slices"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/wire"
	"github.com/drover-fleet/drover/client"
)

// TokenMaker makes tokens of service accounts. NotFound means that there is no such account.
type TokenMaker interface {
	AccountToken(context.Context, TokenClaim) (MadeToken, error)
}

// TokenClaim is what a device may have: a token of an account, for the audience, bound to the assignment by its uid.
type TokenClaim struct {
	Device, Namespace, Account string
	Assignment, UID            string
	Audience                   string
	Life                       time.Duration
}

// MadeToken is a token and how long it is good. Its text does not print.
type MadeToken struct {
	Text wire.Secret
	Life time.Duration
}

// What one device may ask for: a burst, as when it boots and every copy on it wants its tokens, and a rate above what the shortest
// lives of a full device need.
const (
	tokenBurst = 128
	tokenEvery = 250 * time.Millisecond
)

// bucket counts how much of a burst is left. Not safe for concurrent use.
type bucket struct {
	left float64
	at   time.Time
}

// take uses one, or says how long to wait for one.
func (b *bucket) take(now time.Time) time.Duration {
	if b.at.IsZero() {
		b.left = tokenBurst
	} else {
		b.left = min(tokenBurst, b.left+float64(now.Sub(b.at))/float64(tokenEvery))
	}
	b.at = now
	if b.left < 1 {
		return time.Duration((1 - b.left) * float64(tokenEvery))
	}
	b.left--
	return 0
}

// Token gives a device a token for a file of an assignment that is bound to it and that it was told to run, exactly as the template
// of the assignment's revision asks for it. It goes by the assignment as the whole hub has it now, not as this member has seen it.
// Errors: Forbidden (not the device's, or not what the template asks for), NotFound (no such account), Conflict (no such session),
// TooManyRequests, Unavailable.
func (g *Gateway) Token(ctx context.Context, p Peer, q wire.TokenRequest) (wire.TokenReply, error) {
	if err := g.mayAsk(p, q.Session, time.Now()); err != nil {
		return wire.TokenReply{}, err
	}
	if g.o.Tokens == nil {
		return wire.TokenReply{}, fault.Unavailable.Errorf("member %s makes no tokens of service accounts", g.o.Member)
	}
	a, err := g.boundNow(ctx, p, q)
	if err != nil {
		return wire.TokenReply{}, err
	}
	if err := g.runs(p.Device, a, q); err != nil {
		return wire.TokenReply{}, err
	}
	made, err := g.o.Tokens.AccountToken(ctx, TokenClaim{
		Device: p.Device, Namespace: q.Namespace, Account: q.Account, Assignment: q.Name, UID: q.UID,
		Audience: q.Audience, Life: time.Duration(q.LifeSecs) * time.Second,
	})
	if err != nil {
		return wire.TokenReply{}, err
	}
	ref, err := q.Ref()
	if err != nil {
		return wire.TokenReply{}, err
	}
	sealed, err := wire.Seal(p.Key, ref, []byte(made.Text))
	if err != nil {
		return wire.TokenReply{}, err
	}
	return wire.TokenReply{Token: sealed, LifeSecs: uint32(made.Life / time.Second)}, nil
}

// mayAsk is the device rule, the session's, and the rate's.
func (g *Gateway) mayAsk(p Peer, session uint64, now time.Time) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	d, err := g.authorize(p)
	if err != nil {
		return err
	}
	if _, err := g.current(d, session); err != nil {
		return err
	}
	b := g.asked[p.Device]
	if b == nil {
		b = &bucket{}
		g.asked[p.Device] = b
	}
	if wait := b.take(now); wait > 0 {
		return fault.SlowDown(wait, "device %s asks for more tokens than %d at once and %d a second", p.Device, tokenBurst, time.Second/tokenEvery)
	}
	return nil
}

// boundNow reads the assignment as the whole hub has it, and wants it to be the device's.
func (g *Gateway) boundNow(ctx context.Context, p Peer, q wire.TokenRequest) (*api.Assignment, error) {
	o, err := g.o.Client.Get(ctx, api.Ref{Kind: api.KindAssignment, Namespace: q.Namespace, Name: q.Name}, client.GetOptions{})
	if err != nil && !fault.Is(err, fault.NotFound) {
		return nil, err
	}
	a, _ := o.(*api.Assignment)
	if err != nil || a == nil || a.Metadata.UID != q.UID || a.Spec.Device != p.Device || a.Metadata.DeletionTimestamp != nil {
		// The same words whether there is such an assignment or not.
		return nil, fault.Forbidden.Errorf("assignment %s/%s with uid %s is not bound to device %s", q.Namespace, q.Name, q.UID, p.Device)
	}
	return a, nil
}

// runs wants the assignment to be in what the device is to run, and its template to ask for the very file.
func (g *Gateway) runs(device string, a *api.Assignment, q wire.TokenRequest) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	rev, ok := g.view.objects[api.KindWorkloadRevision][name{a.Metadata.Namespace, a.Spec.Revision}].(*api.WorkloadRevision)
	if !ok {
		return g.notYet(device, "revision "+a.Spec.Revision)
	}
	if !asksFor(&rev.Spec.Template.Spec, q) {
		return fault.Forbidden.Errorf("revision %s of %s/%s does not ask for such a token: account %s, audience %.64q, %d s, as file %.64q of volume %s",
			a.Spec.Revision, q.Namespace, q.Name, q.Account, q.Audience, q.LifeSecs, q.Path, q.Volume)
	}
	b, err := g.bundle(device)
	if err != nil {
		return err
	}
	for _, p := range b.Problems {
		if p.Assignment.Metadata.UID == q.UID {
			return fault.Forbidden.Errorf("%s/%s is not to run on device %s: %s", q.Namespace, q.Name, device, p.Message)
		}
	}
	if !slices.ContainsFunc(b.Entries, func(e wire.Entry) bool { return e.UID == q.UID }) {
		return g.notYet(device, "assignment "+q.Name)
	}
	return nil
}

// notYet: this member has not seen what others have.
func (g *Gateway) notYet(device, what string) error {
	e := fault.Unavailable.Errorf("member %s has not seen %s of device %s yet", g.o.Member, what, device)
	e.RetryAfter = time.Second
	return e
}

// asksFor tells whether a template has that file, with a token of that account, for that audience and time.
func asksFor(p *api.PodSpec, q wire.TokenRequest) bool {
	if p.ServiceAccountName == "" || p.ServiceAccountName != q.Account {
		return false
	}
	for _, v := range p.Volumes {
		if v.Name != q.Volume || v.Projected == nil {
			continue
		}
		files, _ := tokenFiles(v.Projected)
		return slices.Contains(files, wire.TokenFile{Path: q.Path, Audience: q.Audience, LifeSecs: q.LifeSecs})
	}
	return false
}

// tokenFiles are the files of a projected volume, and their permissions.
func tokenFiles(v *api.ProjectedVolume) (files []wire.TokenFile, mode uint32) {
	mode = api.DefaultFileMode
	if m := v.DefaultMode; m != nil {
		mode = uint32(*m) & 0o777
	}
	for _, s := range v.Sources {
		t := s.ServiceAccountToken
		if t == nil {
			continue
		}
		f := wire.TokenFile{Path: t.Path, Audience: t.Audience, LifeSecs: api.DefaultProjectedLife}
		if f.Audience == "" {
			f.Audience = api.HubAudience
		}
		if n := t.ExpirationSeconds; n != nil {
			f.LifeSecs = uint32(min(max(*n, api.MinProjectedLife), api.MaxProjectedLife))
		}
		files = append(files, f)
	}
	return files, mode
}
