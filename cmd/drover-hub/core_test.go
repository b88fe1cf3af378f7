package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// coreVariable makes the test binary a program that asks for core files, and is then killed by a signal that writes one.
const coreVariable = "DROVER_CORE_CHILD"

func TestMain(m *testing.M) {
	if how := os.Getenv(coreVariable); how != "" {
		most := &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
		if err := unix.Setrlimit(unix.RLIMIT_CORE, most); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if how == "kept" {
			if err := keepMemory(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			_ = unix.Setrlimit(unix.RLIMIT_CORE, most) // as a debugger would; the first alone must do
		}
		dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
		fmt.Println("dumpable", dumpable, err)
		panic("end with a core file") // GOTRACEBACK=crash
	}
	os.Exit(m.Run())
}

// The control shows that the same end does write one where nothing keeps it from that, unless the kernel here hands cores elsewhere.
func TestNoCoreFileIsWrittenOfTheHub(t *testing.T) {
	pattern, err := os.ReadFile("/proc/sys/kernel/core_pattern")
	if err != nil {
		t.Fatal(err)
	}
	toFolder := !strings.ContainsAny(string(pattern), "|/")
	for how, want := range map[string]bool{"control": true, "kept": false} {
		dir := t.TempDir()
		child := exec.CommandContext(t.Context(), os.Args[0])
		child.Dir = dir
		child.Env = append(os.Environ(), coreVariable+"="+how, "GOTRACEBACK=crash")
		out, err := child.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "end with a core file") {
			t.Fatalf("%s: it did not panic: %v\n%s", how, err, out)
		}
		if got := strings.Contains(string(out), "dumpable 1"); got != want {
			t.Errorf("%s: got dumpable=%t, want %t:\n%.200s", how, got, want, out)
		}
		cores, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil {
			t.Fatal(err)
		}
		if got := len(cores) > 0; toFolder && got != want {
			t.Errorf("%s: got files %v, want a core file: %t", how, cores, want)
		}
	}
}
