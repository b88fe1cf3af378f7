package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/drover-fleet/drover/consensus"
)

// Config sets a Transport up. Zero values of durations and sizes are their defaults.
type Config struct {
	Name     string       // this member's name, as in its certificate
	Listener net.Listener // plain TCP; Run takes it over and closes it

	// ServerTLS and ClientTLS are asked for each connection, so that certificates can be replaced while running. Both
	// must demand and verify the other side's certificate. ServerName is set to the member's name where it is empty.
	ServerTLS func() (*tls.Config, error)
	ClientTLS func() (*tls.Config, error)
	// PeerName tells whose certificate a verified connection has shown.
	PeerName func(tls.ConnectionState) (string, error)
	// Verify refuses names that may not speak here: who is no hub, or was removed. nil accepts every verified name.
	Verify func(name string) error

	Logger *slog.Logger

	DialTimeout  time.Duration // 5 s: connect and handshake
	WriteTimeout time.Duration // 10 s: without progress
	ReadTimeout  time.Duration // 30 s: without a byte
	AliveEvery   time.Duration // 5 s: signs of life on an idle connection
	BackoffMax   time.Duration // 1 s: between attempts to dial, with full jitter; short, since members are few
	QueueBytes   int           // 32 MiB: frames that wait for one member
	Strangers    int           // 64: accepted connections that have not shown a certificate yet; with more the oldest go
	PerMember    int           // 16: accepted connections of one member
}

func (c Config) withDefaults() Config {
	def := func(v *time.Duration, d time.Duration) {
		if *v == 0 {
			*v = d
		}
	}
	def(&c.DialTimeout, 5*time.Second)
	def(&c.WriteTimeout, 10*time.Second)
	def(&c.ReadTimeout, 30*time.Second)
	def(&c.AliveEvery, 5*time.Second)
	def(&c.BackoffMax, time.Second)
	if c.QueueBytes == 0 {
		c.QueueBytes = 2 * consensus.MaxFrame
	}
	if c.Strangers == 0 {
		c.Strangers = 64
	}
	if c.PerMember == 0 {
		c.PerMember = 16
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Verify == nil {
		c.Verify = func(string) error { return nil }
	}
	return c
}

func (c Config) validate() error {
	var errs []error
	need := func(ok bool, what string) {
		if !ok {
			errs = append(errs, fmt.Errorf("peer: %s is required", what))
		}
	}
	need(c.Name != "", "Name")
	need(c.Listener != nil, "Listener")
	need(c.ServerTLS != nil && c.ClientTLS != nil, "ServerTLS and ClientTLS")
	need(c.PeerName != nil, "PeerName")
	return errors.Join(errs...)
}

// Transport implements consensus.Transport.
type Transport struct {
	cfg  Config
	door *door

	mu      sync.Mutex // guards below
	ctx     context.Context
	handler consensus.Handler
	group   *sync.WaitGroup // goroutines of the present Run
	links   map[linkKey]*outLink
}

// linkKey names an outgoing stream. A member that moves gets a new one; the old one ends when idle.
type linkKey struct{ name, addr string }

// New makes a transport that does nothing until Run.
func New(cfg Config) (*Transport, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Transport{cfg: cfg, door: newDoor(cfg.Strangers, cfg.PerMember), links: map[linkKey]*outLink{}}, nil
}

// Addr is where the transport listens.
func (t *Transport) Addr() net.Addr { return t.cfg.Listener.Addr() }

// Run implements consensus.Transport.
func (t *Transport) Run(ctx context.Context, h consensus.Handler) error {
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	t.mu.Lock()
	t.ctx, t.handler, t.group = ctx, h, &group
	t.mu.Unlock()
	stop := context.AfterFunc(ctx, func() { _ = t.cfg.Listener.Close() })
	err := t.accept(ctx, h, &group)
	cancel()
	stop()
	t.mu.Lock()
	t.group = nil // Send starts nothing from here on
	clear(t.links)
	t.mu.Unlock()
	group.Wait()
	return errors.Join(err, ignoreClosed(t.cfg.Listener.Close()))
}

func (t *Transport) accept(ctx context.Context, h consensus.Handler, group *sync.WaitGroup) error {
	var pause backoff
	var told time.Time
	turned := 0 // connections ended for others since then
	for {
		conn, err := t.cfg.Listener.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				_ = conn.Close()
			}
			return ctx.Err()
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("peer: accept: %w", err)
		case err != nil: // out of file descriptors and the like: it passes
			t.cfg.Logger.Warn("accept", "err", err)
			if pause.wait(ctx, t.cfg.BackoffMax) != nil {
				return ctx.Err()
			}
			continue
		}
		pause = backoff{}
		if goes := t.door.enter(conn); goes != nil {
			_ = goes.Close()
			if turned++; time.Since(told) > tellEvery {
				t.cfg.Logger.Warn("connections that show no certificate were ended: there are too many", "limit", t.cfg.Strangers, "ended", turned, "from", goes.RemoteAddr())
				told, turned = time.Now(), 0
			}
		}
		group.Go(func() {
			defer t.door.forget(conn)
			t.serve(ctx, conn, h)
		})
	}
}

// tellEvery bounds what strangers can make the log grow by.
const tellEvery = 10 * time.Second

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
