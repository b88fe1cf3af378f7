package fleet

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/store"
)

// step is how often a device looks at what it should run: one look stops the old and starts the new, the next finds it ready.
const step = time.Second

// outcome is what becomes of a revision on a device.
type outcome int

const (
	runs    outcome = iota
	crashes         // starts and dies, again and again
	fatal           // cannot run at all
	darkens         // takes the device's link with it, before anything is reported
)

// devices stands for agents and gateway: it reports on behalf of the devices that are connected.
type devices struct {
	c client.Client
	// revision is the store's: when it is what the last look began with, and no device came or went, nothing is to be done.
	revision func() store.Revision
	looked   store.Revision

	mu      sync.Mutex
	online  map[string]bool
	heard   map[string]time.Time
	does    func(device, image string) outcome
	stopped map[string][]string // by device: uids that it stopped by tombstone
	turned  bool                // a device came or went, or behaves differently, since the last look
}

func newDevices(c client.Client, revision func() store.Revision) *devices {
	return &devices{
		c: c, revision: revision, online: map[string]bool{}, heard: map[string]time.Time{}, stopped: map[string][]string{},
		does: func(string, string) outcome { return runs },
	}
}

func (d *devices) set(device string, online bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.online[device], d.turned = online, true
	if online {
		d.heard[device] = time.Now()
	}
}

func (d *devices) behave(does func(device, image string) outcome) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.does, d.turned = does, true
}

// Last is presence.Contacts.
func (d *devices) Last(device string) (time.Duration, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	at, ok := d.heard[device]
	return time.Since(at), ok
}

// stoppedOn are the uids that a device stopped by tombstone.
func (d *devices) stoppedOn(device string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.stopped[device])
}

func (d *devices) isOnline(device string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.online[device] {
		d.heard[device] = time.Now()
	}
	return d.online[device]
}

func (d *devices) outcome(device, image string) outcome {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.does(device, image)
}

func (d *devices) run(ctx context.Context) {
	tick := time.NewTicker(step)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			d.look(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// look does one step of every device. What loses a race is done at the next.
func (d *devices) look(ctx context.Context) {
	d.mu.Lock()
	for device, online := range d.online {
		if online {
			d.heard[device] = time.Now()
		}
	}
	turned := d.turned
	d.turned = false
	d.mu.Unlock()
	at := d.revision()
	if at == d.looked && !turned {
		return
	}
	d.looked = at
	list, err := d.c.List(ctx, api.KindAssignment, client.ListOptions{})
	if err != nil {
		return
	}
	for _, o := range list.Items {
		a := o.(*api.Assignment)
		if a.Spec.Device != "" && d.isOnline(a.Spec.Device) {
			d.report(ctx, a)
		}
	}
	d.obey(ctx)
}

// report brings one assignment a step closer to its spec and says so.
func (d *devices) report(ctx context.Context, a *api.Assignment) {
	image := d.image(ctx, a)
	what := d.outcome(a.Spec.Device, image)
	next := api.Copy(a)
	st := &next.Status
	switch {
	case st.Revision != a.Spec.Revision && what == darkens:
		d.set(a.Spec.Device, false)
		return
	case st.Revision != a.Spec.Revision:
		*st = api.AssignmentStatus{Revision: a.Spec.Revision, Phase: api.PhaseStarting, Conditions: st.Conditions}
	case what == runs && st.Ready, what == crashes && st.Phase == api.PhaseCrashLoop, what == fatal && st.Phase == api.PhaseFailed:
		return // nothing new
	case what == crashes:
		st.Phase, st.Ready, st.Message = api.PhaseCrashLoop, false, "exit code 1"
	case what == fatal:
		st.Phase, st.Ready, st.Message = api.PhaseFailed, false, "no such command"
	default:
		st.Phase, st.Ready, st.ReadySince, st.Message = api.PhaseRunning, true, api.TimeOf(time.Now()), ""
	}
	st.ReportedAt = api.TimeOf(time.Now())
	*next.Type() = api.TypeMeta{APIVersion: api.FleetV1, Kind: "Assignment"}
	_, _ = d.c.Update(ctx, next, client.WriteOptions{Subresource: "status", Cause: a.Metadata.ResourceVersion}) // a lost race is tried at the next step
}

func (d *devices) image(ctx context.Context, a *api.Assignment) string {
	o, err := d.c.Get(ctx, api.Ref{Kind: api.KindWorkloadRevision, Namespace: a.Metadata.Namespace, Name: a.Spec.Revision}, client.GetOptions{})
	if err != nil {
		return ""
	}
	return o.(*api.WorkloadRevision).Spec.Template.Spec.Containers[0].Image
}

// obey stops what tombstones say, and acknowledges.
func (d *devices) obey(ctx context.Context) {
	list, err := d.c.List(ctx, api.KindTombstone, client.ListOptions{})
	if err != nil {
		return
	}
	for _, o := range list.Items {
		t := o.(*api.Tombstone)
		if !d.isOnline(t.Spec.Device) {
			continue
		}
		if d.c.Delete(ctx, api.Ref{Kind: api.KindTombstone, Name: t.Metadata.Name}, client.DeleteOptions{}) == nil {
			d.mu.Lock()
			d.stopped[t.Spec.Device] = append(d.stopped[t.Spec.Device], t.Spec.UID)
			d.mu.Unlock()
		}
	}
}

// forget makes the hub deaf: it remembers no contact and hears of none.
func (d *devices) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.online)
	clear(d.heard)
}
