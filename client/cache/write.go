package cache

import (
	"context"
	"reflect"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/client"
)

// seeTimeout bounds the wait for the informers to show what was just written.
const seeTimeout = 20 * time.Second

// Transact does the writes through c, which writes to where the set reads, then waits until the informers of the kinds written show them, so that
// the caller's next decision is made in their light. After an error of the wait the writes are done all the same.
func (s *Set) Transact(ctx context.Context, c client.Client, tx client.Transaction) ([]client.TxResult, error) {
	res, err := c.Transact(ctx, tx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := s.o.Waiter.Within(ctx, seeTimeout, context.DeadlineExceeded)
	defer cancel()
	for n, item := range tx.Items {
		if err := s.see(ctx, item, res[n]); err != nil {
			return res, err
		}
	}
	return res, nil
}

// see waits until the informer of the item's kind, if there is one, shows what the item came to.
func (s *Set) see(ctx context.Context, item client.TxItem, r client.TxResult) error {
	kind, ok := KindOf(item.Object)
	if !ok {
		return nil
	}
	informer, ok := s.Find(kind)
	if !ok {
		return nil
	}
	key, uid := KeyOf(item.Object), item.Object.Meta().UID
	if item.Verb == client.TxDelete {
		return informer.WaitFor(ctx, func() bool {
			o, ok := informer.Get(key)
			return !ok || uid != "" && o.Meta().UID != uid || o.Meta().DeletionTimestamp != nil
		})
	}
	if r.Object == nil {
		return nil
	}
	written := r.Object.Meta().ResourceVersion
	return informer.WaitFor(ctx, func() bool {
		if o, ok := informer.Get(KeyOf(r.Object)); ok && !Newer(written, o.Meta().ResourceVersion) {
			return true
		}
		return !Newer(written, informer.Revision())
	})
}

// KindOf is the kind of an object, by its Go type; false when it is no kind of the API.
func KindOf(o api.Object) (*api.Kind, bool) {
	want := reflect.TypeOf(o)
	for _, k := range api.Kinds() {
		if reflect.TypeOf(k.New()) == want {
			return k, true
		}
	}
	return nil, false
}
