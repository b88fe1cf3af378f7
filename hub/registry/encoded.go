package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/store"
)

// EncodedList is a page of a list whose items are JSON already.
type EncodedList struct {
	Items           [][]byte
	ResourceVersion string // watch from here
	Continue        string
	Remaining       int
}

// EncodedLister lists objects as JSON. The clients that [Registry.As] gives are such.
//
// The stored form is the object's JSON but for the resourceVersion and the sealed values of Secrets, so a long list needs not be decoded
// only to be encoded again: that is nearly all of its cost. What an item says is what the same object says that Get returns; a field
// that only a later build knows shows here and not there.
type EncodedLister interface {
	ListEncoded(ctx context.Context, k *api.Kind, o client.ListOptions) (*EncodedList, error)
}

var _ EncodedLister = (*actorClient)(nil)

// ListEncoded is List with the items as JSON.
func (c *actorClient) ListEncoded(ctx context.Context, k *api.Kind, o client.ListOptions) (*EncodedList, error) {
	sel, rq, err := c.r.prepareList(ctx, k, o)
	if err != nil {
		return nil, err
	}
	out, enc := &EncodedList{}, newEncoder(c.r.codec, sel)
	page, err := c.r.eachListed(ctx, sel, rq, o.Limit, func(kv *store.KV) (bool, error) {
		item, err := enc.item(kv)
		if item != nil {
			out.Items = append(out.Items, item)
		}
		return item != nil, err
	})
	if err != nil {
		return nil, err
	}
	out.ResourceVersion, out.Continue, out.Remaining = page.ResourceVersion, page.Continue, page.Remaining
	return out, nil
}

// encoder makes items of stored values.
type encoder struct {
	codec codec
	sel   selector
	// head is how a stored object begins that needs no decoding, up to its metadata's first field; nil where every one does.
	head []byte
}

func newEncoder(c codec, sel selector) encoder {
	e := encoder{codec: c, sel: sel}
	if sel.kind != api.KindSecret && !sel.byContent() {
		e.head = fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,"metadata":{"`, sel.kind.APIVersion, sel.kind.Kind)
	}
	return e
}

// item is nil where the object is not wanted.
func (e encoder) item(kv *store.KV) ([]byte, error) {
	ref, ok := refOf(kv.Key)
	if !ok || !e.sel.matchesRef(ref) {
		return nil, nil
	}
	if e.head != nil && bytes.HasPrefix(kv.Value, e.head) {
		at := len(e.head) - 1 // before the quote of the first field
		b := make([]byte, 0, len(kv.Value)+48)
		b = append(b, kv.Value[:at]...)
		b = append(b, `"resourceVersion":"`...)
		b = append(b, kv.ModRevision.String()...)
		b = append(b, `",`...)
		return append(b, kv.Value[at:]...), nil
	}
	obj, err := e.codec.decode(ref, kv)
	if err != nil || !e.sel.matches(obj) {
		return nil, err
	}
	b, err := json.Marshal(obj)
	if err != nil {
		return nil, fault.Internal.Errorf("encode %s: %w", title(ref), err)
	}
	return b, nil
}
