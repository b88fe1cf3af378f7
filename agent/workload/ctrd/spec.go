package ctrd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/pkg/oci"
	"github.com/containerd/typeurl/v2"
	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/drover-fleet/drover/agent/workload"
	"github.com/drover-fleet/drover/agent/workload/secretenv"
	"github.com/drover-fleet/drover/api/wire"
)

type typeurlAny = typeurl.Any

const (
	cpuPeriod = 100_000 // microseconds
	// Above the agent and the runtime, so that the kernel takes a workload first when memory runs out.
	oomScore = 500
)

// specOptions build the OCI spec of a container. Namespaces, capabilities, masked paths and no-new-privileges are containerd's
// defaults, which are Kubernetes'; the network namespace is filled in at each start.
func (d *Driver) specOptions(s workload.Spec, img containerd.Image) ([]oci.SpecOpts, error) {
	c := s.C
	opts := []oci.SpecOpts{oci.WithoutRunMount}
	if len(c.Command) > 0 {
		opts = append(opts, oci.WithImageConfig(img), oci.WithProcessArgs(append(append([]string(nil), c.Command...), c.Args...)...))
	} else {
		opts = append(opts, oci.WithImageConfigArgs(img, c.Args))
	}
	opts = append(opts, oci.WithHostname(s.Hostname), oci.WithEnv(plainEnv(c)), hasCommand,
		oci.WithHostNamespace(specs.NetworkNamespace),
		oci.WithAnnotations(map[string]string{"io.containerd.runc.v2.group": s.UID}),
		d.resources(c))
	if c.WorkingDir != "" {
		opts = append(opts, oci.WithProcessCwd(c.WorkingDir))
	}
	if c.Privileged {
		opts = append(opts, privileged()...)
	}
	mounts, err := d.mounts(s)
	if err != nil {
		return nil, err
	}
	opts = append(opts, oci.WithMounts(mounts))
	if secretCount(c) > 0 {
		if d.cfg.InitBinary == "" {
			return nil, errors.New("it has secret variables, and the agent has no init binary to hand them over with")
		}
		opts = append(opts, d.withInit(s.ID))
	}
	return opts, nil
}

func hasCommand(_ context.Context, _ oci.Client, _ *containers.Container, s *oci.Spec) error {
	if len(s.Process.Args) == 0 {
		return errors.New("neither the workload nor the image names a command")
	}
	return nil
}

func plainEnv(c wire.Container) []string {
	var out []string
	for _, e := range c.Env {
		if e.Secret == nil {
			out = append(out, e.Name+"="+e.Value)
		}
	}
	return out
}

func secretCount(c wire.Container) int {
	n := 0
	for _, e := range c.Env {
		if e.Secret != nil {
			n++
		}
	}
	return n
}

// withInit starts the command under the init that waits for the secrets.
func (d *Driver) withInit(id string) oci.SpecOpts {
	return func(_ context.Context, _ oci.Client, _ *containers.Container, s *oci.Spec) error {
		s.Process.Args = secretenv.Command(s.Process.Args)
		s.Mounts = append(s.Mounts,
			specs.Mount{Type: "bind", Source: d.cfg.InitBinary, Destination: secretenv.InitPath, Options: []string{"rbind", "ro", "nosuid", "nodev"}},
			specs.Mount{Type: "bind", Source: d.pipePath(id), Destination: secretenv.PipePath, Options: []string{"rbind", "ro", "nosuid", "noexec"}})
		return nil
	}
}

func (d *Driver) resources(c wire.Container) oci.SpecOpts {
	return func(_ context.Context, _ oci.Client, _ *containers.Container, s *oci.Spec) error {
		score := oomScore
		s.Process.OOMScoreAdj = &score
		r := s.Linux.Resources
		if r == nil {
			r = &specs.LinuxResources{}
			s.Linux.Resources = r
		}
		if c.Memory > 0 && d.cfg.MemoryLimit {
			limit := int64(c.Memory)
			r.Memory = &specs.LinuxMemory{Limit: &limit}
		}
		if c.CPUMilli > 0 || c.CPUShares > 0 {
			r.CPU = &specs.LinuxCPU{}
		}
		if c.CPUMilli > 0 {
			period, quota := uint64(cpuPeriod), max(int64(c.CPUMilli)*cpuPeriod/1000, 1000)
			r.CPU.Period, r.CPU.Quota = &period, &quota
		}
		if c.CPUShares > 0 {
			shares := max(c.CPUShares*1024/1000, 2)
			r.CPU.Shares = &shares
		}
		return nil
	}
}

// mounts are the volumes, and the files by which the device's names are resolved.
func (d *Driver) mounts(s workload.Spec) ([]specs.Mount, error) {
	var out []specs.Mount
	taken := map[string]bool{}
	// What lies above is mounted first, lest it hide what lies below.
	inOrder := slices.SortedStableFunc(slices.Values(s.C.Mounts), func(a, b wire.Mount) int { return strings.Compare(a.Path, b.Path) })
	for _, m := range inOrder {
		src, err := d.volume(s, m.Volume)
		if err != nil {
			return nil, err
		}
		options := []string{"rbind", "rw"}
		if m.ReadOnly {
			options[1] = "ro"
		}
		if holdsTokens(s, m.Volume) {
			options = []string{"rbind", "ro", "nosuid", "nodev", "noexec"}
		}
		taken[filepath.Clean(m.Path)] = true
		out = append(out, specs.Mount{Type: "bind", Source: src, Destination: m.Path, Options: options})
	}
	for _, f := range []string{"/etc/resolv.conf", "/etc/hosts"} {
		if _, err := os.Stat(f); err == nil && !taken[f] {
			out = append(out, specs.Mount{Type: "bind", Source: f, Destination: f, Options: []string{"rbind", "ro"}})
		}
	}
	return out, nil
}

// volume makes a volume ready and gives its path on the device.
func (d *Driver) volume(s workload.Spec, name string) (string, error) {
	for _, v := range s.Volumes {
		if v.Name != name {
			continue
		}
		if v.HostPath != "" {
			_, err := hostPath(v, s.Grant)
			return v.HostPath, err
		}
		if len(v.Tokens) > 0 {
			return d.tokenVolume(s.UID, v.Name)
		}
		dir := filepath.Join(d.volumeDir(s.UID), v.Name)
		return dir, openDir(dir)
	}
	return "", fmt.Errorf("volume %s is not declared", name)
}

func holdsTokens(s workload.Spec, name string) bool {
	return slices.ContainsFunc(s.Volumes, func(v wire.Volume) bool { return v.Name == name && len(v.Tokens) > 0 })
}

// openDir makes a directory that any user of a container may write to. Those above it are closed to other users of the device.
func openDir(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return fmt.Errorf("volume: %w", err)
	}
	if err := os.Mkdir(dir, 0o777); err != nil && !os.IsExist(err) {
		return fmt.Errorf("volume: %w", err)
	}
	return os.Chmod(dir, 0o777) // umask
}
