package sim

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/hub/registry"
	"github.com/drover-fleet/drover/test/history"
)

const (
	clusterID    = "cluster"
	declareEvery = 150 * time.Second // mean between two changes of what is declared
	applyEvery   = 5 * time.Second   // between two looks of who declares
	shareEvery   = 2 * time.Second   // between two words of members about contacts
	workloads    = 2                 // the first runs everywhere, of the others half as many copies as devices
)

// fleet is the devices, and those who declare what they run.
type fleet struct {
	w        *world
	signer   *signer
	devices  []*device
	declared [workloads]int // number of the present template of each workload; 0: it is deleted
	template int            // number of the newest template
	images   map[string]int // template by image digest
	orders   *orders
	breaches []history.Violation
}

func (w *world) startFleet() error {
	s, err := theSigner()
	if err != nil {
		return err
	}
	f := &fleet{w: w, signer: s, images: map[string]int{}}
	f.orders = newOrders(f)
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
	w.every(applyEvery, w.rng.Float64(), f.apply)
	for _, m := range w.members {
		w.every(shareEvery, w.rng.Float64(), m.shareContacts)
	}
	return nil
}

// as has some member run a user's commands.
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
	f.w.others["templates declared"]++
	f.w.logf("%s is declared to run template %d", workloadName(i), f.template)
}

func imageName(template int) string { return fmt.Sprintf("registry.test/app:%d", template) }

func digest(template int) string {
	return fmt.Sprintf("registry.test/app@sha256:%x", sha256.Sum256([]byte(imageName(template))))
}

func (f *fleet) nextDeclaration() {
	f.w.after(f.w.about(f.w.usual(declareEvery)), func() {
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

// apply has a user bring the workloads to what is declared, at some member. Two may work at once: each write is made against what
// was read, so the later one loses.
func (f *fleet) apply() {
	m := f.w.members[f.w.rng.IntN(len(f.w.members))]
	f.as("user:sim", m, func(ctx context.Context, c client.Client) {
		for i := range workloads {
			if err := f.applyOne(ctx, c, i); err != nil && ctx.Err() == nil &&
				!fault.Is(err, fault.Conflict, fault.AlreadyExists, fault.NotFound, fault.Timeout, fault.Unavailable) {
				f.w.fail(history.NoErrors, "apply %s at %s: %v", workloadName(i), m.name, err)
				return
			}
		}
	})
}

func (f *fleet) applyOne(ctx context.Context, c client.Client, i int) error {
	ref := api.Ref{Kind: api.KindWorkload, Namespace: api.DefaultNS, Name: workloadName(i)}
	o, err := c.Get(ctx, ref, client.GetOptions{})
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	template := f.declared[i]
	if err != nil {
		if template != 0 {
			_, err = c.Create(ctx, f.workload(i, template), client.WriteOptions{})
			return err
		}
		return nil
	}
	have := o.(*api.Workload)
	switch {
	case template == 0:
		return c.Delete(ctx, ref, client.DeleteOptions{UID: have.Metadata.UID, ResourceVersion: have.Metadata.ResourceVersion})
	case have.Spec.Template.Spec.Containers[0].Image != imageName(template):
		next := api.Copy(have)
		next.Spec.Template.Spec.Containers[0].Image = imageName(template)
		_, err = c.Update(ctx, next, client.WriteOptions{})
		return err
	}
	return nil
}

func (f *fleet) workload(i, template int) *api.Workload {
	w := &api.Workload{TypeMeta: typeOf(api.KindWorkload), Metadata: api.ObjectMeta{Name: workloadName(i), Namespace: api.DefaultNS}}
	w.Spec.Placement = api.Placement{All: true, Everywhere: i == 0}
	if i > 0 {
		n := f.copies()
		w.Spec.Placement.Replicas = &n
	}
	half, history := api.IntOrPercent{Percent: 50, IsPercent: true}, int32(2)
	w.Spec.Rollout = api.RolloutRule{MaxUnavailable: &half, ProgressDeadline: api.Duration{Duration: time.Hour}}
	w.Spec.RevisionHistoryLimit = &history
	w.Spec.Template.Spec.Containers = []api.Container{{Name: "main", Image: imageName(template)}}
	return w
}

// copies is how many copies a workload has that does not run everywhere.
func (f *fleet) copies() int32 { return int32(max(f.w.cfg.Devices/2, 1)) }
