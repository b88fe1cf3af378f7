package fleet

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/client/cache"
	"github.com/drover-fleet/drover/controllers"
	"github.com/drover-fleet/drover/controllers/presence"
	"github.com/drover-fleet/drover/hub/admission"
	"github.com/drover-fleet/drover/hub/registry"
	"github.com/drover-fleet/drover/sched"
	"github.com/drover-fleet/drover/store/mvcc"
)

const (
	lateAfter    = 15 * time.Second
	offlineAfter = 30 * time.Second
)

// fleet is a hub of one, without transports, and its devices.
type fleet struct {
	*testing.T
	ctx      context.Context
	backend  *registry.LocalBackend
	registry *registry.Registry
	user     client.Client
	images   *imageList
	devices  *devices
	log      *slog.Logger
	loss     *losses // when set, the controllers of the next terms write through it
	// assignmentsAt are those that stood at a revision that a test marked.
	assignmentsAt map[string][]*api.Assignment
}

// bubble runs a test in fake time with n devices that are connected, named pi-0 ... and labelled site=north or, each third,
// site=south.
func bubble(t *testing.T, n int, body func(f *fleet)) {
	t.Parallel() // most of a test's time is waiting for the disk
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s, err := mvcc.Open(filepath.Join(dir, "state"), mvcc.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}()
		ctx, cancel := context.WithCancel(t.Context())
		f := newFleet(t, ctx, s)
		for i := range n {
			f.addDevice(fmt.Sprintf("pi-%d", i), map[string]string{"site": []string{"north", "north", "south"}[i%3]})
		}
		var wg sync.WaitGroup
		wg.Go(func() { f.devices.run(ctx) })
		stop := f.lead(ctx, 1)
		body(f)
		stop()
		cancel()
		wg.Wait()
	})
}

func newFleet(t *testing.T, ctx context.Context, s *mvcc.Store) *fleet {
	t.Helper()
	f := &fleet{T: t, ctx: ctx, images: &imageList{}, log: logger(), assignmentsAt: map[string][]*api.Assignment{}}
	admit, err := admission.New(admission.Config{Images: f.images, Logger: f.log})
	if err != nil {
		t.Fatal(err)
	}
	key := sha256.Sum256([]byte(t.Name()))
	sealer, err := registry.NewSealer(key[:])
	if err != nil {
		t.Fatal(err)
	}
	f.backend = registry.Local(s)
	f.registry, err = registry.New(f.backend, registry.Options{Sealer: sealer, Admit: admit})
	if err != nil {
		t.Fatal(err)
	}
	f.user = f.registry.As(registry.Actor{Name: "user:test"})
	f.devices = newDevices(f.registry.As(registry.Actor{Name: "device:simulated"}), f.backend.Revision)
	hub := f.registry.As(registry.Actor{Name: "hub:h1"})
	if err := registry.EnsureNamespace(ctx, hub, api.DefaultNS); err != nil {
		t.Fatal(err)
	}
	return f
}

func logger() *slog.Logger {
	out := io.Discard
	if os.Getenv("FLEET_LOG") != "" {
		out = os.Stderr
	}
	return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// lead runs the controllers and the scheduler for one term, and returns what ends and joins them.
func (f *fleet) lead(ctx context.Context, term uint64) (stop func()) {
	f.backend.SetTerm(term)
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	as := func(name string) client.Client {
		c := f.registry.As(registry.Actor{Name: "controller:" + name, Term: term})
		if f.loss != nil {
			c = f.loss.of(c)
		}
		return c
	}
	go func() { done <- f.control(ctx, as) }()
	return func() {
		f.Helper()
		cancel()
		if err := <-done; err != nil {
			f.Errorf("controllers of term %d ended with %v", term, err)
		}
	}
}

func (f *fleet) control(ctx context.Context, as func(name string) client.Client) error {
	d := controllers.Deps{
		Client: as("all"), As: as, Now: time.Now, Random: rand.Int64N, Logger: f.log, Resolver: f.images,
		Presence: presence.Config{Contacts: f.devices, Limits: presence.Limits{Late: lateAfter, Offline: offlineAfter}, Member: "h1"},
	}
	return controllers.Run(ctx, d, func(set *cache.Set) controllers.Runner {
		return sched.New(sched.Config{Client: as("scheduler"), Informers: set, Now: time.Now, Random: rand.Int64N, Logger: f.log})
	})
}

// imageList resolves every image unless it is told otherwise.
type imageList struct {
	mu   sync.Mutex
	down bool
}

func (l *imageList) setDown(down bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = down
}

func (l *imageList) Resolve(_ context.Context, image string) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down {
		return "", fault.Unavailable.Errorf("registry does not answer")
	}
	if strings.Contains(image, "@") {
		return image, nil
	}
	return fmt.Sprintf("registry.test/app@sha256:%x", sha256.Sum256([]byte(image))), nil
}

func (f *fleet) addDevice(name string, labels map[string]string) {
	f.Helper()
	d := &api.Device{Metadata: api.ObjectMeta{Name: name, Labels: labels}}
	f.create(d)
	f.devices.set(name, true)
}

func (f *fleet) create(o api.Object) {
	f.Helper()
	k, _ := cache.KindOf(o)
	*o.Type() = api.TypeMeta{APIVersion: k.APIVersion, Kind: k.Kind}
	c := f.user
	if k == api.KindDevice {
		c = f.registry.As(registry.Actor{Name: "hub:h1"})
	}
	if _, err := c.Create(f.ctx, o, client.WriteOptions{}); err != nil {
		f.Fatalf("create %s: %v", o.Meta().Name, err)
	}
}

// change does a read-modify-write as a user.
func change[T api.Object](f *fleet, k *api.Kind, name string, do func(T)) {
	f.Helper()
	for {
		o, err := f.user.Get(f.ctx, ref(k, name), client.GetOptions{})
		if err != nil {
			f.Fatalf("get %s: %v", name, err)
		}
		next := o.DeepCopyObject()
		do(next.(T))
		_, err = f.user.Update(f.ctx, next, client.WriteOptions{})
		if err == nil {
			return
		}
		if !fault.Is(err, fault.Conflict) {
			f.Fatalf("change %s: %v", name, err)
		}
	}
}

func ref(k *api.Kind, name string) api.Ref {
	r := api.Ref{Kind: k, Name: name}
	if k.Namespaced {
		r.Namespace = api.DefaultNS
	}
	return r
}

func get[T api.Object](f *fleet, k *api.Kind, name string) T {
	f.Helper()
	o, err := f.user.Get(f.ctx, ref(k, name), client.GetOptions{})
	if err != nil {
		f.Fatalf("get %s %s: %v", k.Singular, name, err)
	}
	return o.(T)
}

func list[T api.Object](f *fleet, k *api.Kind) []T {
	f.Helper()
	l, err := f.user.List(f.ctx, k, client.ListOptions{})
	if err != nil {
		f.Fatalf("list %s: %v", k.Plural, err)
	}
	out := make([]T, len(l.Items))
	for i, o := range l.Items {
		out[i] = o.(T)
	}
	return out
}

// eventually waits in fake time until check returns "", and fails with its last answer.
func (f *fleet) eventually(within time.Duration, check func() string) {
	f.Helper()
	deadline := time.Now().Add(within)
	for {
		why := check()
		if why == "" {
			return
		}
		if time.Now().After(deadline) {
			f.Fatalf("not within %v: %s", within, why)
		}
		f.pass(time.Second)
	}
}

// pass lets fake time go by.
func (f *fleet) pass(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	<-t.C
}
