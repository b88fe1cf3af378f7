package agent

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/drover-fleet/drover/agent/workload"
	"github.com/drover-fleet/drover/api/wire"
)

// fleet is a device with two assignments that run.
func fleet(t *testing.T, seed uint64) (*device, *hub) {
	t.Helper()
	d, h := newDevice(t, seed), newHub(t)
	for _, n := range []string{"1", "2", "3"} {
		d.rt.Publish(img(n), nil)
	}
	d.start(0)
	h.set(assignment("cam", img("1")))
	h.set(assignment("web", img("1")))
	h.tell(d)
	d.runs("cam="+img("1"), "web="+img("1"))
	return d, h
}

func ids(d *device) map[string]string {
	out := map[string]string{}
	for _, c := range d.rt.Containers() {
		out[c.Name] = fmt.Sprintf("%s run %d at %d", c.ID, c.Run.Number, c.Run.Wall)
	}
	return out
}

func same(t *testing.T, what string, before, after map[string]string) {
	t.Helper()
	if fmt.Sprint(before) != fmt.Sprint(after) {
		t.Errorf("%s: containers changed\nbefore %v\nafter  %v", what, before, after)
	}
}

func TestOlderStateAndAnotherClustersWordAreRefused(t *testing.T) {
	d, h := fleet(t, 1)
	before := ids(d)
	for _, c := range []struct {
		name   string
		change func(*hub)
	}{
		{"lower revision", func(h *hub) { h.rev -= 1 }},
		{"another cluster", func(h *hub) { h.cluster = "c2"; h.rev += 1000 }},
		{"lower epoch, higher revision", func(h *hub) { h.epoch = 0; h.rev += 1000 }},
	} {
		other := newHub(t)
		other.rev = h.rev
		other.set(assignment("evil", img("3")))
		other.remove("cam")
		other.rev = h.rev
		c.change(other)
		other.tell(d)
		d.pass(time.Minute)
		same(t, c.name, before, ids(d))
		if got := d.condition("DesiredRefused"); got.Status != "True" {
			t.Errorf("%s: condition is %+v, want True with the reason", c.name, got)
		}
	}
	h.set(assignment("cam", img("2")))
	h.tell(d)
	if got := d.condition("DesiredRefused"); got.Status != "False" {
		t.Errorf("after a good one: condition is %+v, want False", got)
	}
	d.runs("cam="+img("2"), "web="+img("1"))
}

func TestAbsenceRemovesNothing(t *testing.T) {
	d, h := fleet(t, 2)
	before := ids(d)
	h.drop["web"] = true // not in the index, and no tombstone
	h.rev++
	h.tell(d)
	d.pass(time.Minute)
	same(t, "left out of the index", before, ids(d))
	if s := d.status("web"); !s.Ready {
		t.Errorf("the status of what was left out: %+v, want it reported as it runs", s)
	}
	h.bodies = map[string]wire.Assignment{} // an empty hub of the same cluster, ahead
	h.rev += 10
	h.tell(d)
	d.start(0)
	d.reboot()
	d.start(0)
	d.runs("cam="+img("1"), "web="+img("1"))
}

func TestATombstoneIsDoneOnlyWhenNoKeptCopyHoldsTheDeleted(t *testing.T) {
	d, h := fleet(t, 3)
	d.hold[OpAct] = true
	h.remove("web")
	h.tell(d)
	if len(d.report.Gone) != 0 || d.status("web").Phase != "Stopping" {
		t.Errorf("before it is stopped: gone %v, %+v", d.report.Gone, d.status("web"))
	}
	d.hold[OpAct] = false
	d.run()
	d.runs("cam=" + img("1"))
	if fmt.Sprint(d.report.Gone) != "[web]" {
		t.Fatalf("gone: got %v, want [web]", d.report.Gone)
	}
	loaded, err := d.store.Load()
	if err != nil {
		t.Fatal(err)
	}
	if loaded.Bundle.holds("web") || loaded.Kept.holds("web") {
		t.Error("reported as gone while a copy on disk still holds it")
	}
	h.graves = nil // the hub forgets it
	h.rev++
	h.tell(d)
	d.pass(time.Minute)
	if len(d.report.Gone) != 0 {
		t.Errorf("gone: got %v, want nothing any more", d.report.Gone)
	}
	if _, left := d.core.rt.Assignments["web"]; left {
		t.Error("the memory of the deleted is kept for ever")
	}
}

func TestABundleIsActedOnWholeAndOnlyOnceStored(t *testing.T) {
	d, h := fleet(t, 4)
	before := ids(d)
	h.set(assignment("cam", img("2")))
	h.set(assignment("new", img("1")))
	ev, bodies := h.desired()
	d.give(ev)
	if d.want == nil || len(d.want.Bodies) != 2 {
		t.Fatalf("asked for %+v, want the two bodies that it does not have", d.want)
	}
	d.give(BodiesReceived{wire.BodiesReply{Bodies: bodies.Bodies[:1]}}) // a part
	d.give(BodiesReceived{wire.BodiesReply{Bodies: [][]byte{[]byte("junk")}}})
	d.pass(time.Minute)
	same(t, "with a part of the bodies", before, ids(d))
	if p, _ := d.core.Held(); p == ev.Desired.Position {
		t.Error("an incomplete bundle counts as held")
	}
	d.give(BodiesReceived{bodies})
	d.runs("cam="+img("2"), "new="+img("1"), "web="+img("1"))
	if p, hash := d.core.Held(); p != ev.Desired.Position || !hash.Equal(ev.Desired.BundleHash) {
		t.Errorf("held is %+v, want %+v", p, ev.Desired.Position)
	}
}

func TestIntermediateRevisionsAreSkippedAndTheRestKeepsItsIds(t *testing.T) {
	d, h := fleet(t, 5)
	before := ids(d)
	d.hold[OpPull] = true
	h.set(assignment("cam", img("2")))
	h.tell(d)
	h.set(assignment("cam", img("3")))
	h.tell(d)
	d.hold[OpPull] = false
	d.run()
	d.runs("cam="+img("3"), "web="+img("1"))
	if n := d.rt.Starts("cam"); n != 2 {
		t.Errorf("cam was started %d times, want 2: the revision between was run", n)
	}
	same(t, "web", map[string]string{"web": before["web"]}, map[string]string{"web": ids(d)["web"]})
}

func TestTheOldRunsOnUntilTheNewImageIsHere(t *testing.T) {
	d, h := fleet(t, 6)
	before := ids(d)
	d.rt.Unpublish(img("2"))
	h.set(assignment("cam", img("2")))
	h.tell(d)
	d.pass(time.Hour)
	same(t, "while the image cannot be fetched", before, ids(d))
	if s := d.status("cam"); s.Phase != "Pulling" || !s.Ready || s.Revision != "cam-1111" {
		t.Errorf("status: got %s ready=%v of %s, want Pulling, ready, of the old revision", s.Phase, s.Ready, s.Revision)
	}
	d.rt.Exit("cam", 1) // and is started again meanwhile
	d.give(RuntimeChanged{})
	d.pass(time.Minute)
	d.runs("cam="+img("1"), "web="+img("1"))
	d.reboot() // a reboot too
	d.start(0)
	d.runs("cam="+img("1"), "web="+img("1"))
	d.rt.Publish(img("2"), nil)
	d.pass(10 * time.Minute)
	d.runs("cam="+img("2"), "web="+img("1"))
	if s := d.status("cam"); s.Revision != "cam-2222" || s.Phase != "Running" {
		t.Errorf("after: got %s of %s", s.Phase, s.Revision)
	}
	d.noViolations()
}

func TestARebootWithoutAnyNetworkStartsEverythingFromDisk(t *testing.T) {
	d, _ := fleet(t, 7)
	d.rt.Unpublish(img("1"))
	pulls := d.rt.Pulls(img("1"))
	d.wall = time.Unix(1000, 0) // and the clock is wrong
	d.reboot()
	d.start(0)
	d.runs("cam="+img("1"), "web="+img("1"))
	if n := d.rt.Pulls(img("1")); n != pulls {
		t.Errorf("%d pulls on the way up, want none", n-pulls)
	}
	if d.journaled("Drift") != 0 || d.journaled("Rebooted") != 2 {
		t.Errorf("journal: %d Drift, %d Rebooted; want 0, 2", d.journaled("Drift"), d.journaled("Rebooted"))
	}
}

func TestARestartOfTheAgentTouchesNothing(t *testing.T) {
	d, h := fleet(t, 8)
	before, calls := ids(d), len(d.rt.Calls())
	for range 3 {
		d.start(0)
		h.tell(d)
		d.pass(time.Hour)
	}
	same(t, "agent restarts", before, ids(d))
	if n := len(d.rt.Calls()) - calls; n != 0 {
		t.Errorf("%d changing calls, want none: %v", n, d.rt.Calls()[calls:])
	}
}

func TestARuntimeThatIsDownOrEmptyIsNotADeletedWorkload(t *testing.T) {
	d, _ := fleet(t, 9)
	d.rt.Down()
	d.pass(10 * time.Minute)
	if c := d.condition("RuntimeUnavailable"); c.Status != "True" {
		t.Errorf("down: condition %+v, want True", c)
	}
	if n := d.journaled("RuntimeUnavailable"); n != 1 {
		t.Errorf("down: journalled %d times, want once", n)
	}
	d.start(0) // also for an agent that starts meanwhile
	if s := d.status("cam"); s.Message == "" {
		t.Errorf("status says nothing of the runtime: %+v", s)
	}
	d.rt.Empty()
	d.rt.DropImage(img("1"))
	d.rt.Up()
	d.pass(time.Minute)
	d.runs("cam="+img("1"), "web="+img("1"))
	if c := d.condition("RuntimeUnavailable"); c.Status != "False" {
		t.Errorf("up: condition %+v, want False", c)
	}
}

func TestWhatPeopleChangeByHandIsCorrectedAndReported(t *testing.T) {
	for name, change := range map[string]func(*device){
		"process killed without trace": func(d *device) { d.rt.KillByHand("cam") },
		"container removed":            func(d *device) { d.rt.RemoveByHand("cam") },
		"paused":                       func(d *device) { d.rt.PauseByHand("cam") },
	} {
		t.Run(name, func(t *testing.T) {
			d, _ := fleet(t, 10)
			web := ids(d)["web"]
			change(d)
			d.give(RuntimeChanged{})
			d.runs("cam="+img("1"), "web="+img("1"))
			if n := d.journaled("Drift"); n != 1 {
				t.Errorf("journalled as drift %d times, want once: %+v", n, d.core.rt.Journal.Records)
			}
			if ids(d)["web"] != web {
				t.Error("another workload was touched")
			}
		})
	}
}

func TestContainersThatNoBundleKnowsAreLeftAloneAndShown(t *testing.T) {
	d, _ := fleet(t, 11)
	stray := workload.Spec{ID: "stray", UID: "unknown", RunHash: "x", C: wire.Container{Name: "s", Image: img("1")}}
	drv := d.rt.Connect(0)
	if err := drv.Create(t.Context(), stray); err != nil {
		t.Fatal(err)
	}
	if err := drv.Start(t.Context(), workload.Spec{ID: "stray"}, workload.Run{Number: 1}, nil); err != nil {
		t.Fatal(err)
	}
	d.pass(time.Hour)
	if c := d.condition("StateNotSaved"); c.Status != "False" || c.Reason == "" {
		t.Errorf("condition: got %+v, want a reason for one that does not hold too", c)
	}
	if d.rt.Running("s") != 1 {
		t.Error("the stray was stopped")
	}
	if c := d.condition("StrayContainers"); c.Status != "True" || c.Message != "stray" {
		t.Errorf("condition: got %+v, want it named", c)
	}
}

func TestACommandIsCarriedOutOnceAcrossRestarts(t *testing.T) {
	d, _ := fleet(t, 12)
	cmd := wire.Command{ID: "x1", ClusterID: "c1", Device: "pi-07", Verb: wire.VerbOpenStream, Stream: &wire.Logs{UID: "cam", TailLines: 5}}
	d.give(CommandReceived{cmd})
	d.start(0)
	d.give(CommandReceived{cmd})
	other := cmd
	other.ID, other.Device = "x2", "pi-08"
	d.give(CommandReceived{other})
	if len(d.streams) != 1 || d.streams[0].Container != "cam" || d.streams[0].Options.Tail != 5 {
		t.Errorf("got streams %+v, want one, of cam", d.streams)
	}
}

func TestAnUnchangedDeviceWritesAndReportsNothing(t *testing.T) {
	d, _ := fleet(t, 13)
	d.pass(time.Minute)
	reports := d.reports
	before := fmt.Sprint(snapshot(t, d.dir))
	d.pass(24 * time.Hour)
	if d.reports != reports {
		t.Errorf("%d reports in an idle day, want none", d.reports-reports)
	}
	if after := fmt.Sprint(snapshot(t, d.dir)); after != before {
		t.Errorf("files were written in an idle day:\n%s\n%s", before, after)
	}
}

func TestSecretsAreSealedOnDiskAndOpenedAtTheStart(t *testing.T) {
	d, h := newDevice(t, 14), newHub(t)
	d.rt.Publish(img("1"), nil)
	d.start(0)
	ref := wire.SecretRef{Name: "default/db/password", ID: wire.HashOf([]byte("v1"))}
	h.set(assignment("cam", img("1"), func(a *wire.Assignment) {
		a.Containers[0].Env = []wire.Env{{Name: "PASSWORD", Secret: &ref}}
	}))
	h.tell(d)
	for range 2 {
		got := d.rt.Secrets("cam")
		if len(got) != 1 || got[0].Name != "PASSWORD" || string(got[0].Value) != "value of default/db/password" {
			t.Fatalf("got %v, want PASSWORD", got)
		}
		d.reboot()
		d.start(0)
	}
	before := ids(d)
	d.start(0) // makes sure that the secrets were handed over, and touches nothing
	same(t, "agent restart", before, ids(d))
}

// A fresh container has no restarts, and what the agent itself took away is no drift: neither after an update that is undone, nor
// when the order is changed back while the container is being taken away, wherever the agent dies on the way.
func TestWhatTheAgentTookAwayComesBackFresh(t *testing.T) {
	fresh := func(t *testing.T, d *device, starts uint32) {
		t.Helper()
		d.runs("cam="+img("1"), "web="+img("1"))
		if c := d.status("cam").Containers[0]; c.Restarts != starts {
			t.Errorf("restarts: got %d, want %d", c.Restarts, starts)
		}
		if n := d.journaled("Drift"); n != 0 {
			t.Errorf("%d drifts are journalled, though nobody touched the device: %+v", n, d.core.rt.Journal.Records)
		}
		d.noViolations()
	}
	t.Run("update and undo", func(t *testing.T) {
		d, h := fleet(t, 20)
		for range 3 {
			h.set(assignment("cam", img("2")))
			h.tell(d)
			h.set(assignment("cam", img("1")))
			h.tell(d)
		}
		fresh(t, d, 0)
	})
	t.Run("undone between stop and removal", func(t *testing.T) {
		for _, policy := range []wire.Restart{wire.RestartAlways, wire.RestartNever} {
			with := func(a *wire.Assignment) { a.Restart = policy }
			d, h := fleet(t, 21)
			h.set(assignment("cam", img("1"), with))
			h.tell(d)
			h.set(assignment("cam", img("2"), with))
			ev, bodies := h.desired()
			d.give(ev)
			for d.hold[OpAct] = true; len(d.ops) == 0; {
				d.give(BodiesReceived{bodies})
			}
			op := d.ops[0]
			if op.Action.Kind != workload.Stop {
				t.Fatalf("first action is %v, want to stop the old", op.Action.Kind)
			}
			d.ops = nil
			d.give(Hands{Driver: d.drv, Unseal: d.unseal}.Perform(t.Context(), op)) // stopped; the removal is held back
			d.ops = nil
			h.set(assignment("cam", img("1"), with))
			d.hold[OpAct] = false
			d.start(0) // and the agent died there
			h.tell(d)
			fresh(t, d, 0)
		}
	})
	t.Run("killed anywhere", func(t *testing.T) {
		for kill := 1; ; kill++ {
			d, h := fleet(t, 22)
			if !d.start(kill) {
				h.set(assignment("cam", img("2")))
				if !h.tell(d) {
					h.set(assignment("cam", img("1")))
					if !h.tell(d) {
						return
					}
				}
			}
			h.set(assignment("cam", img("1")))
			d.start(0)
			h.tell(d)
			d.pass(time.Minute)
			fresh(t, d, d.status("cam").Containers[0].Restarts)
		}
	})
}

// Whatever a runtime or a registry answers, the device can still say it: a message that the hub refuses would silence it.
func TestAnErrorOfAnyShapeCanBeReported(t *testing.T) {
	for name, text := range map[string]string{
		"long":      strings.Repeat("<html>a page of a proxy</html>", 10_000),
		"not UTF-8": "exec /bin/\xff\xfe\x00: no such file",
		"cut":       strings.Repeat("ä", 3000),
	} {
		t.Run(name, func(t *testing.T) {
			d, h := newDevice(t, 23), newHub(t)
			d.rt.Publish(img("1"), errors.New(text))
			d.start(0)
			for i := range 40 {
				h.set(assignment(fmt.Sprintf("w%02d", i), img("1")))
			}
			h.tell(d)
			d.pass(time.Minute)
			r := d.report
			r.Session, r.Sequence = 1, 1
			b, err := wire.Encode(r)
			if err != nil {
				t.Fatal(err)
			}
			var back wire.Report
			if err := wire.Decode(b, wire.MaxReport, &back); err != nil {
				t.Errorf("the hub refuses it: %v", err)
			}
			d.start(0)
			if n := d.journaled("StateRecovered"); n != 0 {
				t.Error("what was remembered cannot be read back")
			}
		})
	}
}
