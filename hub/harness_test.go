package hub

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/wire"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/client/remote"
)

// identity is of a member at two loopback ports that are free now.
func identity(t *testing.T, name string) Identity {
	t.Helper()
	return Identity{Name: name, API: freeAddr(t), Peer: freeAddr(t)}
}

func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	check(t, err)
	check(t, l.Close())
	return l.Addr().String()
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// running is a member that runs until stop, or the end of the test.
type running struct {
	*Hub
	t    *testing.T
	stop func() // tells it to end, and returns when it has
}

func run(t *testing.T, cfg Config) *running {
	t.Helper()
	h, err := Open(cfg)
	check(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := h.Run(ctx); err != nil {
			t.Errorf("member %s: %v", h.id.Name, err)
		}
	}()
	r := &running{Hub: h, t: t, stop: func() {
		cancel()
		<-ended
	}}
	t.Cleanup(r.stop)
	return r
}

// found makes and runs a hub of one member, and waits until it serves.
func found(t *testing.T, cfg Config) (*running, *remote.Client) {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	check(t, Init(cfg.Dir, identity(t, "h1")))
	h := run(t, cfg)
	select {
	case <-h.keys.born:
	case <-time.After(30 * time.Second):
		t.Fatal("no member certificate after 30 s")
	}
	return h, h.admin()
}

// admin is a client of this member alone, by the kubeconfig that the first member leaves.
func (h *running) admin() *remote.Client {
	h.t.Helper()
	k, err := remote.LoadKubeconfig(h.dir.path(fileAdmin), "")
	check(h.t, err)
	c, err := remote.New(k, remote.Options{})
	check(h.t, err)
	h.t.Cleanup(c.Close)
	return c
}

// token makes a token by which one more member may join.
func (h *running) token(c client.Client, name string) string {
	h.t.Helper()
	creds, err := h.keys.get()
	check(h.t, err)
	token, err := wire.NewToken(rand.Reader, creds.ca, name)
	check(h.t, err)
	_, err = c.Create(h.t.Context(), &api.JoinToken{
		TypeMeta: api.TypeMeta{APIVersion: api.FleetV1, Kind: "JoinToken"}, Metadata: api.ObjectMeta{Name: name},
		Spec: api.JoinTokenSpec{For: api.TokenForHub, Uses: 1, Expires: api.TimeOf(time.Now().Add(time.Hour)), SecretHash: token.SecretHash()},
	}, client.WriteOptions{})
	check(h.t, err)
	return string(token.Reveal())
}

func used(t *testing.T, c client.Client, token string) int32 {
	t.Helper()
	o, err := c.Get(t.Context(), api.Ref{Kind: api.KindJoinToken, Name: token}, client.GetOptions{})
	check(t, err)
	return o.(*api.JoinToken).Status.Used
}

func (h *running) joining(token string) Joining {
	return Joining{Token: token, Server: "https://" + h.id.API}
}

// some makes a directory of the named files of another, as a process leaves it that is killed after the last of them. What it had
// begun to write aside lies beside them.
func some(t *testing.T, from string, names ...string) string {
	t.Helper()
	to := t.TempDir()
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(from, name))
		check(t, err)
		check(t, os.WriteFile(filepath.Join(to, name), b, 0o600))
	}
	for _, name := range []string{".seal-1", ".ca.crt-1", ".member.key-1", ".member.crt-1", ".member.json-1", "raft.db.new"} {
		check(t, os.WriteFile(filepath.Join(to, name), []byte("half"), 0o600))
	}
	return to
}

func noLeftovers(t *testing.T, path string) {
	t.Helper()
	entries, err := os.ReadDir(path)
	check(t, err)
	for _, e := range entries {
		if unfinished(e.Name()) {
			t.Errorf("%s is left over", e.Name())
		}
	}
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), d, errors.New("the test waited too long"))
	t.Cleanup(cancel)
	return ctx
}
