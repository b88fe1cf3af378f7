package lab

import (
	"bufio"
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
)

// Containerd is a private containerd: its own root, state and socket, no CRI, nothing shared with the machine's.
type Containerd struct {
	Dir     string
	Process *Process
}

// Socket is where it listens.
func (c *Containerd) Socket() string { return filepath.Join(c.Dir, "c.sock") }

// State holds shims, bundles and mounts: what a reboot wipes. Root holds metadata, images and snapshots.
func (c *Containerd) State() string { return filepath.Join(c.Dir, "state") }

// Root is the persistent part.
func (c *Containerd) Root() string { return filepath.Join(c.Dir, "root") }

const containerdConfig = `version = 2
root = %q
state = %q
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.internal.v1.opt", "io.containerd.internal.v1.tracing", "io.containerd.tracing.processor.v1.otlp"]
[grpc]
  address = %q
[ttrpc]
  address = %q
`

// StartContainerd starts one in dir and waits until it answers. The folder's path must be short: sockets allow 107 bytes.
func StartContainerd(ctx context.Context, dir string) (*Containerd, error) {
	c := &Containerd{Dir: dir}
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return nil, fmt.Errorf("start containerd: %w", err)
	}
	config := filepath.Join(dir, "config.toml")
	text := fmt.Sprintf(containerdConfig, c.Root(), c.State(), c.Socket(), c.Socket()+".ttrpc")
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		return nil, fmt.Errorf("start containerd: %w", err)
	}
	p, err := Start(Spec{Name: "containerd", Path: "/usr/bin/containerd", Args: []string{"--config", config, "--log-level", "warn"}, Log: filepath.Join(dir, "containerd.log")})
	if err != nil {
		return nil, err
	}
	c.Process = p
	return c, c.Ready(ctx)
}

// Ready waits until the daemon accepts and serves.
func (c *Containerd) Ready(ctx context.Context) error {
	return Until(ctx, "containerd answers", func() error {
		if !c.Process.Alive() {
			return fmt.Errorf("it ended; see %s", c.Process.Log)
		}
		conn, err := net.DialTimeout("unix", c.Socket(), time.Second)
		if err != nil {
			return err
		}
		conn.Close()
		_, err = c.Ctr(ctx, "version")
		return err
	})
}

// Ctr runs Debian's ctr against the daemon and returns what it printed.
func (c *Containerd) Ctr(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "/usr/bin/ctr", append([]string{"--address", c.Socket()}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("ctr %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// Namespaces lists the daemon's namespaces.
func (c *Containerd) Namespaces(ctx context.Context) ([]string, error) {
	out, err := c.Ctr(ctx, "namespaces", "list", "-q")
	return strings.Fields(out), err
}

// Task is one running (or ended) container as ctr shows it.
type Task struct {
	Namespace, Container, Status string
	PID                          int
	StartTime                    uint64 // of the process: tells a restarted one apart
}

// Tasks lists all tasks of all namespaces.
func (c *Containerd) Tasks(ctx context.Context) ([]Task, error) {
	spaces, err := c.Namespaces(ctx)
	if err != nil {
		return nil, err
	}
	var all []Task
	for _, ns := range spaces {
		out, err := c.Ctr(ctx, "-n", ns, "tasks", "list")
		if err != nil {
			return nil, err
		}
		for i, line := range strings.Split(strings.TrimSpace(out), "\n") {
			var t Task
			if _, err := fmt.Sscan(line, &t.Container, &t.PID, &t.Status); i == 0 || err != nil {
				continue // the header, or nothing
			}
			t.Namespace = ns
			t.StartTime, _ = startTime(t.PID) // zero for one that has ended
			all = append(all, t)
		}
	}
	return all, nil
}

// Shims lists the processes of the daemon's shims, which are the parents of all containers.
func (c *Containerd) Shims() []*Process {
	var found []*Process
	dirs, _ := filepath.Glob("/proc/[0-9]*/cmdline") // a bad pattern is the only error
	for _, f := range dirs {
		b, err := os.ReadFile(f)
		args := strings.Split(string(b), "\x00")
		if err != nil || !strings.Contains(args[0], "containerd-shim") || !containsArg(args, c.Socket()) {
			continue
		}
		p := &Process{Name: "shim"}
		if _, err := fmt.Sscanf(f, "/proc/%d/cmdline", &p.PID); err != nil {
			continue
		}
		if p.StartTime, err = startTime(p.PID); err == nil {
			found = append(found, p)
		}
	}
	return found
}

func containsArg(args []string, want string) bool {
	for _, a := range args {
		if a == want {
			return true
		}
	}
	return false
}

// PowerCut ends the daemon, its shims and all containers at once and wipes what a reboot wipes.
func (c *Containerd) PowerCut(ctx context.Context) error {
	tasks, err := c.Tasks(ctx)
	if err != nil {
		return err
	}
	if err := c.Process.Kill(ctx); err != nil {
		return err
	}
	for _, s := range c.Shims() {
		if err := s.Kill(ctx); err != nil {
			return err
		}
	}
	for _, t := range tasks {
		p := &Process{Name: t.Container, PID: t.PID, StartTime: t.StartTime}
		if err := p.Kill(ctx); err != nil {
			return err
		}
		// The runtime below keeps its state by namespace outside of the daemon's folder; a reboot wipes that too.
		if err := os.RemoveAll(filepath.Join("/run/containerd/runc", t.Namespace)); err != nil {
			return fmt.Errorf("wipe the runtime's state: %w", err)
		}
	}
	return c.wipeState()
}

func (c *Containerd) wipeState() error {
	if err := UnmountBelow(c.Dir); err != nil {
		return err
	}
	for _, dir := range []string{c.State(), c.Socket(), c.Socket() + ".ttrpc"} {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("wipe %s: %w", dir, err)
		}
	}
	return nil
}

// UnmountBelow lazily unmounts everything mounted below dir, deepest first.
func UnmountBelow(dir string) error {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	points, err := mountsBelow(abs)
	if err != nil {
		return err
	}
	for i := len(points) - 1; i >= 0; i-- {
		if err := syscall.Unmount(points[i], syscall.MNT_DETACH); err != nil && !errors.Is(err, syscall.EINVAL) {
			return fmt.Errorf("unmount %s: %w", points[i], err)
		}
	}
	return nil
}

func mountsBelow(abs string) ([]string, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var points []string
	for s := bufio.NewScanner(f); s.Scan(); {
		if fields := strings.Fields(s.Text()); len(fields) > 4 && strings.HasPrefix(fields[4], abs+"/") {
			points = append(points, fields[4])
		}
	}
	return points, nil
}

// Remove ends every container by the daemon's own means (so that cgroups go too), then the daemon, and unmounts what is
// left. A daemon that has ended already is started once more for that.
func (c *Containerd) Remove(ctx context.Context) error {
	if !c.Process.Alive() {
		again, err := StartContainerd(ctx, c.Dir)
		if err != nil {
			return err
		}
		c.Process = again.Process
	}
	spaces, err := c.Namespaces(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, ns := range spaces {
		errs = append(errs, c.empty(ctx, ns))
	}
	errs = append(errs, c.Process.Stop(ctx, 10*time.Second))
	for _, s := range c.Shims() {
		errs = append(errs, s.Kill(ctx))
	}
	errs = append(errs, UnmountBelow(c.Dir))
	for _, ns := range spaces {
		errs = append(errs, removeCgroups(ns))
	}
	return errors.Join(errs...)
}

// removeCgroups removes the empty control groups that the runtime leaves as parents, one in each hierarchy (v1) or one (v2).
func removeCgroups(name string) error {
	var errs []error
	for _, pattern := range []string{"/sys/fs/cgroup/*/" + name, "/sys/fs/cgroup/" + name} {
		dirs, err := filepath.Glob(pattern)
		errs = append(errs, err)
		for _, d := range dirs {
			if err := os.Remove(d); err != nil && !errors.Is(err, os.ErrNotExist) {
				errs = append(errs, fmt.Errorf("remove control group: %w", err))
			}
		}
	}
	return errors.Join(errs...)
}

// empty kills and deletes the tasks and containers of one namespace.
func (c *Containerd) empty(ctx context.Context, ns string) error {
	tasks, err := c.Ctr(ctx, "-n", ns, "tasks", "list", "-q")
	if err != nil {
		return err
	}
	for _, t := range strings.Fields(tasks) {
		if _, err := c.Ctr(ctx, "-n", ns, "tasks", "delete", "--force", t); err != nil {
			return err
		}
	}
	containers, err := c.Ctr(ctx, "-n", ns, "containers", "list", "-q")
	if err != nil {
		return err
	}
	for _, id := range strings.Fields(containers) {
		if _, err := c.Ctr(ctx, "-n", ns, "containers", "delete", id); err != nil {
			return err
		}
	}
	return nil
}
