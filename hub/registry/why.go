package registry

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/store"
)

// Bounds of a chain. They count links, whatever was asked for.
const (
	DefaultChain = 50
	maxChain     = 500
	// maxEffects bounds what one link shows to have caused, and maxDepth how many steps forward are shown.
	maxEffects = 20
	maxDepth   = 4
	// maxLookBack is how many records of one object are looked through for the one that a bundle carried.
	maxLookBack = 200
)

// Link is one write in a chain of causes.
type Link struct {
	Revision  string   `json:"revision"`
	Time      api.Time `json:"time"` // by the clock of the hub member that proposed it
	Epoch     uint32   `json:"epoch"`
	Actor     string   `json:"actor"`
	Verb      string   `json:"verb"`
	Object    string   `json:"object"` // "Workload default/camera"
	RequestID string   `json:"requestID,omitempty"`
	// Cause is the revision, or else the request id, that made the actor write. Empty for people, who need none.
	Cause string `json:"cause,omitempty"`
	Diff  Diff   `json:"diff,omitzero"`
	// Depth is 0 in Links; in Effects it counts the steps forward.
	Depth int `json:"depth,omitempty"`
}

// Chain explains the present state of an object.
type Chain struct {
	Object string `json:"object"`
	// Links lead from the newest write of the object back to a person or a device, newest first.
	Links []Link `json:"links"`
	// Effects are what the object's newest effective write brought about, in the order of their revisions below each cause.
	Effects []Link `json:"effects,omitempty"`
	// Complete: the chain ends at a person, a device (or what was heard of it) or the hub's own start. Otherwise End says why it breaks off.
	Complete bool   `json:"complete"`
	End      string `json:"end,omitempty"`
}

// Why walks the journal of causes back from the newest write of the object, at most limit links (0: a default), and forward from its
// newest write that had effects. It works for deleted objects too, as long as their records are kept.
func (r *Registry) Why(ctx context.Context, ref api.Ref, limit int) (Chain, error) {
	if err := r.ready(ctx, ref); err != nil {
		return Chain{}, err
	}
	limit = clampLimit(limit)
	recs, err := r.b.RecordsOf(keyOf(ref), maxLookBack)
	if err != nil {
		return Chain{}, storeFault(err)
	}
	if len(recs) == 0 {
		return Chain{}, fault.NotFound.Errorf("nothing is recorded of %s", title(ref))
	}
	c := Chain{Object: title(ref)}
	if err := r.walkBack(&c, recs[0], limit); err != nil {
		return Chain{}, err
	}
	return c, r.effects(&c, recs, limit)
}

// effects begins at the newest write of the object's own that brought anything about: one of labels may not have.
func (r *Registry) effects(c *Chain, recs []store.Record, limit int) error {
	tried := 0
	for _, rec := range recs {
		if isStatusWrite(rec) {
			continue
		}
		if err := r.walkForward(c, rec, 1, limit, map[store.Revision]bool{rec.Revision: true}); err != nil {
			return err
		}
		if tried++; len(c.Effects) > 0 || tried == maxEffects {
			return nil
		}
	}
	return nil
}

// History returns the newest writes of the object, newest first, at most limit (0: a default).
func (r *Registry) History(ctx context.Context, ref api.Ref, limit int) ([]Link, error) {
	if err := r.ready(ctx, ref); err != nil {
		return nil, err
	}
	recs, err := r.b.RecordsOf(keyOf(ref), clampLimit(limit))
	if err != nil {
		return nil, storeFault(err)
	}
	if len(recs) == 0 {
		return nil, fault.NotFound.Errorf("nothing is recorded of %s", title(ref))
	}
	out := make([]Link, 0, len(recs))
	for _, rec := range recs {
		out = append(out, linkOf(rec))
	}
	return out, nil
}

func (r *Registry) ready(ctx context.Context, ref api.Ref) error {
	if err := checkRef(ref); err != nil {
		return err
	}
	return storeFault(r.b.Barrier(ctx))
}

func clampLimit(n int) int {
	if n <= 0 {
		return DefaultChain
	}
	return min(n, maxChain)
}

// walkBack follows causes. Each is older than what it caused, so the walk ends.
func (r *Registry) walkBack(c *Chain, rec store.Record, limit int) error {
	for {
		c.Links = append(c.Links, linkOf(rec))
		if len(c.Links) == limit {
			c.End = "more links than asked for"
			return nil
		}
		next, end, err := r.causeOf(rec)
		switch {
		case err != nil:
			return err
		case next == nil:
			c.Complete, c.End = end == "", end
			return nil
		case next.Revision >= rec.Revision:
			c.End = "the recorded cause is not older than its effect"
			return nil
		}
		rec = *next
	}
}

// causeOf finds the record that made the writer of rec act. Without one, end says why the chain breaks, or is empty where it
// ends rightly.
func (r *Registry) causeOf(rec store.Record) (next *store.Record, end string, err error) {
	switch {
	case rec.Cause.Revision != 0:
		cause, ok, err := r.b.Record(rec.Cause.Revision)
		switch {
		case err != nil:
			return nil, "", storeFault(err)
		case isReport(rec):
			return r.carriedBy(rec, cause, ok)
		case !ok:
			return nil, "the record of the cause, revision " + rec.Cause.Revision.String() + ", is no longer kept", nil
		}
		return &cause, "", nil
	case rec.Cause.RequestID != "":
		recs, err := r.b.RecordsByRequest(rec.Cause.RequestID, 1)
		if err != nil || len(recs) == 0 {
			return nil, "the request " + rec.Cause.RequestID + " that caused it left no record", storeFault(err)
		}
		return &recs[0], "", nil
	case isOrigin(rec.Actor), rec.Actor == observer:
		return nil, "", nil
	}
	return nil, rec.Actor + " did not say what made it act", nil
}

// carriedBy finds what a device's report answers. The report names the newest change of the whole bundle, which may have come from
// another assignment; what explains this object is its own newest change that the bundle carried, unless the newest change was of
// something that the object is made from.
func (r *Registry) carriedBy(rec, bundle store.Record, ok bool) (*store.Record, string, error) {
	if ok && (bundle.Key == rec.Key || isIngredient(rec.Key, bundle.Key) && changesRun(rec)) {
		return &bundle, "", nil
	}
	recs, err := r.b.RecordsOf(rec.Key, maxLookBack)
	if err != nil {
		return nil, "", storeFault(err)
	}
	for i := range recs {
		if recs[i].Revision <= rec.Cause.Revision && !isStatusWrite(recs[i]) {
			return &recs[i], "", nil
		}
	}
	if ok {
		return &bundle, "", nil
	}
	return nil, "the record of the bundle, revision " + rec.Cause.Revision.String() + ", is no longer kept", nil
}

// walkForward adds what rec caused, depth first, below it.
func (r *Registry) walkForward(c *Chain, rec store.Record, depth, limit int, seen map[store.Revision]bool) error {
	if depth > maxDepth {
		return nil
	}
	recs, err := r.b.RecordsByCause(rec.Revision, maxEffects)
	if err != nil {
		return storeFault(err)
	}
	for _, e := range recs {
		if seen[e.Revision] {
			continue
		}
		if len(c.Effects) >= limit {
			return nil
		}
		seen[e.Revision] = true
		l := linkOf(e)
		l.Depth = depth
		c.Effects = append(c.Effects, l)
		if err := r.walkForward(c, e, depth+1, limit, seen); err != nil {
			return err
		}
	}
	return nil
}

// observer judges the links of devices by what was heard or not heard of them: no write makes it act, so a chain ends at it
// rightly, with the device.
const observer = "controller:presence"

// isOrigin holds for actors that act of themselves: people and programs with an account, devices, and the hub at its start.
func isOrigin(actor string) bool {
	kind, _, _ := strings.Cut(actor, ":")
	return kind == "user" || kind == "serviceaccount" || kind == "device" || kind == "hub"
}

func isStatusWrite(rec store.Record) bool { return rec.Note.Verb == verbStatus }

// isReport: the status of an assignment that is written on behalf of its device, or by the gateway about it, answers a bundle.
func isReport(rec store.Record) bool {
	return isStatusWrite(rec) && isOrigin(rec.Actor) && strings.HasPrefix(rec.Key, api.KindAssignment.Plural+"/")
}

// isIngredient: an assignment's body is made of its own object, configs and secrets of its namespace, and its device.
func isIngredient(assignment, key string) bool {
	a, ok1 := refOf(assignment)
	k, ok2 := refOf(key)
	if !ok1 || !ok2 {
		return false
	}
	switch k.Kind {
	case api.KindConfigMap, api.KindSecret:
		return k.Namespace == a.Namespace
	}
	return false
}

// changesRun reports whether the report tells of other contents being run, not only of another state of the same.
func changesRun(rec store.Record) bool {
	for _, ch := range diffOf(rec).Changes {
		if ch.Path == "status.specHash" {
			return true
		}
	}
	return false
}

func diffOf(rec store.Record) Diff {
	var d Diff
	if len(rec.Note.Diff) > 0 && json.Unmarshal(rec.Note.Diff, &d) != nil {
		return Diff{Changes: []Change{{Path: "?", New: "unreadable diff"}}}
	}
	return d
}

func linkOf(rec store.Record) Link {
	l := Link{
		Revision: rec.Revision.String(), Epoch: rec.Revision.Epoch(), Time: api.TimeOf(time.Unix(0, rec.Time)),
		Actor: rec.Actor, Verb: rec.Note.Verb, Object: rec.Note.Object, RequestID: rec.RequestID, Diff: diffOf(rec),
	}
	if l.Object == "" {
		l.Object = rec.Key
	}
	switch {
	case rec.Cause.Revision != 0:
		l.Cause = rec.Cause.Revision.String()
	case rec.Cause.RequestID != "":
		l.Cause = rec.Cause.RequestID
	}
	return l
}
