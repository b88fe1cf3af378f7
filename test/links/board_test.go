package links

import (
	"context"
	"crypto"
	"crypto/rand"
	"io"
	"log/slog"
	mrand "math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drover-fleet/drover/agent/enroll"
	"github.com/drover-fleet/drover/agent/link"
	"github.com/drover-fleet/drover/agent/link/httplink"
	"github.com/drover-fleet/drover/api/retry"
	"github.com/drover-fleet/drover/api/wire"
)

type random struct{}

func (random) Read(b []byte) (int, error) { return rand.Read(b) }

func signer(t *testing.T, k crypto.PrivateKey) crypto.Signer {
	s, ok := k.(crypto.Signer)
	if !ok {
		t.Fatalf("key is a %T", k)
	}
	return s
}

// board is a device as the link sees it: it holds what it was told once all bodies are there, and obeys tombstones.
type board struct {
	t      *testing.T
	keeper *enroll.Keeper
	name   string
	now    func() time.Time

	mu       sync.Mutex
	link     *link.Session
	session  uint64
	desired  *wire.Desired // told, perhaps not complete
	held     wire.Position
	hash     wire.Hash
	runs     map[string]wire.Assignment // by UID
	bodies   map[string][]byte
	secrets  map[string]string
	told     []wire.Position
	commands []wire.Command
	acked    uint64
	state    link.State
	onLogs   func(wire.Command)
}

func newBoard(t *testing.T, name string) *board {
	t.Helper()
	k, err := enroll.Open(t.TempDir(), slog.New(slog.DiscardHandler))
	check(t, err)
	return &board{t: t, keeper: k, name: name, now: time.Now, runs: map[string]wire.Assignment{}, bodies: map[string][]byte{}, secrets: map[string]string{}}
}

// enrollAt gives the board its identity, or returns why not by the end of ctx.
func (b *board) enrollAt(ctx context.Context, token wire.Secret, say func(string), hubs ...string) error {
	b.t.Helper()
	e, err := enroll.New(enroll.Config{
		Keeper: b.keeper, Name: b.name, Hubs: hubs, Token: func() (wire.Secret, error) { return token, nil }, Say: say,
		Facts: func() wire.Facts { return wire.Facts{Platform: "linux/arm64/v8", Serial: "s-" + b.name} }, Random: mrand.Int64N, Now: b.now,
		Retry: retry.Policy{Base: 5 * time.Millisecond, Max: 20 * time.Millisecond},
	})
	check(b.t, err)
	_, err = e.Enroll(ctx)
	return err
}

// enrolled is a board with an identity.
func enrolled(t *testing.T, h *hub, m *member, name string) *board {
	t.Helper()
	b := newBoard(t, name)
	check(t, b.enrollAt(t.Context(), h.token("t-"+name, nil), nil, m.url))
	return b
}

// connect runs a link to the endpoints until the returned function is called.
func (b *board) connect(endpoints ...string) (stop func()) {
	b.t.Helper()
	id, ok := b.keeper.Identity()
	if !ok {
		b.t.Fatal("not enrolled")
	}
	s, err := link.New(link.Config{
		Source: b, Sink: b, ClusterID: id.ClusterID, Device: id.Device, Roots: b.keeper.Roots, Now: b.now, Endpoints: endpoints,
		Transport: &httplink.Transport{Identity: httplink.Identity{Certificate: b.keeper.Certificate, Roots: httplink.Pinned(b.keeper.Roots), Now: b.now}},
		NextSession: func(above uint64) (uint64, error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.session = max(b.session, above) + 1
			return b.session, nil
		},
		Random: mrand.Int64N, Retry: retry.Policy{Base: 10 * time.Millisecond, Max: 100 * time.Millisecond}, PollMargin: 500 * time.Millisecond,
		Timeout: 5 * time.Second, AskAgain: 2 * time.Second,
	})
	check(b.t, err)
	b.mu.Lock()
	b.link = s
	b.mu.Unlock()
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.t.Context()))
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Run(ctx) })
	stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	b.t.Cleanup(stop)
	return stop
}

// conn is a bare connection, for what a link would never do.
func (b *board) conn(url string) link.Conn {
	b.t.Helper()
	tr := &httplink.Transport{Identity: httplink.Identity{Certificate: b.keeper.Certificate, Roots: httplink.Pinned(b.keeper.Roots), Now: b.now}}
	c, err := tr.Open(url)
	check(b.t, err)
	b.t.Cleanup(c.Close)
	return c
}

func (b *board) Hello() wire.Hello {
	return wire.Hello{AgentVersion: "test", BootID: "boot", Facts: wire.Facts{Platform: "linux/arm64/v8", CPUs: 4, Memory: 1 << 30}, WallTime: b.now().UnixNano()}
}

func (b *board) Held() (wire.Position, wire.Hash) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held, b.hash
}

func (b *board) Desired(s wire.Signed) {
	var d wire.Desired
	if err := wire.Decode(s.Payload, wire.MaxDesired, &d); err != nil {
		b.t.Error(err)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.told = append(b.told, d.Position)
	if b.held.Accept(d.Position) != nil {
		return
	}
	b.desired = &d
	b.settleLocked()
}

func (b *board) Bodies(r wire.BodiesReply) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, body := range r.Bodies {
		b.bodies[wire.HashOf(body).String()] = body
	}
	for _, s := range r.Secrets {
		plain, err := wire.Unseal(b.keeper.Key(), s)
		if err != nil {
			b.t.Error(err)
			continue
		}
		b.secrets[s.Ref.Name+s.Ref.ID.String()] = string(plain)
	}
	b.settleLocked()
}

// settleLocked holds what was told once it is complete, and asks for what is missing.
func (b *board) settleLocked() {
	if b.desired == nil {
		return
	}
	var q wire.BodiesRequest
	for _, e := range b.desired.Assignments {
		if _, ok := b.bodies[e.SpecHash.String()]; !ok {
			q.Bodies = append(q.Bodies, e.SpecHash)
		}
		for _, r := range e.Secrets {
			if _, ok := b.secrets[r.Name+r.ID.String()]; !ok {
				q.Secrets = append(q.Secrets, r)
			}
		}
	}
	if len(q.Bodies)+len(q.Secrets) > 0 {
		b.link.Want(q)
		return
	}
	for _, e := range b.desired.Assignments {
		var a wire.Assignment
		if err := wire.Decode(b.bodies[e.SpecHash.String()], wire.MaxBody, &a); err != nil {
			b.t.Error(err)
			return
		}
		b.runs[e.UID] = a
	}
	var gone []string
	for _, t := range b.desired.Tombstones {
		delete(b.runs, t.UID)
		gone = append(gone, t.UID)
	}
	b.held, b.hash = b.desired.Position, b.desired.BundleHash
	b.desired = nil
	b.link.Report(b.reportLocked(gone))
}

func (b *board) reportLocked(gone []string) wire.Report {
	r := wire.Report{Held: b.held, BundleHash: b.hash, Gone: gone}
	for uid, a := range b.runs {
		r.Statuses = append(r.Statuses, wire.Status{UID: uid, Phase: "Running", Ready: true, Revision: a.Revision})
	}
	slicesSort(r.Statuses)
	return r
}

func slicesSort(s []wire.Status) {
	for i := range s {
		for j := i; j > 0 && s[j].UID < s[j-1].UID; j-- {
			s[j], s[j-1] = s[j-1], s[j]
		}
	}
}

func (b *board) Command(s wire.Signed) {
	var c wire.Command
	if err := wire.Decode(s.Payload, wire.MaxCommand, &c); err != nil {
		b.t.Error(err)
		return
	}
	b.mu.Lock()
	b.commands = append(b.commands, c)
	f := b.onLogs
	b.mu.Unlock()
	if f != nil {
		go f(c)
	}
}

func (b *board) Acked(n uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.acked = n
}

func (b *board) State(s link.State) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.state = s
}

// see is the board's view under its lock.
func see[T any](b *board, f func() T) T {
	b.mu.Lock()
	defer b.mu.Unlock()
	return f()
}

func (b *board) connected() bool { return see(b, func() bool { return b.state.Connected }) }

func (b *board) lastError() string {
	return see(b, func() string {
		if b.state.Err == nil {
			return ""
		}
		return b.state.Err.Error()
	})
}

// runsRevision is the revision that runs of an assignment, "" when it does not run.
func (b *board) runsRevision(uid string) string {
	return see(b, func() string { return b.runs[uid].Revision })
}

func (b *board) awaitError(want string) {
	b.t.Helper()
	eventually(b.t, "link error with "+want, func() bool { return strings.Contains(b.lastError(), want) })
}

func readAll(t *testing.T, r io.Reader) string {
	t.Helper()
	b, err := io.ReadAll(r)
	check(t, err)
	return string(b)
}
