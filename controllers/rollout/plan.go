package rollout

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/controllers/copies"
	"github.com/drover-fleet/drover/controllers/reconcile"
)

const (
	defaultDeadline = 10 * time.Minute
	defaultHistory  = 10
	// maxMoves is how many copies move in one transaction; a pass that leaves some is followed by another.
	maxMoves = 200
)

// view is what a plan is made from. Nothing in it is changed.
type view struct {
	workload    *api.Workload
	target      *api.WorkloadRevision // of status.updatedRevision; nil when there is none yet
	assignments []*api.Assignment
	rollouts    []*api.Rollout
	devices     map[string]*api.Device // those that the assignments are bound to
	now         time.Time
}

// plan is one transaction, and when to look again though nothing happened.
type plan struct {
	writes []client.TxItem
	cause  string // "" = what woke the loop
	after  time.Duration
}

func makePlan(v view) plan {
	if v.target == nil {
		return plan{writes: v.progress(nil)}
	}
	own := v.ownRollouts()
	newest := copies.Newest(own)
	if newest == nil || newest.Spec.To != v.target.Metadata.Name || newest.Spec.Revision < v.target.Spec.Revision {
		return v.begin(own)
	}
	w := v.observe()
	moves := w.choose(v, newest)
	next := w.judge(v, newest, len(moves))
	p := plan{after: w.lookAgain(v, next)}
	for _, m := range moves {
		p.writes = append(p.writes, reconcile.Update(v.move(m)))
	}
	if len(moves) > 0 {
		p.cause = next.Status.OriginRevision
	}
	if !sameStatus(newest.Status, next.Status) {
		p.writes = append(p.writes, reconcile.Status(next))
	}
	p.writes = append(p.writes, v.progress(next)...)
	if len(p.writes) == 0 {
		p.writes = v.prune(own, newest)
	}
	return p
}

func (v view) ownRollouts() []*api.Rollout {
	return slices.DeleteFunc(slices.Clone(v.rollouts), func(r *api.Rollout) bool { return !reconcile.OwnedBy(r, v.workload) })
}

// begin makes the rollout to the target and ends those that it supersedes, together.
func (v view) begin(own []*api.Rollout) plan {
	name := v.target.Metadata.Name
	if slices.ContainsFunc(v.rollouts, func(r *api.Rollout) bool { return r.Metadata.Name == name }) {
		name = copies.Shortened(name, strconv.FormatInt(v.target.Spec.Revision, 10))
	}
	p := plan{cause: v.target.Metadata.ResourceVersion}
	p.writes = append(p.writes, reconcile.Create(&api.Rollout{
		Metadata: api.ObjectMeta{
			Name: name, Namespace: v.workload.Metadata.Namespace,
			Labels: copies.Labels(nil, v.workload.Metadata.Name, ""), OwnerReferences: reconcile.Owned(v.workload),
		},
		Spec: api.RolloutSpec{
			Workload: v.workload.Metadata.Name, From: v.workload.Status.CurrentRevision,
			To: v.target.Metadata.Name, Revision: v.target.Spec.Revision,
		},
	}))
	for _, r := range own {
		if over(r.Status.Phase) {
			continue
		}
		next := api.Copy(r)
		next.Status.Phase = api.RolloutAborted
		next.Status.Cause = fmt.Sprintf("superseded by %s (revision %d)", name, v.target.Spec.Revision)
		next.Status.ObservedGeneration = r.Metadata.Generation
		finish(&next.Status, v.now)
		p.writes = append(p.writes, reconcile.Status(next))
	}
	return p
}

// over reports phases that a newer rollout leaves as they are.
func over(phase string) bool {
	return phase == api.RolloutCompleted || phase == api.RolloutAborted || phase == api.RolloutFailed
}

// prune removes the oldest finished rollouts beyond the history limit.
func (v view) prune(own []*api.Rollout, newest *api.Rollout) []client.TxItem {
	left := defaultHistory
	if l := v.workload.Spec.RevisionHistoryLimit; l != nil {
		left = int(*l)
	}
	slices.SortFunc(own, func(a, b *api.Rollout) int { return int(b.Spec.Revision - a.Spec.Revision) })
	var out []client.TxItem
	for _, r := range own {
		if r == newest || !over(r.Status.Phase) {
			continue
		}
		if left--; left < 0 && len(out) < maxMoves {
			out = append(out, reconcile.Delete(r))
		}
	}
	return out
}

// move is the copy told to run the target. When it was told is kept for one that went dark on a revision that never proved
// good: it stays counted, however many revisions follow.
func (v view) move(c copyState) *api.Assignment {
	next := api.Copy(c.a)
	next.Spec.Revision = v.target.Metadata.Name
	next.Metadata.Labels = copies.Labels(v.target, v.workload.Metadata.Name, c.a.Spec.Device)
	next.Metadata.Annotations = map[string]string{copies.AnnotationMovedAt: v.now.UTC().Format(time.RFC3339)}
	for k, s := range v.target.Spec.Template.Metadata.Annotations {
		next.Metadata.Annotations[k] = s
	}
	if v.staysSuspect(c) {
		next.Metadata.Annotations[copies.AnnotationMovedAt] = copies.ToldAt(c.a).UTC().Format(time.RFC3339)
	}
	return next
}

func (v view) staysSuspect(c copyState) bool {
	return c.Away && c.Failed && c.a.Spec.Revision != v.workload.Status.CurrentRevision
}
