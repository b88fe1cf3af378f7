package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
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
