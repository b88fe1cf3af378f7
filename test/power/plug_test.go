package power

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// cuts is how many times each file loses its power; make power CUTS=n sets it.
var cuts = flag.Int("cuts", 20, "power cuts for each file")

// bootVariable makes the test binary the process that serves the file system.
const bootVariable = "DROVER_POWER_BOOT"

func TestMain(m *testing.M) {
	if spec := os.Getenv(bootVariable); spec != "" {
		var b Boot
		_, err := fmt.Sscanf(spec, "%d %d %q %q", &b.Cut, &b.Seed, &b.Mount, &b.Image)
		if err == nil {
			err = b.Serve(os.Stdin, os.Stdout)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// testSeed is DROVER_SEED, or a new one.
func testSeed(t *testing.T) uint64 {
	t.Helper()
	seed := rand.Uint64()
	if s := os.Getenv("DROVER_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("replay with DROVER_SEED=%d", seed)
	return seed
}

// memDir is a directory in memory: what is kept there to compare with needs no disk.
func memDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "drover-power-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// board is a computer with one disk, whose plug can be pulled.
type board struct {
	t            *testing.T
	mount, image string

	server *exec.Cmd
	in     io.Closer
}

func newBoard(t *testing.T) *board {
	b := &board{t: t, mount: memDir(t), image: memDir(t)}
	t.Cleanup(func() {
		if b.server != nil { // the test failed with the power on
			_ = b.in.Close()
			_ = b.server.Wait()
		}
	})
	return b
}

// plugIn gives power for so many changes and syncs.
func (b *board) plugIn(cut int, seed uint64) {
	b.t.Helper()
	server := exec.Command(os.Args[0])
	server.Env = append(os.Environ(), fmt.Sprintf("%s=%d %d %q %q", bootVariable, cut, seed, b.mount, b.image))
	server.Stderr = os.Stderr
	in, errIn := server.StdinPipe()
	out, errOut := server.StdoutPipe()
	if err := errors.Join(errIn, errOut, server.Start()); err != nil {
		b.t.Fatal(err)
	}
	b.server, b.in = server, in
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		b.t.Fatalf("the file system says %q, %v", line, err)
	}
}

// pull takes the power away for good and lets the disk forget.
func (b *board) pull() {
	b.t.Helper()
	err := errors.Join(b.in.Close(), b.server.Wait())
	b.server = nil
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *board) wipe() {
	b.t.Helper()
	if err := writeImage(b.image, nil); err != nil {
		b.t.Fatal(err)
	}
}

func (b *board) path(name string) string { return filepath.Join(b.mount, name) }

// dead tells whether the power is gone: with it on, any failure is the program's own.
func (b *board) dead() bool {
	f, err := os.OpenFile(b.path("probe"), os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_ = f.Close()
	}
	return errors.Is(err, syscall.EIO)
}

// must ends the test unless the error is the power's doing.
func (b *board) must(what string, err error) (on bool) {
	b.t.Helper()
	if err == nil {
		return true
	}
	if !b.dead() {
		b.t.Fatalf("%s with the power on: %v", what, err)
	}
	return false
}
