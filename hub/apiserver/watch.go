package apiserver

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
)

// watchBuffer is how many events wait for the connection; what waits longer waits in the registry, which cuts off.
const watchBuffer = 64

// initialEventsEnd marks the bookmark after the initial events, for clients that asked for them; Kubernetes' name.
const initialEventsEnd = "k8s.io/initial-events-end"

type watchEvent struct {
	Type   string `json:"type"`
	Object any    `json:"object"`
}

// watch streams events as JSON documents, one a line, until the client goes, the watch's life ends, or it must list again
// (an ERROR event with a Status of code 410).
func (x *exchange) watch() error {
	render, err := x.renderer()
	if err != nil {
		return err
	}
	o, err := watchOptions(x)
	if err != nil {
		return err
	}
	life, err := watchLife(x.r.URL.Query(), x.s.cfg.Limits.Watch, func(d time.Duration) time.Duration { return rand.N(d + 1) })
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(x.r.Context(), life)
	defer cancel()
	w, err := x.client().Watch(ctx, x.route.ref.Kind, o)
	if err != nil {
		return err
	}
	defer w.Close()
	x.w.start(http.StatusOK, "application/json")
	if x.w.head {
		return nil
	}
	if err := x.w.flush(); err != nil {
		return nil // the client is gone
	}
	s := &watchStream{x: x, render: render, bookmarks: o.Bookmarks, initial: o.ResourceVersion == "" || o.ResourceVersion == "0"}
	x.pump(ctx, cancel, w, s)
	return nil
}

// pump moves events from the watcher to the connection. The reader runs beside the writer, so that a burst is flushed once;
// it has ended when pump returns.
func (x *exchange) pump(ctx context.Context, cancel context.CancelFunc, w client.Watcher, s *watchStream) {
	events := make(chan client.Event, watchBuffer)
	var ended error // written before events is closed, read after
	go func() {
		defer close(events)
		for {
			e, err := w.Next(ctx)
			if err != nil {
				ended = err
				return
			}
			select {
			case events <- e:
			case <-ctx.Done():
				ended = ctx.Err()
				return
			}
		}
	}()
	for e := range events {
		err := s.send(e)
		if err == nil && len(events) == 0 {
			err = x.w.flush()
		}
		if err != nil {
			cancel()
			for range events { // drained, so that the reader ends
			}
			return
		}
	}
	if ctx.Err() == nil && !errors.Is(ended, context.Canceled) {
		s.fail(ended)
	}
}

// watchStream writes one watch's events.
type watchStream struct {
	x         *exchange
	render    *renderer
	bookmarks bool // the client takes bookmarks
	initial   bool // the bookmark after the initial events is still to come
}

func (s *watchStream) send(e client.Event) error {
	if e.Type == client.Bookmark {
		return s.bookmark(e)
	}
	doc, err := s.render.event(s.x.s.present(e.Object))
	if err != nil {
		s.fail(err)
		return err
	}
	return s.write(watchEvent{Type: string(e.Type), Object: doc})
}

func (s *watchStream) bookmark(e client.Event) error {
	first := s.initial
	s.initial = false
	if !s.bookmarks {
		return nil
	}
	k := s.x.route.ref.Kind
	obj := k.New()
	*obj.Type() = api.TypeMeta{APIVersion: k.APIVersion, Kind: k.Kind}
	obj.Meta().ResourceVersion = e.Object.Meta().ResourceVersion
	if first && isTrue(s.x.r.URL.Query().Get("sendInitialEvents")) {
		obj.Meta().Annotations = map[string]string{initialEventsEnd: "true"}
	}
	doc, err := s.render.event(obj)
	if err != nil {
		return err
	}
	return s.write(watchEvent{Type: string(client.Bookmark), Object: doc})
}

// fail ends the stream with an ERROR event. A watch that broke because this member lost its state or fell behind says so by
// class; the client resumes or lists again.
func (s *watchStream) fail(err error) {
	st := s.x.statusOf(err)
	s.x.w.reason = st.Reason
	if fault.ClassOf(err) == fault.Internal {
		s.x.s.cfg.Logger.Error("watch failed", "request_id", s.x.id, "object", s.x.route.object(), "err", err)
	}
	_ = s.write(watchEvent{Type: "ERROR", Object: st})
	_ = s.x.w.flush()
}

func (s *watchStream) write(e watchEvent) error {
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	_, err = s.x.w.Write(append(b, '\n'))
	return err
}
