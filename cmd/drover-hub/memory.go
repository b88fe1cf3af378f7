package main

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// A member shares small boards with what it manages. Under load its heap may grow to twice what is live before it is collected, which
// is cheapest; while little happens that doubles the memory for nothing, and Go gives pages back to the system over many minutes only.
const (
	heapLook    = 10 * time.Second
	calmRate    = 4 << 20 // bytes a second that are allocated by a hub with little to do, at most
	calmPercent = 40      // growth of the heap before it is collected, while calm
	busyPercent = 100     // Go's own
	heapSpare   = 4 << 20 // bytes of free pages that are worth giving back
	releaseEach = time.Minute
)

// heapKeeper decides by how the heap fares. It knows no clock.
type heapKeeper struct {
	allocated uint64 // at the last look, since the process began
	released  time.Duration
}

// look is told what was allocated since the process began, how much of the heap is free and not given back, and how long the process
// runs; it answers how far the heap may grow before it is collected, and whether to give pages back.
func (k *heapKeeper) look(allocated, free uint64, at time.Duration) (percent int, release bool) {
	rate := float64(allocated-k.allocated) / heapLook.Seconds()
	k.allocated = allocated
	if rate > calmRate {
		return busyPercent, false
	}
	if free < heapSpare || at-k.released < releaseEach {
		return calmPercent, false
	}
	k.released = at
	return calmPercent, true
}

// keepHeap looks now and then until ctx ends.
func keepHeap(ctx context.Context) {
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/memory/classes/heap/free:bytes"}}
	began, keeper, now := time.Now(), heapKeeper{released: -releaseEach}, busyPercent
	tick := time.NewTicker(heapLook)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		metrics.Read(samples)
		percent, release := keeper.look(samples[0].Value.Uint64(), samples[1].Value.Uint64(), time.Since(began))
		if percent != now {
			debug.SetGCPercent(percent)
			now = percent
		}
		if release {
			debug.FreeOSMemory()
		}
	}
}
