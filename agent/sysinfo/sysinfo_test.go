package sysinfo

import (
	"os"
	"path/filepath"
	"testing"
)

func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		p := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

const (
	v1On  = "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t3\t5\t1\nmemory\t9\t60\t1\n"
	v1Off = "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t3\t5\t1\nmemory\t0\t60\t0\n"
)

// F01: the memory controller is judged by what the kernel does, on all four kinds of tree.
func TestMemoryCgroupIsJudgedByWhatTheKernelDoes(t *testing.T) {
	for _, c := range []struct {
		name    string
		files   map[string]string
		version string
		memory  bool
	}{
		{"v1 with memory", map[string]string{"proc/cgroups": v1On, "sys/fs/cgroup/memory/tasks": ""}, "v1", true},
		{"v1 with memory=0", map[string]string{"proc/cgroups": v1Off, "sys/fs/cgroup/cpu/tasks": ""}, "v1", false},
		{"v1 enabled but not mounted", map[string]string{"proc/cgroups": v1On}, "v1", false},
		{"v2 with memory", map[string]string{"sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory pids\n"}, "v2", true},
		{"v2 without memory", map[string]string{"sys/fs/cgroup/cgroup.controllers": "cpuset cpu io pids\n", "proc/cgroups": v1On}, "v2", false},
		{"hybrid", map[string]string{"proc/cgroups": v1On, "sys/fs/cgroup/memory/tasks": "", "sys/fs/cgroup/unified/cgroup.controllers": ""}, "hybrid", true},
		{"contradictory flags, off in the end", map[string]string{"proc/cgroups": v1Off, "sys/fs/cgroup/memory/tasks": "",
			"proc/cmdline": "cgroup_disable=memory cgroup_enable=memory"}, "v1", false},
		{"no cgroups at all", nil, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := Facts(Options{Root: tree(t, c.files), Machine: "aarch64"})
			if f.Cgroup != c.version || f.MemoryCgroup != c.memory {
				t.Errorf("got %q, memory %v; want %q, %v", f.Cgroup, f.MemoryCgroup, c.version, c.memory)
			}
		})
	}
}

// F13: the variant follows from CPU features and userland.
func TestPlatformFollowsFeaturesAndUserland(t *testing.T) {
	elf := func(class byte, machine byte) string {
		return "\x7fELF" + string([]byte{class, 1, 1}) + "\x00\x00\x00\x00\x00\x00\x00\x00\x00" + "\x02\x00" + string([]byte{machine, 0})
	}
	for _, c := range []struct{ name, machine, cpuinfo, sh, want string }{
		{"Pi Zero: the chip says 7", "armv6l", "model name\t: ARMv6-compatible processor rev 7 (v6l)\nFeatures\t: half thumb fastmult vfp edsp java tls\nCPU architecture: 7\n", "", "linux/arm/v6"},
		{"Pi 2", "armv7l", "model name\t: ARMv7 Processor rev 5 (v7l)\nFeatures\t: half thumb fastmult vfp edsp neon vfpv3 tls vfpv4\n", "", "linux/arm/v7"},
		{"v7 kernel name, v6 features", "armv7l", "Features\t: half thumb fastmult vfp edsp\n", "", "linux/arm/v6"},
		{"no floating point", "armv5tel", "Features\t: swp half thumb fastmult edsp\n", "", "linux/arm/v5"},
		{"Pi 4, all 64 bits", "aarch64", "", elf(2, 183), "linux/arm64"},
		{"Pi 4, 64-bit kernel, 32-bit userland", "aarch64", "", elf(1, 40), "linux/arm/v7"},
		{"Pi 4, 32-bit kernel", "armv8l", "Features\t: half thumb vfp neon\n", "", "linux/arm/v7"},
		{"PC", "x86_64", "", elf(2, 62), "linux/amd64"},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := map[string]string{"proc/cpuinfo": c.cpuinfo}
			if c.sh != "" {
				files["bin/sh"] = c.sh
			}
			if got := Facts(Options{Root: tree(t, files), Machine: c.machine}).Platform; got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestFactsOfABoard(t *testing.T) {
	root := tree(t, map[string]string{
		"proc/device-tree/model":           "Raspberry Pi 4 Model B Rev 1.4\x00",
		"proc/device-tree/serial-number":   "10000000abcdef01\x00",
		"proc/sys/kernel/osrelease":        "6.6.51+rpt-rpi-v8\n",
		"proc/sys/kernel/hostname":         "pi-07\n",
		"proc/sys/kernel/random/boot_id":   "0b1c\n",
		"proc/meminfo":                     "MemTotal:        3884456 kB\nMemFree: 1 kB\n",
		"proc/cpuinfo":                     "processor\t: 0\nprocessor\t: 1\n",
		"etc/os-release":                   "NAME=x\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n",
		"other/boot":                       "override\n",
		"sys/fs/cgroup/cgroup.controllers": "memory",
	})
	f := Facts(Options{Root: root, Machine: "aarch64", Version: "v1", DataDir: root})
	for _, c := range []struct{ name, got, want string }{
		{"model", f.Model, "Raspberry Pi 4 Model B Rev 1.4"}, {"serial", f.Serial, "10000000abcdef01"},
		{"kernel", f.Kernel, "6.6.51+rpt-rpi-v8"}, {"os", f.OSImage, "Debian GNU/Linux 12 (bookworm)"},
		{"hostname", f.Hostname, "pi-07"}, {"boot", f.BootID, "0b1c"}, {"version", f.AgentVersion, "v1"},
		{"boot override", BootID(Options{Root: root, BootIDFile: "/other/boot"}), "override"},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, c.got, c.want)
		}
	}
	if f.CPUs != 2 || f.Memory != 3884456<<10 || f.Storage == 0 {
		t.Errorf("got %d cpus, %d memory, %d storage", f.CPUs, f.Memory, f.Storage)
	}
}

func TestAnEmptyTreeIsNoError(t *testing.T) {
	if f := Facts(Options{Root: t.TempDir()}); f.Platform == "" {
		t.Error("no platform at all")
	}
}
