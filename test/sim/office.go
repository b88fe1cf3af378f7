package sim

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/client/cache"
	"github.com/drover-fleet/drover/controllers"
	"github.com/drover-fleet/drover/controllers/presence"
	"github.com/drover-fleet/drover/hub/registry"
	"github.com/drover-fleet/drover/sched"
	"github.com/drover-fleet/drover/test/history"
)

const (
	lateAfter    = pollHold + exchangeTime + 2*time.Second
	offlineAfter = 2 * lateAfter
)

// office is one term of the controllers and the scheduler on the member that leads.
type office struct {
	term   uint64
	cancel context.CancelFunc // nil until it has begun
	over   bool
}

// attend begins and ends offices as hub's lead loop does.
func (m *member) attend() {
	if !m.up || m.gateway == nil {
		return
	}
	term, leads := m.node.Leadership()
	if o := m.office; o != nil && (!leads || o.term != term) {
		m.office, o.over = nil, true
		if o.cancel != nil {
			o.cancel()
			m.touch()
		}
	}
	if leads && m.office == nil {
		o := &office{term: term}
		m.office = o
		m.later(m.w.about(50*time.Millisecond), func() { m.spawn(func(ctx context.Context) { m.serve(ctx, o) }) })
	}
}

// serve runs the controllers until the term is over.
func (m *member) serve(ctx context.Context, o *office) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if o.over {
		return
	}
	o.cancel = cancel
	m.w.others["terms of office"]++
	m.w.logf("%s holds the office of term %d", m.name, o.term)
	for ctx.Err() == nil {
		if err := m.control(ctx, o.term); err != nil && ctx.Err() == nil {
			m.w.fail(history.NoErrors, "controllers of %s in term %d ended: %v", m.name, o.term, err)
			return
		}
	}
}

func (m *member) control(ctx context.Context, term uint64) error {
	as := func(controller string) client.Client {
		return m.gateway.registry.As(registry.Actor{Name: "controller:" + controller, Term: term})
	}
	log, w := m.logger(), clock{&m.host}
	d := controllers.Deps{
		Client: as("hub"), As: as, Now: m.wall, Random: m.w.rng.Int64N, Logger: log, Waiter: w, Resolver: resolver{m},
		Presence: presence.Config{
			Contacts: m.gateway.Contacts(), Limits: presence.Limits{Late: lateAfter, Offline: offlineAfter}, Member: m.name,
		},
	}
	return controllers.Run(ctx, d, func(informers *cache.Set) controllers.Runner {
		return sched.New(sched.Config{
			Client: as("scheduler"), Informers: informers, Now: m.wall, Random: m.w.rng.Int64N, Logger: log, Waiter: w,
		})
	})
}

// logger is for the controllers' own words.
func (m *member) logger() *slog.Logger {
	if m.w.cfg.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	h := slog.NewTextHandler(m.w.cfg.Log, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.String("at", fmt.Sprint(m.w.now))
		}
		return a
	}})
	return slog.New(h).With("member", m.name)
}

// resolver knows every image of the registry, which does not answer now and then.
type resolver struct{ m *member }

// Resolve implements images.Resolver.
func (r resolver) Resolve(ctx context.Context, image string) (string, error) {
	w := r.m.w
	clock{&r.m.host}.Wait(ctx, w.about(100*time.Millisecond), nil)
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if !w.quiet && w.chance(0.1) {
		return "", fault.Unavailable.Errorf("the registry does not answer")
	}
	for digest, template := range w.fleet.images {
		if imageName(template) == image {
			return digest, nil
		}
	}
	return "", fault.Invalid.Errorf("no image %s", image)
}

// shareContacts has the member tell the others whom it heard of.
func (m *member) shareContacts() {
	if !m.up || m.stalled || m.gateway == nil {
		return
	}
	news := m.gateway.Contacts().Fresh(m.w.chance(0.1))
	if len(news) == 0 {
		return
	}
	for _, o := range m.w.members {
		if o == m {
			continue
		}
		m.w.net.send(m.name, o.name, func() {
			if o.up {
				o.later(0, func() { o.gateway.Contacts().Merge(news) })
			}
		})
	}
}
