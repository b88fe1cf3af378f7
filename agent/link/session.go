package link

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/drover-fleet/drover/api/await"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/retry"
	"github.com/drover-fleet/drover/api/wire"
)

// Config of a Session. Required: Source, Sink, Transport, Endpoints (or none yet known: then nothing is tried), ClusterID, Device,
// Roots, NextSession, Random.
type Config struct {
	Source    Source
	Sink      Sink
	Transport Transport

	ClusterID string
	Device    string                         // the agent's own name; messages for another are refused
	Roots     func() *x509.CertPool          // the pinned CAs, asked at each check
	Now       func() time.Time               // wall clock, never before the time floor
	Endpoints []string                       // as configured; never forgotten
	Learned   []string                       // as a hub told last, kept by the owner
	Learn     func(endpoints []string) error // keeps what a hub told
	// NextSession returns a session number above above and above every number it ever returned, and keeps it first. Where keeping
	// fails it returns the number and the error: the link goes on with it.
	NextSession func(above uint64) (uint64, error)

	Random retry.Random
	Logger *slog.Logger
	Waiter await.Waiter // nil: the runtime's

	Retry      retry.Policy  // between rounds over all endpoints; default 1 s to 2 min
	Timeout    time.Duration // of each exchange save polls and streams; default 30 s
	PollMargin time.Duration // beyond the hold time that the hub announced; default 20 s
	// AskAgain is how long the agent may take to store what it was told before the link asks for it again; default 1 min.
	AskAgain time.Duration
}

func (c *Config) setDefaults() {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Learn == nil {
		c.Learn = func([]string) error { return nil }
	}
	c.Waiter = await.Or(c.Waiter)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Retry.Base <= 0 {
		c.Retry.Base = time.Second
	}
	if c.Retry.Max <= 0 {
		c.Retry.Max = 2 * time.Minute
	}
	if c.Timeout <= 0 {
		c.Timeout = 30 * time.Second
	}
	if c.PollMargin <= 0 {
		c.PollMargin = 20 * time.Second
	}
	if c.AskAgain <= 0 {
		c.AskAgain = time.Minute
	}
}

func (c *Config) validate() error {
	if c.Source == nil || c.Sink == nil || c.Transport == nil || c.Roots == nil || c.NextSession == nil || c.Random == nil {
		return errors.New("link: Source, Sink, Transport, Roots, NextSession and Random are required")
	}
	if c.ClusterID == "" || c.Device == "" {
		return errors.New("link: ClusterID and Device are required")
	}
	return nil
}

// Session is the Link over any Transport.
type Session struct {
	c   Config
	out outbox

	tell sync.Mutex // held while the sink is called

	mu       sync.Mutex
	state    State
	conn     Conn // nil while not connected
	learned  []string
	number   uint64 // of the session
	sequence uint64 // of the last report
	polled   uint64 // polls that were answered
}

// New makes a Session.
func New(c Config) (*Session, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	c.setDefaults()
	s := &Session{c: c, learned: slices.Clone(c.Learned), out: newOutbox()}
	s.state.Endpoints = s.endpoints()
	return s, nil
}

// endpoints are those that a hub told, then the configured ones. Called with mu held, or before Run.
func (s *Session) endpoints() []string {
	var out []string
	for _, e := range slices.Concat(s.learned, s.c.Endpoints) {
		if e != "" && !slices.Contains(out, e) {
			out = append(out, e)
		}
	}
	return out
}

// Report implements Link.
func (s *Session) Report(r wire.Report) { s.out.putReport(r) }

// Want implements Link.
func (s *Session) Want(q wire.BodiesRequest) { s.out.putWant(q) }

// OpenStream implements Link.
func (s *Session) OpenStream(ctx context.Context, id string, r io.Reader) error {
	s.mu.Lock()
	c := s.conn
	s.mu.Unlock()
	if c == nil {
		return fault.Unreachable.Errorf("stream %s: no hub is connected", id)
	}
	return c.Stream(ctx, id, r)
}

// Token implements Link.
func (s *Session) Token(ctx context.Context, q wire.TokenRequest) (reply wire.TokenReply, err error) {
	s.mu.Lock()
	c := s.conn
	q.Session = s.number
	s.mu.Unlock()
	if c == nil {
		return wire.TokenReply{}, fault.Unreachable.Errorf("token: no hub is connected")
	}
	err = s.within(ctx, s.c.Timeout, func(ctx context.Context) (err error) {
		reply, err = c.Token(ctx, q)
		return err
	})
	return reply, err
}

// Run implements Link.
func (s *Session) Run(ctx context.Context) error {
	if err := s.renumber(0); err != nil {
		s.c.Logger.Error("session number not kept", "err", err)
	}
	tried := 0 // attempts since the last poll that was answered: a hub that only says hello is no hub to hurry back to
	for turn := 0; ctx.Err() == nil; turn++ {
		s.mu.Lock()
		all := s.endpoints()
		s.mu.Unlock()
		if len(all) == 0 {
			s.down("", fault.Unreachable.Errorf("no hub endpoint is known"), 0)
			s.c.Waiter.Wait(ctx, await.Forever, nil)
			break
		}
		endpoint := all[turn%len(all)]
		before := s.answers()
		err := s.connect(ctx, endpoint)
		if ctx.Err() != nil {
			break
		}
		if s.answers() != before {
			tried = 0
		}
		tried++
		wait := s.c.Retry.DelayAfter(err, (tried+len(all)-1)/len(all), s.c.Random)
		s.down(endpoint, err, wait)
		s.c.Waiter.Wait(ctx, wait, nil)
	}
	s.down("", ctx.Err(), 0)
	return ctx.Err()
}

func (s *Session) answers() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.polled
}

func (s *Session) renumber(above uint64) error {
	n, err := s.c.NextSession(above)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.number, s.sequence = max(n, above+1, s.number+1), 0
	return err
}

// connect keeps one member until something fails.
func (s *Session) connect(ctx context.Context, endpoint string) error {
	c, err := s.c.Transport.Open(endpoint)
	if err != nil {
		return err
	}
	defer c.Close()
	hold, err := s.hello(ctx, endpoint, c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.out.reconnected()
	s.c.Waiter.All(
		func() { cancel(s.polls(ctx, c, hold)) },
		func() { cancel(s.sendReports(ctx, c)) },
		func() { cancel(s.fetchBodies(ctx, c)) },
	)
	s.mu.Lock()
	s.conn = nil
	s.mu.Unlock()
	return context.Cause(ctx)
}

// hello opens the session and returns how long the hub holds polls.
func (s *Session) hello(ctx context.Context, endpoint string, c Conn) (time.Duration, error) {
	for range 3 {
		h := s.c.Source.Hello()
		s.mu.Lock()
		h.Session = s.number
		s.mu.Unlock()
		h.Capability = wire.CapabilityNow
		h.Held, h.BundleHash = s.c.Source.Held()
		var reply wire.HelloReply
		err := s.within(ctx, s.c.Timeout, func(ctx context.Context) (err error) {
			reply, err = c.Hello(ctx, h)
			return err
		})
		if err != nil {
			return 0, fmt.Errorf("hello: %w", err)
		}
		if reply.Session > h.Session {
			if err := s.renumber(reply.Session); err != nil {
				s.c.Logger.Error("session number not kept", "err", err)
			}
			continue
		}
		s.up(endpoint, c, reply)
		return time.Duration(reply.PollSeconds) * time.Second, nil
	}
	return 0, fault.Conflict.Errorf("hello: the hub always knows a higher session: another holder of this device's key is connecting")
}

// within bounds an exchange; running into the bound is told from the caller's own end.
func (s *Session) within(ctx context.Context, d time.Duration, fn func(context.Context) error) error {
	bounded, cancel := s.c.Waiter.Within(ctx, d, context.DeadlineExceeded)
	defer cancel()
	err := fn(bounded)
	if err != nil && ctx.Err() == nil && bounded.Err() != nil {
		return fault.Timeout.Errorf("no answer within %s: %w", d, err)
	}
	if err == nil {
		s.alive()
	}
	return err
}

func (s *Session) up(endpoint string, c Conn, reply wire.HelloReply) {
	learned := usable(reply.Endpoints)
	s.mu.Lock()
	changed := len(learned) > 0 && !slices.Equal(learned, s.learned)
	if changed {
		s.learned = learned
	}
	s.conn = c
	s.state = State{Connected: true, Endpoint: endpoint, LastSuccess: s.c.Waiter.Now(), Endpoints: s.endpoints()}
	state := s.state
	s.mu.Unlock()
	if changed {
		if err := s.c.Learn(learned); err != nil {
			s.c.Logger.Warn("hub endpoints not kept", "err", err)
		}
	}
	s.tellSink(func(k Sink) { k.State(state); k.Acked(reply.Acked) })
}

// alive notes that bytes of a hub came.
func (s *Session) alive() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.LastSuccess = s.c.Waiter.Now()
}

func (s *Session) down(endpoint string, err error, next time.Duration) {
	s.mu.Lock()
	s.conn = nil
	s.state.Connected, s.state.Endpoint, s.state.Err, s.state.NextTry = false, endpoint, err, next
	s.state.Endpoints = s.endpoints()
	state := s.state
	s.mu.Unlock()
	s.tellSink(func(k Sink) { k.State(state) })
}

func (s *Session) tellSink(fn func(Sink)) {
	s.tell.Lock()
	defer s.tell.Unlock()
	fn(s.c.Sink)
}

// maxEndpoints bounds what is learned.
const maxEndpoints = 16

func usable(endpoints []string) []string {
	var out []string
	for _, e := range endpoints {
		if e != "" && len(e) <= 512 && !slices.Contains(out, e) && len(out) < maxEndpoints {
			out = append(out, e)
		}
	}
	return out
}
