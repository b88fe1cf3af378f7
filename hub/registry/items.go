package registry

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
)

// Verbs of admission requests, and of the journal beside those of transactions.
const (
	verbCreate = "create"
	verbUpdate = "update"
	verbStatus = "status"
	verbDelete = "delete"
)

func (p *plan) create(w *write) error {
	e := w.entry
	if e.cur != nil {
		err := fault.ObjectExists(e.ref.Kind.Plural, e.ref.Name)
		if e.cur.Meta().DeletionTimestamp != nil {
			err.Message += " and is being deleted: wait until it is gone"
		}
		return err
	}
	if w.obj.Meta().ResourceVersion != "" {
		return fault.BadRequest.Errorf("%s: metadata.resourceVersion must not be set on an object to be created", title(e.ref))
	}
	obj := w.obj.DeepCopyObject()
	p.born(e.ref, obj)
	if err := p.admit(w, verbCreate, nil, obj); err != nil {
		return err
	}
	if err := p.own(w, nil, obj); err != nil {
		return err
	}
	return p.settle(w, obj)
}

// born sets what the registry decides about a new object.
func (p *plan) born(ref api.Ref, obj api.Object) {
	*obj.Type() = api.TypeMeta{APIVersion: ref.Kind.APIVersion, Kind: ref.Kind.Kind}
	m := obj.Meta()
	m.UID = p.c.r.o.NewUID()
	m.CreationTimestamp = api.TimeOf(p.c.r.o.Now())
	m.ResourceVersion, m.Generation, m.ManagedFields = "", 0, nil
	m.DeletionTimestamp, m.DeletionGracePeriodSeconds = nil, nil
	keepContended(obj, nil)
	if ref.Kind.HasGeneration {
		m.Generation = 1
	}
	if ref.Kind.HasStatus {
		setStatus(obj, nil)
	}
	switch o := obj.(type) {
	case *api.Namespace:
		o.Status.Phase = api.NamespaceActive
	case *api.JoinToken:
		if o.Spec.Expires.IsZero() {
			o.Spec.Expires = api.TimeOf(p.c.r.o.Now().Add(api.DefaultTokenLife))
		}
	}
}

func (p *plan) update(w *write) error {
	e := w.entry
	if err := p.expect(w); err != nil {
		return err
	}
	obj := w.obj.DeepCopyObject()
	if err := p.keep(e.ref, obj, e.cur); err != nil {
		return err
	}
	if err := p.admit(w, verbUpdate, e.cur, obj); err != nil {
		return err
	}
	if err := p.own(w, e.cur, obj); err != nil {
		return err
	}
	return p.settle(w, obj)
}

// keep carries over what an update does not decide.
func (p *plan) keep(ref api.Ref, obj, cur api.Object) error {
	*obj.Type() = api.TypeMeta{APIVersion: ref.Kind.APIVersion, Kind: ref.Kind.Kind}
	was := cur.DeepCopyObject().Meta()
	m := obj.Meta()
	m.UID, m.ResourceVersion, m.Generation = was.UID, was.ResourceVersion, was.Generation
	m.CreationTimestamp, m.GenerateName = was.CreationTimestamp, was.GenerateName
	m.DeletionTimestamp, m.DeletionGracePeriodSeconds = was.DeletionTimestamp, was.DeletionGracePeriodSeconds
	m.ManagedFields = was.ManagedFields
	keepContended(obj, cur)
	if ref.Kind.HasStatus {
		setStatus(obj, cur)
	}
	if was.DeletionTimestamp == nil {
		return nil
	}
	for _, f := range m.Finalizers {
		if !slices.Contains(was.Finalizers, f) {
			return fault.InvalidObject(ref.Kind.Kind, ref.Name, []fault.Cause{{
				Reason: "FieldValueForbidden", Field: "metadata.finalizers",
				Message: fmt.Sprintf("the object is being deleted: finalizer %q cannot be added any more", f),
			}})
		}
	}
	return nil
}

func (p *plan) status(w *write) error {
	e := w.entry
	if err := p.expect(w); err != nil {
		return err
	}
	obj := e.cur.DeepCopyObject()
	if e.ref.Kind != api.KindResourceQuota { // whose status is a count that only the plan itself makes
		setStatus(obj, w.obj)
	}
	keepContendedCondition(obj, e.cur)
	if err := p.admit(w, verbStatus, e.cur, obj); err != nil {
		return err
	}
	return p.settle(w, obj)
}

// expect holds the preconditions that the caller put on an object that must exist.
func (p *plan) expect(w *write) error {
	e, m := w.entry, w.obj.Meta()
	switch {
	case e.cur == nil:
		return notFound(e.ref)
	case m.UID != "" && m.UID != e.cur.Meta().UID:
		return conflict(e.ref, "another object of this name (uid "+e.cur.Meta().UID+") has taken the place of the one meant (uid "+m.UID+")")
	case m.ResourceVersion == "":
		return nil
	}
	want, err := parseRevision(m.ResourceVersion)
	if err != nil {
		return err
	}
	if e.base == nil || e.base.ModRevision != want {
		return conflict(e.ref, "it is at resourceVersion "+e.cur.Meta().ResourceVersion+", not "+m.ResourceVersion)
	}
	return nil
}

// admit normalizes, completes and judges the object: defaults, then admission. old is what stands.
func (p *plan) admit(w *write, verb string, old, obj api.Object) error {
	normalize(obj)
	api.Default(obj)
	if err := p.ask(verb, w.entry.ref, old, obj); err != nil {
		return err
	}
	normalize(obj)
	return nil
}

// ask puts the object to admission.
func (p *plan) ask(verb string, ref api.Ref, old, obj api.Object) error {
	if p.c.r.o.Admit == nil {
		return nil
	}
	rq := &AdmissionRequest{Actor: p.c.actor, Verb: verb, Kind: ref.Kind, Old: old, New: obj, DryRun: p.rq.dryRun, Load: p.load, State: p}
	err := p.c.r.o.Admit.Admit(p.view.ctx, rq)
	p.warnings = append(p.warnings, rq.Warnings...)
	return err
}

// load gives admission another object, and has the write rest on it.
func (p *plan) load(ref api.Ref) (api.Object, error) {
	if err := checkRef(ref); err != nil {
		return nil, err
	}
	e, err := p.view.load(ref)
	if err != nil {
		return nil, err
	}
	e.guard = true
	return e.cur, nil
}

// settle validates the object and puts it into the view, unless it is what stands already.
func (p *plan) settle(w *write, obj api.Object) error {
	e := w.entry
	if e.cur != nil && e.ref.Kind.HasGeneration && specChanged(e.cur, obj) {
		obj.Meta().Generation = e.cur.Meta().Generation + 1
	}
	if same, err := equal(e.cur, obj); err != nil || same {
		return err
	}
	if ref, ok := api.RefOf(obj); !ok || ref != e.ref {
		return fault.Internal.Errorf("admission renamed %s", title(e.ref))
	}
	if err := validate(e.cur, obj); err != nil {
		return err
	}
	w.action = actionConfigured
	if e.old == nil {
		w.action = actionCreated
	}
	e.verb = string(w.verb)
	m := obj.Meta()
	if m.DeletionTimestamp != nil && len(m.Finalizers) == 0 && e.ref.Kind != api.KindNamespace {
		e.cur = nil // the last finalizer is gone
		return nil
	}
	e.cur = obj
	return nil
}

// validate refuses what breaks a rule. An object that broke it already, because the rule is newer than the object, may be written as
// long as it is not made worse: otherwise nobody could even report its status.
func validate(cur, obj api.Object) error {
	if cur == nil {
		return api.InvalidError(obj, api.Validate(obj))
	}
	errs := api.ValidateUpdate(cur, obj)
	if len(errs) > 0 {
		before := api.Validate(cur)
		errs = slices.DeleteFunc(errs, func(e api.FieldError) bool { return slices.Contains(before, e) })
	}
	return api.InvalidError(obj, errs)
}

func equal(a, b api.Object) (bool, error) {
	if a == nil {
		return false, nil
	}
	x, err := plain(a)
	if err != nil {
		return false, err
	}
	y, err := plain(b)
	return bytes.Equal(x, y), err
}

// delete removes the object, or marks it while something holds it.
func (p *plan) delete(w *write) error {
	e := w.entry
	if err := p.expect(w); err != nil {
		return err
	}
	if e.ref.Kind == api.KindNamespace && e.ref.Name == api.DefaultNS {
		return fault.Forbidden.Errorf("namespace %q cannot be deleted", api.DefaultNS)
	}
	if err := p.cascade(w); err != nil {
		return err
	}
	return p.remove(w)
}

func (p *plan) remove(w *write) error {
	e := w.entry
	if !w.dependent {
		if err := p.ask(verbDelete, e.ref, e.cur, nil); err != nil {
			return err
		}
	}
	held := len(e.cur.Meta().Finalizers) > 0
	if e.ref.Kind == api.KindNamespace && !held {
		// Only a namespace that is known to terminate can be known to stay empty.
		held = e.cur.Meta().DeletionTimestamp == nil
		if !held {
			empty, err := p.view.isEmptyNamespace(e.ref.Name)
			if err != nil {
				return err
			}
			held = !empty
		}
	}
	w.action = actionDeleted
	switch {
	case !held:
		e.cur, e.verb = nil, verbDelete
	case e.cur.Meta().DeletionTimestamp == nil:
		e.cur, e.verb = p.marked(e.cur), verbDelete
	}
	return nil
}

// marked is the object in the state of being deleted.
func (p *plan) marked(cur api.Object) api.Object {
	obj := cur.DeepCopyObject()
	now, grace := api.TimeOf(p.c.r.o.Now()), int64(0)
	obj.Meta().DeletionTimestamp, obj.Meta().DeletionGracePeriodSeconds = &now, &grace
	if ns, ok := obj.(*api.Namespace); ok {
		ns.Status.Phase = api.NamespaceTerminating
	}
	return obj
}

// cascade does what the propagation policy asks beyond Background, which the garbage collector does: Orphan cuts dependents
// loose and Foreground deletes them, both in the same command as the deletion.
func (p *plan) cascade(w *write) error {
	switch w.cascade {
	case "", "Background":
		return nil
	case "Orphan", "Foreground":
	default:
		return fault.BadRequest.Errorf("propagationPolicy %q: use Background, Foreground or Orphan", w.cascade)
	}
	deps, err := p.dependents(w.entry)
	if err != nil {
		return err
	}
	for _, d := range deps {
		d.guard = true
		if w.cascade == "Orphan" {
			obj := d.cur.DeepCopyObject()
			m := obj.Meta()
			m.OwnerReferences = slices.DeleteFunc(m.OwnerReferences, func(o api.OwnerReference) bool { return o.UID == w.entry.cur.Meta().UID })
			d.cur, d.verb = obj, verbUpdate
			continue
		}
		dw := &write{verb: client.TxDelete, ref: d.ref, entry: d, cascade: w.cascade, dependent: true}
		if err := p.cascade(dw); err != nil {
			return err
		}
		if d.cur == nil {
			continue // reached on two ways
		}
		if err := p.remove(dw); err != nil {
			return err
		}
	}
	return nil
}

// dependents are the objects that name the object as their owner, by uid.
func (p *plan) dependents(owner *entry) ([]*entry, error) {
	var out []*entry
	uid := owner.cur.Meta().UID
	for _, k := range api.Kinds() {
		ns := ""
		if owner.ref.Kind.Namespaced {
			if !k.Namespaced {
				continue // an owner in a namespace owns only within it
			}
			ns = owner.ref.Namespace
		}
		err := p.view.each(prefixOf(k, ns), func(e *entry) (bool, error) {
			if e.cur == nil || e.cur.Meta().DeletionTimestamp != nil {
				return true, nil
			}
			owned := slices.ContainsFunc(e.cur.Meta().OwnerReferences, func(o api.OwnerReference) bool { return o.UID == uid })
			if owned && uid != e.cur.Meta().UID {
				kept, err := p.view.keepEntry(e)
				if err != nil {
					return false, err
				}
				out = append(out, kept)
			}
			return true, nil
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
