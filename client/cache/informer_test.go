package cache

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/client"
)

// recorder is a handler that keeps what it was told, and fails on what breaks the promises.
type recorder struct {
	*testing.T
	told   []string          // "revision verb name"
	mirror map[string]string // what the changes add up to
	last   map[string]uint64
	seen   uint64
}

func (r *recorder) handle(c Change) {
	name := c.Object().Meta().Name
	verb := "add"
	switch {
	case c.Old == c.New:
		verb = "resync"
	case c.New == nil:
		verb = "delete"
	case c.Old != nil:
		verb = "update"
	}
	r.told = append(r.told, fmt.Sprintf("%s %s %s", c.Revision, verb, name))
	_, have := r.mirror[name]
	if (verb == "add") == have && verb != "resync" {
		r.Errorf("told of %s of %q while the changes before say have=%v", verb, name, have)
	}
	if r.seen = max(r.seen, number(c.Revision)); r.seen != number(c.Revision) && verb != "resync" {
		r.Errorf("told of revision %s after %d", c.Revision, r.seen)
	}
	if verb != "resync" && number(c.Revision) < r.last[name] {
		r.Errorf("told of revision %s of %q after %d", c.Revision, name, r.last[name])
	}
	r.last[name] = number(c.Revision)
	if c.New == nil {
		delete(r.mirror, name)
	} else {
		r.mirror[name] = c.New.(*api.ConfigMap).Data["v"]
	}
}

// inBubble runs an informer of a fake hub in fake time and joins it at the end.
func inBubble(t *testing.T, o Options, body func(h *fakeHub, i *Informer, r *recorder)) {
	synctest.Test(t, func(t *testing.T) {
		h := newFakeHub()
		o.Random, o.Logger = rand.New(rand.NewPCG(1, 2)).Int64N, slog.New(slog.DiscardHandler)
		i := New(h, api.KindConfigMap, o)
		i.AddIndex("value", func(o api.Object) []string { return []string{o.(*api.ConfigMap).Data["v"]} })
		r := &recorder{T: t, mirror: map[string]string{}, last: map[string]uint64{}}
		i.AddHandler(r.handle)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- i.Run(ctx) }()
		body(h, i, r)
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: got %v, want nil", err)
		}
	})
}

func contentOf(i *Informer) map[string]string {
	out := map[string]string{}
	for _, o := range List[*api.ConfigMap](i) {
		out[o.Metadata.Name] = o.Data["v"]
	}
	return out
}

func (h *fakeHub) content() map[string]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := map[string]string{}
	for name, o := range h.objects {
		out[name] = o.Data["v"]
	}
	return out
}

func TestEachChangeIsToldOnceAndInOrderAcrossBrokenWatches(t *testing.T) {
	inBubble(t, Options{}, func(h *fakeHub, i *Informer, r *recorder) {
		h.put("before", "x")
		<-i.Synced()
		rnd := rand.New(rand.NewPCG(7, 7))
		var want []string
		for n := range 300 {
			name := fmt.Sprint("o", rnd.IntN(5))
			_, have := h.content()[name]
			value := fmt.Sprint("v", n)
			verb := map[bool]string{true: "update", false: "add"}[have]
			if have && rnd.IntN(3) == 0 {
				value, verb = "", "delete"
			}
			want = append(want, fmt.Sprintf("%d %s %s", h.put(name, value), verb, name))
			switch rnd.IntN(10) {
			case 0:
				h.cut(false)
			case 1:
				synctest.Wait()
			}
		}
		after(time.Minute)
		if diff := cmp.Diff(want, r.told[1:]); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
		if h.lists != 1 {
			t.Errorf("got %d lists, want 1: a broken watch resumes", h.lists)
		}
	})
}

func TestExpiredWatchIsToldAsADifference(t *testing.T) {
	inBubble(t, Options{}, func(h *fakeHub, i *Informer, r *recorder) {
		h.put("kept", "1")
		h.put("changed", "1")
		h.put("gone", "1")
		<-i.Synced()
		synctest.Wait()
		r.told = nil
		h.cut(true)
		h.put("changed", "2")
		h.put("gone", "")
		at := h.put("new", "1")
		h.cut(true)
		after(time.Minute)
		want := []string{"4 update changed", fmt.Sprint(at, " delete gone"), fmt.Sprint(at, " add new")}
		if diff := cmp.Diff(want, r.told); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(h.content(), contentOf(i)); diff != "" {
			t.Errorf("content (-want +got):\n%s", diff)
		}
	})
}

func TestF41EveryListSaysWhy(t *testing.T) {
	var why []string
	inBubble(t, Options{Relisted: func(reason string) { why = append(why, reason) }}, func(h *fakeHub, i *Informer, _ *recorder) {
		h.put("a", "1")
		<-i.Synced()
		synctest.Wait()
		h.cut(false) // resumed, not listed
		h.put("a", "2")
		after(time.Minute)
		h.cut(true)
		h.put("a", "3")
		h.cut(true)
		after(time.Minute)
		if diff := cmp.Diff([]string{"first", "Expired"}, why); diff != "" {
			t.Errorf("reasons (-want +got):\n%s", diff)
		}
	})
}

func TestRandomHistoryWithExpiryEndsEqual(t *testing.T) {
	for seed := range uint64(20) {
		inBubble(t, Options{}, func(h *fakeHub, i *Informer, r *recorder) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			for n := range 200 {
				h.put(fmt.Sprint("o", rnd.IntN(8)), []string{"", fmt.Sprint(n), fmt.Sprint(n)}[rnd.IntN(3)])
				if rnd.IntN(12) == 0 {
					h.cut(rnd.IntN(2) == 0)
				}
				if rnd.IntN(8) == 0 {
					after(time.Duration(rnd.IntN(200)) * time.Millisecond)
				}
			}
			after(2 * time.Minute)
			want := h.content()
			if diff := cmp.Diff(want, contentOf(i)); diff != "" {
				t.Errorf("seed %d: content (-want +got):\n%s", seed, diff)
			}
			if diff := cmp.Diff(want, r.mirror); diff != "" {
				t.Errorf("seed %d: sum of changes (-want +got):\n%s", seed, diff)
			}
			for name, v := range want {
				found := By[*api.ConfigMap](i, "value", v)
				if len(found) != 1 || found[0].Metadata.Name != name {
					t.Errorf("seed %d: index of %q: got %d objects, want %s", seed, v, len(found), name)
				}
			}
			if n := len(i.content.indexes["value"].keys); n != len(want) {
				t.Errorf("seed %d: got %d values in the index, want %d: deleted ones stay", seed, n, len(want))
			}
		})
	}
}

func TestUnreachableHubIsTriedUntilItAnswers(t *testing.T) {
	inBubble(t, Options{}, func(h *fakeHub, i *Informer, r *recorder) {
		h.setDown(true)
		h.put("a", "1")
		after(10 * time.Minute)
		select {
		case <-i.Synced():
			t.Error("got synced without a list")
		default:
		}
		h.setDown(false)
		<-i.Synced()
		if _, ok := Get[*api.ConfigMap](i, "default", "a"); !ok {
			t.Error("got no object after the sync, want a")
		}
	})
}

func TestResyncTellsEverythingAgain(t *testing.T) {
	inBubble(t, Options{Resync: time.Minute}, func(h *fakeHub, i *Informer, r *recorder) {
		h.put("a", "1")
		<-i.Synced()
		after(150 * time.Second)
		want := []string{"1 add a", "1 resync a", "1 resync a"}
		if diff := cmp.Diff(want, r.told); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
		h.put("a", "2")
		synctest.Wait()
		if got := contentOf(i)["a"]; got != "2" {
			t.Errorf("got %q after the resync, want 2", got)
		}
	})
}

func TestWriterSeesItsOwnWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFakeHub()
		w := &writer{h}
		set := NewSet(w, Options{Random: func(int64) int64 { return 0 }, Logger: slog.New(slog.DiscardHandler)})
		i := set.Of(api.KindConfigMap)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- set.Run(ctx) }()
		if err := set.WaitSynced(ctx); err != nil {
			t.Fatal(err)
		}
		for n := range 50 {
			_, err := set.Transact(ctx, w, client.Transaction{Items: []client.TxItem{{Verb: client.TxUpdate, Object: &api.ConfigMap{
				Metadata: api.ObjectMeta{Name: "a", Namespace: "default"}, Data: map[string]string{"v": fmt.Sprint(n)},
			}}}})
			if err != nil {
				t.Fatal(err)
			}
			if o, _ := Get[*api.ConfigMap](i, "default", "a"); o == nil || o.Data["v"] != fmt.Sprint(n) {
				t.Fatalf("got %+v right after writing %d", o, n)
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: got %v, want nil", err)
		}
	})
}

// writer writes to the fake hub.
type writer struct{ *fakeHub }

func (w *writer) Transact(_ context.Context, tx client.Transaction) ([]client.TxResult, error) {
	o := tx.Items[0].Object.(*api.ConfigMap)
	w.put(o.Metadata.Name, o.Data["v"])
	w.mu.Lock()
	defer w.mu.Unlock()
	return []client.TxResult{{Object: w.objects[o.Metadata.Name], Action: "configured"}}, nil
}
