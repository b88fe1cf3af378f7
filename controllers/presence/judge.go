package presence

import (
	"fmt"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/controllers/copies"
)

// Reasons of the condition Connected.
const (
	Connected = "Connected" // status True
	Late      = "Late"      // status Unknown
	Offline   = "Offline"   // status False
	// Never is Offline of a device that nobody ever heard of.
	Never = copies.ReasonNeverConnected
)

// Contacts tells when a device was last heard of by any hub member; ok is false when none remembers.
type Contacts interface {
	Last(device string) (age time.Duration, ok bool)
}

// Limits are how long a device may be silent. The hub asks to be contacted at an interval; late is one and a bit, offline two
// and a bit.
type Limits struct {
	Late    time.Duration
	Offline time.Duration
}

// view is what one pass judges from. Nothing in it is changed.
type view struct {
	devices  []*api.Device
	contacts Contacts
	limits   Limits
	member   string
	now      time.Time
	// judging is when this leader began to judge, or last resumed after it lagged: silence counts from there at the earliest.
	judging time.Time
}

// finding is what a pass concludes of one device.
type finding struct {
	state string
	since time.Time // of a silence: the last contact, or the earliest moment at which it may have been
}

// changes returns the devices whose conditions change, with the new ones.
func (v view) changes() []*api.Device {
	findings := make([]finding, len(v.devices))
	silent, heard := 0, 0
	for i, d := range v.devices {
		findings[i] = v.judge(d)
		switch f := findings[i]; {
		case f.state == Connected:
			heard++
		case f.state != Never && v.now.Sub(f.since) < 2*v.limits.Offline:
			silent++
		}
	}
	together := ""
	if silent >= massAtLeast && silent > heard {
		together = fmt.Sprintf("; %d of %d devices went silent at about that time: this looks like an outage of the network or of the hub, not of devices", silent, silent+heard)
	}
	var out []*api.Device
	for i, d := range v.devices {
		if next, changed := v.apply(d, findings[i], together); changed {
			out = append(out, next)
		}
	}
	return out
}

// massAtLeast is the fewest devices that make an outage of many.
const massAtLeast = 3

func (v view) judge(d *api.Device) finding {
	was := api.FindCondition(d.Status.Conditions, copies.CondConnected)
	age, ok := v.contacts.Last(d.Metadata.Name)
	if ok && age < v.limits.Late {
		return finding{Connected, v.now}
	}
	if was == nil && !ok {
		return finding{Never, d.Metadata.CreationTimestamp.Time}
	}
	stands := finding{state: Connected, since: v.now}
	if was != nil {
		stands = finding{was.Reason, was.LastTransitionTime.Time}
	}
	if stands.state == Offline || stands.state == Never {
		return stands // nothing was heard that would change it
	}
	since := v.judging
	if stands.state == Late {
		since = stands.since
	}
	if ok {
		since = v.now.Add(-age)
	}
	accused := v.now.Sub(v.judging)
	if ok {
		accused = min(accused, age)
	}
	switch {
	case accused >= v.limits.Offline:
		return finding{Offline, since}
	case accused >= v.limits.Late:
		return finding{Late, since}
	}
	return stands
}

// apply gives the device the conditions that the finding leads to.
func (v view) apply(d *api.Device, f finding, together string) (*api.Device, bool) {
	was := api.FindCondition(d.Status.Conditions, copies.CondConnected)
	conditions := append([]api.Condition(nil), d.Status.Conditions...)
	changed := false
	if was == nil || was.Reason != f.state {
		c := api.Condition{Type: copies.CondConnected, Reason: f.state, Message: v.tell(f, together)}
		c.Status = map[string]string{Connected: api.True, Late: api.Unknown}[f.state]
		if c.Status == "" {
			c.Status = api.False
		}
		changed = api.SetCondition(&conditions, c, api.TimeOf(f.since))
	}
	if api.SetCondition(&conditions, ready(conditions), api.TimeOf(v.now)) {
		changed = true
	}
	if !changed {
		return nil, false
	}
	next := *d
	next.Status.Conditions = conditions
	return api.Copy(&next), true
}

func (v view) tell(f finding, together string) string {
	switch f.state {
	case Connected:
		return "the hub hears of it (judged by " + v.member + ")"
	case Never:
		return "no hub member ever heard of it (judged by " + v.member + ")"
	}
	return fmt.Sprintf("silent since %s (judged by %s)%s", f.since.UTC().Format(time.RFC3339), v.member, together)
}

// ready is the condition that says whether new work may go to the device: its link and its runtime are there.
func ready(conditions []api.Condition) api.Condition {
	c := api.Condition{Type: copies.CondReady}
	link := api.FindCondition(conditions, copies.CondConnected)
	runtime := api.FindCondition(conditions, copies.CondRuntimeUnavailable)
	switch {
	case link == nil:
		c.Status, c.Reason, c.Message = api.Unknown, "NotJudged", "its link was not judged yet"
	case link.Status != api.True:
		c.Status, c.Reason, c.Message = link.Status, link.Reason, link.Message
	case runtime != nil && runtime.Status == api.True:
		c.Status, c.Reason, c.Message = api.False, "RuntimeUnavailable", runtime.Message
	default:
		c.Status, c.Reason, c.Message = api.True, "Ready", "connected, and its container runtime answers"
	}
	return c
}
