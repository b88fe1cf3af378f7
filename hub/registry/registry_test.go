package registry_test

import (
	"context"
	"crypto/sha256"
	"path/filepath"
	"testing"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/client/clienttest"
	"github.com/drover-fleet/drover/hub/registry"
	"github.com/drover-fleet/drover/store/mvcc"
)

// fixture is a registry over a store of its own.
type fixture struct {
	*registry.Registry
	backend *registry.LocalBackend
	path    string // of the state file
}

func sealer(t *testing.T) *registry.Sealer {
	t.Helper()
	key := sha256.Sum256([]byte(t.Name()))
	s, err := registry.NewSealer(key[:])
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func open(t *testing.T, o registry.Options) *fixture {
	t.Helper()
	path := filepath.Join(t.TempDir(), "state")
	s, err := mvcc.Open(path, mvcc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if o.Sealer == nil {
		o.Sealer = sealer(t)
	}
	b := registry.Local(s)
	r, err := registry.New(b, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := registry.EnsureNamespace(t.Context(), r.As(registry.Actor{Name: "hub:h1"}), api.DefaultNS); err != nil {
		t.Fatal(err)
	}
	return &fixture{Registry: r, backend: b, path: path}
}

func (f *fixture) user(name string) client.Client { return f.As(registry.Actor{Name: "user:" + name}) }

func (f *fixture) compact(ctx context.Context) error {
	return f.backend.Compact(ctx, f.backend.Revision())
}

func TestRegistryIsAClient(t *testing.T) {
	clienttest.Run(t, func(t *testing.T) clienttest.Env {
		f := open(t, registry.Options{})
		return clienttest.Env{
			Client: f.user("alice"), Other: f.user("bob"), Hub: f.As(registry.Actor{Name: "controller:test"}), Compact: f.compact,
		}
	})
}
