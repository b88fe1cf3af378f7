package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/drover-fleet/drover/api/wire"
)

// snapshot gives name, size and modification time of every file.
func snapshot(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	es, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range es {
		st, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, fmt.Sprint(e.Name(), st.Size(), st.ModTime()))
	}
	slices.Sort(out)
	return out
}

// F03: every file of the agent, damaged in every way, alone and with its previous copy: the agent starts, restarts no
// container, and is as before once the hub has spoken; after a reboot without a hub everything runs.
func TestADamagedFileRestartsNoContainer(t *testing.T) {
	for _, files := range [][]string{{"bundle"}, {"runtime"}, {"bundle", "bundle.prev"}, {"runtime", "runtime.prev"},
		{"bundle", "bundle.prev", "runtime", "runtime.prev"}} {
		for _, damage := range damages(t) {
			t.Run(fmt.Sprint(files, damage.name), func(t *testing.T) {
				d, h := fleet(t, 1)
				before, calls := ids(d), len(d.rt.Calls())
				for _, f := range files {
					damage.do(t, filepath.Join(d.dir, f))
				}
				d.start(0)
				d.pass(time.Minute)
				same(t, "start", before, ids(d))
				h.tell(d)
				d.pass(time.Minute)
				same(t, "the hub's word", before, ids(d))
				if got := d.rt.Calls()[calls:]; len(got) > 0 {
					t.Errorf("calls: %v, want none", got)
				}
				for _, f := range files {
					damage.do(t, filepath.Join(d.dir, f))
				}
				d.reboot()
				d.start(0)
				d.pass(time.Minute)
				d.runs("cam="+img("1"), "web="+img("1"))
				if s := d.status("cam"); s.Phase != "Running" || !s.Ready {
					t.Errorf("status: %s, ready %v", s.Phase, s.Ready)
				}
				d.noViolations()
			})
		}
	}
}

// The copy before the last save says what was, not what is: with the newest bundle damaged, before the start or under a running
// agent, what runs is neither taken back to it nor removed, and what is new since survives a reboot.
func TestAnOlderCopyOfTheBundleTakesNothingBack(t *testing.T) {
	for _, damage := range damages(t) {
		for _, running := range []bool{false, true} {
			t.Run(fmt.Sprint(damage.name, " running=", running), func(t *testing.T) {
				d, h := fleet(t, 1)
				h.set(assignment("cam", img("2")))
				h.set(assignment("new", img("3")))
				h.tell(d)
				want := []string{"cam=" + img("2"), "web=" + img("1"), "new=" + img("3")}
				d.runs(slices.Clone(want)...)
				before, calls := ids(d), len(d.rt.Calls())
				damage.do(t, filepath.Join(d.dir, "bundle"))
				if running {
					d.pass(time.Minute)
				}
				d.start(0)
				d.pass(time.Minute)
				same(t, "start", before, ids(d))
				if got := d.rt.Calls()[calls:]; len(got) > 0 {
					t.Errorf("calls: %v, want none", got)
				}
				d.reboot()
				d.start(0)
				d.pass(time.Minute)
				d.runs(slices.Clone(want)...)
				h.remove("new")
				h.tell(d)
				d.pass(time.Minute)
				d.runs("cam="+img("2"), "web="+img("1"))
				d.noViolations()
			})
		}
	}
}

// While the new image is still on its way the old container runs; damage then must not make the old one the order.
func TestDamageDuringAPullDoesNotUndoTheOrder(t *testing.T) {
	d, h := fleet(t, 1)
	d.hold[OpPull] = true
	h.set(assignment("cam", img("2")))
	h.tell(d)
	h.set(assignment("web", img("2")))
	h.tell(d)
	if err := os.Truncate(filepath.Join(d.dir, "bundle"), 0); err != nil {
		t.Fatal(err)
	}
	d.hold[OpPull] = false
	d.start(0)
	d.pass(time.Minute)
	d.runs("cam="+img("2"), "web="+img("1")) // web's order was in the damaged file alone
	h.tell(d)
	d.pass(time.Minute)
	d.runs("cam="+img("2"), "web="+img("2"))
}

// F12: with a disk that takes nothing the device reports on, refuses new orders whole, shows logs, and comes back by itself.
func TestAFullDiskRefusesNewOrdersWholeAndRecovers(t *testing.T) {
	d, h := fleet(t, 1)
	before := ids(d)
	full := filepath.Join(d.dir, "bundle.tmp") // no file can be made where a directory is
	fullToo := filepath.Join(d.dir, "runtime.tmp")
	for _, dir := range []string{full, fullToo} {
		if err := os.MkdirAll(filepath.Join(dir, "x"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	h.set(assignment("cam", img("2")))
	h.set(assignment("new", img("1")))
	h.tell(d)
	d.pass(10 * time.Minute)
	same(t, "full disk", before, ids(d))
	if c := d.condition("StateNotSaved"); c.Status != "True" || c.Message == "" {
		t.Errorf("condition: got %+v, want True with the reason", c)
	}
	if p, _ := d.core.Held(); p.Revision == h.rev {
		t.Error("what could not be stored counts as held")
	}
	d.rt.KillByHand("web")
	d.pass(time.Minute)
	if s := d.status("web"); !s.Ready {
		t.Errorf("on a full disk nothing is mended or nothing is reported: %+v", s)
	}
	web := ids(d)["web"]
	cmd := wire.Command{ID: "x1", ClusterID: "c1", Device: "pi-07", TTLSecs: 20, Verb: wire.VerbOpenStream, Stream: &wire.Logs{UID: "cam"}}
	d.give(CommandReceived{cmd})
	if len(d.streams) != 1 {
		t.Errorf("%d logs were opened on a full disk, want 1", len(d.streams))
	}
	for _, dir := range []string{full, fullToo} {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	d.pass(time.Minute)
	d.runs("cam="+img("2"), "web="+img("1"), "new="+img("1"))
	if c := d.condition("StateNotSaved"); c.Status != "False" {
		t.Errorf("condition afterwards: %+v", c)
	}
	if len(d.streams) != 1 {
		t.Errorf("the log was opened %d times, want once", len(d.streams))
	}
	if ids(d)["web"] != web {
		t.Error("web was touched")
	}
}

type damage struct {
	name string
	do   func(t *testing.T, path string)
}

func damages(t *testing.T) []damage {
	t.Helper()
	change := func(f func(b []byte) []byte) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			b, err := os.ReadFile(path)
			if os.IsNotExist(err) {
				return
			}
			if err == nil {
				err = os.WriteFile(path, f(b), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	out := []damage{
		{"truncated", change(func([]byte) []byte { return nil })},
		{"nul", change(func(b []byte) []byte { return make([]byte, len(b)) })},
		{"only the temporary file", func(t *testing.T, path string) {
			if err := os.Rename(path, path+".tmp"); err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
		}},
		{"directory entry lost", func(t *testing.T, path string) {
			if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
		}},
	}
	for _, at := range []int{1, 8, 47, 48, 512, 1024, 1536} {
		out = append(out, damage{fmt.Sprint("cut at ", at), change(func(b []byte) []byte { return b[:min(at, len(b)-1)] })})
	}
	return out
}
