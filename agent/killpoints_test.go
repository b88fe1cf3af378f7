package agent

import (
	"fmt"
	"testing"
	"time"
)

// F02: the agent dies at each point before and after each call; two copies never exist, and the next life ends where it should.
func TestTwoCopiesNeverExistWhereverTheAgentDies(t *testing.T) {
	for _, twice := range []bool{false, true} {
		for kill, killed := 1, true; killed; kill++ {
			killed = liveAndDie(t, kill, twice)
			if kill > 200 {
				t.Fatal("the kill points do not end")
			}
			if !killed && kill < 20 {
				t.Fatalf("only %d kill points were passed: the sequence does not do what it should", kill)
			}
		}
	}
}

// liveAndDie runs create, update, update and delete with a death at point kill; twice: and another one later in the next life.
func liveAndDie(t *testing.T, kill int, twice bool) (killed bool) {
	d, h := newDevice(t, uint64(kill)), newHub(t)
	for _, n := range []string{"1", "2", "3"} {
		d.rt.Publish(img(n), nil)
	}
	alive := func(step func() bool) {
		if !step() {
			return
		}
		killed = true
		next := 0
		if twice {
			next, twice = kill/2+1, false
		}
		for d.start(next) {
			next = 0
		}
		for h.tell(d) { // the hub says it again after a reconnect
			d.start(0)
		}
	}
	alive(func() bool { return d.start(kill) })
	for _, change := range []func(){
		func() { h.set(assignment("cam", img("1"))); h.set(assignment("web", img("1"))) },
		func() { h.set(assignment("cam", img("2"))) },
		func() { h.set(assignment("cam", img("3"))); h.remove("web") },
	} {
		change()
		alive(func() bool { return h.tell(d) })
		d.pass(time.Minute)
		d.noViolations()
	}
	d.pass(10 * time.Minute)
	d.noViolations()
	d.runs("cam=" + img("3"))
	if n := len(d.rt.Containers()); n != 1 {
		t.Fatalf("kill point %d: %d containers are left, want 1", kill, n)
	}
	if fmt.Sprint(d.report.Gone) != "[web]" {
		t.Fatalf("kill point %d: reported gone %v, want [web]", kill, d.report.Gone)
	}
	return killed
}

func TestAContainerThatEndsWhileTheAgentIsAwayIsCountedOnce(t *testing.T) {
	d, h := newDevice(t, 1), newHub(t)
	d.rt.Publish(img("1"), nil)
	d.start(0)
	h.set(assignment("cam", img("1")))
	h.tell(d)
	d.rt.Exit("cam", 7) // nobody listens
	for range 3 {
		d.start(0)
	}
	if got := d.core.rt.memory("cam").Containers; len(got) != 1 {
		t.Fatalf("memory of %d containers, want 1", len(got))
	}
	if n := d.journaled("Exited"); n != 1 {
		t.Errorf("the end was journalled %d times, want once", n)
	}
	st := d.status("cam").Containers[0]
	if st.ExitCode != 7 || !st.Exited {
		t.Errorf("got exit %v code %d, want 7", st.Exited, st.ExitCode)
	}
	d.pass(time.Minute)
	if got := d.status("cam").Containers[0].Restarts; got != 1 {
		t.Errorf("got %d restarts, want 1", got)
	}
}
