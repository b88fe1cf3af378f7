package copies

import (
	"slices"

	"github.com/drover-fleet/drover/api"
)

// Newest is the rollout with the highest number; nil when there is none.
func Newest(list []*api.Rollout) *api.Rollout {
	if len(list) == 0 {
		return nil
	}
	return slices.MaxFunc(list, func(a, b *api.Rollout) int { return int(a.Spec.Revision - b.Spec.Revision) })
}

// BornOn is the name of the revision on which a new copy starts; empty when there is none yet. That is the workload's
// updated revision, unless its rollout is held, was aborted or failed: then it is the last revision that completed, if any.
func BornOn(w *api.Workload, newest *api.Rollout) string {
	if newest == nil || newest.Spec.To != w.Status.UpdatedRevision || w.Status.CurrentRevision == "" {
		return w.Status.UpdatedRevision
	}
	held := newest.Spec.Paused || newest.Spec.Aborted ||
		newest.Status.Phase == api.RolloutFailed || newest.Status.Phase == api.RolloutAborted
	if held {
		return w.Status.CurrentRevision
	}
	return w.Status.UpdatedRevision
}
