package sysinfo

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/drover-fleet/drover/api/wire"
)

// maxFile bounds what is read of one file.
const maxFile = 1 << 20

// Options of Facts.
type Options struct {
	Root       string // directory that /proc, /sys and /etc lie in; "" = /
	DataDir    string // whose file system counts as storage; absolute, not below Root
	BootIDFile string // below Root; default /proc/sys/kernel/random/boot_id
	Machine    string // as uname -m; default: of the running kernel
	Version    string // of the agent
}

// Facts finds out everything but the runtime's version.
func Facts(o Options) wire.Facts {
	fs := files{o.Root}
	f := wire.Facts{
		Platform:     platform(fs, o.Machine),
		Model:        fs.text("/proc/device-tree/model"),
		Serial:       serial(fs),
		Kernel:       fs.text("/proc/sys/kernel/osrelease"),
		OSImage:      osImage(fs),
		Hostname:     fs.text("/proc/sys/kernel/hostname"),
		BootID:       BootID(o),
		CPUs:         cpus(fs),
		Memory:       memory(fs),
		AgentVersion: o.Version,
	}
	f.Cgroup, f.MemoryCgroup = cgroup(fs)
	var st unix.Statfs_t
	if o.DataDir != "" && unix.Statfs(o.DataDir, &st) == nil {
		f.Storage = st.Blocks * uint64(st.Bsize)
	}
	return f
}

// BootID is the kernel's name of the present boot; "" when there is none.
func BootID(o Options) string {
	name := o.BootIDFile
	if name == "" {
		name = "/proc/sys/kernel/random/boot_id"
	}
	return files{o.Root}.text(name)
}

type files struct{ root string }

func (f files) read(name string) []byte {
	file, err := os.Open(filepath.Join("/", f.root, name))
	if err != nil {
		return nil
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, maxFile))
	if err != nil {
		return nil
	}
	return b
}

// text is a one-line file; device-tree strings end in NUL.
func (f files) text(name string) string {
	return strings.TrimSpace(string(bytes.TrimRight(f.read(name), "\x00\n ")))
}

func (f files) exists(name string) bool {
	_, err := os.Stat(filepath.Join("/", f.root, name))
	return err == nil
}

// field finds "key : value" in a file such as /proc/cpuinfo.
func (f files) field(name, key string) string {
	for line := range strings.Lines(string(f.read(name))) {
		k, v, ok := strings.Cut(line, ":")
		if ok && strings.TrimSpace(k) == key {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

func serial(fs files) string {
	if s := fs.text("/proc/device-tree/serial-number"); s != "" {
		return s
	}
	if s := fs.field("/proc/cpuinfo", "Serial"); s != "" {
		return s
	}
	return fs.text("/sys/class/dmi/id/product_serial")
}

func osImage(fs files) string {
	for line := range strings.Lines(string(fs.read("/etc/os-release"))) {
		if v, ok := strings.CutPrefix(line, "PRETTY_NAME="); ok {
			return strings.Trim(strings.TrimSpace(v), `"'`)
		}
	}
	return ""
}

func cpus(fs files) uint32 {
	var n uint32
	for line := range strings.Lines(string(fs.read("/proc/cpuinfo"))) {
		if k, _, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == "processor" {
			n++
		}
	}
	if n == 0 {
		n = uint32(runtime.NumCPU())
	}
	return n
}

// memory is MemTotal in bytes.
func memory(fs files) uint64 {
	v := strings.Fields(fs.field("/proc/meminfo", "MemTotal"))
	if len(v) == 0 {
		return 0
	}
	kb, err := strconv.ParseUint(v[0], 10, 64)
	if err != nil {
		return 0
	}
	return kb << 10
}

// cgroup tells the version in use (v1, v2, hybrid) and whether the memory controller enforces limits. What the kernel lists
// counts, not its command line: contradictory flags there have one outcome.
func cgroup(fs files) (version string, memory bool) {
	if fs.exists("/sys/fs/cgroup/cgroup.controllers") {
		return "v2", word(fs.text("/sys/fs/cgroup/cgroup.controllers"), "memory")
	}
	version = "v1"
	if fs.exists("/sys/fs/cgroup/unified/cgroup.controllers") {
		version = "hybrid"
	}
	if !fs.exists("/proc/cgroups") {
		return "", false
	}
	// subsys_name hierarchy num_cgroups enabled
	for line := range strings.Lines(string(fs.read("/proc/cgroups"))) {
		f := strings.Fields(line)
		if len(f) == 4 && f[0] == "memory" {
			// Enabled but mounted nowhere limits nothing.
			memory = f[3] == "1" && fs.exists("/sys/fs/cgroup/memory")
		}
	}
	return version, memory
}

func word(s, w string) bool {
	for _, f := range strings.Fields(s) {
		if f == w {
			return true
		}
	}
	return false
}

// platform is what images must be built for: decided by the CPU's features and the userland's width, not by the kernel's alone.
// A 64-bit kernel with a 32-bit userland runs 32-bit images; an ARMv6 chip says "CPU architecture: 7" in /proc/cpuinfo, so
// there the features count.
func platform(fs files, machine string) string {
	if machine == "" {
		var u unix.Utsname
		if unix.Uname(&u) == nil {
			machine = unix.ByteSliceToString(u.Machine[:])
		}
	}
	switch {
	case machine == "x86_64":
		return "linux/amd64"
	case machine == "aarch64" && userland64(fs):
		return "linux/arm64"
	case machine == "aarch64":
		return "linux/arm/v7"
	case strings.HasPrefix(machine, "arm"):
		return "linux/arm/" + armVariant(fs, machine)
	case machine == "i386", machine == "i486", machine == "i586", machine == "i686":
		return "linux/386"
	case machine == "riscv64", machine == "ppc64le", machine == "s390x":
		return "linux/" + machine
	}
	return "linux/" + runtime.GOARCH
}

// armVariant: v7 needs VFPv3 (or v3-D16, or NEON) and Thumb-2; only then does code built for v7 run.
func armVariant(fs files, machine string) string {
	features := fs.field("/proc/cpuinfo", "Features")
	model := fs.field("/proc/cpuinfo", "model name")
	if strings.Contains(model, "ARMv6") || strings.HasPrefix(machine, "armv6") {
		return "v6"
	}
	vfp3 := word(features, "vfpv3") || word(features, "vfpv3d16") || word(features, "neon") || word(features, "vfpd32") || word(features, "asimd")
	switch {
	case vfp3:
		return "v7"
	case word(features, "vfp"):
		return "v6"
	case features == "" && (strings.HasPrefix(machine, "armv7") || strings.HasPrefix(machine, "armv8")):
		return "v7"
	case features == "":
		return "v6"
	}
	return "v5"
}

// userland64 looks at the ELF class of a program that every system has.
func userland64(fs files) bool {
	for _, p := range []string{"/bin/sh", "/usr/bin/env", "/sbin/init", "/usr/lib/systemd/systemd"} {
		f, err := os.Open(filepath.Join("/", fs.root, p))
		if err != nil {
			continue
		}
		var head [20]byte
		_, err = io.ReadFull(f, head[:])
		_ = f.Close()
		if err == nil && string(head[:4]) == "\x7fELF" {
			const class64, emAArch64 = 2, 183
			return head[4] == class64 && binary.LittleEndian.Uint16(head[18:]) == emAArch64
		}
	}
	return true
}
