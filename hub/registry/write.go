package registry

import (
	"context"
	"errors"
	"fmt"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/store"
)

// maxAttempts bounds how often a write is planned anew. Each conflict means that another write went through, so only a key that
// many writers fight over ever gets near.
const maxAttempts = 64

// maxCountedAttempts is the same for a write that counts against a quota: every write of the namespace changes the quota, on other
// members too, so that losing is no sign of trouble. The caller's deadline ends it sooner.
const maxCountedAttempts = 4096

// request is what a method of the client asks for: some writes that stand or fall together.
type request struct {
	writes []*write
	ifs    []client.Precondition
	dryRun bool
	cause  store.Cause
}

// write is one item of a request.
type write struct {
	verb    client.Verb
	obj     api.Object // for a deletion only its kind, namespace, name, uid and resourceVersion matter
	ref     api.Ref
	manager string
	force   bool
	cascade string // deletions: Background, Foreground or Orphan
	// dependent holds for what goes with its owner. Nobody is asked about it, as nobody is when the garbage collector deletes it.
	dependent bool

	entry  *entry // after planning
	action string
}

// Create adds an object.
func (c *actorClient) Create(ctx context.Context, obj api.Object, o client.WriteOptions) (api.Object, error) {
	if o.Subresource != "" {
		return nil, fault.MethodNotAllowed.Errorf("subresource %q cannot be created", o.Subresource)
	}
	return c.one(ctx, client.TxCreate, obj, o)
}

// Update replaces an object, or only its status.
func (c *actorClient) Update(ctx context.Context, obj api.Object, o client.WriteOptions) (api.Object, error) {
	switch o.Subresource {
	case "":
		return c.one(ctx, client.TxUpdate, obj, o)
	case "status":
		return c.one(ctx, client.TxStatus, obj, o)
	}
	return nil, fault.NotFound.Errorf("there is no subresource %q", o.Subresource)
}

func (c *actorClient) one(ctx context.Context, verb client.Verb, obj api.Object, o client.WriteOptions) (api.Object, error) {
	res, err := c.Transact(ctx, client.Transaction{
		Items:        []client.TxItem{{Verb: verb, Object: obj}},
		FieldManager: o.FieldManager, DryRun: o.DryRun, Cause: o.Cause,
	})
	if err != nil {
		return nil, err
	}
	return res[0].Object, nil
}

// Delete removes an object, or marks it while finalizers hold it. A namespace goes once it is empty.
func (c *actorClient) Delete(ctx context.Context, ref api.Ref, o client.DeleteOptions) error {
	if err := checkRef(ref); err != nil {
		return err
	}
	cause, err := parseCause(o.Cause)
	if err != nil {
		return err
	}
	obj := ref.Kind.New()
	*obj.Meta() = api.ObjectMeta{Name: ref.Name, Namespace: ref.Namespace, UID: o.UID, ResourceVersion: o.ResourceVersion}
	again := func() *request {
		return &request{dryRun: o.DryRun, cause: cause, writes: []*write{{
			verb: client.TxDelete, ref: ref, obj: obj, cascade: o.Propagation,
		}}}
	}
	rq := again()
	if _, err := c.commit(ctx, rq); err != nil || o.DryRun || ref.Kind != api.KindNamespace || rq.writes[0].entry.cur == nil {
		return err
	}
	// The namespace is Terminating now: nothing can come in, so finding it empty is final. Others may have been quicker.
	obj.Meta().UID, obj.Meta().ResourceVersion = rq.writes[0].entry.cur.Meta().UID, ""
	if _, err = c.commit(ctx, again()); fault.Is(err, fault.NotFound, fault.Conflict) {
		return nil
	}
	return err
}

// Transact does all of the writes or none. An object may stand in more than one item: they are done in order.
func (c *actorClient) Transact(ctx context.Context, tx client.Transaction) ([]client.TxResult, error) {
	cause, err := parseCause(tx.Cause)
	if err != nil {
		return nil, err
	}
	switch n := len(tx.Items); {
	case n == 0:
		return nil, fault.BadRequest.Errorf("transaction of no items: give 1 to %d", client.MaxItems)
	case n > client.MaxItems:
		return nil, fault.TooLarge.Errorf("transaction of %d items: at most %d are allowed", n, client.MaxItems)
	case len(tx.If) > client.MaxPreconditions:
		return nil, fault.TooLarge.Errorf("transaction of %d preconditions: at most %d are allowed", len(tx.If), client.MaxPreconditions)
	}
	manager := tx.FieldManager
	if manager == "" {
		manager = c.actor.Name
	}
	if len(manager) > maxManagerName {
		return nil, fault.BadRequest.Errorf("fieldManager of %d bytes: at most %d are allowed", len(manager), maxManagerName)
	}
	if err := checkPreconditions(tx.If); err != nil {
		return nil, err
	}
	rq := &request{ifs: tx.If, dryRun: tx.DryRun, cause: cause}
	total := 0
	for i := range tx.Items {
		w, size, err := newWrite(tx.Items[i])
		if err != nil {
			return nil, err
		}
		if total += size; total > MaxTransactionBytes {
			return nil, fault.SizeLimit(fmt.Sprintf("the transaction up to item %d of %d", i+1, len(tx.Items)), int64(total), MaxTransactionBytes)
		}
		w.manager, w.force = manager, tx.Force
		rq.writes = append(rq.writes, w)
	}
	return c.commit(ctx, rq)
}

// newWrite checks what can be checked without the state. size is that of the object as JSON.
func newWrite(it client.TxItem) (w *write, size int, err error) {
	ref, err := refOfWrite(it.Object)
	if err != nil {
		return nil, 0, err
	}
	switch it.Verb {
	case client.TxApply, client.TxUpdate, client.TxDelete, client.TxCreate:
	case client.TxStatus:
		if !ref.Kind.HasStatus {
			return nil, 0, fault.BadRequest.Errorf("%s has no status subresource", ref.Kind.Plural)
		}
	default:
		return nil, 0, fault.BadRequest.Errorf("verb %q: use apply, create, update, status or delete", it.Verb)
	}
	// Before anything is worked out: merging and comparing cost many times what measuring does.
	b, err := plain(it.Object)
	if err != nil {
		return nil, 0, err
	}
	if len(b) > store.MaxValueBytes {
		return nil, 0, fault.SizeLimit(title(ref), int64(len(b)), store.MaxValueBytes)
	}
	w = &write{verb: it.Verb, obj: it.Object, ref: ref}
	if it.Verb == client.TxCreate && ref.Name == "" && it.Object.Meta().GenerateName != "" {
		return w, len(b), nil // named by the plan
	}
	return w, len(b), checkRef(ref)
}

func parseCause(s string) (store.Cause, error) {
	rev, err := store.ParseRevision(s)
	if err != nil {
		return store.Cause{}, fault.BadRequest.Errorf("cause: %w", err)
	}
	return store.Cause{Revision: rev}, nil
}

// commit plans on what this member has, proposes, and plans again when the ground moved. This member may be behind, so an answer
// that no proposal confirms (a refusal, a write that changes nothing, a dry run) is given only after a barrier.
func (c *actorClient) commit(ctx context.Context, rq *request) ([]client.TxResult, error) {
	fresh, attempts := false, maxAttempts
	release := func() {}
	defer func() { release() }()
	for n := 0; n < attempts; n++ {
		if err := ctx.Err(); err != nil {
			return nil, fault.Timeout.Errorf("nothing was written: %w", err)
		}
		p, err := c.plan(ctx, rq)
		if err == nil && len(p.counted) > 0 && attempts == maxAttempts && !rq.dryRun {
			if release, err = c.r.turns.take(ctx, p.counted); err != nil {
				release = func() {}
				return nil, fault.Timeout.Errorf("nothing was written: waiting for others that count against the same quota: %w", err)
			}
			attempts = maxCountedAttempts
			continue // on what those before have left
		}
		switch {
		case errors.Is(err, errMoved):
			continue
		case !fresh && (dependsOnState(err) || err == nil && (rq.dryRun || len(p.ops) == 0)):
			if err := c.r.b.Barrier(ctx); err != nil {
				return nil, storeFault(err)
			}
			fresh = true
			continue
		case err != nil:
			return c.alreadyDone(ctx, rq, err)
		}
		if rq.dryRun || len(p.ops) == 0 {
			sendWarnings(ctx, p.warnings)
			return p.results(nil), nil
		}
		res, err := c.r.b.Propose(ctx, c.command(rq, p))
		if err != nil {
			return nil, storeFault(err)
		}
		var moved *store.ConflictError
		if errors.As(res.Err, &moved) {
			fresh = true // the conflict was applied here, so what it saw can be read here
			continue
		}
		if res.Err != nil {
			return nil, refusal(res.Err)
		}
		sendWarnings(ctx, p.warnings)
		if len(res.Revisions) != len(p.ops) {
			return c.asStands(ctx, rq)
		}
		release()
		return c.countFresh(ctx, p, p.results(res.Revisions)), nil
	}
	return nil, fault.Conflict.Errorf("gave up after %d attempts: others keep changing the same objects; try again later", attempts)
}

// dependsOnState reports whether an error may come from reading an old state.
func dependsOnState(err error) bool {
	return fault.Is(err, fault.NotFound, fault.AlreadyExists, fault.Conflict, fault.Invalid, fault.Forbidden)
}

func (c *actorClient) command(rq *request, p *plan) *store.Command {
	return &store.Command{
		Term: c.actor.Term, Actor: c.actor.Name, RequestID: c.actor.RequestID, Cause: rq.cause,
		Time: c.r.o.Now().UnixNano(), If: p.preconditions, Ops: p.ops,
	}
}

// maxRequestRecords bounds how much of a request's journal is looked at to find out whether it was done.
const maxRequestRecords = 1024

// alreadyDone finds out whether a refusal comes from the request's own earlier success, whose answer was lost on the way. A
// request writes all of its objects at once, so one of them in the journal under its id speaks for all. Ids are no secrets: only the
// actor who made the request repeats it.
func (c *actorClient) alreadyDone(ctx context.Context, rq *request, refused error) ([]client.TxResult, error) {
	if c.actor.RequestID == "" || !fault.Is(refused, fault.AlreadyExists, fault.Conflict, fault.NotFound) {
		return nil, refused
	}
	recs, err := c.r.b.RecordsByRequest(c.actor.RequestID, maxRequestRecords)
	if err != nil {
		return nil, storeFault(err)
	}
	for _, rec := range recs {
		for _, w := range rq.writes {
			if w.ref.Name != "" && keyOf(w.ref) == rec.Key && rec.Actor == c.actor.Name {
				return c.asStands(ctx, rq)
			}
		}
	}
	return nil, refused
}

// asStands answers for a request that was done before: with the objects as they are now, which others may have changed since.
func (c *actorClient) asStands(ctx context.Context, rq *request) ([]client.TxResult, error) {
	if tell, ok := ctx.Value(repeatKey{}).(func()); ok {
		tell()
	}
	v := newView(ctx, c.r)
	out := make([]client.TxResult, 0, len(rq.writes))
	for _, w := range rq.writes {
		ref := w.ref
		if w.entry != nil {
			ref = w.entry.ref
		}
		e, err := v.load(ref)
		if err != nil {
			return nil, err
		}
		r := client.TxResult{Object: e.cur, Action: actionConfigured}
		switch w.verb {
		case client.TxDelete:
			r.Action = actionDeleted
		case client.TxCreate:
			r.Action = actionCreated
		}
		if e.cur == nil {
			r.Object = w.obj.DeepCopyObject()
		}
		out = append(out, r)
	}
	return out, nil
}
