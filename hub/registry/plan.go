package registry

import (
	"context"
	"crypto/rand"
	"slices"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/store"
)

// What an item of a transaction came to.
const (
	actionCreated    = "created"
	actionConfigured = "configured"
	actionUnchanged  = "unchanged"
	actionDeleted    = "deleted"
)

// plan is a request worked out on one revision: what to propose, and what to answer once it is applied.
type plan struct {
	c             *actorClient
	rq            *request
	view          *view
	preconditions []store.Precondition
	ops           []store.Op
	changed       []*entry // one per op
	warnings      []string
	sealedBy      *string  // id of the key that seals; nil until it is needed
	counted       []string // namespaces whose quotas the plan counts against
}

// plan works the request out. It has no effect beside what admission has.
func (c *actorClient) plan(ctx context.Context, rq *request) (*plan, error) {
	p := &plan{c: c, rq: rq, view: newView(ctx, c.r)}
	if err := p.hold(rq.ifs); err != nil {
		return nil, err
	}
	for _, w := range rq.writes {
		if err := p.do(w); err != nil {
			return nil, err
		}
	}
	if err := p.checkNamespaces(); err != nil {
		return nil, err
	}
	if err := p.judge(); err != nil {
		return nil, err
	}
	if err := p.tombstones(); err != nil {
		return nil, err
	}
	if err := p.quotas(); err != nil {
		return nil, err
	}
	if err := p.encode(); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *plan) do(w *write) error {
	if w.ref.Name == "" {
		return p.doGenerated(w)
	}
	e, err := p.view.load(w.ref)
	if err != nil {
		return err
	}
	w.entry, w.action = e, actionUnchanged
	e.guard = true
	switch w.verb {
	case client.TxCreate:
		return p.create(w)
	case client.TxUpdate:
		return p.update(w)
	case client.TxStatus:
		return p.status(w)
	case client.TxApply:
		return p.apply(w)
	case client.TxDelete:
		return p.delete(w)
	}
	panic("registry: unknown verb " + string(w.verb))
}

// Bounds of a generated name, as in Kubernetes: what stands before the suffix, in bytes, and how many names are tried.
const (
	maxGenerateBase = 58
	maxGenerateTry  = 8
)

// doGenerated creates under a name that is free. The write keeps no name: a plan made anew draws another.
func (p *plan) doGenerated(w *write) error {
	for try := 1; ; try++ {
		err := p.doNamed(w)
		if try == maxGenerateTry || !fault.Is(err, fault.AlreadyExists) {
			return err
		}
	}
}

func (p *plan) doNamed(w *write) error {
	named := *w
	named.obj = w.obj.DeepCopyObject()
	base := w.obj.Meta().GenerateName
	named.obj.Meta().Name = base[:min(len(base), maxGenerateBase)] + suffix()
	named.ref.Name = named.obj.Meta().Name
	if err := checkRef(named.ref); err != nil {
		return err
	}
	err := p.do(&named)
	w.entry, w.action = named.entry, named.action
	return err
}

// suffix is five random characters that form no words.
func suffix() string {
	const alphabet = "bcdfghjklmnpqrstvwxz2456789"
	b := make([]byte, 5)
	_, _ = rand.Read(b) // never fails: the runtime aborts first
	for i := range b {
		b[i] = alphabet[int(b[i])%len(alphabet)]
	}
	return string(b)
}

// checkNamespaces demands that what is created has a namespace that is there to stay. The namespace is guarded at its revision, so
// that it cannot begin to terminate in between.
func (p *plan) checkNamespaces() error {
	for _, e := range slices.Clone(p.view.order) {
		if !e.ref.Kind.Namespaced || e.old != nil || e.cur == nil {
			continue
		}
		ns, err := p.view.load(api.Ref{Kind: api.KindNamespace, Name: e.ref.Namespace})
		if err != nil {
			return err
		}
		ns.guard = true
		switch {
		case ns.cur == nil:
			return fault.ObjectNotFound("namespaces", e.ref.Namespace)
		case ns.cur.Meta().DeletionTimestamp != nil:
			err := fault.Forbidden.Errorf("%s: namespace %q is being deleted: nothing can be created in it", title(e.ref), e.ref.Namespace)
			err.Details = fault.Details{Kind: e.ref.Kind.Plural, Name: e.ref.Name, Causes: []fault.Cause{
				{Reason: "NamespaceTerminating", Field: "metadata.namespace", Message: "namespace " + e.ref.Namespace + " is being deleted"},
			}}
			return err
		}
	}
	return nil
}

// MaxTransactionBytes bounds keys, values and diffs of one command.
const MaxTransactionBytes = 8 << 20

// encode turns the view into ops and preconditions.
func (p *plan) encode() error {
	size := 0
	for _, e := range p.view.order {
		if e.guard {
			pre := store.Precondition{Key: e.key}
			if e.base != nil {
				pre.ModRevision = e.base.ModRevision
			}
			p.preconditions = append(p.preconditions, pre)
		}
		if e.cur == e.old {
			continue
		}
		op, err := p.op(e)
		if err != nil {
			return err
		}
		size += len(op.Key) + len(op.Value) + len(op.Note.Diff)
		p.ops = append(p.ops, op)
		p.changed = append(p.changed, e)
	}
	switch {
	case size > MaxTransactionBytes:
		return fault.SizeLimit("the transaction", int64(size), MaxTransactionBytes)
	case len(p.ops) > store.MaxOps || len(p.preconditions) > store.MaxOps:
		return fault.TooLarge.Errorf("the transaction changes %d objects; the limit is %d", len(p.ops), store.MaxOps)
	}
	return nil
}

func (p *plan) op(e *entry) (store.Op, error) {
	diff, err := p.c.r.diff(e.ref, e.old, e.cur)
	if err != nil {
		return store.Op{}, err
	}
	op := store.Op{Type: store.OpDelete, Key: e.key, Note: store.Note{Verb: p.noteVerb(e), Object: title(e.ref), Diff: diff}}
	if e.cur == nil {
		return op, nil
	}
	op.Type = store.OpPut
	by := ""
	if e.ref.Kind == api.KindSecret {
		if by, err = p.sealingKey(); err != nil {
			return op, err
		}
	}
	op.Value, err = p.c.r.codec.encode(e.ref, e.cur, e.base, e.old, by)
	return op, err
}

// noteVerb is the journal's word for what happened to the object as a whole.
func (p *plan) noteVerb(e *entry) string {
	a, isAssignment := e.cur.(*api.Assignment)
	was, _ := e.old.(*api.Assignment)
	switch {
	case e.cur == nil:
		return "delete"
	case e.old == nil && e.verb != string(client.TxApply):
		return "create"
	case isAssignment && was != nil && was.Spec.Device != a.Spec.Device:
		if a.Spec.Device == "" {
			return "unbind"
		}
		return "bind"
	}
	return e.verb
}

// results answers item by item; revs are those of the ops, nil for a dry run or where nothing changed.
func (p *plan) results(revs []store.Revision) []client.TxResult {
	for i, rev := range revs {
		e := p.changed[i]
		if e.cur != nil && rev != 0 {
			e.cur = e.cur.DeepCopyObject()
			e.cur.Meta().ResourceVersion = rev.String()
		}
	}
	out := make([]client.TxResult, 0, len(p.rq.writes))
	for _, w := range p.rq.writes {
		r := client.TxResult{Object: w.entry.cur, Action: w.action}
		if r.Object == nil {
			if r.Object = w.entry.old; r.Object == nil { // created and deleted by one transaction
				r.Object = w.obj
			}
			r.Object = r.Object.DeepCopyObject()
		}
		out = append(out, r)
	}
	return out
}
