package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
)

// progress is where a rollout of a workload stands.
type progress struct {
	workload *api.Workload
	rollouts []*api.Rollout // all that are kept
	rollout  *api.Rollout   // the newest; nil until the one of the present spec exists
	gone     bool           // the rollout that was followed is no longer kept
}

// progressOf reads the workload and then its rollouts, so that a rollout that the workload's status speaks of is among them.
func progressOf(ctx context.Context, hub client.Client, r api.Ref) (*progress, error) {
	obj, err := hub.Get(ctx, r, client.GetOptions{})
	if err != nil {
		return nil, err
	}
	p := &progress{workload: obj.(*api.Workload)}
	list, err := listAll(ctx, hub, api.KindRollout, client.ListOptions{Namespace: r.Namespace, FieldSelector: "spec.workload=" + r.Name})
	if err != nil {
		return nil, err
	}
	for _, o := range list {
		p.rollouts = append(p.rollouts, o.(*api.Rollout))
	}
	if judged(p.workload) && len(p.rollouts) > 0 {
		p.rollout = slices.MaxFunc(p.rollouts, func(a, b *api.Rollout) int { return int(a.Spec.Revision - b.Spec.Revision) })
	}
	return p, nil
}

// judged holds once the hub speaks of a rollout to what the workload declares now. Before, the newest rollout is one to an earlier
// declaration, and its success would be a lie.
func judged(w *api.Workload) bool {
	c := api.FindCondition(w.Status.Conditions, "Progressing")
	return c != nil && w.Status.ObservedGeneration >= w.Metadata.Generation && c.ObservedGeneration >= w.Metadata.Generation && strings.HasPrefix(c.Reason, "Rollout")
}

// stayWith makes the rollout with the uid ("" = any) the one that is spoken of.
func (p *progress) stayWith(uid string) {
	if uid == "" {
		return
	}
	i := slices.IndexFunc(p.rollouts, func(r *api.Rollout) bool { return r.Metadata.UID == uid })
	if i < 0 {
		p.gone = true
		return
	}
	p.rollout = p.rollouts[i]
}

func (p *progress) ended() bool {
	if p.gone || p.rollout == nil {
		return p.gone
	}
	switch p.rollout.Status.Phase {
	case api.RolloutCompleted, api.RolloutAborted, api.RolloutFailed:
		return true
	}
	return false
}

// counts are those of all waves that have begun.
func (p *progress) counts() api.WaveStatus {
	var sum api.WaveStatus
	if p.rollout == nil {
		return sum
	}
	for _, w := range p.rollout.Status.Waves {
		sum.Selected += w.Selected
		sum.Reached += w.Reached
		sum.Updated += w.Updated
		sum.Failed += w.Failed
		sum.PendingOffline += w.PendingOffline
	}
	return sum
}

// phase is where the rollout stands, and why in a sentence that may be empty.
func (p *progress) phase() (phase, cause string) {
	switch {
	case p.gone:
		return api.RolloutAborted, "the rollout that was followed is no longer kept; newer ones took its place"
	case p.rollout != nil && p.rollout.Status.Phase != "":
		return p.rollout.Status.Phase, p.rollout.Status.Cause
	case p.rollout != nil:
		return api.RolloutPlanned, ""
	}
	c := api.FindCondition(p.workload.Status.Conditions, "ImageResolved")
	if c != nil && c.Status == api.False && c.ObservedGeneration >= p.workload.Metadata.Generation {
		return api.RolloutWaiting, c.Message
	}
	return api.RolloutPlanned, "the hub has not begun the rollout yet"
}

// about is what a stamped line is worth writing for: the phase and the counts. The cause changes far more often.
func (p *progress) about() string {
	phase, _ := p.phase()
	w := p.counts()
	return fmt.Sprintf("%s %s: %d/%d updated, %d reached, %d failed, %d pending-offline", p.workload.Metadata.Name, phase, w.Updated, w.Selected, w.Reached, w.Failed, w.PendingOffline)
}

// line is the state in one line.
func (p *progress) line() string {
	w := p.counts()
	_, cause := p.phase()
	// The hub's sentence begins with the count that the line has already.
	cause = strings.TrimPrefix(cause, fmt.Sprintf("%d of %d copies are updated", w.Updated, w.Selected))
	if cause = strings.TrimPrefix(cause, ", "); cause != "" {
		return p.about() + "; " + cause
	}
	return p.about()
}

// barWidth is how long the bar is, in columns.
const barWidth = 30

// lines is the block that a terminal shows.
func (p *progress) lines() []string {
	phase, cause := p.phase()
	w := p.counts()
	filled := 0
	if w.Selected > 0 {
		filled = min(barWidth, int(w.Updated)*barWidth/int(w.Selected))
	}
	revision := p.workload.Status.UpdatedRevision
	if p.rollout != nil {
		revision = p.rollout.Spec.To
	}
	out := []string{
		fmt.Sprintf("workload %s  revision %s  %s", p.workload.Metadata.Name, dash(revision), phase),
		fmt.Sprintf("[%s%s] %d/%d updated", strings.Repeat("=", filled), strings.Repeat(" ", barWidth-filled), w.Updated, w.Selected),
		fmt.Sprintf("reached %d   failed %d   pending-offline %d", w.Reached, w.Failed, w.PendingOffline),
	}
	if cause != "" {
		out = append(out, cause)
	}
	return out
}

// verdict is the error, with its exit code, of a rollout that has ended.
func (p *progress) verdict() error {
	phase, cause := p.phase()
	w, name := p.counts(), p.workload.Metadata.Name
	switch {
	case phase == api.RolloutFailed:
		return fault.WithExit(fault.ExitFailed, fmt.Errorf("the rollout of %s failed: %s", name, plain(cause)))
	case phase == api.RolloutAborted:
		return fault.WithExit(fault.ExitStopped, fmt.Errorf("the rollout of %s was stopped: %s", name, plain(cause)))
	case w.Failed > 0:
		return fault.WithExit(fault.ExitFailed, fmt.Errorf("%d of %d copies of %s failed", w.Failed, w.Selected, name))
	case w.PendingOffline > 0:
		return fault.WithExit(fault.ExitPending, fmt.Errorf("done on every device that could be reached; %d will follow when they are back", w.PendingOffline))
	}
	return nil
}
