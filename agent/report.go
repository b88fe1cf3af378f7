package agent

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/drover-fleet/drover/agent/workload"
	"github.com/drover-fleet/drover/api/wire"
)

// report builds the latest report and tells whether it differs from the one before. The link adds session, sequence and
// transport; WallTime is a label and no change.
func (c *Core) report() (wire.Report, bool) {
	r := wire.Report{Conditions: c.conditions(), Journal: slices.Clone(c.rt.Journal.Records)}
	r.Held, r.BundleHash = c.Held()
	if c.facts != c.cfg.Facts { // what Hello said has changed
		facts := c.facts
		r.Facts = &facts
	}
	if !c.runtime.listed && c.runtime.message == "" {
		return r, false // nothing is known yet
	}
	if c.bundle != nil {
		r.Statuses, r.Gone = c.reportAssignments()
	}
	b, err := wire.Encode(r)
	if err != nil || bytes.Equal(b, c.lastReport) {
		return r, false
	}
	c.lastReport = b
	r.WallTime = c.now.Wall
	return r, true
}

func (c *Core) reportAssignments() (statuses []wire.Status, gone []string) {
	uids := make([]string, 0, len(c.bundle.Entries))
	for _, e := range c.bundle.Entries {
		uids = append(uids, e.UID)
	}
	for _, t := range c.bundle.desired.Tombstones {
		switch {
		case c.gone[t.UID] && !c.kept.holds(t.UID):
			gone = append(gone, t.UID)
		case !c.bundle.holds(t.UID):
			uids = append(uids, t.UID)
		}
	}
	slices.Sort(uids)
	for _, uid := range uids {
		st, ok := c.statuses[uid]
		if !ok {
			st = wire.Status{UID: uid, Phase: "Starting"}
			if m := c.rt.Assignments[uid]; m != nil {
				st.SpecHash, st.Revision = m.SpecHash, m.Revision
			}
			if !c.runtime.up {
				st.Message = c.runtime.message
			}
		}
		statuses = append(statuses, st)
	}
	slices.Sort(gone)
	return statuses, gone
}

// conditions are all aspects of the device that the agent judges, in a fixed order.
func (c *Core) conditions() []wire.Condition {
	ready := wire.Condition{Type: "Ready", Status: "True", Reason: "AgentRunning"}
	if !c.runtime.up {
		ready.Status, ready.Reason, ready.Message = "False", "RuntimeUnavailable", c.runtime.message
	}
	return []wire.Condition{
		ready,
		condition("DesiredRefused", "NotAccepted", c.refused),
		condition("LimitsNotEnforced", "MemoryCgroupOff", c.unenforced()),
		condition("PoolRefuses", "NotAllowed", c.forbiddenText()),
		condition("RuntimeUnavailable", "NoAnswer", c.runtime.message),
		condition("StateNotSaved", "WriteFailed", c.notSaved),
		condition("StrayContainers", "InNoBundle", strings.Join(c.strays, ", ")),
		condition("TokenExpired", "NotRenewed", c.tokensExpired()),
		condition("TokenMissing", "NotGiven", c.tokensMissing()),
	}
}

// forbiddenText lists what the device's pool does not allow though the hub wants it here.
func (c *Core) forbiddenText() string {
	var parts []string
	for _, uid := range slices.Sorted(maps.Keys(c.forbidden)) {
		parts = append(parts, c.objectOf(uid)+": "+c.forbidden[uid])
	}
	return strings.Join(parts, "; ")
}

// condition is True when there is something to say.
func condition(kind, reason, message string) wire.Condition {
	if message == "" {
		return wire.Condition{Type: kind, Status: "False", Reason: "NothingFound"}
	}
	return wire.Condition{Type: kind, Status: "True", Reason: reason, Message: workload.Plain(message)}
}

// unenforced says which memory limits the kernel does not enforce, and what to edit.
func (c *Core) unenforced() string {
	if c.facts.MemoryCgroup || c.bundle == nil {
		return ""
	}
	var limited []string
	for _, e := range c.bundle.Entries {
		w := c.bundle.wanted[e.UID]
		for _, k := range w.Assignment.Containers {
			if k.Memory > 0 {
				limited = append(limited, w.Object()+"/"+k.Name)
			}
		}
	}
	if len(limited) == 0 {
		return ""
	}
	return fmt.Sprintf("the memory limits of %s are not enforced: the kernel's memory cgroup is off; remove cgroup_disable=memory and add "+
		"cgroup_enable=memory to /boot/firmware/cmdline.txt (/boot/cmdline.txt on older systems), then reboot", strings.Join(limited, ", "))
}
