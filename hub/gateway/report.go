package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/wire"
	"github.com/drover-fleet/drover/client"
)

// maxEventsPerReport bounds the journal records that one report turns into events; the rest is not acknowledged and comes again.
const maxEventsPerReport = 200

// reportInputs are what a report is judged by.
type reportInputs struct {
	id          Identity // of the hub's history
	device      *api.Device
	assignments map[string]*api.Assignment // the device's own, by UID
	tombstones  map[string]*api.Tombstone  // the device's own, by UID
	now         time.Time
	gap         bool // a report before this one is not accounted for: its sequence must be written, lest it arrive late
	noEvents    bool // journal records are acknowledged without being kept (they were kept before, or never can be)
}

// reportPlan is what a report comes to. No items: nothing changes.
type reportPlan struct {
	stale bool // not higher than what was written
	acked uint64
	items []client.TxItem
}

// planReport is pure. It touches only objects in its inputs, all of which belong to the device.
func planReport(in reportInputs, r wire.Report) reportPlan {
	id := in.device.Status.Identity
	plan := reportPlan{acked: uint64(id.JournalAcked)}
	if int64(r.Session) < id.Session || int64(r.Session) == id.Session && int64(r.Sequence) <= id.Sequence {
		plan.stale = true
		return plan
	}
	for _, s := range r.Statuses {
		a, ok := in.assignments[s.UID]
		if !ok || a.Spec.Device != in.device.Metadata.Name {
			continue
		}
		if n := planStatus(a, s, r, in.now); n != nil {
			plan.items = append(plan.items, client.TxItem{Verb: client.TxStatus, Object: n})
		}
	}
	plan.items = append(plan.items, planGone(in, r)...)
	plan.items = append(plan.items, planBurials(in, r)...)
	events, acked := planJournal(in, r)
	plan.acked = acked
	plan.items = append(plan.items, events...)
	n := planDevice(in, r, acked)
	if len(plan.items) > 0 || in.gap || !reflect.DeepEqual(in.device.Status, n.Status) {
		n.Status.Identity.Session, n.Status.Identity.Sequence = int64(r.Session), int64(r.Sequence)
		plan.items = append(plan.items, client.TxItem{Verb: client.TxStatus, Object: n})
	}
	return plan
}

func planDevice(in reportInputs, r wire.Report, acked uint64) *api.Device {
	n := api.Copy(in.device)
	n.Status.Identity.JournalAcked = int64(acked)
	planHeld(n, r.Held, r.BundleHash)
	planClock(n, r.WallTime, in.now)
	if r.Facts != nil {
		boot := n.Status.Facts.BootID
		planFacts(n, *r.Facts, "")
		if n.Status.Facts.BootID == "" {
			n.Status.Facts.BootID = boot
		}
	}
	n.Status.Conditions = planConditions(n.Status.Conditions, r.Conditions, in.now)
	return n
}

// planConditions takes the device's word for its conditions: those it no longer reports go. Conditions of others stay.
func planConditions(have []api.Condition, reported []wire.Condition, now time.Time) []api.Condition {
	foreign := func(t string) bool {
		return t == conditionConnected || t == conditionReady || t == ConditionAheadOfHub
	}
	out := slices.DeleteFunc(slices.Clone(have), func(c api.Condition) bool {
		return !foreign(c.Type) && !slices.ContainsFunc(reported, func(w wire.Condition) bool { return w.Type == c.Type })
	})
	for _, w := range reported {
		if foreign(w.Type) {
			continue
		}
		api.SetCondition(&out, api.Condition{Type: w.Type, Status: w.Status, Reason: w.Reason, Message: w.Message}, api.TimeOf(now))
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// planStatus is the assignment with the reported status, or nil when it tells nothing new.
func planStatus(a *api.Assignment, s wire.Status, r wire.Report, now time.Time) *api.Assignment {
	n := api.Copy(a)
	st := &n.Status
	newCopy := st.SpecHash != s.SpecHash.String()
	st.Phase, st.Ready, st.Message = s.Phase, s.Ready, s.Message
	st.SpecHash, st.Revision = s.SpecHash.String(), s.Revision
	switch {
	case !s.Ready:
		st.ReadySince = api.Time{}
	case newCopy || st.ReadySince.IsZero():
		st.ReadySince = api.TimeOf(now)
	}
	st.Digests, st.Containers = nil, nil
	for _, c := range s.Containers {
		if c.Digest != "" {
			if st.Digests == nil {
				st.Digests = map[string]string{}
			}
			st.Digests[c.Name] = c.Digest
		}
		st.Containers = append(st.Containers, containerOf(c))
	}
	if reflect.DeepEqual(a.Status, n.Status) {
		return nil
	}
	if r.Held.Revision != 0 {
		st.BundleRevision = strconv.FormatUint(r.Held.Revision, 10)
	}
	st.ReportedAt = api.TimeOf(now)
	return n
}

func containerOf(c wire.ContainerStatus) api.ContainerStatus {
	out := api.ContainerStatus{
		Name: c.Name, ID: c.ID, State: c.State, Ready: c.Ready, Restarts: int32(min(c.Restarts, 1<<31-1)), Message: c.Message,
		StartedAt: label(c.StartedAt), NextStart: label(c.NextStart),
	}
	if c.Exited {
		out.LastExit = &api.LastExit{Code: c.ExitCode, Reason: c.ExitReason, FinishedAt: label(c.ExitedAt)}
	}
	return out
}

// label is a device's moment as the API shows it; times outside of the years that RFC 3339 can write are left out.
func label(nanos int64) api.Time {
	if nanos <= 0 {
		return api.Time{}
	}
	return api.TimeOf(time.Unix(0, nanos))
}

// planGone deletes the tombstones that the device has obeyed. The device must hold the very bundle that the hub recorded last, and
// the tombstone must have been part of it: a word about an older tombstone of the same assignment must not remove a newer one.
func planGone(in reportInputs, r wire.Report) []client.TxItem {
	rec := recordOf(in.device)
	if r.Held.Revision == 0 || r.Held.Revision != rec.revision {
		return nil
	}
	var out []client.TxItem
	for _, uid := range r.Gone {
		t, ok := in.tombstones[uid]
		if !ok || t.Spec.Device != in.device.Metadata.Name || revisionOf(t.Metadata.ResourceVersion) > rec.inputs[api.KindTombstone.Plural] {
			continue
		}
		out = append(out, client.TxItem{Verb: client.TxDelete, Object: t})
	}
	return out
}

// planJournal turns journal records that the hub does not keep yet into events, and returns the sequence kept afterwards.
func planJournal(in reportInputs, r wire.Report) ([]client.TxItem, uint64) {
	acked := uint64(in.device.Status.Identity.JournalAcked)
	var out []client.TxItem
	for _, j := range r.Journal {
		if j.Sequence <= acked {
			continue
		}
		if len(out) == maxEventsPerReport {
			break
		}
		if !in.noEvents {
			out = append(out, client.TxItem{Verb: client.TxCreate, Object: eventOf(in, j)})
		}
		acked = j.Sequence
	}
	return out, acked
}

// eventOf names the event by its content, so that a record that comes twice is one event.
func eventOf(in reportInputs, j wire.JournalRecord) *api.Event {
	d := in.device
	id := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%d\x00%d\x00%s\x00%s\x00%s", d.Metadata.UID, d.Status.Identity.Fingerprint,
		j.Sequence, j.First, j.UID, j.Reason, j.Message))
	e := &api.Event{
		TypeMeta: api.TypeMeta{APIVersion: api.CoreV1, Kind: "Event"},
		Reason:   j.Reason, Message: j.Message, Count: int32(min(j.Count, 1<<31-1)), EventType: "Normal",
		Source:         api.EventSource{Component: "drover-agent", Host: d.Metadata.Name},
		FirstTimestamp: label(j.First), LastTimestamp: label(j.Last),
		InvolvedObject: api.ObjectReference{APIVersion: api.FleetV1, Kind: "Device", Name: d.Metadata.Name, UID: d.Metadata.UID},
	}
	e.Metadata.Namespace = api.DefaultNS
	if a, ok := in.assignments[j.UID]; ok {
		e.Metadata.Namespace = a.Metadata.Namespace
		e.InvolvedObject = api.ObjectReference{APIVersion: api.FleetV1, Kind: "Assignment", Namespace: a.Metadata.Namespace,
			Name: a.Metadata.Name, UID: a.Metadata.UID}
		if j.Container != "" {
			e.InvolvedObject.FieldPath = "spec.containers{" + j.Container + "}"
		}
	}
	if j.Revision != 0 {
		e.InvolvedObject.ResourceVersion = strconv.FormatUint(j.Revision, 10)
	}
	if slices.Contains(warnings(), j.Reason) {
		e.EventType = "Warning"
	}
	e.Metadata.Name = e.InvolvedObject.Name + "." + hex.EncodeToString(id[:8])
	return e
}

// warnings are the reasons of the device's journal that people should look at.
func warnings() []string {
	return []string{"Drift", "StateRecovered", "Exited", "OOMKilled", "PullFailed", "StartFailed", "CrashLoop", "RuntimeUnavailable", "Stray"}
}
