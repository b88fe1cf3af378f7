package registry

import (
	"context"
	"errors"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/store"
)

// quietBatches is after how many batches of which nothing was wanted a watcher with bookmarks gets one.
const quietBatches = 256

// Watch begins after the revision given, or with the present objects, and then yields every change, each exactly once.
// What enters the selector by a change is Added, what leaves it is Deleted with its last selected state.
func (c *actorClient) Watch(ctx context.Context, k *api.Kind, o client.WatchOptions) (client.Watcher, error) {
	sel, err := newSelector(k, o.Namespace, o.LabelSelector, o.FieldSelector)
	if err != nil {
		return nil, err
	}
	w := &watcher{r: c.r, sel: sel, bookmarks: o.Bookmarks}
	if o.ResourceVersion == "" || o.ResourceVersion == "0" {
		if o.ResourceVersion == "" {
			if err := c.r.b.Barrier(ctx); err != nil {
				return nil, storeFault(err)
			}
		}
		if err := w.startFromNow(ctx); err != nil {
			return nil, err
		}
		return w, nil
	}
	if w.after, err = parseRevision(o.ResourceVersion); err != nil {
		return nil, err
	}
	w.in, err = w.open(ctx)
	if errors.Is(err, store.ErrAhead) || errors.Is(err, store.ErrOtherEpoch) && w.after.Epoch() >= c.r.b.Revision().Epoch() {
		// Another member may have shown the caller what this one has not applied yet, a new epoch included.
		if err := c.r.b.Barrier(ctx); err != nil {
			return nil, storeFault(err)
		}
		w.in, err = w.open(ctx)
	}
	if err != nil {
		return nil, storeFault(err)
	}
	return w, nil
}

// watcher turns batches of the store into events. It is used by one goroutine, save for Close.
type watcher struct {
	r         *Registry
	sel       selector
	in        store.Watcher
	after     store.Revision // everything up to here was seen by the caller
	bookmarks bool
	quiet     int // batches since the last event or bookmark
	pending   []client.Event
	err       error // set once: the watcher is dead
}

func (w *watcher) open(ctx context.Context) (store.Watcher, error) {
	rq := store.WatchRequest{From: w.after + 1, Progress: w.bookmarks}
	rq.Start, rq.End = w.sel.keys()
	return w.r.b.Watch(ctx, rq)
}

// startFromNow puts the present objects and a bookmark before what follows.
func (w *watcher) startFromNow(ctx context.Context) error {
	rq := store.RangeRequest{}
	rq.Start, rq.End = w.sel.keys()
	l, err := w.r.list(ctx, w.sel, rq, 0)
	if err != nil {
		return err
	}
	if w.after, err = store.ParseRevision(l.ResourceVersion); err != nil {
		return err
	}
	for _, obj := range l.Items {
		w.pending = append(w.pending, client.Event{Type: client.Added, Object: obj})
	}
	w.pending = append(w.pending, w.bookmark(w.after))
	w.in, err = w.open(ctx)
	return storeFault(err)
}

func (w *watcher) bookmark(at store.Revision) client.Event {
	obj := w.sel.kind.New()
	*obj.Type() = api.TypeMeta{APIVersion: w.sel.kind.APIVersion, Kind: w.sel.kind.Kind}
	obj.Meta().ResourceVersion = at.String()
	return client.Event{Type: client.Bookmark, Object: obj}
}

// Next returns the next event.
func (w *watcher) Next(ctx context.Context) (client.Event, error) {
	for len(w.pending) == 0 {
		if w.err != nil {
			return client.Event{}, w.err
		}
		b, err := w.in.Next(ctx)
		if err == nil {
			err = w.take(b)
		}
		if err != nil {
			w.err = storeFault(err)
			w.in.Close()
		}
	}
	ev := w.pending[0]
	w.pending = w.pending[1:]
	return ev, nil
}

// Close ends the watcher.
func (w *watcher) Close() { w.in.Close() }

func (w *watcher) take(b store.Batch) error {
	for i := range b.Events {
		// A watch from inside a set gets the whole of it again.
		if b.Events[i].KV.ModRevision <= w.after {
			continue
		}
		ev, ok, err := w.event(&b.Events[i])
		if err != nil {
			return err
		}
		if ok {
			w.pending = append(w.pending, ev)
		}
	}
	w.after = max(w.after, b.Revision)
	w.quiet++
	if w.bookmarks && len(w.pending) == 0 && (len(b.Events) == 0 || w.quiet >= quietBatches) {
		w.pending = append(w.pending, w.bookmark(w.after))
	}
	if len(w.pending) > 0 {
		w.quiet = 0
	}
	return nil
}

// event judges one change by what was selected before it and what is after.
func (w *watcher) event(e *store.Event) (ev client.Event, ok bool, err error) {
	ref, isObject := refOf(e.KV.Key)
	if !isObject || !w.sel.matchesRef(ref) {
		return ev, false, nil
	}
	if e.Type == store.OpDelete {
		return w.deletion(ref, e)
	}
	obj, err := w.r.codec.decode(ref, &e.KV)
	if err != nil {
		return ev, false, err
	}
	created := e.KV.Version == 1
	is := w.sel.matches(obj)
	if !w.sel.byContent() || (e.Prev == nil && !created) {
		// Without the state before, a change of what is selected now is Modified: caches take it for either.
		t := client.Modified
		if created {
			t = client.Added
		}
		if !is {
			t = client.Deleted
		}
		return client.Event{Type: t, Object: obj}, is || !created, nil
	}
	var old api.Object
	if !created {
		if old, err = w.r.codec.decode(ref, e.Prev); err != nil {
			return ev, false, err
		}
	}
	was := old != nil && w.sel.matches(old)
	switch {
	case is && was:
		return client.Event{Type: client.Modified, Object: obj}, true, nil
	case is:
		return client.Event{Type: client.Added, Object: obj}, true, nil
	case was:
		old.Meta().ResourceVersion = e.KV.ModRevision.String()
		return client.Event{Type: client.Deleted, Object: old}, true, nil
	}
	return ev, false, nil
}

// deletion carries the last state, or only the name where the store no longer has it.
func (w *watcher) deletion(ref api.Ref, e *store.Event) (ev client.Event, ok bool, err error) {
	var obj api.Object
	if e.Prev == nil {
		obj = ref.Kind.New()
		*obj.Type() = api.TypeMeta{APIVersion: ref.Kind.APIVersion, Kind: ref.Kind.Kind}
		obj.Meta().Name, obj.Meta().Namespace = ref.Name, ref.Namespace
	} else {
		if obj, err = w.r.codec.decode(ref, e.Prev); err != nil {
			return ev, false, err
		}
		if !w.sel.matches(obj) {
			return ev, false, nil
		}
	}
	obj.Meta().ResourceVersion = e.KV.ModRevision.String()
	return client.Event{Type: client.Deleted, Object: obj}, true, nil
}
