package main

import (
	"testing"
	"time"
)

func TestACalmMemberGivesMemoryBackAndABusyOneDoesNot(t *testing.T) {
	const mib = 1 << 20
	k := heapKeeper{released: -releaseEach}
	allocated := uint64(0)
	for i, tt := range []struct {
		allocates, free uint64 // MiB since the look before; MiB now
		percent         int
		release         bool
	}{
		{500, 100, busyPercent, false}, // it starts
		{10, 100, calmPercent, true},   // calm: everything that is free goes
		{10, 1, calmPercent, false},    // nothing worth it
		{10, 50, calmPercent, false},   // too soon
		{500, 50, busyPercent, false},
		{10, 50, calmPercent, false},
		{10, 50, calmPercent, false},
		{10, 50, calmPercent, true}, // a minute later
	} {
		allocated += tt.allocates * mib
		at := time.Duration(i+1) * heapLook
		if percent, release := k.look(allocated, tt.free*mib, at); percent != tt.percent || release != tt.release {
			t.Errorf("look %d: got %d %%, release=%v, want %d %%, %v", i, percent, release, tt.percent, tt.release)
		}
	}
}
