package ctrd

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/drover-fleet/drover/agent/state"
)

// smallDisk is a file system of n bytes.
func smallDisk(t *testing.T, n string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("drover-test", dir, "tmpfs", 0, "size="+n); err != nil {
		t.Fatalf("mount a small disk: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fillUp takes every byte that is left.
func fillUp(t *testing.T, dir string) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, "filler"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, size := range []int{64 << 10, 4 << 10, 1} {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, size))
		}
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
}

// F12: with zero free bytes one more save gets through, which may be the order to remove what fills the disk. After that a
// save fails and costs nothing, and all is as before once there is space.
func TestTheReserveLetsOneSaveThroughAFullDisk(t *testing.T) {
	dir := smallDisk(t, "4m")
	f := state.NewFile(dir, "x", 1<<20).With(state.NewReserve(dir))
	save := func(text string) error { return f.Save(bytes.Repeat([]byte(text), 50_000)) }
	if err := save("a"); err != nil {
		t.Fatal(err)
	}
	fillUp(t, dir)
	if err := save("b"); err != nil {
		t.Fatalf("on a full disk with a reserve: %v", err)
	}
	fillUp(t, dir)
	if err := save("c"); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("with the reserve used up: got %v, want no space", err)
	}
	l, err := state.NewFile(dir, "x", 1<<20).Load()
	if err != nil || l.Origin != state.Current || l.Payload[0] != 'b' {
		t.Fatalf("after a save that failed: got %v of %v (%v), want the current b", l.Origin, l.Payload[:1], err)
	}
	if err := os.Remove(filepath.Join(dir, "filler")); err != nil {
		t.Fatal(err)
	}
	if err := save("d"); err != nil {
		t.Fatal(err)
	}
	fillUp(t, dir)
	if err := save("e"); err != nil {
		t.Errorf("the reserve was not taken again: %v", err)
	}
}
