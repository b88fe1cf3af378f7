package watch

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-fleet/drover/store"
)

func TestStatsTellWhatIsBufferedAndHowFarItLags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Options{})
		f.write("a/1")
		behind := f.watch(store.WatchRequest{Start: "a/1", From: 1}) // nobody asks it for anything
		prefix, _ := f.live(store.WatchRequest{Start: "a/", End: "a0"})
		_, idle := f.live(store.WatchRequest{Start: "a", End: "c"})
		for range 3 {
			f.write("a/2")
		}
		synctest.Wait() // each live reader holds one batch in its hand
		for range 3 {
			<-idle
			synctest.Wait()
		}
		size := prefix.bytes / 2
		got := f.hub.Stats()
		want := [Kinds]Load{
			KindKey:    {Behind: 1, Lag: 4},
			KindPrefix: {Live: 1, Events: 2, Bytes: 2 * size, Lag: 2},
			KindRange:  {Live: 1},
		}
		if diff := cmp.Diff(want, got.Load); diff != "" || size == 0 {
			t.Errorf("loads (-want +got):\n%s", diff)
		}
		behind.Close()
		if got := f.hub.Stats().Load[KindKey]; got != (Load{}) {
			t.Errorf("after the watcher of a key closed: got %+v, want nothing", got)
		}
	})
}

func TestWatchersThatEndUnaskedAreCountedByReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Options{MaxEvents: 1})
		if _, err := f.hub.Watch(t.Context(), store.WatchRequest{Start: "k", From: 9}); !errors.Is(err, store.ErrAhead) {
			t.Fatalf("got %v, want ErrAhead", err)
		}
		_, slow := f.live(store.WatchRequest{Start: "k"})
		for range 3 {
			f.write("k")
			synctest.Wait()
		}
		f.watch(store.WatchRequest{Start: "k"}).Close()
		ctx, cancel := context.WithCancel(t.Context())
		if _, err := f.hub.Watch(ctx, store.WatchRequest{Start: "k"}); err != nil {
			t.Fatal(err)
		}
		cancel()
		synctest.Wait()
		f.watch(store.WatchRequest{Start: "k"})
		f.hub.Reset(9, store.ErrOtherEpoch)
		want := [Reasons]uint64{ReasonSlow: 1, ReasonAhead: 1, ReasonOtherEpoch: 1}
		if diff := cmp.Diff(want, f.hub.Stats().Ended); diff != "" {
			t.Errorf("ended (-want +got):\n%s", diff)
		}
		for range slow { // until its end
		}
	})
}
