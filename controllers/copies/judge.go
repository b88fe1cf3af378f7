package copies

import (
	"time"

	"github.com/drover-fleet/drover/api"
)

// AnnotationMovedAt is on an Assignment the hub's time (RFC 3339) at which its spec.revision last changed. Absent: it is
// what it was born with.
const AnnotationMovedAt = api.LabelPrefix + "moved-at"

// skew is how far the clocks of two hub members may be apart, with the rounding of times to seconds: who went silent so
// shortly before a move may have heard of it.
const skew = 5 * time.Second

// Verdict is what the hub may say about one copy.
type Verdict struct {
	// Bound: it has a device.
	Bound bool
	// Away: its device is known to be offline.
	Away bool
	// Reached: the device reported the revision that the copy should run.
	Reached bool
	// Updated: reached and ready for the minimum time. A relapse takes it back.
	Updated bool
	// Failed: it cannot run what it should, or its device went dark after it may have taken it. Later success revokes it.
	Failed bool
	// Fatal: failed, and the device says that it will not try again.
	Fatal bool
	// PendingOffline: away since before it was told, so it cannot be judged and counts against no budget. It takes the
	// newest revision when it returns.
	PendingOffline bool
	// Proving: reached and ready, but not yet for the minimum time. It is Down in what it allows others, but it still serves.
	Proving bool
	// Down: counts against the budget of unavailable copies.
	Down bool
	// Wait is how long until time alone may change the verdict; 0 = never.
	Wait time.Duration
}

// Judge looks at one copy. device is nil when it does not exist; now is the hub's clock.
func Judge(a *api.Assignment, device *api.Device, minReady time.Duration, now time.Time) Verdict {
	v := Verdict{Bound: a.Spec.Device != ""}
	darkSince, away := DarkSince(device)
	v.Away = v.Bound && away
	v.Reached = a.Status.Revision == a.Spec.Revision && a.Spec.Revision != ""

	held, wait := readyFor(a, darkSince, v.Away, minReady, now)
	v.Updated = v.Reached && held
	if v.Reached && a.Status.Ready {
		v.Wait = wait
	}
	if v.Reached && !v.Updated {
		v.Fatal = a.Status.Phase == api.PhaseFailed
		v.Failed = v.Fatal || a.Status.Phase == api.PhaseCrashLoop
	}
	if v.Away && !answered(a) {
		v.Updated = false // the last report is from before it was told
	}
	if v.Away && !v.Updated {
		taken := v.Reached && answered(a) || !darkSince.Before(ToldAt(a).Add(-skew))
		v.PendingOffline = !taken
		v.Failed = v.Failed || taken
	}
	v.Down = !v.Updated && !v.PendingOffline
	v.Proving = v.Down && v.Reached && a.Status.Ready && !v.Failed && !v.Away
	return v
}

// readyFor reports whether the copy was ready for the minimum time, and how long until it will have been. What a device
// that went dark would have reported since is unknown: its time stands still.
func readyFor(a *api.Assignment, darkSince time.Time, away bool, minReady time.Duration, now time.Time) (bool, time.Duration) {
	if !a.Status.Ready {
		return false, 0
	}
	until := now
	if away && darkSince.Before(now) {
		until = darkSince
	}
	left := minReady - until.Sub(a.Status.ReadySince.Time)
	switch {
	case minReady <= 0 || left <= 0:
		return true, 0
	case away:
		return false, 0
	}
	return false, min(left, minReady)
}

// answered reports whether the device reported of the copy since it was told.
func answered(a *api.Assignment) bool {
	last := a.Status.ReadySince.Time
	if a.Status.ReportedAt.After(last) {
		last = a.Status.ReportedAt.Time
	}
	return !last.Before(ToldAt(a).Add(-skew))
}

// ToldAt is when the copy was told of the revision it should run.
func ToldAt(a *api.Assignment) time.Time {
	if t, err := time.Parse(time.RFC3339, a.Metadata.Annotations[AnnotationMovedAt]); err == nil {
		return t
	}
	return a.Metadata.CreationTimestamp.Time
}

// DarkSince is when the hub last heard of a device that is offline. A device that does not exist, or that nobody ever heard
// of, has always been away; one that was never judged is not.
func DarkSince(d *api.Device) (time.Time, bool) {
	if d == nil {
		return time.Time{}, true
	}
	c := api.FindCondition(d.Status.Conditions, CondConnected)
	if c == nil || c.Status != api.False {
		return time.Time{}, false
	}
	if c.Reason == ReasonNeverConnected {
		return time.Time{}, true
	}
	return c.LastTransitionTime.Time, true
}
