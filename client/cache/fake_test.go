package cache

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing/synctest"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
)

// errCut is what watchers that a test cut off return.
var errCut = errors.New("connection cut")

// fakeHub is a client of one kind (ConfigMap) in memory, with its whole history, whose watches can be cut and whose history
// can be compacted. Only what an informer uses is there.
type fakeHub struct {
	client.Client

	mu      sync.Mutex
	rev     uint64
	floor   uint64 // watches from below are Expired
	objects map[string]*api.ConfigMap
	log     []client.Event
	changed chan struct{}
	cuts    int // grows with each cut: watchers of an older one die
	lists   int
	down    bool
}

func newFakeHub() *fakeHub {
	return &fakeHub{objects: map[string]*api.ConfigMap{}, changed: make(chan struct{})}
}

func (h *fakeHub) wakeLocked() {
	close(h.changed)
	h.changed = make(chan struct{})
}

// put writes an object and returns its revision; value "" deletes.
func (h *fakeHub) put(name, value string) uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rev++
	was := h.objects[name]
	o := &api.ConfigMap{Metadata: api.ObjectMeta{Name: name, Namespace: "default", ResourceVersion: strconv.FormatUint(h.rev, 10)}, Data: map[string]string{"v": value}}
	e := client.Event{Type: client.Modified, Object: o}
	switch {
	case value == "" && was == nil:
		h.rev--
		return h.rev
	case value == "":
		o.Data, o.Metadata.UID = was.Data, was.Metadata.UID
		e.Type = client.Deleted
		delete(h.objects, name)
	case was == nil:
		o.Metadata.UID = "uid-" + o.Metadata.ResourceVersion
		e.Type = client.Added
		h.objects[name] = o
	default:
		o.Metadata.UID = was.Metadata.UID
		h.objects[name] = o
	}
	h.log = append(h.log, e)
	h.wakeLocked()
	return h.rev
}

func (h *fakeHub) cut(compact bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cuts++
	if compact {
		h.floor = h.rev
	}
	h.wakeLocked()
}

func (h *fakeHub) setDown(down bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.down = down
}

func (h *fakeHub) List(_ context.Context, _ *api.Kind, o client.ListOptions) (*client.List, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.down {
		return nil, fault.Unavailable.Errorf("down")
	}
	h.lists++
	l := &client.List{ResourceVersion: strconv.FormatUint(h.rev, 10)}
	for _, o := range h.objects {
		l.Items = append(l.Items, o)
	}
	return l, nil
}

func (h *fakeHub) Watch(_ context.Context, _ *api.Kind, o client.WatchOptions) (client.Watcher, error) {
	from, err := strconv.ParseUint(o.ResourceVersion, 10, 64)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if from < h.floor {
		return nil, fault.Expired.Errorf("revision %d is compacted", from)
	}
	return &fakeWatcher{h: h, after: from, cuts: h.cuts}, nil
}

type fakeWatcher struct {
	h     *fakeHub
	after uint64
	cuts  int
}

func (w *fakeWatcher) Next(ctx context.Context) (client.Event, error) {
	for {
		w.h.mu.Lock()
		if w.cuts != w.h.cuts {
			w.h.mu.Unlock()
			return client.Event{}, errCut
		}
		at := slices.IndexFunc(w.h.log, func(e client.Event) bool { return number(e.Object.Meta().ResourceVersion) > w.after })
		if at >= 0 {
			e := w.h.log[at]
			w.after = number(e.Object.Meta().ResourceVersion)
			w.h.mu.Unlock()
			return e, nil
		}
		changed := w.h.changed
		w.h.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return client.Event{}, ctx.Err()
		}
	}
}

func (w *fakeWatcher) Close() {}

// after waits in fake time, until everything that was due is done.
func after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}
