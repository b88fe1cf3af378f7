package registry

import (
	"context"
	"errors"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/store"
)

// view is the store at one revision with the writes planned so far on top.
type view struct {
	r       *Registry
	ctx     context.Context
	rev     store.Revision // zero until the first read
	entries map[string]*entry
	order   []*entry // in the order in which they were first loaded
}

// entry is one key in a view.
type entry struct {
	ref  api.Ref
	key  string
	base *store.KV  // what stands; nil: nothing
	old  api.Object // base decoded; not to be changed
	cur  api.Object // what will stand; nil: nothing. Replaced, never changed in place.
	// guard: the write depends on this key being at base, whether or not it changes the key itself.
	guard bool
	verb  string // of the last write planned
}

func newView(ctx context.Context, r *Registry) *view {
	return &view{r: r, ctx: ctx, entries: map[string]*entry{}}
}

// load returns the entry of an object, whether or not it exists.
func (v *view) load(ref api.Ref) (*entry, error) {
	key := keyOf(ref)
	if e, ok := v.entries[key]; ok {
		return e, nil
	}
	res, err := v.scan(store.RangeRequest{Start: key})
	if err != nil {
		return nil, err
	}
	e := &entry{ref: ref, key: key}
	if len(res.KVs) > 0 {
		return v.adopt(ref, res.KVs[0])
	}
	v.entries[key] = e
	v.order = append(v.order, e)
	return e, nil
}

// adopt makes an entry of a key that was read at the view's revision.
func (v *view) adopt(ref api.Ref, kv store.KV) (*entry, error) {
	if e, ok := v.entries[kv.Key]; ok {
		return e, nil
	}
	obj, err := v.r.codec.decode(ref, &kv)
	if err != nil {
		return nil, err
	}
	e := &entry{ref: ref, key: kv.Key, base: &kv, old: obj, cur: obj}
	v.entries[kv.Key] = e
	v.order = append(v.order, e)
	return e, nil
}

// scan reads at the view's revision; the first read fixes it.
func (v *view) scan(rq store.RangeRequest) (*store.RangeResult, error) {
	rq.Revision = v.rev
	res, err := v.r.b.Range(v.ctx, rq)
	if err != nil {
		if v.rev != 0 && errors.Is(err, store.ErrCompacted) {
			return nil, errMoved
		}
		return nil, storeFault(err)
	}
	v.rev = res.Revision
	return res, nil
}

// errMoved ends a plan whose ground was taken away; it is made again on newer ground.
var errMoved = errors.New("revision of the plan was compacted")

// each visits every stored object in the range, with what is planned for it.
func (v *view) each(prefix string, visit func(*entry) (more bool, err error)) error {
	rq := store.RangeRequest{Start: prefix, End: prefixEnd(prefix), Limit: listPage}
	for {
		res, err := v.scan(rq)
		if err != nil {
			return err
		}
		for _, kv := range res.KVs {
			ref, ok := refOf(kv.Key)
			if !ok {
				continue
			}
			e, loaded := v.entries[kv.Key]
			if !loaded {
				// Not kept in the view: most visits look and go on.
				obj, err := v.r.codec.decode(ref, &kv)
				if err != nil {
					return err
				}
				e = &entry{ref: ref, key: kv.Key, base: &kv, old: obj, cur: obj}
			}
			more, err := visit(e)
			if err != nil || !more {
				return err
			}
		}
		if !res.More {
			return nil
		}
		rq.Start = res.KVs[len(res.KVs)-1].Key + "\x00"
	}
}

// isEmptyNamespace reports whether the namespace would hold nothing after the plan.
func (v *view) isEmptyNamespace(name string) (bool, error) {
	for _, e := range v.order {
		if e.ref.Kind.Namespaced && e.ref.Namespace == name && e.cur != nil {
			return false, nil
		}
	}
	for _, k := range api.Kinds() {
		if !k.Namespaced {
			continue
		}
		empty := true
		err := v.each(prefixOf(k, name), func(e *entry) (bool, error) {
			empty = e.cur == nil
			return empty, nil
		})
		if err != nil || !empty {
			return false, err
		}
	}
	return true, nil
}

// keepEntry makes an entry that each showed part of the view.
func (v *view) keepEntry(e *entry) (*entry, error) {
	if e.base == nil {
		return e, nil // planned here, so kept already
	}
	return v.adopt(e.ref, *e.base)
}
