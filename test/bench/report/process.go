package report

import (
	"fmt"
	"os"
	"strings"
)

// Usage is what processes hold and have used so far.
type Usage struct {
	Resident float64 // MiB
	Own      float64 // of them, what no file backs
	CPU      float64 // processor seconds
	Written  float64 // bytes that reached the disk
}

// Add adds what one process holds and has used.
func (u *Usage) Add(pid int) error {
	for _, file := range []string{"status", "io", "stat"} {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
		if err != nil {
			return fmt.Errorf("process %d: %w", pid, err)
		}
		if file == "stat" {
			return u.addCPU(string(b))
		}
		for line := range strings.Lines(string(b)) {
			if err := u.addLine(line); err != nil {
				return err
			}
		}
	}
	return nil
}

func (u *Usage) addLine(line string) error {
	const mib = 1024 // in KiB
	field, rest, _ := strings.Cut(line, ":")
	var to *float64
	unit := 1.0
	switch field {
	case "VmRSS":
		to, unit = &u.Resident, mib
	case "RssAnon":
		to, unit = &u.Own, mib
	case "write_bytes":
		to = &u.Written
	default:
		return nil
	}
	var n float64
	if _, err := fmt.Sscan(rest, &n); err != nil {
		return fmt.Errorf("read %q: %w", line, err)
	}
	*to += n / unit
	return nil
}

// ticksPerSecond is USER_HZ, which is 100 on every Linux that Go runs on.
const ticksPerSecond = 100

func (u *Usage) addCPU(stat string) error {
	_, rest, _ := strings.Cut(stat, ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return fmt.Errorf("read stat: got %d fields", len(fields))
	}
	for _, f := range fields[11:13] { // utime, stime
		var n float64
		if _, err := fmt.Sscan(f, &n); err != nil {
			return fmt.Errorf("read stat: %w", err)
		}
		u.CPU += n / ticksPerSecond
	}
	return nil
}

// LoadAverage is the machine's, of 1, 5 and 15 minutes.
func LoadAverage() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(b))[:3], " ")
}
