package registry

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/store"
)

func prefixEnd(p string) string { return store.PrefixEnd(p) }

// Get returns the object as of after the call began, or, with Stale, as this member has it.
func (c *actorClient) Get(ctx context.Context, ref api.Ref, o client.GetOptions) (api.Object, error) {
	if err := checkRef(ref); err != nil {
		return nil, err
	}
	if err := c.r.awaitGet(ctx, o); err != nil {
		return nil, err
	}
	res, err := c.r.b.Range(ctx, store.RangeRequest{Start: keyOf(ref)})
	if err != nil {
		return nil, storeFault(err)
	}
	if len(res.KVs) == 0 {
		return nil, notFound(ref)
	}
	return c.r.codec.decode(ref, &res.KVs[0])
}

func (r *Registry) awaitGet(ctx context.Context, o client.GetOptions) error {
	if o.Stale {
		return nil
	}
	want, err := parseRevision(o.ResourceVersion)
	if err != nil {
		return err
	}
	if want != 0 {
		return storeFault(r.b.AtLeast(ctx, want))
	}
	return storeFault(r.b.Barrier(ctx))
}

// listPage is how many keys are read from the store at a time: bounds memory while selectors throw most of them away.
const listPage = 1000

// cursor is what a continue token holds: where to go on, at which revision. Revision zero is the newest: the token of a list that could not
// be gone on with as it was, so that its pages are no longer of one revision.
type cursor struct {
	Revision store.Revision `json:"r,omitempty"`
	Start    string         `json:"s"`
}

const maxToken = 4096

func (c cursor) token() string {
	b, err := json.Marshal(c)
	if err != nil {
		panic(err) // two plain fields
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

func parseToken(token, start, end string) (cursor, error) {
	var c cursor
	bad := fault.BadRequest.Errorf("continue: not a token of this list; start the list again without it")
	if len(token) > maxToken {
		return c, bad
	}
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || json.Unmarshal(b, &c) != nil || c.Start < start || c.Start >= end {
		return c, bad
	}
	return c, nil
}

// List reads a page at one revision, in the order of keys: by namespace and name as bytes, where a namespace that is a prefix
// of another may come after it ("a-b/..." before "a/...").
func (c *actorClient) List(ctx context.Context, k *api.Kind, o client.ListOptions) (*client.List, error) {
	sel, rq, err := c.r.prepareList(ctx, k, o)
	if err != nil {
		return nil, err
	}
	return c.r.list(ctx, sel, rq, o.Limit)
}

// prepareList reads the options and makes the member fresh enough.
func (r *Registry) prepareList(ctx context.Context, k *api.Kind, o client.ListOptions) (selector, store.RangeRequest, error) {
	rq := store.RangeRequest{}
	sel, err := newSelector(k, o.Namespace, o.LabelSelector, o.FieldSelector)
	if err != nil {
		return sel, rq, err
	}
	if o.Limit < 0 {
		return sel, rq, fault.BadRequest.Errorf("limit: %d is negative", o.Limit)
	}
	rq.Start, rq.End = sel.keys()
	if o.Continue != "" {
		cur, err := parseToken(o.Continue, rq.Start, rq.End)
		if err != nil {
			return sel, rq, err
		}
		rq.Start, rq.Revision = cur.Start, cur.Revision
	}
	if o.Exact && o.Continue == "" {
		if rq.Revision, err = parseRevision(o.ResourceVersion); err != nil {
			return sel, rq, err
		}
		if rq.Revision == 0 {
			return sel, rq, fault.BadRequest.Errorf("an exact list needs a resourceVersion")
		}
	}
	err = r.awaitList(ctx, o, rq.Revision)
	if o.Continue != "" {
		err = withRestart(err, rq.Start)
	}
	return sel, rq, err
}

// withRestart gives the refusal of a continue token whose revision is no longer kept another token, with which the list goes on at the
// newest revision from the same place, for who would rather have that than begin again.
func withRestart(err error, start string) error {
	var e *fault.Error
	if !errors.As(err, &e) || e.Class != fault.Expired {
		return err
	}
	again := *e
	again.Message = "the continue token is too old: its revision is no longer kept. Start the list again without it, or go on with the token in metadata.continue " +
		"at the newest revision, which may miss or repeat what changed in between"
	again.Details.Continue = cursor{Start: start}.token()
	return &again
}

// awaitList makes the member fresh enough for the list.
func (r *Registry) awaitList(ctx context.Context, o client.ListOptions, pinned store.Revision) error {
	if o.ResourceVersion == "0" && pinned == 0 {
		return nil
	}
	want, err := parseRevision(o.ResourceVersion)
	if err != nil {
		return err
	}
	if want = max(want, pinned); want != 0 {
		return storeFault(r.b.AtLeast(ctx, want))
	}
	return storeFault(r.b.Barrier(ctx))
}

func parseRevision(s string) (store.Revision, error) {
	rev, err := store.ParseRevision(s)
	if err != nil {
		return 0, fault.BadRequest.Errorf("resourceVersion: %w", err)
	}
	return rev, nil
}

func (r *Registry) list(ctx context.Context, sel selector, rq store.RangeRequest, limit int) (*client.List, error) {
	var items []api.Object
	out, err := r.eachListed(ctx, sel, rq, limit, func(kv *store.KV) (bool, error) {
		obj, err := r.selected(sel, kv)
		if obj != nil {
			items = append(items, obj)
		}
		return obj != nil, err
	})
	if err != nil {
		return nil, err
	}
	out.Items = items
	return out, nil
}

// eachListed shows take every key of a page, which tells whether it is wanted. What is returned has no items.
func (r *Registry) eachListed(ctx context.Context, sel selector, rq store.RangeRequest, limit int, take func(*store.KV) (bool, error)) (*client.List, error) {
	out, taken := &client.List{}, 0
	for {
		rq.Limit = listPage
		if limit > 0 && !sel.narrow() {
			rq.Limit = min(listPage, limit-taken)
		}
		res, err := r.b.Range(ctx, rq)
		if first, _ := sel.keys(); err != nil && rq.Start != first {
			return nil, withRestart(storeFault(err), rq.Start)
		}
		if err != nil {
			return nil, storeFault(err)
		}
		rq.Revision = res.Revision
		out.ResourceVersion = res.Revision.String()
		for i := range res.KVs {
			wanted, err := take(&res.KVs[i])
			if err != nil {
				return nil, err
			}
			if !wanted {
				continue
			}
			if taken++; taken == limit {
				if left := res.Count - i - 1; left > 0 {
					out.Continue = cursor{res.Revision, res.KVs[i].Key + "\x00"}.token()
					if !sel.narrow() {
						out.Remaining = left
					}
				}
				return out, nil
			}
		}
		if !res.More {
			return out, nil
		}
		rq.Start = res.KVs[len(res.KVs)-1].Key + "\x00"
	}
}

// selected decodes the object if it is wanted, else returns nil.
func (r *Registry) selected(sel selector, kv *store.KV) (api.Object, error) {
	ref, ok := refOf(kv.Key)
	if !ok || !sel.matchesRef(ref) {
		return nil, nil
	}
	obj, err := r.codec.decode(ref, kv)
	if err != nil || !sel.matches(obj) {
		return nil, err
	}
	return obj, nil
}
