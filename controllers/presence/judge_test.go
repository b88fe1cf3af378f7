package presence

import (
	"testing"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/controllers/copies"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// ages are contacts by device, in seconds.
type ages map[string]int

func (a ages) Last(device string) (time.Duration, bool) {
	s, ok := a[device]
	return time.Duration(s) * time.Second, ok
}

// was is a device in the state that an earlier pass gave it, since so many seconds before noon.
func was(name, reason string, since int) *api.Device {
	d := &api.Device{Metadata: api.ObjectMeta{Name: name, CreationTimestamp: api.TimeOf(noon.Add(-time.Hour))}}
	status := map[string]string{Connected: api.True, Late: api.Unknown, Offline: api.False, Never: api.False}[reason]
	if reason != "" {
		d.Status.Conditions = []api.Condition{{Type: copies.CondConnected, Status: status, Reason: reason, LastTransitionTime: api.TimeOf(noon.Add(-time.Duration(since) * time.Second))}}
	}
	return d
}

func TestJudgeLinks(t *testing.T) {
	for _, tc := range []struct {
		name    string
		device  *api.Device
		heard   ages
		judging int // since how many seconds this leader judges
		state   string
		since   int // seconds before noon
	}{
		{"heard of", was("a", Connected, 900), ages{"a": 5}, 900, Connected, 0},
		{"silent for a while", was("a", Connected, 900), ages{"a": 70}, 900, Late, 70},
		{"silent for long", was("a", Late, 130), ages{"a": 130}, 900, Offline, 130},
		{"heard of again", was("a", Offline, 900), ages{"a": 1}, 900, Connected, 0},
		{"stays offline without a word", was("a", Offline, 900), ages{"a": 900}, 5, Offline, 900},
		{"a new leader gives grace", was("a", Connected, 900), ages{"a": 900}, 5, Connected, 900},
		{"a new leader that remembers nothing gives grace", was("a", Connected, 900), ages{}, 5, Connected, 900},
		{"a new leader that hears nothing accuses after it", was("a", Connected, 900), ages{}, 130, Offline, 130},
		{"never heard of", was("a", "", 0), ages{}, 5, Never, 3600},
		{"first contact", was("a", Never, 3600), ages{"a": 0}, 5, Connected, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := view{
				devices: []*api.Device{tc.device}, contacts: tc.heard, limits: Limits{Late: time.Minute, Offline: 2 * time.Minute},
				member: "h1", now: noon, judging: noon.Add(-time.Duration(tc.judging) * time.Second),
			}
			got := v.judge(tc.device)
			if got.state != tc.state || !got.since.Equal(noon.Add(-time.Duration(tc.since)*time.Second)) {
				t.Errorf("got %s since %v, want %s since %d s before noon", got.state, got.since, tc.state, tc.since)
			}
			for _, d := range v.changes() {
				v.devices = []*api.Device{d}
			}
			if again := v.changes(); len(again) != 0 {
				t.Errorf("got %+v written again, want nothing when nothing changed", again[0].Status.Conditions)
			}
		})
	}
}

func TestReadyNeedsTheLinkAndTheRuntime(t *testing.T) {
	d := was("a", Connected, 10)
	d.Status.Conditions = append(d.Status.Conditions, api.Condition{Type: copies.CondRuntimeUnavailable, Status: api.True, Message: "containerd is down"})
	v := view{devices: []*api.Device{d}, contacts: ages{"a": 1}, limits: Limits{Late: time.Minute, Offline: 2 * time.Minute}, now: noon, judging: noon}
	next := v.changes()[0]
	c := api.FindCondition(next.Status.Conditions, copies.CondReady)
	if c.Status != api.False || c.Reason != "RuntimeUnavailable" || c.Message != "containerd is down" {
		t.Errorf("got %+v, want not ready with the runtime's word", c)
	}
	if len(d.Status.Conditions) != 2 {
		t.Error("the device that was read was changed")
	}
}
