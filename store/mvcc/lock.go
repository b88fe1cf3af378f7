package mvcc

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// lockHolder names whoever holds the lock on the file, as well as the kernel lets us know.
func lockHolder(path string) string {
	const guess = "another process (most likely another drover-hub on this directory)"
	info, err := os.Stat(path)
	if err != nil {
		return guess
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return guess
	}
	locks, err := os.ReadFile("/proc/locks")
	if err != nil {
		return guess
	}
	suffix := fmt.Sprintf(":%d", st.Ino)
	for lines := bufio.NewScanner(bytes.NewReader(locks)); lines.Scan(); {
		// 1: FLOCK  ADVISORY  WRITE 1234 08:01:5678 0 EOF
		f := strings.Fields(lines.Text())
		if len(f) < 6 || f[1] != "FLOCK" || !strings.HasSuffix(f[5], suffix) {
			continue
		}
		name, err := os.ReadFile("/proc/" + f[4] + "/comm")
		if err != nil {
			return guess
		}
		return fmt.Sprintf("process %s (%s)", f[4], strings.TrimSpace(string(name)))
	}
	return guess
}
