package kv

import (
	"errors"
	"testing"

	"github.com/drover-fleet/drover/store"
)

// TestF42AWatchThatIsNotReadEndsWithinItsBufferAndHoldsUpNoOther: what arrives for it is taken off the connection at once, up to
// its bound, so the connection's other requests go on; what had arrived is still delivered, then it says that it was too slow.
func TestF42AWatchThatIsNotReadEndsWithinItsBufferAndHoldsUpNoOther(t *testing.T) {
	b := store.Batch{Revision: 1, Events: []store.Event{{Type: store.OpPut, KV: store.KV{Key: "k", Value: make([]byte, 1<<20)}}}}
	body, err := encode(batchOf(&b, false))
	if err != nil {
		t.Fatal(err)
	}
	w := &Watcher{ready: make(chan struct{}, 1)}
	fit := maxBuffered / len(body)
	for range fit + 10 {
		w.take(frame{kind: kindBatch, body: body}) // returns: the reader of the connection goes on
	}
	if w.bytes > maxBuffered || len(w.frames) != fit {
		t.Errorf("got %d batches of %d bytes kept, want %d within %d bytes", len(w.frames), w.bytes, fit, maxBuffered)
	}
	for i := range fit {
		if got, err := w.Next(t.Context()); err != nil || got.Revision != 1 {
			t.Fatalf("batch %d: got revision %d, %v, want what had arrived", i, got.Revision, err)
		}
	}
	if _, err := w.Next(t.Context()); !errors.Is(err, store.ErrSlow) {
		t.Errorf("after them: got %v, want %v", err, store.ErrSlow)
	}
}
