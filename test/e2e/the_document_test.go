package e2e

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/test/lab"
)

// These tests do what docs/operate-the-hub.md tells an operator to do, with the programs and nothing else. Each leaves a whole hub of three.

// hub runs drover-hub to its end and fails the test unless it ends with the wanted exit code. It returns what was said.
func (f *fleet) hub(t *testing.T, want int, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(within(t, time.Minute), filepath.Join(f.Bin, "drover-hub"), args...).CombinedOutput()
	if got := exitCode(err); got != want {
		t.Fatalf("drover-hub %s: exit code %d, want %d\n%s", strings.Join(args, " "), got, want, out)
	}
	return string(out)
}

func (f *fleet) hubDir(i int) string { return f.Path("hub", f.Members[i].Name) }

func (f *fleet) kill(t *testing.T, members ...int) {
	t.Helper()
	for _, i := range members {
		if err := f.Procs[f.Members[i].Name].Kill(within(t, 10*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
}

// awayWith moves a member's directory aside and returns where to.
func (f *fleet) awayWith(t *testing.T, i int) string {
	t.Helper()
	old := filepath.Join(t.TempDir(), f.Members[i].Name)
	if err := os.Rename(f.hubDir(i), old); err != nil {
		t.Fatal(err)
	}
	return old
}

// goesOn starts the one member that is left and waits until it leads.
func (f *fleet) goesOn(t *testing.T, i int) {
	t.Helper()
	if err := f.StartMember(within(t, time.Minute), i); err != nil {
		t.Fatal(err)
	}
}

// rejoin lets a member in by the command that drover hub join prints, in the directory where it is to live.
func (f *fleet) rejoin(t *testing.T, i int) {
	t.Helper()
	m := f.Members[i]
	token := filepath.Join(t.TempDir(), "token")
	said := strings.Fields(f.drover(t, 0, "hub", "join", m.Name, "--api", m.API, "--peer", m.Peer, "--token-file", token))
	if len(said) < 3 || said[0] != "drover-hub" || said[1] != "--dir" {
		t.Fatalf("drover hub join: got %q, want the command", said)
	}
	said[2] = f.hubDir(i)
	if err := f.Start(lab.Spec{Name: m.Name, Path: filepath.Join(f.Bin, said[0]), Args: said[1:]}); err != nil {
		t.Fatal(err)
	}
}

func (f *fleet) wholeAgain(t *testing.T) {
	t.Helper()
	want := fmt.Sprintf("%d of %d members with a vote answer", len(f.Members), len(f.Members))
	f.until(t, time.Minute, "the doctor finds "+want, func() error {
		out, err := f.Drover(within(t, 20*time.Second), "hub", "doctor")
		if !strings.Contains(out, want) {
			return fmt.Errorf("%w: %s", errors.Join(err, errors.New("not yet")), out)
		}
		return nil
	})
}

func wantText(t *testing.T, what, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("%s: got\n%s\nwant %q in it", what, text, want)
		}
	}
}

func TestF32SecondProcessIsToldWhoHoldsTheDirectory(t *testing.T) {
	f := shared
	began := time.Now()
	said := f.hub(t, 10, "--dir", f.hubDir(0))
	wantText(t, "a second process", said, f.hubDir(0)+" is in use by process", fmt.Sprint(f.Procs[f.Members[0].Name].PID), "drover-hub")
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %s, want a few seconds", took)
	}
}

func TestF34NoHubIsFoundedWhereAMemberIsMissed(t *testing.T) {
	f := shared
	m := f.Members[2]
	if err := f.Procs[m.Name].Stop(within(t, 20*time.Second), 10*time.Second); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(t.TempDir(), "unmounted")
	said := f.hub(t, 14, "--dir", empty, "--name", m.Name, "--api", m.API, "--peer", m.Peer, "--init")
	wantText(t, "init where a member is missed", said, "a member of a hub calls at "+m.Name, "--force-new")
	wantText(t, "start on a disk that is not mounted", f.hub(t, 11, "--dir", empty), "does not exist: is its disk mounted?")
	f.goesOn(t, 2)
	f.wholeAgain(t)
}

func TestF40LosingTwoOfThreeIsMendedByTheDocumentAlone(t *testing.T) {
	f := shared
	f.rollOut(t, "lasting", f.workload("lasting", "1.0", "before"))
	defer f.remove(t, "lasting")
	before := f.containers(t, "lasting")
	f.droverIn(t, 0, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: last-word}\n", "apply", "-f", "-")
	f.kill(t, 1, 2)

	f.until(t, 20*time.Second, "the survivor knows of no leader", func() error {
		if out := f.drover(t, 0, "hub", "status"); !strings.Contains(out, "no leader") {
			return errors.New(out)
		}
		return nil
	})
	wantText(t, "doctor", f.drover(t, 6, "hub", "doctor"), "1 of 3 members with a vote answer, 2 are needed", "reset-from-survivor")

	wantText(t, "doctor of a running member", f.hub(t, 10, "doctor", "--dir", f.hubDir(0)), "is in use by process")
	f.kill(t, 0) // not even stopped in order: its log is ahead of its state
	f.hub(t, 0, "doctor", "--dir", f.hubDir(0))
	plan := f.hub(t, 0, "reset-from-survivor", "--dir", f.hubDir(0), "--dry-run")
	wantText(t, "dry run", plan, "would be made:", "how much cannot be known from here", "member "+f.Members[1].Name, "member "+f.Members[2].Name, "nothing was changed")
	wantText(t, "without --yes", f.hub(t, 2, "reset-from-survivor", "--dir", f.hubDir(0)), "--dry-run")
	wantText(t, "reset", f.hub(t, 0, "reset-from-survivor", "--dir", f.hubDir(0), "--yes"), "next: drover-hub --dir "+f.hubDir(0))
	f.goesOn(t, 0)
	f.drover(t, 0, "get", "configmap", "last-word")
	sameContainers(t, "after the reset", before, f.containers(t, "lasting"))

	for _, i := range []int{1, 2} {
		said := f.hub(t, 13, "--dir", f.hubDir(i))
		wantText(t, "an old member that comes up", said, "history is over", "join with drover-hub --join")
	}
	for _, i := range []int{1, 2} {
		f.awayWith(t, i)
		f.rejoin(t, i)
	}
	f.wholeAgain(t)
	f.rollOut(t, "lasting", f.workload("lasting", "1.0", "after")) // every device follows the new epoch
}

func TestF33RestoredHubNeverPullsDevicesBack(t *testing.T) {
	f := shared
	f.rollOut(t, "kept", f.workload("kept", "1.0", "as in the backup"))
	defer f.remove(t, "kept")
	safe := t.TempDir()
	file, key := filepath.Join(safe, "hub.backup"), filepath.Join(safe, "sealing.key")
	f.drover(t, 0, "hub", "snapshot", "save", file)
	f.hub(t, 0, "key", "export", "--dir", f.hubDir(0), key)
	wantText(t, "inspect", f.drover(t, 0, "hub", "snapshot", "inspect", file), "whole", f.Members[2].Peer)
	f.rollOut(t, "kept", f.workload("kept", "1.0", "newer than the backup"))
	f.rollOut(t, "late", f.workload("late", "1.0", "unknown to the backup"))
	kept, late := f.containers(t, "kept"), f.containers(t, "late")

	f.kill(t, 0, 1, 2)
	var old []string
	for i := range f.Members {
		old = append(old, f.awayWith(t, i))
	}
	m := f.Members[0]
	args := []string{"snapshot", "restore", "--dir", f.hubDir(0), "--from", file, "--key", key, "--name", m.Name, "--api", m.API, "--peer", m.Peer}
	wantText(t, "dry run", f.hub(t, 0, append(args, "--dry-run")...), "would be made:", "everything written after", "nothing was changed")
	f.hub(t, 0, args...)
	f.goesOn(t, 0)

	f.until(t, 2*time.Minute, "every device is shown as ahead of the hub", func() error { return f.ahead(t, f.Devices...) })
	sameContainers(t, "kept, restored", kept, f.containers(t, "kept"))
	sameContainers(t, "late, restored", late, f.containers(t, "late"))
	wantText(t, "doctor", f.drover(t, 3, "hub", "doctor"), "3 devices are ahead of the hub", "drover hub adopt DEVICE")
	wantText(t, "an old member that comes up", f.hub(t, 13, "--dir", old[1]), "history is over")

	f.drover(t, 0, "hub", "adopt", "pi-01")
	f.drover(t, 0, "hub", "overwrite", "pi-02")
	f.until(t, time.Minute, "pi-02 stops what the hub does not know", func() error {
		now := f.containers(t, "late")
		if _, runs := now["pi-02"]; runs || now["pi-01"] != late["pi-01"] || now["pi-03"] != late["pi-03"] {
			return fmt.Errorf("late runs as %v, before %v", now, late)
		}
		return nil
	})
	f.until(t, time.Minute, "pi-01 and pi-02 run what the hub says, pi-03 what it had", func() error {
		now := f.containers(t, "kept")
		if now["pi-01"] == kept["pi-01"] || now["pi-02"] == kept["pi-02"] || now["pi-03"] != kept["pi-03"] || len(now) != len(kept) {
			return fmt.Errorf("kept runs as %v, before %v", now, kept)
		}
		return f.ahead(t, "pi-03")
	})

	f.drover(t, 0, "hub", "overwrite", "pi-01", "pi-03")
	f.rollOut(t, "kept", f.workload("kept", "1.0", "decided"))
	f.until(t, time.Minute, "nothing of late is left", func() error {
		if now := f.containers(t, "late"); len(now) > 0 {
			return fmt.Errorf("%v", now)
		}
		return f.ahead(t)
	})
	f.rejoin(t, 1)
	f.rejoin(t, 2)
	f.wholeAgain(t)
}

// ahead wants exactly these devices to be shown as ahead of the hub.
func (f *fleet) ahead(t *testing.T, names ...string) error {
	t.Helper()
	is, want := map[string]bool{}, map[string]bool{}
	for _, d := range objects[api.Device](t, f, "devices") {
		if api.ConditionIs(d.Status.Conditions, "AheadOfHub", api.True) {
			is[d.Metadata.Name] = true
		}
	}
	for _, n := range names {
		want[n] = true
	}
	if !maps.Equal(is, want) {
		return fmt.Errorf("ahead are %v, want %v", is, want)
	}
	return nil
}
