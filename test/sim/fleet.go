package sim

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"github.com/drover-fleet/drover/agent/workload"
	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/hub/registry"
	"github.com/drover-fleet/drover/test/history"
)

const (
	clusterID     = "cluster"
	declareEvery  = 60 * time.Second // mean between two changes of what is declared
	reconcileTime = 5 * time.Second
	workloads     = 2
)

// fleet is the devices, and those who declare what they run: every workload runs everywhere. In place of the controllers' loops,
// which are not stepped yet, one reconciler at some member brings the assignments to what is declared, from what it lists.
type fleet struct {
	w        *world
	devices  []*device
	declared [workloads]int  // number of the present template of each workload; 0: it is deleted
	template int             // number of the newest template
	images   map[string]int  // template by image digest
	ordered  map[string]int  // newest template that was ordered, by uid of the assignment
	buried   map[string]bool // uids whose removal was ordered
	breaches []history.Violation
}

func (w *world) startFleet() error {
	f := &fleet{w: w, images: map[string]int{}, ordered: map[string]int{}, buried: map[string]bool{}}
	w.fleet = f
	for _, m := range w.members {
		if err := f.openGate(m); err != nil {
			return err
		}
	}
	var bad error
	f.as("hub:h1", w.members[0], func(ctx context.Context, c client.Client) { bad = f.create(ctx, c) })
	w.runUntil(w.now+20*time.Second, w.broken)
	if bad != nil {
		return bad
	}
	for i := range workloads {
		f.declare(i)
	}
	for i := range w.cfg.Devices {
		d, err := newDevice(f, i)
		if err != nil {
			return err
		}
		f.devices = append(f.devices, d)
	}
	f.nextDeclaration()
	w.every(reconcileTime, w.rng.Float64(), f.reconcile)
	return nil
}

// as has some member run a user's or a controller's commands.
func (f *fleet) as(actor string, m *member, do func(context.Context, client.Client)) {
	if !m.up || m.gateway == nil || m.stalled {
		return
	}
	g := m.gateway
	m.later(0, func() {
		m.spawn(func(ctx context.Context) { do(ctx, g.registry.As(registry.Actor{Name: actor})) })
	})
}

func (f *fleet) create(ctx context.Context, c client.Client) error {
	if err := registry.EnsureNamespace(ctx, c, api.DefaultNS); err != nil {
		return err
	}
	for i := range f.w.cfg.Devices {
		o, err := c.Create(ctx, &api.Device{
			TypeMeta: typeOf(api.KindDevice), Metadata: api.ObjectMeta{Name: deviceName(i)},
		}, client.WriteOptions{})
		if err != nil {
			return fmt.Errorf("create %s: %w", deviceName(i), err)
		}
		d := api.Copy(o.(*api.Device))
		d.Status.Identity.Fingerprint = fingerprint(d.Metadata.Name)
		if _, err := c.Update(ctx, d, client.WriteOptions{Subresource: "status"}); err != nil {
			return fmt.Errorf("enroll %s: %w", deviceName(i), err)
		}
	}
	return nil
}

func typeOf(k *api.Kind) api.TypeMeta { return api.TypeMeta{APIVersion: k.APIVersion, Kind: k.Kind} }

func deviceName(i int) string { return fmt.Sprintf("pi-%02d", i) }

func workloadName(i int) string { return fmt.Sprintf("app%d", i) }

func fingerprint(device string) string {
	return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(device)))
}

// declare gives a workload a new template.
func (f *fleet) declare(i int) {
	f.template++
	f.declared[i] = f.template
	f.images[digest(f.template)] = f.template
	for _, d := range f.devices {
		d.runtime.Publish(digest(f.template), nil)
	}
	f.w.logf("%s is declared to run template %d", workloadName(i), f.template)
}

func imageName(template int) string { return fmt.Sprintf("registry.test/app:%d", template) }

func digest(template int) string {
	return fmt.Sprintf("registry.test/app@sha256:%x", sha256.Sum256([]byte(imageName(template))))
}

func (f *fleet) nextDeclaration() {
	f.w.after(f.w.about(declareEvery), func() {
		if f.w.quiet {
			return
		}
		i := f.w.rng.IntN(workloads)
		if f.declared[i] != 0 && f.w.chance(0.2) {
			f.declared[i] = 0
			f.w.logf("%s is deleted", workloadName(i))
		} else {
			f.declare(i)
		}
		f.nextDeclaration()
	})
}

// reconcile has some member compare what is declared with what there is, and write the difference. Two of them may work at once;
// each write is made against what was listed, so the later one loses.
func (f *fleet) reconcile() {
	m := f.w.members[f.w.rng.IntN(len(f.w.members))]
	f.as("controller:sim", m, func(ctx context.Context, c client.Client) {
		for i := range workloads {
			if err := f.reconcileOne(ctx, c, i); err != nil && ctx.Err() == nil &&
				!fault.Is(err, fault.Conflict, fault.AlreadyExists, fault.NotFound, fault.Timeout, fault.Unavailable) {
				f.w.fail(history.NoErrors, "reconcile %s at %s: %v", workloadName(i), m.name, err)
				return
			}
		}
	})
}

func (f *fleet) reconcileOne(ctx context.Context, c client.Client, i int) error {
	l, err := c.List(ctx, api.KindAssignment, client.ListOptions{Namespace: api.DefaultNS})
	if err != nil {
		return err
	}
	template := f.declared[i]
	have := map[string]*api.Assignment{}
	for _, o := range l.Items {
		if a := o.(*api.Assignment); a.Spec.Workload == workloadName(i) {
			have[a.Spec.Device] = a
		}
	}
	if template != 0 {
		if err := f.ensureRevision(ctx, c, i, template); err != nil {
			return err
		}
	}
	for n := range f.w.cfg.Devices {
		if err := f.place(ctx, c, i, template, deviceName(n), have[deviceName(n)]); err != nil {
			return err
		}
	}
	return nil
}

func (f *fleet) ensureRevision(ctx context.Context, c client.Client, i, template int) error {
	rev := &api.WorkloadRevision{TypeMeta: typeOf(api.KindWorkloadRevision)}
	rev.Metadata = api.ObjectMeta{Name: revisionName(i, template), Namespace: api.DefaultNS}
	rev.Spec = api.WorkloadRevisionSpec{
		Workload: workloadName(i), Revision: int64(template), Hash: fmt.Sprint(template),
		Images: map[string]string{imageName(template): digest(template)},
	}
	rev.Spec.Template.Spec.Containers = []api.Container{{Name: "main", Image: imageName(template)}}
	_, err := c.Create(ctx, rev, client.WriteOptions{})
	if fault.Is(err, fault.AlreadyExists) {
		return nil
	}
	return err
}

func revisionName(i, template int) string { return fmt.Sprintf("%s-%d", workloadName(i), template) }

// place brings one assignment to the template; 0: to its end. What is ordered is noted before the order may take effect.
func (f *fleet) place(ctx context.Context, c client.Client, i, template int, device string, a *api.Assignment) error {
	var err error
	switch {
	case a == nil && template != 0:
		n := &api.Assignment{TypeMeta: typeOf(api.KindAssignment)}
		n.Metadata = api.ObjectMeta{Name: workloadName(i) + "." + device, Namespace: api.DefaultNS}
		n.Spec = api.AssignmentSpec{Workload: workloadName(i), Revision: revisionName(i, template), Device: device}
		_, err = c.Create(ctx, n, client.WriteOptions{})
	case a != nil && template == 0:
		f.buried[a.Metadata.UID] = true
		ref := api.Ref{Kind: api.KindAssignment, Namespace: api.DefaultNS, Name: a.Metadata.Name}
		err = c.Delete(ctx, ref, client.DeleteOptions{UID: a.Metadata.UID, ResourceVersion: a.Metadata.ResourceVersion})
	case a != nil && a.Spec.Revision != revisionName(i, template):
		f.ordered[a.Metadata.UID] = max(f.ordered[a.Metadata.UID], template)
		n := api.Copy(a)
		n.Spec.Revision = revisionName(i, template)
		_, err = c.Update(ctx, n, client.WriteOptions{})
	}
	return err
}

// fault makes something go wrong on some device.
func (f *fleet) fault() {
	d := f.devices[f.w.rng.IntN(len(f.devices))]
	d.faults++
	switch f.w.rng.IntN(7) {
	case 0:
		d.powerCut()
	case 1:
		d.killAgent()
	case 2:
		d.runtime.Down()
		d.step(runtimeChanged())
		f.w.undoLater("the runtime of "+d.name+" is down", faultTime, func() {
			d.faults++
			d.runtime.Up()
			d.step(runtimeChanged())
		})
	case 3, 4:
		d.cutOff()
	case 5:
		d.runtime.KillByHand("main")
		d.step(runtimeChanged())
	case 6:
		d.runtime.RemoveByHand("main")
		d.step(runtimeChanged())
	}
}

// judgeRest compares what runs on each device with what the hub says that it should.
func (f *fleet) judgeRest() {
	v := history.Violation{Check: history.Converges}
	for _, d := range f.devices {
		want := []int{}
		for _, t := range f.declared {
			if t != 0 {
				want = append(want, t)
			}
		}
		got := f.running(d)
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(want, got) {
			v.What = fmt.Sprintf("%s runs templates %v, %v are declared", d.name, got, want)
			f.breaches = append(f.breaches, v)
			f.w.logf("VIOLATION %s", v)
		}
	}
}

// running lists the templates that run on a device.
func (f *fleet) running(d *device) []int {
	out := []int{}
	for _, k := range d.runtime.Containers() {
		if k.State == workload.Running {
			out = append(out, f.images[k.Image])
		}
	}
	return out
}

func (f *fleet) check() []history.Violation {
	out := f.breaches
	for _, d := range f.devices {
		for _, what := range d.runtime.Violations() {
			out = append(out, history.Violation{Check: history.OneCopy, What: d.name + ": " + what})
		}
	}
	return out
}
