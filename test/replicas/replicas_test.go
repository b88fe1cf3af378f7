package replicas

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/client/clienttest"
	"github.com/drover-fleet/drover/hub/registry"
	"github.com/drover-fleet/drover/hub/replica"
	"github.com/drover-fleet/drover/store"
	"github.com/drover-fleet/drover/store/mvcc"
	"github.com/drover-fleet/drover/test/cluster"
)

// machine is a member's store with what the cluster wants of it.
type machine struct{ replica.Machine }

func (m machine) Applied() uint64 { return m.Store.Applied() }
func (m machine) Close() error    { return m.Store.Close() }

func openMachine(dir string) (cluster.Machine, error) {
	s, err := mvcc.Open(filepath.Join(dir, "state"), mvcc.Options{})
	if err != nil {
		return nil, err
	}
	return machine{replica.Machine{Store: s}}, nil
}

type hub struct {
	*registry.Registry
	*replica.Replica
}

// hubOn wires a member that is up.
func hubOn(t *testing.T, m *cluster.Member) hub {
	t.Helper()
	rep, err := replica.New(m.Node, m.Machine.(machine).Store, replica.Options{Member: m.Name})
	if err != nil {
		t.Fatal(err)
	}
	key := sha256.Sum256([]byte("one key for all members"))
	sealer, err := registry.NewSealer(key[:])
	if err != nil {
		t.Fatal(err)
	}
	reg, err := registry.New(rep, registry.Options{Sealer: sealer})
	if err != nil {
		t.Fatal(err)
	}
	return hub{reg, rep}
}

func start(t *testing.T) *cluster.Cluster {
	t.Helper()
	c := cluster.Start(t, 3, cluster.Options{Machine: openMachine})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for _, m := range c.Members { // at once, as members starting together do
		h := hubOn(t, m)
		if err := h.Found(ctx); err != nil {
			t.Fatal(err)
		}
		if err := registry.EnsureNamespace(ctx, h.As(registry.Actor{Name: "hub:" + m.Name}), api.DefaultNS); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func TestAnyMemberIsAClient(t *testing.T) {
	c := start(t)
	leader := c.Leader()
	f := c.Followers(leader)
	a, b, l := hubOn(t, f[0]), hubOn(t, f[1]), hubOn(t, leader)
	// One hub for all tests of the suite: each begins with what the one before left removed.
	clienttest.Run(t, func(t *testing.T) clienttest.Env {
		clean(t, l.As(registry.Actor{Name: "user:cleaner"}))
		return clienttest.Env{
			Client: a.As(registry.Actor{Name: "user:alice"}),
			Other:  b.As(registry.Actor{Name: "user:bob"}),
			Hub:    l.As(registry.Actor{Name: "controller:test"}),
			Compact: func(ctx context.Context) error {
				res, err := l.Propose(ctx, &store.Command{Actor: "hub:test", Compact: l.Revision()})
				if err := errors.Join(err, res.Err); err != nil {
					return err
				}
				return errors.Join(a.Barrier(ctx), b.Barrier(ctx))
			},
		}
	})
	c.WaitEqual()
}

func clean(t *testing.T, c client.Client) {
	t.Helper()
	for _, k := range api.Kinds() {
		if k == api.KindNamespace {
			continue
		}
		l, err := c.List(t.Context(), k, client.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range l.Items {
			ref, _ := api.RefOf(o)
			if err := c.Delete(t.Context(), ref, client.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	l, err := c.List(t.Context(), api.KindNamespace, client.ListOptions{FieldSelector: "metadata.name!=default"})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range l.Items {
		ref, _ := api.RefOf(o)
		if err := c.Delete(t.Context(), ref, client.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// Two hundred separate creates through all members while the leader dies: what was acknowledged is there, and nothing twice.
func TestNoAcknowledgedCreateIsLostWhenTheLeaderDies(t *testing.T) {
	c := start(t)
	leader := c.Leader()
	followers := c.Followers(leader)
	const creates = 200
	hubs := []hub{hubOn(t, leader), hubOn(t, followers[0]), hubOn(t, followers[1])}
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()

	var acked sync.Map
	var started atomic.Int32
	half := make(chan struct{})
	var wg sync.WaitGroup
	for w := range 10 {
		wg.Go(func() {
			for i := range creates / 10 {
				if started.Add(1) == creates/4 {
					close(half)
				}
				name := fmt.Sprintf("cm-%d-%d", w, i)
				id := registry.Actor{Name: "user:alice", RequestID: "request-" + name}
				o := &api.ConfigMap{Metadata: api.ObjectMeta{Name: name, Namespace: api.DefaultNS}}
				// A client that hears of no outcome asks another member, with the same request id.
				for n := w; ; n++ {
					tctx, cancel := context.WithTimeout(ctx, 2*time.Second)
					got, err := hubs[n%3].As(id).Create(tctx, o, client.WriteOptions{})
					cancel()
					if err == nil {
						acked.Store(name, got.Meta().UID)
						break
					}
					if !fault.Retryable(err) || ctx.Err() != nil {
						t.Errorf("create %s: %v", name, err)
						break
					}
				}
			}
		})
	}
	<-half
	c.Kill(leader.Name)
	wg.Wait()

	survivor := hubs[1].As(registry.Actor{Name: "user:alice"})
	l, err := survivor.List(ctx, api.KindConfigMap, client.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stands := map[string]string{}
	for _, o := range l.Items {
		stands[o.Meta().Name] = o.Meta().UID
	}
	if len(stands) != creates {
		t.Errorf("objects: got %d, want %d", len(stands), creates)
	}
	acked.Range(func(name, uid any) bool {
		if stands[name.(string)] != uid {
			t.Errorf("%s was acknowledged with uid %s; it stands with %q", name, uid, stands[name.(string)])
		}
		return true
	})
}

// A controller of a past leader cannot write any more, through whichever member.
func TestPastLeadersControllersCannotWrite(t *testing.T) {
	c := start(t)
	old := c.Leader()
	h := hubOn(t, old)
	term, leads := h.Leadership()
	if !leads {
		t.Fatalf("leadership: got term %d and not leading, want leading", term)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	fenced := registry.Actor{Name: "controller:workload", Term: term}
	cm := func(name string) *api.ConfigMap {
		return &api.ConfigMap{Metadata: api.ObjectMeta{Name: name, Namespace: api.DefaultNS}}
	}
	if _, err := h.As(fenced).Create(ctx, cm("in-office"), client.WriteOptions{}); err != nil {
		t.Fatalf("write in its term: %v", err)
	}
	if err := old.Node.TransferLeader(ctx, c.Followers(old)[0].Node.Status().ID); err != nil {
		t.Fatal(err)
	}
	c.Until("another leader", func() bool { l := c.Leader(old.Name); return l != nil })
	for _, m := range c.Members {
		_, err := hubOn(t, m).As(fenced).Create(ctx, cm("too-late-"+m.Name), client.WriteOptions{})
		if !errors.Is(err, fault.Conflict) || !errors.Is(err, store.ErrStaleTerm) {
			t.Errorf("write of a past term through %s: got %v, want a conflict for a stale term", m.Name, err)
		}
	}
}
