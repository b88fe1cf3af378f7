package sim

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/drover-fleet/drover/api/retry"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/hub/gateway"
	"github.com/drover-fleet/drover/hub/registry"
	"github.com/drover-fleet/drover/hub/replica"
)

// began is when the simulated world begins, by its wall clock.
func began() time.Time { return time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC) }

// gate is what a member serves devices and users with: the registry and the gateway over its replica.
type gate struct {
	m        *member
	registry *registry.Registry
	*gateway.Gateway
	judging map[string]bool // devices of which a report is being judged
}

// openGate makes the gate of a member that has just started.
func (f *fleet) openGate(m *member) error {
	w := f.w
	rep, err := replica.New(node{m}, m.store, replica.Options{
		Member: m.name, Now: m.wall, Random: w.rng.Int64N,
		Retry: retry.Policy{Base: time.Nanosecond, Max: time.Nanosecond}, // node has waited already
	})
	if err != nil {
		return err
	}
	key := sha256.Sum256([]byte("one key for all members"))
	sealer, err := registry.NewSealer(key[:])
	if err != nil {
		return err
	}
	g := &gate{m: m, judging: map[string]bool{}}
	if g.registry, err = registry.New(backend{rep, m}, registry.Options{Sealer: sealer, Now: m.wall}); err != nil {
		return err
	}
	as := func(name string) client.Client { return g.registry.As(registry.Actor{Name: name}) }
	g.Gateway, err = gateway.New(gateway.Options{
		Member: m.name, Client: as("hub:" + m.name), AsDevice: func(d string) client.Client { return as("device:" + d) },
		Identity: func() (gateway.Identity, bool) {
			e := m.store.Epoch()
			return gateway.Identity{ClusterID: clusterID, Epoch: e.Number, EpochID: e.ID}, e.Number != 0
		},
		Sign: f.signer.Sign, Contacts: gateway.NewContactsBy(clock{&m.host}.Now), PollHold: pollHold,
		KeyedHash: func(value []byte) []byte {
			sum := sha256.Sum256(value)
			return sum[:]
		},
		Now: m.wall, BehindWait: time.Nanosecond, MarkProgress: m.store.Progress,
		Sleep: func(context.Context, time.Duration) bool {
			return w.current.sleep(w.between(20*time.Millisecond, 200*time.Millisecond))
		},
	})
	if err != nil {
		return err
	}
	m.gateway = g
	for _, k := range gateway.InputKinds() {
		m.later(w.between(0, 50*time.Millisecond), func() { m.spawn(func(ctx context.Context) { g.Feed(ctx, k) }) })
	}
	return nil
}
