package gateway

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/retry"
	"github.com/drover-fleet/drover/api/wire"
	"github.com/drover-fleet/drover/client"
)

// Options set up a Gateway. Required: Client, AsDevice, Identity, Sign, KeyedHash.
type Options struct {
	Member string // this member's name, for messages
	// Client reads and writes as this hub member.
	Client client.Client
	// AsDevice is a client whose writes the journal shows as the device's.
	AsDevice func(device string) client.Client
	// Identity is the hub's history as this member knows it now; ok is false until it is known.
	Identity func() (id Identity, ok bool)
	// Sign signs a payload with the member's key in one of wire's contexts.
	Sign func(context string, payload []byte) (wire.Signed, error)
	// KeyedHash makes ids of secret values; the same key on every member.
	KeyedHash KeyedHash
	// MarkProgress asks for bookmarks on the watches of Client now, for a device waits until this member's view is known to have come
	// far enough; nil: they come when they come.
	MarkProgress func()
	// Endpoints are the URLs of all members, told to devices; nil tells none.
	Endpoints func() []string
	Contacts  *Contacts // shared with whoever judges presence; nil makes one
	// Tokens makes the tokens that workloads ask for; nil: none are made here.
	Tokens TokenMaker
	Logger *slog.Logger
	Now    func() time.Time // wall clock for labels; nil = time.Now

	PollHold       time.Duration // how long a poll is held; default 5 min, at least 1 s
	BehindWait     time.Duration // how long to wait for this member to catch up with a device; default 2 s
	MaxHellos      int           // Hellos handled at once; default 256. More are told to come back
	StreamDeadline time.Duration // for a device to open a stream it was told of; default 20 s

	// Relisted, when set, hears of each list that fills the view: "first", or the class of the error that ended the watch before.
	// It must not block.
	Relisted func(reason string)

	// Sleep waits and tells whether ctx still lives afterwards; nil: by the clock. A simulator has its own.
	Sleep func(ctx context.Context, d time.Duration) bool
}

func (o *Options) validate() error {
	var errs []error
	need := func(ok bool, field string) {
		if !ok {
			errs = append(errs, fmt.Errorf("gateway: option %s is not set", field))
		}
	}
	need(o.Client != nil, "Client")
	need(o.AsDevice != nil, "AsDevice")
	need(o.Identity != nil, "Identity")
	need(o.Sign != nil, "Sign")
	need(o.KeyedHash != nil, "KeyedHash")
	return errors.Join(errs...)
}

func (o *Options) setDefaults() {
	if o.Contacts == nil {
		o.Contacts = NewContacts()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.MarkProgress == nil {
		o.MarkProgress = func() {}
	}
	if o.Endpoints == nil {
		o.Endpoints = func() []string { return nil }
	}
	if o.PollHold < time.Second {
		o.PollHold = 5 * time.Minute
	}
	if o.BehindWait <= 0 {
		o.BehindWait = 2 * time.Second
	}
	if o.MaxHellos <= 0 {
		o.MaxHellos = 256
	}
	if o.StreamDeadline <= 0 {
		o.StreamDeadline = 20 * time.Second
	}
	if o.Sleep == nil {
		o.Sleep = sleep
	}
	if o.Relisted == nil {
		o.Relisted = func(string) {}
	}
}

// Peer is who the transport authenticated: a device's certificate of the cluster's CA. Key seals secrets to it.
type Peer struct {
	Device      string
	Fingerprint string // sha256:HEX of the public key's SubjectPublicKeyInfo
	Key         *ecdsa.PublicKey
	Source      string // remote address, for people
}

// Gateway serves devices. Its methods are safe for concurrent use, once Run runs.
type Gateway struct {
	o       Options
	hellos  chan struct{}
	streams *streams
	stopped chan struct{} // closed when Run ends: held polls end, and devices take another member

	mu       sync.Mutex
	view     *view
	sessions map[string]*session
	bundles  map[string]*Bundle // of devices with a session; dropped when an input changes
	asked    map[string]*bucket // how often devices asked for tokens
	lagging  map[string]bool    // devices whose poll waits for this member's view to come nearer
}

// New makes a Gateway; Run must run for it to answer.
func New(o Options) (*Gateway, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	o.setDefaults()
	return &Gateway{
		o: o, hellos: make(chan struct{}, o.MaxHellos), streams: newStreams(), stopped: make(chan struct{}),
		view: newView(), sessions: map[string]*session{}, bundles: map[string]*Bundle{},
		asked: map[string]*bucket{}, lagging: map[string]bool{},
	}, nil
}

// Load is how many devices have a session at this member, and how many polls are held for them.
func (g *Gateway) Load() (sessions, polls int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range g.sessions {
		polls += s.polls
	}
	return len(g.sessions), polls
}

// Contacts is the table of last contacts that the gateway keeps.
func (g *Gateway) Contacts() *Contacts { return g.o.Contacts }

// Run feeds the gateway's view until ctx ends. It is called once.
func (g *Gateway) Run(ctx context.Context) error {
	defer close(g.stopped)
	var wg sync.WaitGroup
	for _, k := range inputKinds() {
		wg.Go(func() { g.feed(ctx, k) })
	}
	wg.Wait()
	return ctx.Err()
}

// feed keeps the view of one kind up to date: list, watch, and again when the watch ends.
func (g *Gateway) feed(ctx context.Context, k *api.Kind) {
	pause := retry.Attempts{Policy: retry.Policy{Base: 20 * time.Millisecond, Max: 5 * time.Second}, Random: rand.Int64N}
	from, why := "", "first"
	for ctx.Err() == nil {
		var err error
		if from == "" {
			if from, err = g.list(ctx, k); err == nil {
				g.o.Relisted(why)
			}
		}
		if err == nil {
			from, err = g.watch(ctx, k, from, &pause)
		}
		if fault.Is(err, fault.Expired, fault.OtherEpoch) {
			from, why = "", string(fault.ClassOf(err))
		}
		if ctx.Err() != nil {
			return
		}
		g.o.Logger.Debug("watch ended", "kind", k.Kind, "err", err)
		if !g.o.Sleep(ctx, pause.Failed(err)) {
			return
		}
	}
}

func (g *Gateway) list(ctx context.Context, k *api.Kind) (string, error) {
	l, err := g.o.Client.List(ctx, k, client.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return "", err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.touched(g.view.replace(k, l.Items, l.ResourceVersion))
	return l.ResourceVersion, nil
}

// watch returns the revision to resume from.
func (g *Gateway) watch(ctx context.Context, k *api.Kind, from string, pause *retry.Attempts) (string, error) {
	w, err := g.o.Client.Watch(ctx, k, client.WatchOptions{ResourceVersion: from, Bookmarks: true})
	if err != nil {
		return from, err
	}
	defer w.Close()
	for {
		e, err := w.Next(ctx)
		if err != nil {
			return from, err
		}
		pause.Succeeded()
		from = e.Object.Meta().ResourceVersion
		g.mu.Lock()
		g.touched(g.view.apply(k, e))
		if k == api.KindDevice && e.Type == client.Deleted {
			g.end(e.Object.Meta().Name)
			delete(g.asked, e.Object.Meta().Name)
			g.o.Contacts.Forget(e.Object.Meta().Name)
		}
		g.mu.Unlock()
	}
}

// touched forgets the bundles of devices and wakes their polls, and those that wait for any progress. Called with mu held.
func (g *Gateway) touched(devices map[string]bool) {
	for d := range devices {
		delete(g.bundles, d)
		if s := g.sessions[d]; s != nil {
			s.wake()
		}
	}
	for d := range g.lagging {
		if s := g.sessions[d]; s != nil && !devices[d] {
			s.wake()
		}
	}
}

// bundle returns the device's bundle, built at most once per change of its inputs. Called with mu held.
func (g *Gateway) bundle(device string) (*Bundle, error) {
	if b := g.bundles[device]; b != nil {
		return b, nil
	}
	b, err := Build(g.view.inputs(device), g.o.KeyedHash)
	if err != nil {
		return nil, err
	}
	g.bundles[device] = b
	return b, nil
}

// authorize is the device rule's first half, the same for all transports: the peer's key is the one that the hub signed for
// this name. The second half is that everything else is looked up under that name only. A device unknown here gets NotFound,
// which changes nothing on it. Called with mu held.
func (g *Gateway) authorize(p Peer) (*api.Device, error) {
	if !g.view.complete() {
		return nil, starting()
	}
	d := g.view.device(p.Device)
	if d == nil {
		return nil, unknownDevice(p.Device)
	}
	return d, checkKey(d, p)
}

func checkKey(d *api.Device, p Peer) error {
	if have := d.Status.Identity.Fingerprint; have != p.Fingerprint {
		return fault.Forbidden.Errorf("the key of device %s is %s now, not %s: the device was replaced or enrolled again", p.Device, have, p.Fingerprint)
	}
	return nil
}

func unknownDevice(device string) error {
	e := fault.ObjectNotFound(api.KindDevice.Plural, device)
	e.Message = fmt.Sprintf("device %s is not known to this hub; it keeps running what it has", device)
	return e
}

func starting() error {
	e := fault.Unavailable.Errorf("this hub member is starting: its view of the fleet is not complete yet")
	e.RetryAfter = time.Second
	return e
}

// sleep reports whether d passed before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
