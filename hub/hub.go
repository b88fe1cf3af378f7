package hub

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/drover-fleet/drover/api/retry"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/client/cache"
	"github.com/drover-fleet/drover/consensus"
	"github.com/drover-fleet/drover/consensus/peer"
	"github.com/drover-fleet/drover/controllers/presence"
	"github.com/drover-fleet/drover/hub/access"
	"github.com/drover-fleet/drover/hub/admission"
	"github.com/drover-fleet/drover/hub/apiserver"
	"github.com/drover-fleet/drover/hub/audit"
	"github.com/drover-fleet/drover/hub/enroll"
	"github.com/drover-fleet/drover/hub/fair"
	"github.com/drover-fleet/drover/hub/gateway"
	"github.com/drover-fleet/drover/hub/kv"
	"github.com/drover-fleet/drover/hub/metrics"
	"github.com/drover-fleet/drover/hub/registry"
	"github.com/drover-fleet/drover/hub/replica"
	"github.com/drover-fleet/drover/hub/tokens"
	"github.com/drover-fleet/drover/store/mvcc"
)

// Polls and streams of devices that a member holds, in all and for one device: a device has one poll, and one more while it changes over.
const (
	maxPolls  = 32 << 10
	pollsEach = 16
)

// handOverTime bounds how long a leader that ends waits for another; past it the others elect one as after a crash.
const handOverTime = time.Second

// Config sets a member up. Zero values are their defaults.
type Config struct {
	Dir     string // required
	Version string
	Logger  *slog.Logger // nil: none

	// ListenAPI and ListenPeer are where to listen when that differs from the addresses others use.
	ListenAPI, ListenPeer string
	PollHold              time.Duration   // how long a device's poll is held; default 5 min
	Presence              presence.Limits // zero: by PollHold
	PlainRegistries       []string        // registries that are asked over HTTP; loopback always is
	DrainTimeout          time.Duration   // for requests under way at the end; default 3 s
	Growth                replica.Growth  // how much the store keeps and takes; every member is set up alike
	UpkeepEvery           time.Duration   // between two looks at the store's bounds; default that of replica, 10 s
	CopyRate              int64           // bytes a second of copies of the state sent to other members; default that of consensus, 64 MiB
	Audit                 AuditConfig
	Conns                 fair.ConnLimits
	Seats                 fair.Config
	Limits                apiserver.Limits
	HeaderTime            time.Duration // for a handshake, and for the header of a request; default 10 s
	Progress              time.Duration // how old an idle watch's bookmark may be; default 30 s, well within what compaction keeps
}

// Hub is one member, opened.
type Hub struct {
	cfg      Config
	dir      dir
	id       Identity
	cluster  atomic.Pointer[string] // id of the cluster; nil until it is known
	keys     *keyring
	sealer   *registry.Sealer
	store    *mvcc.Store
	machine  *machine
	node     *consensus.Node
	replica  *replica.Replica
	upkeep   *replica.Upkeep
	registry *registry.Registry
	access   *access.Policy
	roles    *cache.Set // informers of roles and bindings
	tokens   *tokens.Authority
	resolver *admission.Resolver
	gateway  *gateway.Gateway
	contacts *gateway.Contacts
	enroller *lateEnroller
	kv       *kv.Server
	metrics  *metrics.Metrics
	audit    *audit.Log
	seats    *fair.Seats
	polls    *fair.Shares // of devices
	conns    *fair.Listener
	findings findings
	peers    *http.Transport // to other members' API
	lock     io.Closer       // of the directory
	api      net.Listener
	raft     net.Listener // for other members; the node's once it runs
	log      *slog.Logger

	// authority signs certificates; nil until this member has read it.
	authority atomic.Pointer[enroll.Authority]
}

// Open opens a member's directory and its two ports. It starts nothing.
func Open(cfg Config) (h *Hub, err error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.PollHold == 0 {
		cfg.PollHold = 5 * time.Minute
	}
	if cfg.DrainTimeout == 0 {
		cfg.DrainTimeout = 3 * time.Second
	}
	if cfg.HeaderTime == 0 {
		cfg.HeaderTime = 10 * time.Second
	}
	if cfg.Progress == 0 {
		cfg.Progress = 30 * time.Second
	}
	h = &Hub{cfg: cfg, dir: dir(cfg.Dir), contacts: gateway.NewContacts(), log: cfg.Logger, enroller: &lateEnroller{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.Close())
		}
	}()
	if h.id, err = h.dir.loadIdentity(); err != nil { // a directory without one is not even locked
		return h, err
	}
	if h.lock, err = h.dir.lock(lockWait); err != nil {
		return h, err
	}
	if err = h.dir.removeUnfinished(); err != nil {
		return h, err
	}
	if h.id.ClusterID != "" {
		h.cluster.Store(&h.id.ClusterID)
	}
	h.log = cfg.Logger.With("member", h.id.Name)
	h.metrics = metrics.New(h.id.Name, cfg.Version)
	if err = h.openAudit(); err != nil {
		return h, err
	}
	h.cfg.Seats.Refused = h.metrics.Refused
	h.seats = fair.New(h.cfg.Seats)
	h.polls = fair.NewShares("polls and streams of devices", maxPolls, pollsEach, h.metrics.Refused)
	creds, err := h.dir.loadCredentials()
	if err != nil {
		return h, err
	}
	h.keys = newKeyring(creds)
	h.peers = h.keys.toMembers()
	if h.sealer, err = registry.OpenSealer(h.dir.path(fileSealing)); err != nil {
		return h, err
	}
	return h, errors.Join(h.openState(), h.openServices())
}

// openState opens the log and the contents, and the ports.
func (h *Hub) openState() (err error) {
	if h.store, err = mvcc.Open(h.dir.path(fileState), mvcc.Options{Checkpoint: h.metrics.Checkpoint}); err != nil {
		return err
	}
	if h.api, err = listenQuietly(orElse(h.cfg.ListenAPI, h.id.API)); err != nil {
		return fmt.Errorf("listen for operators and devices: %w", err)
	}
	h.conns = fair.Listen(h.api, h.connLimits(), h.refusedConn)
	h.api = h.conns
	if h.raft, err = listenQuietly(orElse(h.cfg.ListenPeer, h.id.Peer)); err != nil {
		return fmt.Errorf("listen for other members: %w", err)
	}
	transport, err := peer.New(peer.Config{
		Name: h.id.Name, Listener: h.raft, PeerName: h.peerName, Logger: h.log,
		ServerTLS: h.keys.peerServer, ClientTLS: h.keys.peerClient,
	})
	if err != nil {
		return err
	}
	h.machine = &machine{Machine: replica.Machine{Store: h.store}}
	h.node, err = consensus.Open(consensus.Config{
		Dir: h.cfg.Dir, Self: h.id.member(), Applied: h.store.Applied(), Machine: h.machine, StateFile: h.dir.path(fileState), SnapshotRate: h.cfg.CopyRate,
		Transport: transport, Logger: h.log, Observer: h.metrics.Observer(),
	})
	return err
}

// openServices puts together what stands on the state.
func (h *Hub) openServices() (err error) {
	if h.node == nil {
		return nil // openState has said why
	}
	if h.replica, err = replica.New(h.node, h.store, replica.Options{Member: h.id.Name, Logger: h.log, Proposed: h.metrics.Proposed}); err != nil {
		return err
	}
	if h.upkeep, err = replica.NewUpkeep(h.replica, h.cfg.Growth, replica.UpkeepOptions{Every: h.cfg.UpkeepEvery, Logger: h.log, Looked: h.keptUp, Compacted: h.metrics.FileCompacted}); err != nil {
		return err
	}
	h.resolver = admission.NewResolver(admission.ResolverConfig{Plain: h.cfg.PlainRegistries})
	h.access = access.NewPolicy()
	admit, err := admission.New(admission.Config{Images: h.resolver, Access: h.access, Logger: h.log})
	if err != nil {
		return err
	}
	if h.registry, err = registry.New(h.replica, registry.Options{Sealer: h.sealer, Admit: admit, Logger: h.log}); err != nil {
		return err
	}
	if err = h.newRights(); err != nil {
		return err
	}
	h.gateway, err = gateway.New(gateway.Options{
		Member: h.id.Name, Client: h.as("hub:" + h.id.Name), Relisted: h.metrics.Relisted(metrics.UserGateway),
		AsDevice: h.asDevice, Tokens: deviceTokens{h.tokens, h.audit},
		Identity: h.history, Sign: h.keys.sign, KeyedHash: h.sealer.KeyedHash,
		MarkProgress: h.store.Progress, Endpoints: h.urls, Contacts: h.contacts, Logger: h.log, PollHold: h.cfg.PollHold,
	})
	if err != nil {
		return err
	}
	h.kv = &kv.Server{Backend: h.replica, Logger: h.log, Observe: h.metrics.KV, IsMember: h.isMember}
	h.follow()
	return nil
}

func orElse(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func (h *Hub) as(actor string) client.Client { return h.registry.As(registry.Actor{Name: actor}) }

// history names the hub's history as this member knows it now.
func (h *Hub) history() (gateway.Identity, bool) {
	e := h.store.Epoch()
	cluster := h.cluster.Load()
	if cluster == nil || e.Number == 0 {
		return gateway.Identity{}, false
	}
	return gateway.Identity{ClusterID: *cluster, Epoch: e.Number, EpochID: e.ID}, true
}

// Close releases a hub that was opened and not run.
func (h *Hub) Close() error {
	var errs []error
	for _, l := range []net.Listener{h.api, h.raft} {
		if l != nil {
			errs = append(errs, l.Close())
		}
	}
	if h.node != nil {
		errs = append(errs, h.node.Close())
	}
	if h.store != nil {
		errs = append(errs, h.store.Close())
	}
	if h.audit != nil {
		errs = append(errs, h.audit.Close())
	}
	if h.lock != nil {
		errs = append(errs, h.lock.Close())
	}
	return errors.Join(errs...)
}

// Run serves until ctx ends, then lets requests under way finish, and returns when everything it started has ended.
func (h *Hub) Run(ctx context.Context) error {
	// The state outlives the services by the time they take to end.
	stateCtx, stopState := context.WithCancel(context.WithoutCancel(ctx))
	ctx, stop := context.WithCancelCause(ctx)
	var state errgroup.Group
	for _, part := range []func(context.Context) error{h.node.Run, h.replica.KeepFile} {
		state.Go(func() error {
			err := part(stateCtx)
			stop(err) // without log and file there is nothing to serve
			return err
		})
	}
	err := h.serve(ctx)
	stop(nil)
	h.handOver()
	stopState()
	h.peers.CloseIdleConnections()
	return errors.Join(err, state.Wait(), h.store.Close(), h.audit.Close(), h.lock.Close())
}

// serve runs everything above the state. The end of ctx is no error.
func (h *Hub) serve(ctx context.Context) error {
	if err := h.refuseOver(ctx); err != nil {
		return errors.Join(err, h.api.Close())
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return h.found(ctx) })
	group.Go(func() error { return h.gateway.Run(ctx) })
	group.Go(func() error { return h.pushContacts(ctx) })
	group.Go(func() error { return h.followRights(ctx) })
	group.Go(func() error { return h.markProgress(ctx) })
	group.Go(func() error { return h.keepKeys(ctx) })
	group.Go(func() error { return h.lead(ctx) })
	group.Go(func() error { return h.upkeep.Follow(ctx) })
	group.Go(func() error { return h.compare(ctx) })
	group.Go(func() error { return h.verify(ctx) })
	group.Go(func() error { return h.watchHistory(ctx) })
	group.Go(func() error { return h.audit.Run(ctx) })
	group.Go(func() error { return h.listen(ctx) })
	err := group.Wait()
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// markProgress lets idle watches know how far the hub has come, so that they resume from there.
func (h *Hub) markProgress(ctx context.Context) error {
	tick := time.NewTicker(h.cfg.Progress)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			h.store.Progress()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// random is for jitter only.
var random retry.Random = rand.Int64N

// signer is the private key as a signer.
func (c *credentials) signer() (crypto.Signer, error) {
	s, ok := c.cert.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("member key of type %T cannot sign", c.cert.PrivateKey)
	}
	return s, nil
}

// writeAdmin leaves the first admin's kubeconfig for whoever set the hub up, once.
func (h *Hub) writeAdmin(make func() ([]byte, error)) error {
	if _, err := os.Stat(h.dir.path(fileAdmin)); err == nil {
		return nil
	}
	b, err := make()
	if err != nil {
		return err
	}
	return h.dir.write(fileAdmin, b)
}
