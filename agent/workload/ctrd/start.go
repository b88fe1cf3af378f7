package ctrd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/pkg/cio"
	"github.com/containerd/containerd/v2/pkg/oci"
	"github.com/containerd/errdefs"
	"github.com/containerd/typeurl/v2"
	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/drover-fleet/drover/agent/workload"
	"github.com/drover-fleet/drover/agent/workload/secretenv"
)

// Start implements workload.Lifecycle.
func (d *Driver) Start(ctx context.Context, s workload.Spec, r workload.Run, secrets []workload.SecretEnv) error {
	id := s.ID
	c, err := d.client.LoadContainer(ctx, id)
	if err != nil {
		return wrap("start "+id, err)
	}
	up, err := d.settled(ctx, c)
	if err != nil {
		return wrap("start "+id, err)
	}
	if up == nil {
		if up, err = d.begin(ctx, c, s, r, len(secrets) > 0); err != nil {
			return wrap("start "+id, err)
		}
	}
	return d.deliver(ctx, id, up, secrets)
}

// settled gives the task of a container that is up. A paused one is resumed; one that ended or was only prepared is cleared
// away, and nil is given.
func (d *Driver) settled(ctx context.Context, c containerd.Container) (containerd.Task, error) {
	t, err := c.Task(ctx, nil)
	if errdefs.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	st, err := t.Status(ctx)
	if err != nil && !errdefs.IsNotFound(err) {
		return nil, err
	}
	switch st.Status {
	case containerd.Running:
		return t, nil
	case containerd.Paused:
		return t, t.Resume(ctx)
	}
	if _, err := t.Delete(ctx, containerd.WithProcessKill); err != nil && !errdefs.IsNotFound(err) {
		return nil, fmt.Errorf("clear old process: %w", err)
	}
	return nil, nil
}

// begin makes and starts a process. The run is written to the labels first, so that a crash in between is seen as a run that
// did not come up.
func (d *Driver) begin(ctx context.Context, c containerd.Container, s workload.Spec, r workload.Run, secrets bool) (containerd.Task, error) {
	want, err := expected(s)
	if err != nil {
		return nil, err
	}
	info, err := c.Info(ctx)
	if err != nil {
		return nil, err
	}
	for _, m := range s.C.Mounts {
		if !holdsTokens(s, m.Volume) {
			continue
		}
		if _, err := d.tokenVolume(s.UID, m.Volume); err != nil { // memory goes with a reboot
			return nil, err
		}
	}
	if secrets {
		if err := secretenv.MakeFIFO(d.pipePath(c.ID())); err != nil {
			return nil, err
		}
	}
	netns, err := d.networkNamespace()
	if err != nil {
		return nil, err
	}
	err = c.Update(ctx, func(_ context.Context, _ *containerd.Client, k *containers.Container) error {
		k.Labels = withRun(k.Labels, r)
		if err := giveDevices(k, s); err != nil {
			return err
		}
		return joinNetwork(k, netns)
	})
	if err != nil {
		return nil, fmt.Errorf("record start: %w", err)
	}
	if err := d.logs.Begin(info.Labels[labelUID], info.Labels[labelName]); err != nil {
		return nil, err
	}
	t, err := c.NewTask(ctx, cio.LogFile(d.logs.Path(info.Labels[labelUID], info.Labels[labelName])))
	if err != nil {
		return nil, fmt.Errorf("make process: %w", err)
	}
	err = verifyMounts(t.Pid(), want)
	if err == nil {
		err = t.Start(ctx)
	}
	if err != nil {
		_, derr := t.Delete(ctx, containerd.WithProcessKill)
		if errdefs.IsNotFound(derr) {
			derr = nil
		}
		return nil, errors.Join(fmt.Errorf("start process: %w", err), derr)
	}
	return t, nil
}

// joinNetwork writes the network namespace into the stored spec, "" for the daemon's own.
func joinNetwork(k *containers.Container, path string) error {
	var s oci.Spec
	if err := typeurl.UnmarshalTo(k.Spec, &s); err != nil {
		return fmt.Errorf("stored spec: %w", err)
	}
	opt := oci.WithHostNamespace(specs.NetworkNamespace)
	if path != "" {
		opt = oci.WithLinuxNamespace(specs.LinuxNamespace{Type: specs.NetworkNamespace, Path: path})
	}
	if err := opt(context.Background(), nil, k, &s); err != nil {
		return err
	}
	b, err := typeurl.MarshalAny(&s)
	if err != nil {
		return fmt.Errorf("stored spec: %w", err)
	}
	k.Spec = b
	return nil
}

// deliver hands over the secrets, unless the process has them.
func (d *Driver) deliver(ctx context.Context, id string, t containerd.Task, secrets []workload.SecretEnv) error {
	if len(secrets) == 0 {
		return nil
	}
	vars := make([]secretenv.Var, len(secrets))
	for i, s := range secrets {
		vars[i] = secretenv.Var{Name: s.Name, Value: s.Value}
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	_, err := secretenv.Deliver(ctx, d.pipePath(id), vars, func(context.Context) (bool, error) { return d.waits(t.Pid()) })
	if err != nil {
		return fmt.Errorf("secrets of %s: %w", id, err)
	}
	return nil
}

// waits tells whether the process waits for its secrets, or is about to. A command line is empty for a moment in every exec,
// so what the process is made of decides: the runtime's own init, or ours.
func (d *Driver) waits(pid uint32) (bool, error) {
	proc := fmt.Sprintf("/proc/%d/", pid)
	exe, err := os.Readlink(proc + "exe")
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if filepath.Base(exe) == "runc" || strings.HasPrefix(exe, "/memfd:runc") {
		return true, nil
	}
	running, err := os.Stat(proc + "exe")
	init, initErr := os.Stat(d.cfg.InitBinary)
	if err == nil && initErr == nil && os.SameFile(running, init) {
		return true, nil
	}
	b, err := os.ReadFile(proc + "cmdline") // an init from a binary that has been replaced since
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return false, nil
	}
	return secretenv.Waiting(b) || strings.HasPrefix(string(b), "runc\x00init"), err
}

func (d *Driver) removePipe(id string) error {
	if err := os.Remove(d.pipePath(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove pipe: %w", err)
	}
	return nil
}

// Stop implements workload.Lifecycle.
func (d *Driver) Stop(ctx context.Context, id string, grace time.Duration) error {
	c, err := d.client.LoadContainer(ctx, id)
	if errdefs.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return wrap("stop "+id, err)
	}
	t, err := c.Task(ctx, nil)
	if errdefs.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return wrap("stop "+id, err)
	}
	if err := d.end(ctx, c, t, grace); err != nil {
		return wrap("stop "+id, err)
	}
	return wrap("stop "+id, d.dropTask(ctx, c))
}

// end asks the process to end, waits, and kills it and all its children.
func (d *Driver) end(ctx context.Context, c containerd.Container, t containerd.Task, grace time.Duration) error {
	st, err := t.Status(ctx)
	if err != nil || st.Status == containerd.Stopped || st.Status == containerd.Created {
		return notGone(err)
	}
	if st.Status == containerd.Paused {
		if err := t.Resume(ctx); err != nil {
			return fmt.Errorf("resume: %w", err)
		}
	}
	ended, err := t.Wait(ctx)
	if err != nil {
		return notGone(err)
	}
	signal, err := containerd.GetStopSignal(ctx, c, syscall.SIGTERM)
	if err != nil {
		signal = syscall.SIGTERM
	}
	if err := t.Kill(ctx, signal); err != nil {
		return notGone(err)
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
	}
	if err := t.Kill(ctx, syscall.SIGKILL, containerd.WithKillAll); err != nil {
		return notGone(err)
	}
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return errors.New("the process does not end, though it was killed")
	}
}

// notGone passes over "it has ended already".
func notGone(err error) error {
	if errdefs.IsNotFound(err) {
		return nil
	}
	return err
}

// Exec implements workload.Inspector. The command has the container's environment, save its secret variables.
func (d *Driver) Exec(ctx context.Context, id string, command []string, timeout time.Duration) (int, error) {
	c, err := d.client.LoadContainer(ctx, id)
	if err != nil {
		return 0, execError(id, err)
	}
	t, err := c.Task(ctx, nil)
	if err != nil {
		return 0, execError(id, err)
	}
	s, err := c.Spec(ctx)
	if err != nil {
		return 0, execError(id, err)
	}
	p := *s.Process
	p.Args, p.Terminal = command, false
	e, err := t.Exec(ctx, fmt.Sprintf("probe-%d-%d", os.Getpid(), d.execs.Add(1)), &p, cio.NullIO)
	if err != nil {
		return 0, execError(id, err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_, _ = e.Delete(ctx, containerd.WithProcessKill) // the next listing of the shim does not depend on it
	}()
	ended, err := e.Wait(ctx)
	if err != nil {
		return 0, execError(id, err)
	}
	if err := e.Start(ctx); err != nil {
		return 0, execError(id, err)
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case st := <-ended:
		code, _, err := st.Result()
		return int(code), execError(id, err)
	case <-timer.C:
		return 0, fmt.Errorf("exec in %s: took longer than %s", id, timeout)
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// execError: a daemon that hangs answers nothing until the deadline of the call, and so says nothing about the container.
func execError(id string, err error) error {
	if errdefs.IsDeadlineExceeded(err) {
		err = fmt.Errorf("%w: %w", workload.ErrUnavailable, err)
	}
	return wrap("exec in "+id, err)
}
