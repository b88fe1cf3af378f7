package ctrd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/pkg/oci"
	"github.com/containerd/typeurl/v2"
	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/drover-fleet/drover/agent/workload"
	"github.com/drover-fleet/drover/api/grant"
	"github.com/drover-fleet/drover/api/wire"
)

// hostPath makes a path of the device ready as Kubernetes does, and tells what it leads to. Without a type a missing path becomes a
// directory. Below what the pool names no link may lead out of it; what the pool names itself is the operator's word, links included.
func hostPath(v wire.Volume, g grant.Grant) (fs.FileInfo, error) {
	root, ok := g.Root(v.HostPath)
	if !ok {
		return nil, errors.New(g.JudgeNeed(&grant.Need{What: grant.HostPath, Path: v.HostPath}).String())
	}
	place := place{stat: os.Stat, mkdir: os.MkdirAll, open: os.OpenFile}
	name := filepath.Clean(v.HostPath)
	if root != name && root != "/" {
		if v.HostType == "" || v.HostType == "DirectoryOrCreate" {
			if err := os.MkdirAll(root, 0o755); err != nil {
				return nil, fmt.Errorf("hostPath: %w", err)
			}
		}
		r, err := os.OpenRoot(root)
		if err != nil {
			return nil, fmt.Errorf("hostPath: %w", err)
		}
		defer func() { _ = r.Close() }() // opened for looking only
		place.stat, place.mkdir, place.open = r.Stat, r.MkdirAll, r.OpenFile
		name = strings.TrimPrefix(name, root+"/")
	}
	st, err := place.ready(name, v)
	if err != nil && root != name {
		return nil, fmt.Errorf("%w; a link may not lead out of %s, which is what pool %s allows", err, root, g.Pool)
	}
	return st, err
}

// place is the device's whole tree, or a part that cannot be left.
type place struct {
	stat  func(string) (fs.FileInfo, error)
	mkdir func(string, fs.FileMode) error
	open  func(string, int, fs.FileMode) (*os.File, error)
}

func (p place) ready(name string, v wire.Volume) (fs.FileInfo, error) {
	st, err := p.stat(name)
	there := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("hostPath %s: %w", v.HostPath, err)
	}
	switch v.HostType {
	case "", "DirectoryOrCreate":
		if there && v.HostType != "" && !st.IsDir() {
			return nil, fmt.Errorf("hostPath %s is not a directory", v.HostPath)
		}
		if !there {
			err = p.mkdir(name, 0o755)
		}
	case "Directory":
		if !there || !st.IsDir() {
			return nil, fmt.Errorf("hostPath %s is not a directory of this device", v.HostPath)
		}
	case "File":
		if !there || !st.Mode().IsRegular() {
			return nil, fmt.Errorf("hostPath %s is not a file of this device", v.HostPath)
		}
	case "FileOrCreate":
		if there && !st.Mode().IsRegular() {
			return nil, fmt.Errorf("hostPath %s is not a file", v.HostPath)
		}
		if !there {
			var f *os.File
			if f, err = p.open(name, os.O_CREATE|os.O_WRONLY, 0o644); err == nil {
				err = f.Close()
			}
		}
	default:
		return nil, fmt.Errorf("hostPath %s: type %q is not known to this agent", v.HostPath, v.HostType)
	}
	if there {
		return st, nil
	}
	if err == nil {
		st, err = p.stat(name)
	}
	if err != nil {
		return nil, fmt.Errorf("hostPath %s: %w", v.HostPath, err)
	}
	return st, nil
}

// expected is what host paths lead to now, by where they are mounted in the container.
func expected(s workload.Spec) (map[string]fs.FileInfo, error) {
	out := map[string]fs.FileInfo{}
	for _, m := range s.C.Mounts {
		for _, v := range s.Volumes {
			if v.Name != m.Volume || v.HostPath == "" {
				continue
			}
			st, err := hostPath(v, s.Grant)
			if err != nil {
				return nil, err
			}
			out[m.Path] = st
		}
	}
	return out, nil
}

// verifyMounts makes sure that a process that is made, and not begun, has the very files that were looked up: the runtime follows paths
// by itself, and who may write below an allowed path could have put a link there in between.
func verifyMounts(pid uint32, want map[string]fs.FileInfo) error {
	if len(want) == 0 {
		return nil
	}
	root, err := unix.Open(fmt.Sprintf("/proc/%d/root", pid), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("look into the container: %w", err)
	}
	defer func() { _ = unix.Close(root) }() // opened for looking only
	for dest, st := range want {
		if err := sameFile(root, dest, st); err != nil {
			return err
		}
	}
	return nil
}

func sameFile(root int, dest string, want fs.FileInfo) error {
	fd, err := unix.Openat2(root, dest, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS})
	if err != nil {
		return fmt.Errorf("look at mount %s in the container: %w", dest, err)
	}
	f := os.NewFile(uintptr(fd), dest)
	defer func() { _ = f.Close() }() // opened for looking only
	got, err := f.Stat()
	if err != nil {
		return fmt.Errorf("look at mount %s in the container: %w", dest, err)
	}
	if !os.SameFile(got, want) {
		return fmt.Errorf("mount %s is not what its hostPath led to a moment ago: a link was changed on the device", dest)
	}
	return nil
}

// privileged lifts the kernel's filters, as Kubernetes' runtimes do.
func privileged() []oci.SpecOpts {
	return []oci.SpecOpts{oci.WithPrivileged, oci.WithNewPrivileges}
}

// giveDevices writes the device files into the stored spec as they are now: numbers change with every plugging in.
func giveDevices(k *containers.Container, s workload.Spec) error {
	if len(s.C.Devices) == 0 && !s.C.Privileged {
		return nil
	}
	var spec oci.Spec
	if err := typeurl.UnmarshalTo(k.Spec, &spec); err != nil {
		return fmt.Errorf("stored spec: %w", err)
	}
	spec.Linux.Devices = nil
	if spec.Linux.Resources == nil {
		spec.Linux.Resources = &specs.LinuxResources{}
	}
	spec.Linux.Resources.Devices = []specs.LinuxDeviceCgroup{{Allow: false, Access: "rwm"}}
	if s.C.Privileged {
		for _, opt := range []oci.SpecOpts{oci.WithHostDevices, oci.WithAllDevicesAllowed} {
			if err := opt(context.Background(), nil, k, &spec); err != nil {
				return fmt.Errorf("device files: %w", err)
			}
		}
	}
	for _, d := range s.C.Devices {
		if err := giveDevice(&spec, d, s.Grant); err != nil {
			return err
		}
	}
	b, err := typeurl.MarshalAny(&spec)
	if err != nil {
		return fmt.Errorf("stored spec: %w", err)
	}
	k.Spec = b
	return nil
}

// giveDevice adds one device file. A link, as udev makes them, counts for what it leads to: the pool must allow that too.
func giveDevice(spec *oci.Spec, d wire.DeviceFile, g grant.Grant) error {
	real, err := filepath.EvalSymlinks(d.Path)
	if err != nil {
		return fmt.Errorf("device file %s: %w", d.Path, err)
	}
	for _, p := range []string{d.Path, real} {
		if denied := g.JudgeNeed(&grant.Need{What: grant.DeviceFile, Path: p}); denied != nil {
			return fmt.Errorf("device file %s leads to %s: %s", d.Path, real, denied)
		}
	}
	dev, err := oci.DeviceFromPath(real)
	if err != nil {
		return fmt.Errorf("device file %s: %w", d.Path, err)
	}
	dev.Path = d.Path
	spec.Linux.Devices = append(spec.Linux.Devices, *dev)
	spec.Linux.Resources.Devices = append(spec.Linux.Resources.Devices,
		specs.LinuxDeviceCgroup{Allow: true, Type: dev.Type, Major: &dev.Major, Minor: &dev.Minor, Access: d.Permissions})
	return nil
}
