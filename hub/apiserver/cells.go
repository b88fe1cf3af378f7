package apiserver

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/drover-fleet/drover/api"
)

const none = "<none>"

func orNone(s string) string { return orElse(s, none) }

func orElse(s, instead string) string {
	if s == "" {
		return instead
	}
	return s
}

// since is the age of a moment as kubectl writes it; a moment ahead of the clock is "0s".
func (p printer) since(t api.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return humanDuration(p.now.Sub(t.Time))
}

// ago says in words that the cell is the age of knowledge.
func (p printer) ago(t api.Time) string {
	if t.IsZero() {
		return "never"
	}
	return p.since(t) + " ago"
}

func (p printer) until(t api.Time) string {
	switch {
	case t.IsZero():
		return "never"
	case !t.After(p.now):
		return "expired"
	}
	return "in " + humanDuration(t.Sub(p.now))
}

// humanDuration has at most two units and about three digits, as kubectl's ages: 90s, 5m10s, 3h20m, 2d4h, 40d, 3y.
func humanDuration(d time.Duration) string {
	d = max(d, 0)
	two := func(big, small time.Duration, bigUnit, smallUnit string) string {
		if rest := d % big / small; rest != 0 {
			return fmt.Sprintf("%d%s%d%s", d/big, bigUnit, rest, smallUnit)
		}
		return fmt.Sprintf("%d%s", d/big, bigUnit)
	}
	const day, year = 24 * time.Hour, 365 * 24 * time.Hour
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < 10*time.Minute:
		return two(time.Minute, time.Second, "m", "s")
	case d < 3*time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 8*time.Hour:
		return two(time.Hour, time.Minute, "h", "m")
	case d < 2*day:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d < 8*day:
		return two(day, time.Hour, "d", "h")
	case d < 2*year:
		return fmt.Sprintf("%dd", d/day)
	case d < 8*year:
		return two(year, day, "y", "d")
	}
	return fmt.Sprintf("%dy", d/year)
}

func condition(cs []api.Condition, typ string) *api.Condition {
	for i := range cs {
		if cs[i].Type == typ {
			return &cs[i]
		}
	}
	return nil
}

// ready tells a device's readiness and whether it is cordoned, as kubectl does of nodes.
func ready(d *api.Device) string {
	s := api.Unknown
	if c := condition(d.Status.Conditions, "Ready"); c != nil {
		s = c.Status
	}
	if d.Spec.Unschedulable {
		s += ",cordoned"
	}
	return s
}

// connected is the presence's own word (Connected, Late, Offline), which it gives as the reason of its condition.
func connected(cs []api.Condition) string {
	c := condition(cs, "Connected")
	switch {
	case c == nil:
		return api.Unknown
	case c.Reason != "":
		return c.Reason
	}
	return c.Status
}

func bundle(d *api.Device) string {
	b := d.Status.Bundle
	switch {
	case b.Held.Hash == "" && b.Desired.Hash == "":
		return none
	case b.Held.Hash == b.Desired.Hash:
		return "current"
	}
	return "behind"
}

// trouble is the first condition that is against the workload, in a few words.
func trouble(cs []api.Condition) string {
	for _, c := range cs {
		bad := api.False
		if c.Type == api.ConditionContended { // the only one of these kinds that is good when False
			bad = api.True
		}
		if c.Status == bad && c.Reason != "" {
			return fmt.Sprintf("%s=%s: %s", c.Type, c.Status, c.Reason)
		}
	}
	return ""
}

func restarts(cs []api.ContainerStatus) int64 {
	var n int64
	for _, c := range cs {
		n += int64(c.Restarts)
	}
	return n
}

func placement(p api.Placement) string {
	where := "no device"
	switch {
	case p.All:
		where = "all devices"
	case p.Selector != nil:
		where = selectorText(*p.Selector)
	}
	if p.Replicas != nil {
		return fmt.Sprintf("%d on %s", *p.Replicas, where)
	}
	return "everywhere on " + where
}

func selectorText(s api.LabelSelector) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(s.MatchLabels)) {
		out = append(out, k+"="+s.MatchLabels[k])
	}
	for _, e := range s.MatchExpressions {
		switch e.Operator {
		case "Exists":
			out = append(out, e.Key)
		case "DoesNotExist":
			out = append(out, "!"+e.Key)
		default:
			out = append(out, e.Key+" "+strings.ToLower(e.Operator)+" ("+strings.Join(e.Values, ",")+")")
		}
	}
	return orElse(strings.Join(out, ","), "no device")
}
