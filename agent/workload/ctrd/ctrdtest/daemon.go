package ctrdtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Daemon is a private containerd.
type Daemon struct {
	dir  string
	cmd  *exec.Cmd
	done chan struct{}
}

// Config is what the daemon runs with. CRI and what a device does not need are off.
const config = `version = 2
root = %q
state = %q
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs", "io.containerd.internal.v1.tracing", "io.containerd.tracing.processor.v1.otlp"]
[grpc]
  address = %q
[ttrpc]
  address = %q
`

// New prepares a daemon in dir, which must be short enough for a socket path. It starts nothing.
func New(dir string) (*Daemon, error) {
	d := &Daemon{dir: dir}
	if len(d.Socket()) > 100 {
		return nil, fmt.Errorf("containerd: socket path %s is too long", d.Socket())
	}
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return nil, fmt.Errorf("containerd: %w", err)
	}
	text := fmt.Sprintf(config, filepath.Join(dir, "root"), d.stateDir(), d.Socket(), d.Socket()+".ttrpc")
	if err := os.WriteFile(filepath.Join(dir, "config.toml"), []byte(text), 0o600); err != nil {
		return nil, fmt.Errorf("containerd: %w", err)
	}
	return d, nil
}

// Socket is the daemon's address.
func (d *Daemon) Socket() string   { return filepath.Join(d.dir, "c.sock") }
func (d *Daemon) stateDir() string { return filepath.Join(d.dir, "state") }

// LogFile is the daemon's own log.
func (d *Daemon) LogFile() string { return filepath.Join(d.dir, "containerd.log") }

// Pid is the daemon's process; 0 when it is down.
func (d *Daemon) Pid() int {
	if d.cmd == nil {
		return 0
	}
	return d.cmd.Process.Pid
}

// Start runs the daemon until Stop or Kill, and returns once it answers.
func (d *Daemon) Start(ctx context.Context) error {
	log, err := os.OpenFile(d.LogFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("containerd: %w", err)
	}
	defer log.Close()
	d.cmd = exec.Command("containerd", "--config", filepath.Join(d.dir, "config.toml"))
	d.cmd.Stdout, d.cmd.Stderr = log, log
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := d.cmd.Start(); err != nil {
		return fmt.Errorf("containerd: %w", err)
	}
	done := make(chan struct{})
	d.done = done
	cmd := d.cmd
	go func() {
		_ = cmd.Wait()
		close(done)
	}()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if conn, err := net.Dial("unix", d.Socket()); err == nil {
			return conn.Close()
		}
		select {
		case <-done:
			return fmt.Errorf("containerd ended at its start; see %s", d.LogFile())
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// Stop asks the daemon to end and waits. Containers run on.
func (d *Daemon) Stop() { d.signal(unix.SIGTERM) }

// Kill ends the daemon at once. Containers run on.
func (d *Daemon) Kill() { d.signal(unix.SIGKILL) }

func (d *Daemon) signal(s syscall.Signal) {
	if d.cmd == nil {
		return
	}
	_ = d.cmd.Process.Signal(s)
	<-d.done
	d.cmd = nil
}

// PowerOff does what a power cut does: daemon, shims and containers end without a word, and the state directory, which lies in
// memory on a real device, is lost. The root directory stays.
func (d *Daemon) PowerOff() error {
	d.Kill()
	return errors.Join(d.killShims(), d.unmount(d.stateDir()), os.RemoveAll(d.stateDir()))
}

// End stops everything of this daemon. The directory may be deleted afterwards.
func (d *Daemon) End() error {
	d.Stop()
	return errors.Join(d.killShims(), d.unmount(d.dir))
}

// killShims kills the shims that belong to this daemon, and every process below them.
func (d *Daemon) killShims() error {
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return err
	}
	children := map[int][]int{}
	var shims []int
	for _, p := range all {
		var pid int
		if _, err := fmt.Sscanf(filepath.Base(p), "%d", &pid); err != nil {
			continue
		}
		if b, err := os.ReadFile(filepath.Join(p, "stat")); err == nil {
			children[parent(b)] = append(children[parent(b)], pid)
		}
		if b, err := os.ReadFile(filepath.Join(p, "cmdline")); err == nil && d.isShim(b) {
			shims = append(shims, pid)
		}
	}
	var killed []int
	for len(shims) > 0 {
		pid := shims[0]
		shims = append(shims[1:], children[pid]...)
		_ = unix.Kill(pid, unix.SIGKILL)
		killed = append(killed, pid)
	}
	return waitGone(killed)
}

// isShim: the shim has the daemon's socket on its command line.
func (d *Daemon) isShim(cmdline []byte) bool {
	args := strings.Split(string(bytes.TrimRight(cmdline, "\x00")), "\x00")
	if !strings.HasSuffix(args[0], "containerd-shim-runc-v2") {
		return false
	}
	for i, a := range args {
		if a == "-address" && i+1 < len(args) && args[i+1] == d.Socket() {
			return true
		}
	}
	return false
}

func parent(stat []byte) int {
	i := bytes.LastIndexByte(stat, ')')
	var state string
	var ppid int
	if _, err := fmt.Sscanf(string(stat[i+1:]), " %s %d", &state, &ppid); err != nil {
		return 0
	}
	return ppid
}

// waitGone waits until the processes are gone or are zombies that another must reap.
func waitGone(pids []int) error {
	deadline := time.Now().Add(10 * time.Second)
	for _, pid := range pids {
		for alive(pid) {
			if time.Now().After(deadline) {
				return fmt.Errorf("process %d does not end", pid)
			}
			t := time.NewTimer(10 * time.Millisecond)
			<-t.C
		}
	}
	return nil
}

func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	i := bytes.LastIndexByte(b, ')')
	return i+2 < len(b) && b[i+2] != 'Z'
}

// unmount takes away every mount below dir, the deepest first.
func (d *Daemon) unmount(dir string) error {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	lines := strings.Split(string(b), "\n")
	var errs []error
	for i := len(lines) - 1; i >= 0; i-- {
		f := strings.Fields(lines[i])
		if len(f) > 4 && strings.HasPrefix(f[4], dir+"/") {
			if err := unix.Unmount(f[4], unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
				errs = append(errs, fmt.Errorf("unmount %s: %w", f[4], err))
			}
		}
	}
	return errors.Join(errs...)
}
