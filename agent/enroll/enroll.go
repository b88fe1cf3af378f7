package enroll

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/drover-fleet/drover/agent/link/httplink"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/retry"
	"github.com/drover-fleet/drover/api/wire"
)

// Config of an Enroller. Keeper, Name, Hubs, Token, Facts and Random are required.
type Config struct {
	Keeper *Keeper
	Name   string   // the name the device wants, as pi-07
	Hubs   []string // https URLs of hub members
	// Token reads the join token, anew at each try.
	Token func() (wire.Secret, error)
	Facts func() wire.Facts
	// Say is told in plain words why the device has no identity yet, or that it has one (""); nil = nobody.
	Say    func(reason string)
	Now    func() time.Time // wall clock, never before the time floor; nil = time.Now
	Random retry.Random
	Logger *slog.Logger
	Retry  retry.Policy // between tries where the hub says nothing; default 2 s to 5 min
	// Timeout of one exchange; default 30 s.
	Timeout time.Duration
}

// Enroller gets the device its identity and keeps it valid.
type Enroller struct {
	c   Config
	csr []byte
}

// New makes an Enroller.
func New(c Config) (*Enroller, error) {
	if c.Keeper == nil || c.Name == "" || c.Token == nil || c.Facts == nil || c.Random == nil {
		return nil, errors.New("enroll: Keeper, Name, Token, Facts and Random are required")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Say == nil {
		c.Say = func(string) {}
	}
	if c.Retry.Base <= 0 {
		c.Retry.Base = 2 * time.Second
	}
	if c.Retry.Max <= 0 {
		c.Retry.Max = 5 * time.Minute
	}
	if c.Timeout <= 0 {
		c.Timeout = 30 * time.Second
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: c.Name}}, c.Keeper.key)
	if err != nil {
		return nil, fmt.Errorf("make certificate request: %w", err)
	}
	return &Enroller{c: c, csr: csr}, nil
}

// waitError is the hub's "not yet" or "no", with when to ask again.
type waitError struct {
	reason string
	after  time.Duration
}

func (e *waitError) Error() string { return e.reason }

// maxWait bounds what a hub may ask the device to wait before it asks again.
const maxWait = time.Hour

// Enroll asks the hubs in turn until one signs, or ctx ends. A device that has an identity already returns at once.
func (e *Enroller) Enroll(ctx context.Context) (Identity, error) {
	attempts := retry.Attempts{Policy: e.c.Retry, Random: e.c.Random}
	for turn := 0; ; turn++ {
		if id, ok := e.c.Keeper.Identity(); ok {
			e.c.Say("")
			return id, nil
		}
		if ctx.Err() != nil {
			return Identity{}, ctx.Err()
		}
		err := e.try(ctx, turn)
		if err == nil {
			continue
		}
		if ctx.Err() != nil {
			return Identity{}, ctx.Err()
		}
		e.c.Logger.Warn("not enrolled yet", "err", err)
		e.c.Say(err.Error())
		wait := attempts.Failed(err)
		var w *waitError
		if errors.As(err, &w) && w.after > 0 {
			wait = min(w.after, maxWait) + time.Duration(e.c.Random(int64(min(w.after, maxWait)/4+1)))
		}
		sleep(ctx, wait)
	}
}

// Again asks one hub once more with the token: for a device that has an identity, but that the hubs do not know any more, since it
// was deleted there. The key stays, and with it what is sealed to it. Where it is refused the identity stays as it was.
func (e *Enroller) Again(ctx context.Context, turn int) error { return e.try(ctx, turn) }

func (e *Enroller) try(ctx context.Context, turn int) error {
	if len(e.c.Hubs) == 0 {
		return errors.New("no hub is configured: give the agent --hub https://HOST:PORT")
	}
	text, err := e.c.Token()
	if err != nil {
		return fmt.Errorf("join token: %w", err)
	}
	token, err := wire.ParseToken(string(text))
	if err != nil {
		return err
	}
	return e.ask(ctx, e.c.Hubs[turn%len(e.c.Hubs)], token.Reveal(), e.c.Name, httplink.Identity{Roots: named(token), Now: e.c.Now})
}

// named trusts the one CA whose hash stands in the token, if the hub shows it.
func named(t wire.Token) func([]*x509.Certificate) (*x509.CertPool, error) {
	return func(shown []*x509.Certificate) (*x509.CertPool, error) {
		i := slices.IndexFunc(shown, func(c *x509.Certificate) bool { return c.IsCA && t.TrustsCA(c.Raw) })
		if i < 0 {
			return nil, fault.Forbidden.Errorf("this is not the hub that the join token is for: it does not show the CA whose hash stands in the token")
		}
		p := x509.NewCertPool()
		p.AddCert(shown[i])
		return p, nil
	}
}

// ask asks one member and keeps what it signs.
func (e *Enroller) ask(ctx context.Context, hub string, token wire.Secret, name string, as httplink.Identity) error {
	t := httplink.Transport{Identity: as}
	c, err := t.Dial(hub)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, e.c.Timeout)
	defer cancel()
	reply, err := c.Enroll(ctx, wire.EnrollRequest{Token: token, Name: name, CSR: e.csr, Facts: e.c.Facts()})
	if err != nil {
		return err
	}
	if reply.State != wire.EnrollApproved {
		return &waitError{reply.State + ": " + reply.Message, time.Duration(reply.RetrySecs) * time.Second}
	}
	id := &Identity{Device: name, ClusterID: reply.ClusterID, Certificate: reply.Certificate, Roots: reply.CA, Endpoints: reply.Endpoints}
	if have, ok := e.c.Keeper.Identity(); ok && have.ClusterID != id.ClusterID {
		return fault.Forbidden.Errorf("renewal answered by another cluster")
	}
	if len(id.Endpoints) == 0 {
		id.Endpoints = []string{hub}
	}
	if err := e.c.Keeper.keep(id); err != nil {
		return fmt.Errorf("keep identity: %w", err)
	}
	e.c.Logger.Info("identity signed", "device", id.Device, "cluster", id.ClusterID)
	return nil
}

// checkEvery is how often the certificate's age is looked at: the wall clock may jump, so no timer spans months.
const checkEvery = time.Hour

// Run renews the certificate at two thirds of its life, until ctx ends. The device must be enrolled. The next handshake uses the new
// certificate; nothing restarts.
func (e *Enroller) Run(ctx context.Context) error {
	attempts := retry.Attempts{Policy: retry.Policy{Base: time.Minute, Max: 6 * time.Hour}, Random: e.c.Random}
	for turn := 0; ctx.Err() == nil; turn++ {
		now := e.c.Now()
		if now.Before(e.c.Keeper.renewAt()) {
			sleep(ctx, checkEvery/2+time.Duration(e.c.Random(int64(checkEvery))))
			continue
		}
		err := e.renew(ctx, turn, now)
		if err == nil {
			attempts.Succeeded()
			continue
		}
		if ctx.Err() != nil {
			break
		}
		e.c.Logger.Warn("certificate not renewed; workloads go on", "err", err)
		sleep(ctx, attempts.Failed(err))
	}
	return ctx.Err()
}

// renew proves the key by the signature of the request, so it needs no token, and no certificate once that has ended.
func (e *Enroller) renew(ctx context.Context, turn int, now time.Time) error {
	id, ok := e.c.Keeper.Identity()
	if !ok {
		return errors.New("the device is not enrolled")
	}
	hubs := slices.Concat(id.Endpoints, e.c.Hubs)
	if len(hubs) == 0 {
		return errors.New("no hub endpoint is known")
	}
	as := httplink.Identity{Roots: httplink.Pinned(e.c.Keeper.Roots), Now: e.c.Now}
	if !e.c.Keeper.ended(now) {
		as.Certificate = func() (*tls.Certificate, error) { return e.c.Keeper.Certificate() }
	}
	return e.ask(ctx, hubs[turn%len(hubs)], "", id.Device, as)
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
