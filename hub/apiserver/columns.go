package apiserver

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/drover-fleet/drover/api"
)

// column is one column of a kind's table. Numbers are typed integer, so that clients may sort and align them.
type column struct {
	name string
	typ  string // string or integer
	wide bool
	help string
	cell func(obj api.Object) any
}

func (c column) definition() columnDefinition {
	d := columnDefinition{Name: c.name, Type: c.typ, Description: c.help}
	if c.name == "Name" {
		d.Format = "name"
	}
	if c.wide {
		d.Priority = 1
	}
	return d
}

// printer holds the moment at which ages are told.
type printer struct{ now time.Time }

func newPrinter(now time.Time) printer { return printer{now: now} }

// text and number make columns of one kind's objects.
func text[T api.Object](name, help string, f func(T) string) column {
	return column{name: name, typ: "string", help: help, cell: func(o api.Object) any {
		v, ok := o.(T)
		if !ok {
			return ""
		}
		return f(v)
	}}
}

func number[T api.Object](name, help string, f func(T) int64) column {
	return column{name: name, typ: "integer", help: help, cell: func(o api.Object) any {
		v, ok := o.(T)
		if !ok {
			return int64(0)
		}
		return f(v)
	}}
}

func (c column) onlyWide() column {
	c.wide = true
	return c
}

// columns lists a kind's columns, the name first and the age last of what is always shown, save for events.
func (p printer) columns(k *api.Kind) []column {
	name := column{name: "Name", typ: "string", help: "Name of the object.", cell: func(o api.Object) any { return o.Meta().Name }}
	age := column{name: "Age", typ: "string", help: "Time since the object was made.", cell: func(o api.Object) any { return p.since(o.Meta().CreationTimestamp) }}
	narrow, wide := p.own(k)
	if k == api.KindEvent { // its name and age tell nobody anything: what happened, to what and when stands first
		wide = append(wide, name, age)
	} else {
		narrow = append(append([]column{name}, narrow...), age)
	}
	out := narrow
	for _, c := range wide {
		out = append(out, c.onlyWide())
	}
	return out
}

func (p printer) own(k *api.Kind) (narrow, wide []column) {
	switch k {
	case api.KindWorkload:
		return workloadColumns()
	case api.KindWorkloadRevision:
		return revisionColumns()
	case api.KindAssignment:
		return p.assignmentColumns()
	case api.KindRollout:
		return rolloutColumns()
	case api.KindDevice:
		return p.deviceColumns()
	case api.KindJoinToken:
		return p.tokenColumns()
	case api.KindEnrollmentRequest:
		return enrollmentColumns()
	case api.KindTombstone:
		return tombstoneColumns()
	case api.KindEvent:
		return p.eventColumns()
	case api.KindDevicePool, api.KindResourceQuota, api.KindPriorityClass:
		return tenancyColumns(k)
	case api.KindRole, api.KindClusterRole, api.KindRoleBinding, api.KindClusterRoleBinding:
		return rightsColumns(k)
	}
	return coreColumns(k)
}

func workloadColumns() (narrow, wide []column) {
	type W = *api.Workload
	counts := func(name, help string, f func(api.Counts) int32) column {
		return number(name, help, func(w W) int64 { return int64(f(w.Status.Counts)) })
	}
	narrow = []column{
		counts("Desired", "Copies that the spec asks for.", func(c api.Counts) int32 { return c.Desired }),
		counts("Ready", "Copies that are ready, of any revision.", func(c api.Counts) int32 { return c.Ready }),
		counts("Updated", "Copies that are ready on the newest revision.", func(c api.Counts) int32 { return c.Updated }),
		counts("Failed", "Copies that cannot run.", func(c api.Counts) int32 { return c.Failed }),
		counts("Pending-Offline", "Copies whose device is away.", func(c api.Counts) int32 { return c.PendingOffline }),
	}
	wide = []column{
		text("Images", "Images as they are written.", func(w W) string { return images(w.Spec.Template) }),
		text("Revision", "The newest revision.", func(w W) string { return w.Status.UpdatedRevision }),
		text("Placement", "Where copies go.", func(w W) string { return placement(w.Spec.Placement) }),
		text("Status", "What is not as it should be.", func(w W) string { return trouble(w.Status.Conditions) }),
	}
	return narrow, wide
}

func revisionColumns() (narrow, wide []column) {
	type R = *api.WorkloadRevision
	narrow = []column{
		text("Workload", "", func(r R) string { return r.Spec.Workload }),
		number("Revision", "The order in which templates became current.", func(r R) int64 { return r.Spec.Revision }),
	}
	wide = []column{
		text("Images", "Images as they are written.", func(r R) string { return images(r.Spec.Template) }),
		text("Digests", "What they resolved to.", func(r R) string { return joinValues(r.Spec.Images) }),
	}
	return narrow, wide
}

func (p printer) assignmentColumns() (narrow, wide []column) {
	type A = *api.Assignment
	narrow = []column{
		text("Device", "Where the copy runs.", func(a A) string { return orNone(a.Spec.Device) }),
		text("Ready", "", func(a A) string { return fmt.Sprint(a.Status.Ready) }),
		text("Phase", "As the device last reported it.", func(a A) string { return orElse(a.Status.Phase, api.PhasePending) }),
		number("Restarts", "", func(a A) int64 { return restarts(a.Status.Containers) }),
		text("Reported", "How old the report of its last change is.", func(a A) string { return p.ago(a.Status.ReportedAt) }),
	}
	wide = []column{
		text("Revision", "What it should run.", func(a A) string { return a.Spec.Revision }),
		text("Running", "The revision that it runs.", func(a A) string { return orNone(a.Status.Revision) }),
		text("Message", "", func(a A) string { return orElse(a.Status.Message, trouble(a.Status.Conditions)) }),
	}
	return narrow, wide
}

func rolloutColumns() (narrow, wide []column) {
	type R = *api.Rollout
	wave := func(f func(api.WaveStatus) int32) func(R) int64 {
		return func(r R) int64 {
			var n int64
			for _, w := range r.Status.Waves {
				n += int64(f(w))
			}
			return n
		}
	}
	narrow = []column{
		text("Workload", "", func(r R) string { return r.Spec.Workload }),
		text("Phase", "", func(r R) string { return orElse(r.Status.Phase, api.RolloutPlanned) }),
		number("Selected", "Copies in its waves.", wave(func(w api.WaveStatus) int32 { return w.Selected })),
		number("Updated", "", wave(func(w api.WaveStatus) int32 { return w.Updated })),
		number("Failed", "", wave(func(w api.WaveStatus) int32 { return w.Failed })),
		number("Pending-Offline", "", wave(func(w api.WaveStatus) int32 { return w.PendingOffline })),
	}
	wide = []column{
		text("From", "", func(r R) string { return orNone(r.Spec.From) }),
		text("To", "", func(r R) string { return r.Spec.To }),
		text("Cause", "Why it is where it is.", func(r R) string { return r.Status.Cause }),
	}
	return narrow, wide
}

func (p printer) deviceColumns() (narrow, wide []column) {
	type D = *api.Device
	narrow = []column{
		text("Ready", "", func(d D) string { return ready(d) }),
		text("Connected", "Connected, Late or Offline, as the hub judges the link.", func(d D) string { return connected(d.Status.Conditions) }),
		text("Last-Contact", "How old what the hub knows of it is.", func(d D) string { return p.ago(d.Status.LastContact) }),
		text("Platform", "", func(d D) string { return orNone(d.Status.Facts.Platform) }),
	}
	wide = []column{
		text("Model", "", func(d D) string { return orNone(d.Status.Facts.Model) }),
		text("Agent", "Version of the agent.", func(d D) string { return orNone(d.Status.Facts.AgentVersion) }),
		text("Runtime", "", func(d D) string { return orNone(d.Status.Facts.Runtime) }),
		text("Kernel", "", func(d D) string { return orNone(d.Status.Facts.Kernel) }),
		text("Bundle", "current: it holds what it should; behind: not yet.", bundle),
		text("Labels", "", func(d D) string { return joinPairs(d.Metadata.Labels) }),
	}
	return narrow, wide
}

func (p printer) tokenColumns() (narrow, wide []column) {
	type T = *api.JoinToken
	narrow = []column{
		text("For", "", func(t T) string { return orElse(t.Spec.For, "device") }),
		text("Used", "", func(t T) string { return fmt.Sprintf("%d/%d", t.Status.Used, max(t.Spec.Uses, 1)) }),
		text("Expires", "", func(t T) string { return p.until(t.Spec.Expires) }),
		text("Approve", "Whether a person approves each request.", func(t T) string { return fmt.Sprint(t.Spec.Approve) }),
	}
	wide = []column{text("Labels", "Given to each device that joins by it.", func(t T) string { return joinPairs(t.Spec.Labels) })}
	return narrow, wide
}

func enrollmentColumns() (narrow, wide []column) {
	type E = *api.EnrollmentRequest
	narrow = []column{
		text("Device", "The name it wants.", func(e E) string { return e.Spec.Device }),
		text("Phase", "", func(e E) string { return orElse(e.Status.Phase, "Pending") }),
		text("Source", "", func(e E) string { return orNone(e.Spec.Source) }),
		text("Message", "", func(e E) string { return e.Status.Message }),
	}
	wide = []column{
		text("Token", "", func(e E) string { return e.Spec.Token }),
		text("Fingerprint", "", func(e E) string { return e.Spec.Fingerprint }),
		text("Model", "", func(e E) string { return orNone(e.Spec.Facts.Model) }),
	}
	return narrow, wide
}

func tombstoneColumns() (narrow, wide []column) {
	type T = *api.Tombstone
	narrow = []column{
		text("Device", "", func(t T) string { return t.Spec.Device }),
		text("Assignment", "", func(t T) string { return t.Spec.Namespace + "/" + t.Spec.Name }),
	}
	return narrow, []column{text("Workload", "", func(t T) string { return t.Spec.Workload })}
}

func (p printer) eventColumns() (narrow, wide []column) {
	type E = *api.Event
	narrow = []column{
		text("Last-Seen", "", func(e E) string { return p.since(e.LastTimestamp) }),
		text("Type", "", func(e E) string { return e.EventType }),
		text("Reason", "", func(e E) string { return e.Reason }),
		text("Object", "", func(e E) string { return strings.ToLower(e.InvolvedObject.Kind) + "/" + e.InvolvedObject.Name }),
		number("Count", "", func(e E) int64 { return int64(max(e.Count, 1)) }),
		text("Message", "", func(e E) string { return e.Message }),
	}
	return narrow, []column{text("Source", "", func(e E) string { return strings.Trim(e.Source.Component+", "+e.Source.Host, ", ") })}
}

func coreColumns(k *api.Kind) (narrow, wide []column) {
	switch k {
	case api.KindNamespace:
		narrow = []column{text("Status", "", func(n *api.Namespace) string { return orElse(n.Status.Phase, "Active") })}
	case api.KindConfigMap:
		narrow = []column{number("Data", "Keys.", func(c *api.ConfigMap) int64 { return int64(len(c.Data) + len(c.BinaryData)) })}
	case api.KindSecret:
		narrow = []column{
			text("Type", "", func(s *api.Secret) string { return orElse(s.SecretType, "Opaque") }),
			number("Data", "Keys.", func(s *api.Secret) int64 { return int64(len(s.Data)) }),
		}
	}
	return narrow, nil
}

func images(t api.Template) string {
	var out []string
	for _, c := range t.Spec.Containers {
		out = append(out, c.Image)
	}
	return strings.Join(out, ",")
}

func joinValues(m map[string]string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, m[k])
	}
	return orNone(strings.Join(out, ","))
}

func joinPairs(m map[string]string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, k+"="+m[k])
	}
	return orNone(strings.Join(out, ","))
}
