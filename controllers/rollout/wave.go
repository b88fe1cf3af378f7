package rollout

import (
	"cmp"
	"slices"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/controllers/copies"
	"github.com/drover-fleet/drover/controllers/reconcile"
)

// copyState is one copy and what may be said of it.
type copyState struct {
	a *api.Assignment
	copies.Verdict
	told bool // its spec names the target
	late bool // its device is silent for longer than usual, but not yet offline
}

// wave is all copies of the workload, as observed.
type wave struct {
	copies []copyState
	budget int32
	down   int32
	// proving is how many of those that are down serve nevertheless, on a revision that is not the target.
	proving int32
}

func (v view) observe() wave {
	var w wave
	minReady := time.Duration(v.workload.Spec.Rollout.MinReadySeconds) * time.Second
	for _, a := range v.assignments {
		if !reconcile.OwnedBy(a, v.workload) || a.Metadata.DeletionTimestamp != nil {
			continue
		}
		d := v.devices[a.Spec.Device]
		c := copyState{
			a: a, Verdict: copies.Judge(a, d, minReady, v.now), told: a.Spec.Revision == v.target.Metadata.Name,
			late: d != nil && api.FindCondition(d.Status.Conditions, copies.CondConnected) != nil &&
				api.ConditionIs(d.Status.Conditions, copies.CondConnected, api.Unknown),
		}
		if c.Down {
			w.down++
		}
		if c.Proving && !c.told {
			w.proving++
		}
		w.copies = append(w.copies, c)
	}
	share := api.IntOrPercent{Percent: 10, IsPercent: true}
	if m := v.workload.Spec.Rollout.MaxUnavailable; m != nil {
		share = *m
	}
	w.budget = share.Of(int32(len(w.copies)), 1)
	return w
}

// choose returns the copies to tell of the target now, unhealthy first. Those that are down or away cost nothing; each healthy
// one takes one of the budget that is left. Those that serve but have not proven themselves hold healthy ones back, and do not
// go all at once either: of them no more move than the budget leaves beside those that do not serve.
func (w wave) choose(v view, r *api.Rollout) []copyState {
	if !moving(r) {
		return nil
	}
	room, roomProving := w.budget-w.down, w.budget-(w.down-w.proving)
	var out []copyState
	for _, c := range w.inOrder() {
		if c.told || len(out) == maxMoves {
			continue
		}
		switch c.rank() {
		case proving:
			if roomProving <= 0 {
				continue
			}
			roomProving--
		case costly, costlyLate:
			if room <= 0 {
				continue
			}
			room--
		}
		out = append(out, c)
	}
	return out
}

// moving reports whether the rollout may tell copies of its target.
func moving(r *api.Rollout) bool {
	failed := r.Status.Phase == api.RolloutFailed && r.Status.ObservedGeneration == r.Metadata.Generation
	return !r.Spec.Paused && !r.Spec.Aborted && !failed
}

// The order in which copies move.
const (
	unhealthy  = iota // down already, on a device that is there
	proving           // ready, but not yet for the minimum time
	costly            // healthy
	costlyLate        // healthy when last heard of, and silent since
	away              // their device is offline; last, since nothing happens until it returns
)

func (c copyState) rank() int {
	switch {
	case c.Away:
		return away
	case c.Proving:
		return proving
	case c.Down:
		return unhealthy
	case c.late:
		return costlyLate
	}
	return costly
}

func (w wave) inOrder() []copyState {
	out := slices.Clone(w.copies)
	slices.SortStableFunc(out, func(a, b copyState) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(ordinal(a.a), ordinal(b.a)), cmp.Compare(a.a.Metadata.Name, b.a.Metadata.Name))
	})
	return out
}

func ordinal(a *api.Assignment) int32 {
	if a.Spec.Ordinal != nil {
		return *a.Spec.Ordinal
	}
	return 0
}
