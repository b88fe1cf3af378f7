package gc

import (
	"fmt"
	"testing"
	"time"
)

func TestEventsAreBoundedByAgeAndByObject(t *testing.T) {
	now := time.Date(2026, 1, 10, 0, 0, 0, 0, time.UTC)
	var events []eventRef
	for n := range 60 { // e0 is the newest
		events = append(events, eventRef{name: fmt.Sprint("e", n), about: "Workload/default/chatty", last: now.Add(-time.Duration(n) * time.Minute)})
	}
	events = append(events,
		eventRef{name: "old", about: "Device//pi", last: now.Add(-8 * 24 * time.Hour)},
		eventRef{name: "week", about: "Device//pi", last: now.Add(-7 * 24 * time.Hour)},
	)
	got := map[string]bool{}
	for _, e := range surplus(events, now) {
		got[e.name] = true
	}
	if len(got) != 11 || !got["old"] || got["week"] || got["e49"] || !got["e50"] || !got["e59"] {
		t.Errorf("got %v removed, want old and e50 to e59", got)
	}
}
