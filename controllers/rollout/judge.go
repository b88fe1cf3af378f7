package rollout

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/controllers/copies"
	"github.com/drover-fleet/drover/controllers/reconcile"
)

// tally is the wave in numbers.
type tally struct {
	selected, told, reached, updated, failed, fatal, pending int32
	// open copies are neither updated nor pending: the rollout waits for them.
	open  int32
	worst *copyState // an open copy to speak of in the cause: a failed one if there is one
}

func (w wave) tally() tally {
	t := tally{selected: int32(len(w.copies))}
	for i := range w.copies {
		c := &w.copies[i]
		if !c.told {
			t.open++
			t.speakOf(c)
			continue
		}
		t.told++
		t.reached += one(c.Reached)
		t.updated += one(c.Updated)
		t.failed += one(c.Failed)
		t.fatal += one(c.Fatal)
		t.pending += one(c.PendingOffline)
		if !c.Updated && !c.PendingOffline {
			t.open++
			t.speakOf(c)
		}
	}
	return t
}

func one(b bool) int32 {
	if b {
		return 1
	}
	return 0
}

// speakOf prefers failed copies, then those that are told, then the first.
func (t *tally) speakOf(c *copyState) {
	weight := func(c *copyState) int32 { return 2*one(c.told && c.Failed) + one(c.told) }
	if t.worst == nil || weight(c) > weight(t.worst) {
		t.worst = c
	}
}

// judge returns the rollout with the status that the observation gives it. moves is how many copies are told in this pass;
// what they lead to is observed in the next.
func (w wave) judge(v view, r *api.Rollout, moves int) *api.Rollout {
	next := api.Copy(r)
	st, t := &next.Status, w.tally()
	resumed := r.Status.ObservedGeneration != r.Metadata.Generation || r.Status.Phase != api.RolloutProgressing
	if st.OriginRevision == "" {
		st.OriginRevision = r.Metadata.ResourceVersion
	}
	st.ObservedGeneration = r.Metadata.Generation
	if len(st.Waves) == 0 {
		st.Wave, st.Waves = 1, []api.WaveStatus{{StartedAt: api.TimeOf(v.now)}}
	}
	wave := &st.Waves[0]
	shrank := t.selected < wave.Selected
	wave.Selected, wave.Reached, wave.Updated, wave.Failed, wave.PendingOffline = t.selected, t.reached, t.updated, t.failed, t.pending

	st.Moves += int64(moves)
	steps := t.told + t.reached + t.updated + int32(moves)
	if shrank {
		st.Best = min(st.Best, steps) // the steps of copies that left are not to be caught up with
	}
	if steps > st.Best {
		st.Best, st.LastProgress = steps, api.TimeOf(v.now)
	}
	st.Phase, st.Cause = w.phase(v, r, t)
	if st.Phase == api.RolloutProgressing && resumed {
		st.LastProgress = api.TimeOf(v.now)
	}
	if st.Phase == api.RolloutProgressing && !resumed && v.now.Sub(st.LastProgress.Time) > deadline(v.workload) {
		st.Phase = api.RolloutFailed
		st.Cause = fmt.Sprintf("no step forward in %v: %s", deadline(v.workload), t.story())
	}
	finish(st, v.now)
	return next
}

// finish keeps the end of the wave: set when the rollout is over, empty while it is not.
func finish(st *api.RolloutStatus, now time.Time) {
	if len(st.Waves) == 0 {
		return
	}
	wave := &st.Waves[0]
	switch {
	case !over(st.Phase):
		wave.FinishedAt = api.Time{}
	case wave.FinishedAt.IsZero():
		wave.FinishedAt = api.TimeOf(now)
	}
}

func deadline(w *api.Workload) time.Duration {
	if d := w.Spec.Rollout.ProgressDeadline.Duration; d > 0 {
		return d
	}
	return defaultDeadline
}

// phase is where the rollout stands, deadlines aside, and why in a sentence.
func (w wave) phase(v view, r *api.Rollout, t tally) (string, string) {
	unchanged := r.Status.ObservedGeneration == r.Metadata.Generation
	// Until the workload controller has seen the spec, missing copies would pass for none.
	counted := v.workload.Status.ObservedGeneration == v.workload.Metadata.Generation && t.selected >= v.workload.Status.Counts.Desired
	done := counted && t.open == 0 && (t.updated > 0 || t.selected == 0)
	switch {
	case r.Spec.Aborted:
		return api.RolloutAborted, "aborted by spec.aborted: " + t.story()
	case r.Spec.Paused:
		return api.RolloutPaused, "paused by spec.paused: " + t.story()
	case r.Status.Phase == api.RolloutCompleted && unchanged && t.told == t.selected:
		return api.RolloutCompleted, t.outcome()
	case done:
		return api.RolloutCompleted, t.outcome()
	case r.Status.Phase == api.RolloutFailed && unchanged:
		return api.RolloutFailed, r.Status.Cause
	case t.fatal >= w.budget && t.fatal > 0:
		return api.RolloutFailed, fmt.Sprintf("%d copies cannot run and the budget is %d: %s", t.fatal, w.budget, t.story())
	case counted && t.open == 0:
		return api.RolloutWaiting, fmt.Sprintf("all %d devices are offline; they take the revision when they return", t.pending)
	}
	return api.RolloutProgressing, t.story()
}

func (t tally) outcome() string {
	if t.selected == 0 {
		return "no copy is wanted"
	}
	s := fmt.Sprintf("%d of %d copies are updated", t.updated, t.selected)
	if t.pending > 0 {
		s += fmt.Sprintf(", %d take the revision when their device returns", t.pending)
	}
	if t.failed > 0 {
		s += fmt.Sprintf(", %d failed since", t.failed)
	}
	return s
}

// story says how far the rollout is and what it waits for.
func (t tally) story() string {
	parts := []string{fmt.Sprintf("%d of %d copies are updated", t.updated, t.selected)}
	if t.pending > 0 {
		parts = append(parts, fmt.Sprintf("%d on devices that are offline", t.pending))
	}
	if t.failed > 0 {
		parts = append(parts, fmt.Sprintf("%d failed", t.failed))
	}
	if t.worst != nil {
		parts = append(parts, "waiting for "+t.worst.explain())
	}
	return strings.Join(parts, ", ")
}

// explain says what one open copy is at.
func (c *copyState) explain() string {
	name, st := c.a.Metadata.Name, c.a.Status
	switch {
	case !c.told:
		return name + " to be told"
	case c.Away && c.Failed:
		return name + ", whose device went dark after it may have taken the update"
	case !c.Bound:
		if s := api.FindCondition(st.Conditions, copies.CondScheduled); s != nil && s.Message != "" {
			return name + ", which has no device: " + s.Message
		}
		return name + ", which has no device yet"
	case !c.Reached:
		return name + " to report the revision"
	case st.Message != "":
		return fmt.Sprintf("%s (%s: %s)", name, st.Phase, st.Message)
	case st.Ready:
		return name + " to stay ready"
	}
	return fmt.Sprintf("%s to become ready (%s)", name, st.Phase)
}

// lookAgain is until time alone may change the verdict.
func (w wave) lookAgain(v view, r *api.Rollout) time.Duration {
	after := time.Duration(0)
	sooner := func(d time.Duration) {
		if d > 0 && (after == 0 || d < after) {
			after = d
		}
	}
	for _, c := range w.copies {
		sooner(c.Wait)
	}
	if r.Status.Phase == api.RolloutProgressing {
		// A second more, since the deadline must have passed and times are kept in seconds.
		sooner(max(deadline(v.workload)-v.now.Sub(r.Status.LastProgress.Time), 0) + time.Second)
	}
	return after
}

func sameStatus(a, b api.RolloutStatus) bool { return reflect.DeepEqual(a, b) }

// progress is the write of what the rollout (nil: there is none) means for the workload, if that changes anything: the
// condition Progressing, and the current revision once it is complete.
func (v view) progress(r *api.Rollout) []client.TxItem {
	next := *v.workload
	next.Status.Conditions = slices.Clone(next.Status.Conditions)
	changed := api.SetCondition(&next.Status.Conditions, v.progressing(r), api.TimeOf(v.now))
	if r != nil && r.Status.Phase == api.RolloutCompleted && next.Status.CurrentRevision != r.Spec.To {
		next.Status.CurrentRevision, changed = r.Spec.To, true
	}
	if !changed {
		return nil
	}
	return []client.TxItem{reconcile.Status(api.Copy(&next))}
}

// progressing speaks of the present generation only when the rollout is to its revision.
func (v view) progressing(r *api.Rollout) api.Condition {
	c := api.Condition{Type: copies.CondProgressing, Status: api.Unknown, ObservedGeneration: v.workload.Metadata.Generation}
	if images := api.FindCondition(v.workload.Status.Conditions, copies.CondImageResolved); !copies.Revised(v.workload) || r == nil {
		if images != nil && images.Status == api.False && images.ObservedGeneration == v.workload.Metadata.Generation {
			c.Reason, c.Message = "ImagesNotResolved", images.Message
			return c
		}
		c.ObservedGeneration = 0
		if was := api.FindCondition(v.workload.Status.Conditions, copies.CondProgressing); was != nil {
			return *was
		}
		c.Reason, c.Message = "NoRevision", "its first revision is being made"
		return c
	}
	c.Reason, c.Message = "Rollout"+r.Status.Phase, r.Metadata.Name+": "+r.Status.Cause
	switch r.Status.Phase {
	case api.RolloutFailed, api.RolloutAborted:
		c.Status = api.False
	case api.RolloutProgressing, api.RolloutCompleted:
		c.Status = api.True
	}
	return c
}
