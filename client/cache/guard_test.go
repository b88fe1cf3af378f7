package cache

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
)

// refusing is a hub whose watches are refused while err says so.
type refusing struct {
	*fakeHub
	err   error    // guarded by mu, like the rest
	asked []string // revisions to watch from
}

func (h *refusing) seen() (lists int, asked []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lists, h.asked
}

func (h *refusing) Watch(ctx context.Context, k *api.Kind, o client.WatchOptions) (client.Watcher, error) {
	h.mu.Lock()
	h.asked = append(h.asked, o.ResourceVersion)
	err := h.err
	h.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return h.fakeHub.Watch(ctx, k, o)
}

// refused runs an informer of a hub that refuses its watches for so long, in fake time, and then a minute of one that does not.
func refused(t *testing.T, err error, length time.Duration, judge func(h *refusing)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := &refusing{fakeHub: newFakeHub(), err: err}
		h.put("a", "1")
		h.put("b", "1")
		i := New(h, api.KindConfigMap, Options{Random: rand.New(rand.NewPCG(1, 2)).Int64N, Logger: slog.New(slog.DiscardHandler)})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- i.Run(ctx) }()
		after(length)
		judge(h)
		h.mu.Lock()
		h.err = nil
		h.mu.Unlock()
		h.put("c", "1")
		after(time.Minute)
		if got, want := contentOf(i), h.content(); len(got) != len(want) {
			t.Errorf("once it watches again: got %v, want %v", got, want)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestF41ListsThatLeadNowhereComeEverMoreRarely: a revision that is gone as soon as it was listed, as on a hub that is pressed for
// room, must not make every client list for ever at the pace at which it can.
func TestF41ListsThatLeadNowhereComeEverMoreRarely(t *testing.T) {
	for _, class := range []fault.Class{fault.Expired, fault.OtherEpoch} {
		refused(t, class.Errorf("gone"), 10*time.Minute, func(h *refusing) {
			if lists, _ := h.seen(); lists < 10 || lists > 100 {
				t.Errorf("%s: got %d lists in ten minutes, want some, and about one in 15 s in the end", class, lists)
			}
		})
	}
}

// TestF41ARevisionThatIsAheadIsAskedForAgainAndNotListed: another member has it, or this one will; a list would go back in time.
func TestF41ARevisionThatIsAheadIsAskedForAgainAndNotListed(t *testing.T) {
	refused(t, fault.Ahead.Errorf("not there yet"), 10*time.Minute, func(h *refusing) {
		if lists, asked := h.seen(); lists != 1 || len(asked) < 10 || len(asked) > 100 {
			t.Errorf("got %d lists and %d watches in ten minutes, want one list, and about a watch in 15 s in the end", lists, len(asked))
		}
	})
}

// TestF41AWatchThatIsGoneIsFollowedByOneListAndGoesOnFromIt.
func TestF41AWatchThatIsGoneIsFollowedByOneListAndGoesOnFromIt(t *testing.T) {
	refused(t, nil, time.Second, func(h *refusing) {
		h.cut(true)
		h.put("a", "2")
		h.cut(true) // what the informer has seen can no longer be watched from
		after(time.Minute)
		if lists, asked := h.seen(); lists != 2 || asked[len(asked)-1] != "3" {
			t.Errorf("got %d lists and watches from %v, want one more list, and a watch from its revision 3 on", lists, asked)
		}
	})
}
