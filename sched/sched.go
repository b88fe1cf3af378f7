package sched

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/await"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/retry"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/client/cache"
	"github.com/drover-fleet/drover/sched/place"
)

const (
	byWorkload = "workload" // index that the controllers' informers have too
	byDevice   = "device"
	// batch is how many writes go into one transaction: some 100 KB a log entry.
	batch = 200
)

// Config is what the scheduler needs. Every field is required, save Waiter.
type Config struct {
	// Client is fenced by the term of the leadership under which the scheduler runs.
	Client client.Client
	// Informers are shared with the controllers.
	Informers *cache.Set
	Now       func() time.Time
	Random    retry.Random
	Logger    *slog.Logger
	// Waiter is how the loop waits; nil: by the runtime's clock.
	Waiter await.Waiter
}

// Scheduler is the loop.
type Scheduler struct {
	Config
	workloads, revisions, assignments, devices, pools *cache.Informer
	pending                                           *pending
}

// New makes a scheduler; it adds handlers to the informers, which must not run yet.
func New(c Config) *Scheduler {
	c.Waiter = await.Or(c.Waiter)
	s := &Scheduler{
		Config: c, pending: newPending(),
		workloads: c.Informers.Of(api.KindWorkload), revisions: c.Informers.Of(api.KindWorkloadRevision),
		assignments: c.Informers.Of(api.KindAssignment), devices: c.Informers.Of(api.KindDevice),
		pools: c.Informers.Of(api.KindDevicePool),
	}
	s.assignments.AddIndex(byWorkload, func(o api.Object) []string { return []string{workloadOf(o.(*api.Assignment)).String()} })
	s.assignments.AddIndex(byDevice, func(o api.Object) []string { return []string{o.(*api.Assignment).Spec.Device} })
	s.listen()
	return s
}

func workloadOf(a *api.Assignment) cache.Key {
	return cache.Key{Namespace: a.Metadata.Namespace, Name: a.Spec.Workload}
}

// Run schedules until ctx ends; nil is returned then.
func (s *Scheduler) Run(ctx context.Context) error {
	if s.Informers.WaitSynced(ctx) != nil {
		return nil // ctx ended
	}
	failing := retry.Attempts{Policy: retry.Policy{Base: 5 * time.Millisecond, Max: 30 * time.Second}, Random: s.Random}
	for {
		if s.Waiter.Wait(ctx, await.Forever, s.pending.wake); ctx.Err() != nil {
			return nil
		}
		err := s.pass(ctx)
		if err == nil {
			failing.Succeeded()
			continue
		}
		delay := failing.Failed(err)
		s.Logger.Warn("scheduler: will try again", "err", err, "delay", delay)
		s.Waiter.Wait(ctx, delay, nil)
	}
}

// pass serves all workloads that are due from one snapshot. Those that fail are due again.
func (s *Scheduler) pass(ctx context.Context) error {
	jobs := s.pending.take()
	if len(jobs) == 0 {
		return nil
	}
	fleet := s.snapshot()
	slices.SortStableFunc(jobs, func(a, b job) int { return cmp.Compare(s.priority(b.key), s.priority(a.key)) })
	var failed error
	for _, j := range jobs {
		if err := s.serve(ctx, j, fleet); err != nil {
			failed = fmt.Errorf("schedule %s: %w", j.key, err)
			s.pending.add(j.key, j.cause)
		}
	}
	return failed
}

// priority is of a workload; the greater is served first, of equals the first by name.
func (s *Scheduler) priority(key cache.Key) int32 {
	w, ok := cache.Get[*api.Workload](s.workloads, key.Namespace, key.Name)
	if !ok || w.Status.Priority == nil {
		return 0
	}
	return *w.Status.Priority
}

func (s *Scheduler) serve(ctx context.Context, j job, fleet *place.Snapshot) error {
	w, ok := cache.Get[*api.Workload](s.workloads, j.key.Namespace, j.key.Name)
	if !ok || w.Metadata.DeletionTimestamp != nil || w.Spec.Placement.Replicas == nil {
		s.pending.settle(j.key)
		return s.forget(ctx, j, w)
	}
	v, err := s.view(ctx, w, fleet)
	if err != nil {
		return err
	}
	p, err := makePlan(v)
	if err != nil {
		return err
	}
	if err := s.write(ctx, j.cause, p.bindings); err != nil {
		return err
	}
	if !p.blocked {
		s.pending.settle(j.key)
	}
	if p.workload == nil {
		return nil
	}
	_, err = s.transact(ctx, j.cause, []client.TxItem{write(client.TxStatus, api.KindWorkload, p.workload)})
	return err
}

// forget removes the condition from a workload that has become the workload controller's alone.
func (s *Scheduler) forget(ctx context.Context, j job, w *api.Workload) error {
	if w == nil || w.Metadata.DeletionTimestamp != nil || api.FindCondition(w.Status.Conditions, CondScheduled) == nil {
		return nil
	}
	next := api.Copy(w)
	api.RemoveCondition(&next.Status.Conditions, CondScheduled)
	_, err := s.transact(ctx, j.cause, []client.TxItem{write(client.TxStatus, api.KindWorkload, next)})
	return err
}

// write does the bindings in batches; no copy is split. A batch that lost a race is done copy by copy.
func (s *Scheduler) write(ctx context.Context, cause string, bindings [][]client.TxItem) error {
	for len(bindings) > 0 {
		var items []client.TxItem
		n := 0
		for n < len(bindings) && (n == 0 || len(items)+len(bindings[n]) <= batch) {
			items = append(items, bindings[n]...)
			n++
		}
		_, err := s.transact(ctx, cause, items)
		if fault.Is(err, fault.Conflict, fault.NotFound) && n > 1 {
			err = s.writeEach(ctx, cause, bindings[:n])
		}
		if err != nil {
			return err
		}
		bindings = bindings[n:]
	}
	return nil
}

func (s *Scheduler) writeEach(ctx context.Context, cause string, bindings [][]client.TxItem) error {
	var failed error
	for _, items := range bindings {
		if _, err := s.transact(ctx, cause, items); err != nil {
			failed = err
		}
	}
	return failed
}

func (s *Scheduler) transact(ctx context.Context, cause string, items []client.TxItem) ([]client.TxResult, error) {
	return s.Informers.Transact(ctx, s.Client, client.Transaction{Items: items, Cause: cause})
}
