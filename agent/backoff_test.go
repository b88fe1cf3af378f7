package agent

import (
	"strings"
	"testing"
	"time"

	"github.com/drover-fleet/drover/api/wire"
)

func crashing(t *testing.T, seed uint64, restart wire.Restart, codes ...int32) *device {
	t.Helper()
	d, h := newDevice(t, seed), newHub(t)
	d.rt.Publish(img("1"), nil)
	d.rt.Script("cam", codes...)
	d.start(0)
	h.set(assignment("cam", img("1"), func(a *wire.Assignment) { a.Restart = restart }))
	h.tell(d)
	return d
}

func always(code int32) []int32 {
	out := make([]int32, 1000)
	for i := range out {
		out[i] = code
	}
	return out
}

// F10: the wait is kept over restarts of the agent and steps of the wall clock, grows and is capped.
func TestBackoffSurvivesTheAgentAndTheWallClock(t *testing.T) {
	d := crashing(t, 1, wire.RestartAlways, always(1)...)
	for i := range 240 { // four hours, the agent restarted each minute
		switch i % 3 {
		case 1:
			d.wall = d.wall.Add(24 * time.Hour)
		case 2:
			d.wall = d.wall.Add(-48 * time.Hour)
		}
		d.pass(time.Minute)
		d.start(0)
	}
	// Full jitter up to five minutes: about 96 starts in four hours, and never as many as without growth.
	if n := d.rt.Starts("cam"); n < 48 || n > 150 {
		t.Errorf("%d starts in four hours, want about 96", n)
	}
	s := d.status("cam")
	if s.Phase != "CrashLoop" || s.Containers[0].ExitCode != 1 || s.Containers[0].NextStart == 0 {
		t.Errorf("status: got %s, exit %d, next start %d; want CrashLoop with both", s.Phase, s.Containers[0].ExitCode, s.Containers[0].NextStart)
	}
}

func TestCrashLoopDoesNotFlap(t *testing.T) {
	d := crashing(t, 2, wire.RestartAlways, 1, 1, 1)
	for range 600 { // runs for good from the fourth start on
		d.pass(time.Second)
		s := d.status("cam")
		run := d.rt.Containers()[0].Run.Number
		if run < 4 && s.Phase != "CrashLoop" {
			t.Fatalf("phase %s between two ends, want CrashLoop", s.Phase)
		}
	}
	if s := d.status("cam"); s.Phase != "Running" || !s.Ready {
		t.Errorf("after it settled: got %s, ready %v", s.Phase, s.Ready)
	}
}

func TestAStableRunForgetsTheFailures(t *testing.T) {
	d := crashing(t, 3, wire.RestartAlways, 1, 1, 1, 1, 1, 1)
	d.pass(time.Hour)
	d.rt.Exit("cam", 1)
	d.give(RuntimeChanged{})
	d.pass(11 * time.Second) // the first wait is at most ten seconds
	d.runs("cam=" + img("1"))
}

func TestTwentyThatFailTogetherStartApart(t *testing.T) {
	d, h := newDevice(t, 4), newHub(t)
	d.rt.Publish(img("1"), nil)
	d.start(0)
	for i := range 20 {
		uid := "w" + string(rune('a'+i))
		d.rt.Script(uid, 1)
		h.set(assignment(uid, img("1")))
	}
	h.tell(d)
	starts := map[int64]int{}
	for range 200 {
		d.pass(100 * time.Millisecond)
		for _, c := range d.rt.Containers() {
			if c.Run.Number == 2 {
				starts[c.Run.Wall]++
			}
		}
	}
	total := map[int64]bool{}
	for _, c := range d.rt.Containers() {
		total[c.Run.Wall/int64(100*time.Millisecond)] = true
	}
	if len(total) < 10 {
		t.Errorf("20 containers started again in %d moments, want them spread", len(total))
	}
}

func TestARestartPolicyIsObeyed(t *testing.T) {
	for _, c := range []struct {
		name    string
		restart wire.Restart
		code    int32
		starts  int
		phase   string
	}{
		{"never, well", wire.RestartNever, 0, 1, "Completed"},
		{"never, badly", wire.RestartNever, 3, 1, "Failed"},
		{"on failure, well", wire.RestartOnFailure, 0, 1, "Completed"},
		{"on failure, badly", wire.RestartOnFailure, 3, 2, "Running"},
		{"always, well", wire.RestartAlways, 0, 2, "Running"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := crashing(t, 5, c.restart, c.code)
			for range 3 {
				d.pass(10 * time.Minute)
				d.start(0)
			}
			if n := d.rt.Starts("cam"); n != c.starts {
				t.Errorf("%d starts, want %d", n, c.starts)
			}
			if s := d.status("cam"); s.Phase != c.phase {
				t.Errorf("phase %s, want %s", s.Phase, c.phase)
			}
			if c.phase != "Running" {
				d.reboot()
				d.start(0)
				if n := d.rt.Starts("cam"); n != c.starts {
					t.Errorf("a reboot started what had ended for good")
				}
			}
		})
	}
}

func TestReadinessFollowsTheProbesThresholds(t *testing.T) {
	d, h := newDevice(t, 6), newHub(t)
	d.rt.Publish(img("1"), nil)
	d.rt.Probe("cam", 1)
	d.start(0)
	h.set(assignment("cam", img("1"), func(a *wire.Assignment) {
		a.Containers[0].Readiness = &wire.Probe{Command: []string{"check"}, PeriodSecs: 10, TimeoutSecs: 1, Successes: 2, Failures: 3}
	}))
	h.tell(d)
	expect := func(when string, ready bool) {
		t.Helper()
		if got := d.status("cam").Ready; got != ready {
			t.Errorf("%s: ready %v, want %v", when, got, ready)
		}
	}
	d.pass(time.Minute)
	expect("while the probe fails", false)
	if s := d.status("cam"); s.Phase != "Starting" || !strings.Contains(s.Message, `"check" ends with exit code 1`) {
		t.Errorf("phase %s, message %q before it was ever ready; want Starting with what the probe says", s.Phase, s.Message)
	}
	d.rt.Probe("cam", 0)
	d.pass(10 * time.Second)
	expect("after one success", false)
	d.pass(10 * time.Second)
	expect("after two", true)
	if s := d.status("cam"); s.Message != "" {
		t.Errorf("message %q of what is ready, want none", s.Message)
	}
	d.start(0)
	expect("after a restart of the agent", true)
	d.rt.Probe("cam", 1)
	d.pass(20 * time.Second)
	expect("after two failures", true)
	d.pass(20 * time.Second)
	expect("after three", false)
	if n := d.rt.Starts("cam"); n != 1 {
		t.Errorf("readiness started it %d times, want once", n)
	}
}

func TestAFailedPullIsTriedAgainAtAFallingRate(t *testing.T) {
	d, h := newDevice(t, 7), newHub(t)
	d.rt.Publish(img("1"), errScripted)
	d.start(0)
	h.set(assignment("cam", img("1")))
	h.tell(d)
	d.pass(time.Hour)
	if n := d.rt.Pulls(img("1")); n < 12 || n > 60 {
		t.Errorf("%d pulls in an hour, want between 12 and 60", n)
	}
	if s := d.status("cam"); s.Phase != "Pulling" || s.Message == "" {
		t.Errorf("status: %s %q, want Pulling with the reason", s.Phase, s.Message)
	}
}

// A runtime that goes away in the middle of a probe says nothing about the container, and probes go on when it is back.
func TestProbesGoOnAfterTheRuntimeWasAway(t *testing.T) {
	d, h := newDevice(t, 8), newHub(t)
	d.rt.Publish(img("1"), nil)
	d.start(0)
	h.set(assignment("cam", img("1"), func(a *wire.Assignment) {
		a.Containers[0].Readiness = &wire.Probe{Command: []string{"check"}, PeriodSecs: 10, TimeoutSecs: 1, Successes: 1, Failures: 1}
	}))
	h.tell(d)
	d.pass(time.Minute)
	d.hold[OpProbe] = true
	d.pass(30 * time.Second) // a probe is under way
	d.rt.Down()
	d.hold[OpProbe] = false
	d.pass(time.Minute)
	d.rt.Up()
	d.pass(time.Minute)
	if !d.status("cam").Ready {
		t.Error("not ready: the lost probe counted as a failure")
	}
	d.rt.Probe("cam", 1)
	d.pass(time.Minute)
	if d.status("cam").Ready {
		t.Error("ready, though the probe fails: it is not run any more")
	}
}
