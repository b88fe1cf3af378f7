package controllers

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/drover-fleet/drover/api/await"
	"github.com/drover-fleet/drover/api/retry"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/client/cache"
	"github.com/drover-fleet/drover/controllers/gc"
	"github.com/drover-fleet/drover/controllers/images"
	"github.com/drover-fleet/drover/controllers/pool"
	"github.com/drover-fleet/drover/controllers/presence"
	"github.com/drover-fleet/drover/controllers/quota"
	"github.com/drover-fleet/drover/controllers/reconcile"
	"github.com/drover-fleet/drover/controllers/revision"
	"github.com/drover-fleet/drover/controllers/rights"
	"github.com/drover-fleet/drover/controllers/rollout"
	"github.com/drover-fleet/drover/controllers/tombstone"
	"github.com/drover-fleet/drover/controllers/workload"
)

// resync is how often loops look at everything again though no event told them to.
const resync = 10 * time.Minute

// Deps are what the loops need of the hub member that leads.
type Deps struct {
	// Client is fenced by the term of this leadership: controllers of an earlier one cannot write any more.
	Client client.Client
	// As is the client under the name of one controller, fenced like Client, so that the journal says who acted. Nil: all write
	// through Client.
	As func(controller string) client.Client
	// Now is the hub's clock, with its monotonic reading.
	Now      func() time.Time
	Random   retry.Random
	Logger   *slog.Logger
	Waiter   await.Waiter // how loops wait; nil: by the runtime's clock
	Resolver images.Resolver
	// Relisted, when set, hears why a cache reads a kind anew; see cache.Options.
	Relisted func(reason string)
	// Presence says how devices are judged; its Contacts are what all members heard.
	Presence presence.Config
}

// Runner is something that runs until its context ends.
type Runner interface {
	Run(ctx context.Context) error
}

// Informers makes the set that the loops share. They are for one leadership: make new ones for the next.
func Informers(d Deps) *cache.Set {
	return cache.NewSet(d.Client, cache.Options{Resync: resync, Random: d.Random, Logger: d.Logger, Waiter: d.Waiter, Relisted: d.Relisted})
}

// List is every loop, written out. The loops add their handlers to the informers, which must not run yet.
func List(d Deps, informers *cache.Set) []*reconcile.Loop {
	as := func(name string) reconcile.Deps {
		r := reconcile.Deps{Client: d.Client, Informers: informers, Now: d.Now, Random: d.Random, Logger: d.Logger, Waiter: d.Waiter}
		if d.As != nil {
			r.Client = d.As(name)
		}
		return r
	}
	return []*reconcile.Loop{
		images.New(as("images"), d.Resolver),
		revision.New(as("revision")),
		workload.New(as("workload")),
		rollout.New(as("rollout")),
		presence.New(as("presence"), d.Presence),
		tombstone.New(as("tombstone")),
		pool.New(as("pool")),
		quota.New(as("quota")),
		rights.NewRoles(as("rights")),
		rights.NewBindings(as("rights")),
		gc.Owners(as("gc")),
		gc.Namespaces(as("gc")),
		gc.Sweep(as("gc")),
	}
}

// Run runs all loops for one leadership, and the runners that more makes of the shared informers, until ctx ends. Nil is
// returned then; any other end is an error.
func Run(ctx context.Context, d Deps, more ...func(*cache.Set) Runner) error {
	informers := Informers(d)
	var runners []Runner
	for _, l := range List(d, informers) {
		runners = append(runners, l)
	}
	for _, make := range more {
		runners = append(runners, make(informers))
	}
	return run(ctx, await.Or(d.Waiter), informers, runners)
}

// run returns when ctx ends or a runner fails, with all of them joined.
func run(ctx context.Context, w await.Waiter, informers *cache.Set, runners []Runner) error {
	office := ctx
	ctx, cancel := context.WithCancelCause(office)
	defer cancel(nil)
	began := []func(){func() { _ = informers.Run(ctx) }} // ends with ctx only
	for _, r := range runners {
		began = append(began, func() {
			if informers.WaitSynced(ctx) != nil {
				return // ctx ended
			}
			if err := r.Run(ctx); err != nil && ctx.Err() == nil {
				cancel(fmt.Errorf("run controllers: %w", err))
			}
		})
	}
	w.All(began...)
	if office.Err() != nil {
		return nil
	}
	return context.Cause(ctx)
}
