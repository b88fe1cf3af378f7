package registry

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/store"
)

// How quotas are counted
//
// What is used stands in the quota's own status, and changes in the command that adds or removes. Such a command rests on every
// quota of the namespace at the revision of its plan, so that of two that take the last place one is planned again. The rules:
//
//  1. A command that changes what a namespace holds demands that no quota of the namespace was written since its plan. So none that
//     was planned before a quota existed is applied after it.
//  2. A name is counted once status.used has it. A quota is made, or given other limits, without a count: its maker counts in a second
//     command, at a revision at which rule 1 holds already, so whatever comes in between has changed the quota and is planned anew.
//  3. Whoever finds a name that was not counted yet (its maker died in between) counts it in his own command, for the same reason.
//  4. An object is charged by what stands in itself, so what goes gives back what it took.
//  5. What lowers the use is always allowed, also above the limit.

// charge is what a plan does to the quotas of one namespace.
type charge struct {
	namespace string
	changed   []*entry // those that count for something
	recount   bool     // names without a count are counted now
}

// quotas charges the quotas of every namespace that the plan adds to or takes from, and refuses what exceeds them.
func (p *plan) quotas() error {
	for _, c := range p.charges() {
		if err := p.charge(c); err != nil {
			return err
		}
	}
	return nil
}

// charges lists the namespaces whose quotas may be concerned, in order.
func (p *plan) charges() []charge {
	of := map[string]*charge{}
	get := func(ns string) *charge {
		if of[ns] == nil {
			of[ns] = &charge{namespace: ns}
		}
		return of[ns]
	}
	for _, e := range p.view.order {
		if e.ref.Kind.Namespaced && counts(e) {
			get(e.ref.Namespace).changed = append(get(e.ref.Namespace).changed, e)
		}
	}
	for _, w := range p.rq.writes {
		if w.ref.Kind == api.KindResourceQuota && w.verb == client.TxStatus {
			get(w.ref.Namespace).recount = true
		}
	}
	out := make([]charge, 0, len(of))
	for _, ns := range slices.Sorted(maps.Keys(of)) {
		out = append(out, *of[ns])
	}
	return out
}

// counts reports whether the planned change of an entry may matter to a quota: it comes, it goes, or it is a copy that asks for another
// amount, a quota, or a workload, whose template a quota judges.
func counts(e *entry) bool {
	if e.cur == e.old {
		return false
	}
	if e.cur == nil || e.old == nil {
		return true
	}
	switch is := e.cur.(type) {
	case *api.Assignment:
		return !sameJSON(is.Spec.Resources, e.old.(*api.Assignment).Spec.Resources)
	case *api.ResourceQuota:
		return !sameJSON(is.Spec, e.old.(*api.ResourceQuota).Spec)
	case *api.Workload:
		return !sameJSON(is.Spec.Template, e.old.(*api.Workload).Spec.Template)
	}
	return false
}

func (p *plan) charge(c charge) error {
	all, err := p.quotasOf(c.namespace)
	if err != nil {
		return err
	}
	prefix := prefixOf(api.KindResourceQuota, c.namespace)
	p.preconditions = append(p.preconditions, store.Precondition{Key: prefix, End: prefixEnd(prefix), ModRevision: p.view.rev})
	for _, e := range all {
		q := e.cur.(*api.ResourceQuota)
		if err := mustSpecify(q, c.changed); err != nil {
			return err
		}
		next, err := p.count(e, c)
		if err != nil {
			return err
		}
		p.counted = append(p.counted, c.namespace)
		if sameJSON(next, q.Status) {
			continue
		}
		kept, err := p.view.keepEntry(e)
		if err != nil {
			return err
		}
		obj := api.Copy(q)
		obj.Status = next
		kept.guard, kept.cur = true, obj
		if kept.verb == "" {
			kept.verb = verbStatus
		}
	}
	return nil
}

// quotasOf lists the quotas of the namespace as they will stand.
func (p *plan) quotasOf(namespace string) ([]*entry, error) {
	var out []*entry
	err := p.view.each(prefixOf(api.KindResourceQuota, namespace), func(e *entry) (bool, error) {
		if e.cur != nil {
			out = append(out, e)
		}
		return true, nil
	})
	for _, e := range p.view.order {
		if e.ref.Kind == api.KindResourceQuota && e.ref.Namespace == namespace && e.base == nil && e.cur != nil {
			out = append(out, e)
		}
	}
	return out, err
}

// count works out the status of one quota. A quota whose limits the plan itself sets keeps the counts that it has and gets no new ones.
func (p *plan) count(e *entry, c charge) (api.ResourceQuotaStatus, error) {
	q := e.cur.(*api.ResourceQuota)
	was, _ := e.old.(*api.ResourceQuota)
	fresh := was == nil || !sameJSON(was.Spec, q.Spec)
	var next api.ResourceQuotaStatus
	var over []excess
	for _, name := range slices.Sorted(maps.Keys(q.Spec.Hard)) {
		took := took(name, c.changed)
		used, counted := api.Quantity{}, false
		if was != nil {
			used, counted = was.Status.Used[name]
		}
		before := used.Milli()
		switch {
		case counted:
		case fresh:
			continue
		default:
			if !c.recount && took == 0 {
				continue // counted by whoever first depends on it
			}
			now, err := p.recount(name, c.namespace)
			if err != nil {
				return next, err
			}
			before = plus(now, -took)
		}
		if next.Hard == nil {
			next.Hard, next.Used = api.ResourceList{}, api.ResourceList{}
		}
		hard := q.Spec.Hard[name]
		after := api.MilliQuantity(plus(before, took))
		if strings.HasSuffix(name, api.ResourceMemory) {
			after = api.BytesQuantity(plus(before, took) / 1000)
		}
		if took > 0 && after.Cmp(hard) > 0 {
			over = append(over, excess{name, api.MilliQuantity(took), api.MilliQuantity(before), hard})
		}
		next.Hard[name], next.Used[name] = hard, after
	}
	if len(over) > 0 {
		return next, exceeded(q, c.changed, over)
	}
	return next, nil
}

// took is how much the changes add to what is used, in thousandths; below 0 they give back.
func took(name string, changed []*entry) int64 {
	adds, gives := int64(0), int64(0)
	for _, e := range changed {
		adds, gives = plus(adds, api.QuotaCharge(name, e.cur).Milli()), plus(gives, api.QuotaCharge(name, e.old).Milli())
	}
	return adds - gives // of two that are not below 0
}

// plus is the sum, at most what an amount can be: one that went around would come back as no use at all.
func plus(a, b int64) int64 {
	switch {
	case b > 0 && a > math.MaxInt64-b:
		return math.MaxInt64
	case b < 0 && a < -math.MaxInt64-b:
		return -math.MaxInt64
	}
	return a + b
}

// recount sums over everything that will stand, in thousandths.
func (p *plan) recount(name, namespace string) (int64, error) {
	kind := api.QuotaCounts(name)
	n := int64(0)
	err := p.view.each(prefixOf(kind, namespace), func(e *entry) (bool, error) {
		n = plus(n, api.QuotaCharge(name, e.cur).Milli())
		return true, nil
	})
	for _, e := range p.view.order {
		if e.ref.Kind == kind && e.ref.Namespace == namespace && e.base == nil {
			n = plus(n, api.QuotaCharge(name, e.cur).Milli())
		}
	}
	return n, err
}

// excess is one limit that a write would go over.
type excess struct {
	name              string
	asked, used, hard api.Quantity
}

// exceeded says it in Kubernetes' words. The object named is the first that takes.
func exceeded(q *api.ResourceQuota, changed []*entry, over []excess) error {
	var asked, used, hard []string
	for _, x := range over {
		if strings.HasSuffix(x.name, api.ResourceMemory) {
			x.asked, x.used = api.BytesQuantity(x.asked.Bytes()), api.BytesQuantity(x.used.Bytes())
		}
		asked, used, hard = append(asked, x.name+"="+x.asked.String()), append(used, x.name+"="+x.used.String()), append(hard, x.name+"="+x.hard.String())
	}
	ref := changed[0].ref
	for _, e := range changed {
		if e.cur != nil && api.QuotaCharge(over[0].name, e.cur).Cmp(api.QuotaCharge(over[0].name, e.old)) > 0 {
			ref = e.ref
			break
		}
	}
	return quotaRefusal(ref, fmt.Sprintf("exceeded quota: %s, requested: %s, used: %s, limited: %s",
		q.Metadata.Name, strings.Join(asked, ","), strings.Join(used, ","), strings.Join(hard, ",")))
}

// mustSpecify refuses a workload whose copies could not be counted, when it is written rather than when they are made.
func mustSpecify(q *api.ResourceQuota, changed []*entry) error {
	for _, e := range changed {
		w, ok := e.cur.(*api.Workload)
		if !ok {
			continue
		}
		var missing []string
		for _, name := range slices.Sorted(maps.Keys(q.Spec.Hard)) {
			if containers := api.QuotaUnspecified(name, &w.Spec.Template.Spec); len(containers) > 0 {
				missing = append(missing, name+" for: "+strings.Join(containers, ","))
			}
		}
		if len(missing) > 0 {
			return quotaRefusal(e.ref, fmt.Sprintf("failed quota: %s: must specify %s", q.Metadata.Name, strings.Join(missing, "; ")))
		}
	}
	return nil
}

func quotaRefusal(ref api.Ref, why string) error {
	name := ref.Kind.Plural
	if g := ref.Kind.Group(); g != "" {
		name += "." + g
	}
	e := fault.Forbidden.Errorf("%s %q is forbidden: %s", name, ref.Name, why)
	e.Details = fault.Details{Kind: ref.Kind.Plural, Name: ref.Name, Causes: []fault.Cause{{Reason: client.ReasonQuota, Message: why}}}
	return e
}

// uncounted lists the quotas that the plan made or gave other limits, and that its request has yet to count.
func (p *plan) uncounted() []api.Ref {
	var out []api.Ref
	for _, e := range p.changed {
		q, ok := e.cur.(*api.ResourceQuota)
		if ok && len(q.Status.Used) < len(q.Spec.Hard) {
			out = append(out, e.ref)
		}
	}
	return out
}

// quotaActor counts in a quota's name what its maker may not write.
const quotaActor = "hub:quota"

// countFresh counts, in a command of its own, what the quotas that a plan made or changed limit, and puts them into the answer. What
// cannot be counted now is counted by the next write that depends on it.
func (c *actorClient) countFresh(ctx context.Context, p *plan, out []client.TxResult) []client.TxResult {
	if c.actor.Name == quotaActor {
		return out
	}
	for _, ref := range p.uncounted() {
		counter := &actorClient{r: c.r, actor: Actor{Name: quotaActor, Term: c.actor.Term}}
		obj := ref.Kind.New()
		obj.Meta().Namespace, obj.Meta().Name = ref.Namespace, ref.Name
		res, err := counter.commit(ctx, &request{writes: []*write{{verb: client.TxStatus, ref: ref, obj: obj, manager: quotaActor}}})
		if err != nil {
			c.r.o.Logger.Debug("count a new quota: left to the next write", "quota", ref.String(), "err", err)
			continue
		}
		for i, w := range p.rq.writes {
			if w.entry.ref == ref && w.verb != client.TxDelete {
				out[i].Object = res[0].Object
			}
		}
	}
	return out
}
