package kv

import (
	"net"
	"testing"
	"testing/synctest"

	"github.com/drover-fleet/drover/store"
)

// TestWatchesThatNobodyReadsAreEncodedOneAtATime: a connection is full, and a thousand of its watches have a batch each. None of them is
// encoded before there is room, and then only as many as fit.
func TestWatchesThatNobodyReadsAreEncodedOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer near.Close()
		defer far.Close()
		c := &serverConn{s: &Server{}, out: newOutbox(near), turn: make(chan struct{}, 1)}
		c.out.put(frame{body: make([]byte, maxWaiting+1)}) // nobody writes it out
		value := make([]byte, 1<<20)
		const watches = 1000
		sent := make(chan error, watches)
		for i := range uint64(watches) {
			go func() {
				b := store.Batch{Revision: 1, Events: []store.Event{{Type: store.OpPut, KV: store.KV{Key: "k", Value: value}}}}
				sent <- c.send(t.Context(), i, &watchRequest{Start: "k"}, &b)
			}()
		}
		synctest.Wait()
		if n := len(c.out.queue); n != 1 {
			t.Fatalf("got %d frames beside the first in a full connection, want none", n-1)
		}
		for taken := 0; taken < watches; {
			frames, bytes := 0, 0
			for _, f := range c.out.take() {
				if f.kind == kindBatch {
					frames, bytes = frames+1, bytes+len(f.body)
				}
			}
			if most := maxWaiting + len(value) + 1<<10; bytes > most {
				t.Fatalf("got %d bytes of events that wait, want %d at most", bytes, most)
			}
			taken += frames
			synctest.Wait()
		}
		for range watches {
			if err := <-sent; err != nil {
				t.Errorf("send: %v", err)
			}
		}
	})
}
