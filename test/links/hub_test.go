package links

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/wire"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/hub/enroll"
	"github.com/drover-fleet/drover/hub/gateway"
	"github.com/drover-fleet/drover/hub/gateway/httpgw"
	"github.com/drover-fleet/drover/hub/registry"
	"github.com/drover-fleet/drover/hub/tokens"
	"github.com/drover-fleet/drover/store/mvcc"
)

// hub is one store with its authority; members serve it.
type hub struct {
	t         *testing.T
	store     *mvcc.Store
	backend   *registry.LocalBackend
	registry  *registry.Registry
	sealer    *registry.Sealer
	records   enroll.Records
	authority *enroll.Authority
	issuer    *tokens.Authority // of the newest member
	clock     atomic.Int64      // offset of the hub's clock in nanoseconds
	admin     client.Client
}

func (h *hub) now() time.Time { return time.Now().Add(time.Duration(h.clock.Load())) }

// newHub makes a hub. With the CA of another hub it is one that came up empty.
func newHub(t *testing.T, offset time.Duration, sameCA *hub) *hub {
	t.Helper()
	h := &hub{t: t}
	h.clock.Store(int64(offset))
	s, err := mvcc.Open(filepath.Join(t.TempDir(), "state.db"), mvcc.Options{})
	check(t, err)
	t.Cleanup(func() { check(t, s.Close()) })
	h.store, h.backend = s, registry.Local(s)
	h.sealer, err = registry.NewSealer(make([]byte, 32))
	check(t, err)
	h.registry, err = registry.New(h.backend, registry.Options{Sealer: h.sealer, Now: h.now})
	check(t, err)
	h.records = enroll.NewRecords(h.backend, "h1")
	if sameCA != nil {
		data, _, err := sameCA.records.Read(t.Context(), "~ca")
		check(t, err)
		check(t, h.records.Create(t.Context(), map[string][]byte{"~ca": data}))
	}
	h.authority, err = enroll.Open(t.Context(), enroll.Options{Records: h.records, Sealer: h.sealer, Now: h.now})
	check(t, err)
	h.admin = h.registry.As(registry.Actor{Name: "user:admin"})
	check(t, registry.EnsureNamespace(t.Context(), h.admin, "default"))
	return h
}

// memberOptions change what a member is.
type memberOptions struct {
	hold      time.Duration
	clusterID string // another than the hub's
	gate      *gate  // holds back what the member sees
	addMember func(context.Context, enroll.Member) ([]enroll.Member, error)
}

// member is one serving member of a hub.
type member struct {
	url     string
	gateway *gateway.Gateway
	server  *http.Server
	stop    func() // ends the gateway and lets the server finish what it does
}

func (h *hub) member(o memberOptions) *member {
	t := h.t
	t.Helper()
	pair, err := h.authority.ServerCertificate("h1", []string{"127.0.0.1"})
	check(t, err)
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	check(t, err)
	m := &member{url: "https://" + ln.Addr().String()}
	id := h.authority.ClusterID()
	if o.clusterID != "" {
		id = o.clusterID
	}
	cl := h.registry.As(registry.Actor{Name: "hub:h1"})
	if o.gate != nil {
		cl = gated{cl, o.gate}
	}
	key, leaf := pair.PrivateKey, pair.Leaf
	m.gateway, err = gateway.New(gateway.Options{
		Member: "h1", Client: cl,
		AsDevice: func(d string) client.Client { return h.registry.As(registry.Actor{Name: "device:" + d}) },
		Identity: func() (gateway.Identity, bool) {
			e := h.backend.Epoch()
			return gateway.Identity{ClusterID: id, Epoch: e.Number, EpochID: e.ID}, true
		},
		Sign:      func(c string, p []byte) (wire.Signed, error) { return wire.Sign(signer(t, key), leaf.Raw, c, p) },
		KeyedHash: h.sealer.KeyedHash, MarkProgress: h.store.Progress, PollHold: o.hold, BehindWait: 100 * time.Millisecond, Tokens: h.tokens(), StreamDeadline: 5 * time.Second,
	})
	check(t, err)
	en, err := enroll.New(enroll.Config{Client: h.admin, Authority: h.authority, Now: h.now, Records: h.records,
		SealingKey: func() []byte { return []byte("sealing key") }, AddMember: o.addMember})
	check(t, err)
	m.server = &http.Server{
		Handler:   httpgw.New(httpgw.Config{Devices: m.gateway, Contacts: m.gateway.Contacts(), Enroller: en}),
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: h.authority.Roots()},
		ErrorLog:  slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var wg sync.WaitGroup
	gatewayDone := make(chan struct{})
	wg.Go(func() { defer close(gatewayDone); _ = m.gateway.Run(ctx) })
	m.stop = func() {
		cancel()
		<-gatewayDone
		soft, done := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
		defer done()
		check(t, m.server.Shutdown(soft))
	}
	wg.Go(func() {
		if err := m.server.ServeTLS(ln, "", ""); !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("serve: %v", err)
		}
	})
	t.Cleanup(func() {
		check(t, m.server.Close())
		cancel()
		wg.Wait()
	})
	return m
}

// gate holds back the events that a member's watches bring, while closed.
type gate struct {
	mu   sync.Mutex
	open chan struct{} // closed when events may pass
}

func newGate() *gate {
	g := &gate{open: make(chan struct{})}
	close(g.open)
	return g
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = make(chan struct{})
}

func (g *gate) lift() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.open)
}

func (g *gate) pass(ctx context.Context) error {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	select {
	case <-open:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

type gated struct {
	client.Client
	gate *gate
}

func (c gated) Watch(ctx context.Context, k *api.Kind, o client.WatchOptions) (client.Watcher, error) {
	w, err := c.Client.Watch(ctx, k, o)
	if err != nil {
		return nil, err
	}
	return gatedWatcher{w, c.gate}, nil
}

type gatedWatcher struct {
	client.Watcher
	gate *gate
}

func (w gatedWatcher) Next(ctx context.Context) (client.Event, error) {
	e, err := w.Watcher.Next(ctx)
	if err != nil {
		return e, err
	}
	return e, w.gate.pass(ctx)
}

// token makes a JoinToken and returns its text.
func (h *hub) token(name string, change func(*api.JoinTokenSpec)) wire.Secret {
	h.t.Helper()
	tok, err := wire.NewToken(random{}, h.authority.CA(), name)
	check(h.t, err)
	j := &api.JoinToken{TypeMeta: api.TypeMeta{APIVersion: api.FleetV1, Kind: "JoinToken"}, Metadata: api.ObjectMeta{Name: name},
		Spec: api.JoinTokenSpec{Uses: 50, Expires: api.TimeOf(h.now().Add(time.Hour)), SecretHash: tok.SecretHash()}}
	if change != nil {
		change(&j.Spec)
	}
	_, err = h.admin.Create(h.t.Context(), j, client.WriteOptions{})
	check(h.t, err)
	return tok.Reveal()
}

const image = "r.example/i@sha256:0000000000000000000000000000000000000000000000000000000000000001"

// assign binds a copy of a one-container workload to a device and returns the assignment.
func (h *hub) assign(device, workload, revision string, env ...api.EnvVar) *api.Assignment {
	h.t.Helper()
	h.revision(workload, revision, env...)
	a := &api.Assignment{
		TypeMeta: api.TypeMeta{APIVersion: api.FleetV1, Kind: "Assignment"},
		Metadata: api.ObjectMeta{Namespace: "default", Name: workload + "." + device},
		Spec:     api.AssignmentSpec{Workload: workload, Revision: revision, Device: device},
	}
	o, err := h.admin.Create(h.t.Context(), a, client.WriteOptions{})
	check(h.t, err)
	return o.(*api.Assignment)
}

func (h *hub) revision(workload, revision string, env ...api.EnvVar) {
	h.t.Helper()
	_, err := h.admin.Create(h.t.Context(), &api.WorkloadRevision{
		TypeMeta: api.TypeMeta{APIVersion: api.FleetV1, Kind: "WorkloadRevision"},
		Metadata: api.ObjectMeta{Namespace: "default", Name: revision},
		Spec: api.WorkloadRevisionSpec{
			Workload: workload, Revision: 1, Hash: "h" + revision, Images: map[string]string{"r.example/i:1": image},
			Template: api.Template{Spec: api.PodSpec{RestartPolicy: "Always", Containers: []api.Container{{Name: "main", Image: "r.example/i:1", ImagePullPolicy: "IfNotPresent", Env: env}}}},
		},
	}, client.WriteOptions{})
	check(h.t, err)
}

// move gives an assignment another revision.
func (h *hub) move(a *api.Assignment, revision string) {
	h.t.Helper()
	h.revision(a.Spec.Workload, revision)
	n := api.Copy(a)
	n.Metadata.ResourceVersion = ""
	n.Spec.Revision = revision
	_, err := h.admin.Update(h.t.Context(), n, client.WriteOptions{})
	check(h.t, err)
}

func (h *hub) device(name string) *api.Device {
	h.t.Helper()
	o, err := h.admin.Get(h.t.Context(), api.Ref{Kind: api.KindDevice, Name: name}, client.GetOptions{})
	check(h.t, err)
	return o.(*api.Device)
}

func (h *hub) assignment(a *api.Assignment) *api.Assignment {
	h.t.Helper()
	o, err := h.admin.Get(h.t.Context(), api.Ref{Kind: api.KindAssignment, Namespace: a.Metadata.Namespace, Name: a.Metadata.Name}, client.GetOptions{})
	check(h.t, err)
	return o.(*api.Assignment)
}

func (h *hub) count(k *api.Kind) int {
	h.t.Helper()
	l, err := h.admin.List(h.t.Context(), k, client.ListOptions{})
	check(h.t, err)
	return len(l.Items)
}

// eventually looks until cond holds.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(20 * time.Second)
	defer limit.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatalf("never: %s", what)
		}
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
