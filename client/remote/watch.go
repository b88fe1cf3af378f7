package remote

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"sync"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
)

// Watch implements client.Client. The watch lives until it is closed, ctx ends, or the connection does.
func (c *Client) Watch(ctx context.Context, k *api.Kind, o client.WatchOptions) (client.Watcher, error) {
	if !k.Namespaced && o.Namespace != "" {
		return nil, fault.BadRequest.Errorf("%s have no namespace", k.Plural)
	}
	q := url.Values{"watch": {"1"}}
	set(q, "labelSelector", o.LabelSelector)
	set(q, "fieldSelector", o.FieldSelector)
	set(q, "resourceVersion", o.ResourceVersion)
	initial := o.ResourceVersion == "" || o.ResourceVersion == "0"
	if o.Bookmarks || initial {
		q.Set("allowWatchBookmarks", "true")
	}
	ctx, cancel := context.WithCancel(ctx)
	resp, err := c.do(ctx, call{method: http.MethodGet, path: collection(k, o.Namespace), query: q}) //nolint:bodyclose // the watcher closes it
	if err != nil {
		cancel()
		return nil, err
	}
	w := &watcher{kind: k, body: resp.Body, cancel: cancel, ended: ctx.Done(), events: make(chan result), bookmarks: o.Bookmarks, initial: initial, done: make(chan struct{})}
	go w.read()
	return w, nil
}

type result struct {
	event client.Event
	err   error
}

// watcher decodes one stream. Its goroutine ends when the stream does, which Close brings about.
type watcher struct {
	kind      *api.Kind
	body      io.ReadCloser
	cancel    context.CancelFunc
	ended     <-chan struct{}
	events    chan result
	done      chan struct{} // closed when the goroutine has ended
	bookmarks bool          // the caller wants them all
	initial   bool          // the bookmark after the initial events is still to come

	mu  sync.Mutex
	err error // set once: the watcher is dead
}

func (w *watcher) read() {
	defer close(w.done)
	defer w.body.Close()
	d := json.NewDecoder(w.body)
	for {
		r := w.next(d)
		if r.err == nil && r.event.Type == client.Bookmark && !w.wanted() {
			continue
		}
		select {
		case w.events <- r:
		case <-w.ended:
			return
		}
		if r.err != nil {
			return
		}
	}
}

// wanted keeps the first bookmark, which ends the initial events, and the others only for who asked.
func (w *watcher) wanted() bool {
	first := w.initial
	w.initial = false
	return first || w.bookmarks
}

func (w *watcher) next(d *json.Decoder) result {
	var e struct {
		Type   string          `json:"type"`
		Object json.RawMessage `json:"object"`
	}
	if err := d.Decode(&e); err != nil {
		if errors.Is(err, io.EOF) {
			return result{err: fault.Unavailable.Errorf("the watch has ended: resume from the last resourceVersion seen")}
		}
		return result{err: fault.Unavailable.Errorf("the watch broke off: resume from the last resourceVersion seen: %w", err)}
	}
	switch t := client.EventType(e.Type); t {
	case client.Added, client.Modified, client.Deleted, client.Bookmark:
		obj, err := decodeObject(w.kind, e.Object)
		return result{event: client.Event{Type: t, Object: obj}, err: err}
	}
	var st fault.Status
	if err := json.Unmarshal(e.Object, &st); err != nil || st.Status != "Failure" {
		return result{err: fault.Internal.Errorf("the watch sent an event of type %q", e.Type)}
	}
	return result{err: fault.FromStatus(st)}
}

// Next implements client.Watcher.
func (w *watcher) Next(ctx context.Context) (client.Event, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return client.Event{}, w.err
	}
	select {
	case r := <-w.events:
		if r.err != nil {
			w.err = r.err
			w.cancel()
		}
		return r.event, r.err
	case <-ctx.Done():
		w.err = ctx.Err()
		w.cancel()
	case <-w.ended:
		w.err = fault.Unavailable.Errorf("the watch is closed")
	}
	return client.Event{}, w.err
}

// Close ends the watch; it returns once the connection is let go.
func (w *watcher) Close() {
	w.cancel()
	<-w.done
}
