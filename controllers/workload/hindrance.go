package workload

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/grant"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/client/cache"
	"github.com/drover-fleet/drover/controllers/copies"
	"github.com/drover-fleet/drover/controllers/reconcile"
)

// Reasons of the condition Placed.
const (
	reasonPool  = "PoolRefuses"
	reasonPort  = "HostPortTaken"
	reasonQuota = "QuotaExceeded"
)

// hindrances are why selected devices get no copy, with how many devices each concerns. A copy that is there on a device whose pool
// does not allow it any more goes: a pool is a boundary. One that holds a host port keeps it from others that come later.
type hindrances struct {
	reason string // of the first kind that was met: pools before ports
	count  map[string]int
}

func (h *hindrances) add(reason, why string) {
	if h.count == nil {
		h.count = map[string]int{}
	}
	if h.reason == "" || reason == reasonPool {
		h.reason = reason
	}
	h.count[why]++
}

// condition tells of them; false when nothing hinders.
func (h *hindrances) condition(generation int64) (api.Condition, bool) {
	if len(h.count) == 0 {
		return api.Condition{}, false
	}
	type part struct {
		why string
		n   int
	}
	var parts []part
	for why, n := range h.count {
		parts = append(parts, part{why, n})
	}
	slices.SortFunc(parts, func(a, b part) int { return cmp.Or(cmp.Compare(b.n, a.n), cmp.Compare(a.why, b.why)) })
	var text []string
	for i, p := range parts {
		if i == maxParts {
			text = append(text, fmt.Sprintf("and %d reasons more", len(parts)-i))
			break
		}
		text = append(text, fmt.Sprintf("%d selected devices get no copy: %s", p.n, p.why))
	}
	return api.Condition{Type: copies.CondPlaced, Status: api.False, Reason: h.reason, Message: strings.Join(text, "; "), ObservedGeneration: generation}, true
}

// maxParts bounds how many reasons a condition names.
const maxParts = 8

// hinders tells why a copy may not be on the device, if it may not.
func (v view) hinders(d *api.Device, needs []grant.Need, ports []string, have *api.Assignment) (reason, why string) {
	if denied := v.pools.Grant(d.Metadata.Labels).Judge(v.workload.Metadata.Namespace, needs); denied != nil {
		return reasonPool, denied.String()
	}
	if len(ports) == 0 || v.holds == nil {
		return "", ""
	}
	for _, other := range v.holds(d.Metadata.Name) {
		if reconcile.OwnedBy(other.copy, v.workload) || have != nil && before(have, other.copy) {
			continue
		}
		for _, p := range ports {
			if slices.Contains(other.ports, p) {
				return reasonPort, fmt.Sprintf("host port %s is taken by %s/%s", p, other.copy.Metadata.Namespace, other.copy.Spec.Workload)
			}
		}
	}
	return "", ""
}

// before orders copies that want one port: the one made first has it, whoever looks.
func before(a, b *api.Assignment) bool {
	return cmp.Or(a.Metadata.CreationTimestamp.Compare(b.Metadata.CreationTimestamp.Time), strings.Compare(a.Metadata.UID, b.Metadata.UID)) < 0
}

// holder is a copy on a device with the host ports that it reserves.
type holder struct {
	copy  *api.Assignment
	ports []string
}

// holdersOn lists the copies on a device that reserve host ports.
func (l *loop) holdersOn(device string) []holder {
	var out []holder
	for _, a := range reconcile.On(l.assignments, device) {
		rev, ok := cache.Get[*api.WorkloadRevision](l.revisions, a.Metadata.Namespace, a.Spec.Revision)
		if !ok || a.Metadata.DeletionTimestamp != nil {
			continue
		}
		if ports := rev.Spec.Template.Spec.HostPorts(); len(ports) > 0 {
			out = append(out, holder{a, ports})
		}
	}
	return out
}

// write makes and removes copies. Where a quota does not let all of them be made, as many are made as it lets, in order, as Kubernetes
// does; the refusal is returned beside.
func (l *loop) write(ctx context.Context, cause string, items []client.TxItem) (overQuota string, err error) {
	err = l.WriteBatches(ctx, cause, items)
	if !client.OverQuota(err) {
		return "", err
	}
	for _, it := range items {
		if it.Verb == client.TxCreate && overQuota != "" {
			continue
		}
		_, err := l.Write(ctx, cause, it)
		switch {
		case client.OverQuota(err):
			overQuota = err.Error()
		case err != nil && !fault.Is(err, fault.AlreadyExists, fault.NotFound): // the batches before were done
			return overQuota, err
		}
	}
	return overQuota, nil
}

// wakeBlocked wakes the workloads that wait for a hindrance of this kind to go; namespace "" is all.
func (l *loop) wakeBlocked(r *reconcile.Loop, reason, namespace, cause string) {
	for _, w := range cache.List[*api.Workload](l.workloads) {
		c := api.FindCondition(w.Status.Conditions, copies.CondPlaced)
		if c != nil && c.Reason == reason && (namespace == "" || namespace == w.Metadata.Namespace) {
			r.Add(cache.KeyOf(w), cause)
		}
	}
}

// freed reports whether a quota's change leaves more room.
func freed(c cache.Change) bool {
	old, isOld := c.Old.(*api.ResourceQuota)
	q, isNew := c.New.(*api.ResourceQuota)
	if !isOld || !isNew || old == q {
		return !isNew || old == q
	}
	if old.Metadata.Generation != q.Metadata.Generation {
		return true
	}
	for name, was := range old.Status.Used {
		if q.Status.Used[name].Cmp(was) < 0 {
			return true
		}
	}
	return false
}
