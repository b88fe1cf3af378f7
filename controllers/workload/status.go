package workload

import (
	"fmt"
	"slices"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/controllers/copies"
)

// tally is what the copies come to.
type tally struct {
	api.Counts
	waiting int32         // not ready, and not because their device is away
	after   time.Duration // until time alone may change a count; 0 = never
}

// status counts the copies. Fields of the status that other controllers write stay.
func (v view) status(kept []*api.Assignment, desired int32) (api.WorkloadStatus, time.Duration) {
	st := v.workload.Status
	if copies.Revised(v.workload) {
		st.ObservedGeneration = v.workload.Metadata.Generation
	}
	st.Conditions = slices.Clone(st.Conditions)
	t := v.tally(kept)
	t.Desired = desired
	t.waiting += max(desired-int32(len(kept)), 0)
	st.Counts = t.Counts
	api.SetCondition(&st.Conditions, v.available(t), api.TimeOf(v.now))
	return st, t.after
}

func (v view) tally(kept []*api.Assignment) tally {
	devices := make(map[string]*api.Device, len(v.devices))
	for _, d := range v.devices {
		devices[d.Metadata.Name] = d
	}
	updated := v.workload.Status.UpdatedRevision
	minReady := time.Duration(v.workload.Spec.Rollout.MinReadySeconds) * time.Second
	var t tally
	for _, a := range kept {
		j := copies.Judge(a, devices[a.Spec.Device], minReady, v.now)
		t.Reached += one(a.Status.Revision == updated && updated != "")
		t.Ready += one(a.Status.Ready)
		t.Updated += one(j.Updated && a.Spec.Revision == updated)
		t.Failed += one(j.Failed)
		t.PendingOffline += one(j.PendingOffline)
		t.waiting += one(!a.Status.Ready && !j.PendingOffline)
		if j.Wait > 0 && (t.after == 0 || j.Wait < t.after) {
			t.after = j.Wait
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

// available judges the copies that can be judged: those whose device was not away before it was told of them.
func (v view) available(t tally) api.Condition {
	c := api.Condition{Type: copies.CondAvailable, Status: api.False, ObservedGeneration: v.workload.Metadata.Generation}
	ready := fmt.Sprintf("%d of %d copies are ready%s", t.Ready, t.Desired, offline(t.Counts))
	switch {
	case t.Desired == 0 && v.workload.Spec.Placement.Replicas != nil:
		c.Status, c.Reason, c.Message = api.True, "NothingWanted", "0 replicas are wanted"
	case t.Desired == 0:
		c.Reason, c.Message = "NoDeviceSelected", fmt.Sprintf("0/%d devices are selected and take new copies", len(v.devices))
	case t.waiting > 0 && v.birth == nil:
		c.Reason, c.Message = "NoRevision", fmt.Sprintf("%d copies wait for a first revision: its images are not resolved yet", t.waiting)
	case t.waiting > 0:
		c.Reason, c.Message = "CopiesNotReady", ready
	case t.PendingOffline == t.Desired:
		c.Status, c.Reason, c.Message = api.Unknown, "AllOffline", fmt.Sprintf("all %d devices are offline since before they were told", t.Desired)
	default:
		c.Status, c.Reason, c.Message = api.True, "CopiesReady", ready
	}
	return c
}

func offline(c api.Counts) string {
	if c.PendingOffline == 0 {
		return ""
	}
	return fmt.Sprintf(", %d on devices that are offline", c.PendingOffline)
}
