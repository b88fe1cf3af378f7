package main

import (
	"fmt"
	"os"
	"strings"
)

// usage is what the members of a side hold and have used so far.
type usage struct {
	resident float64 // MiB a member
	own      float64 // of them, what no file backs
	cpu      float64 // processor seconds, all members
	written  float64 // bytes that reached the disk, all members
}

func (s *side) usage() (usage, error) {
	var u usage
	for i := range members {
		p := s.procs(i)
		if p == nil {
			return u, fmt.Errorf("%s: member %d was never started", s.name, i)
		}
		if err := u.add(p.PID); err != nil {
			return u, fmt.Errorf("%s: member %d: %w", s.name, i, err)
		}
	}
	u.resident /= members
	u.own /= members
	return u, nil
}

func (u *usage) add(pid int) error {
	for _, file := range []string{"status", "io", "stat"} {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
		if err != nil {
			return err
		}
		if file == "stat" {
			return u.addCPU(string(b))
		}
		for line := range strings.Lines(string(b)) {
			var n float64
			switch field, rest, _ := strings.Cut(line, ":"); field {
			case "VmRSS":
				_, err = fmt.Sscan(rest, &n)
				u.resident += n / 1024
			case "RssAnon":
				_, err = fmt.Sscan(rest, &n)
				u.own += n / 1024
			case "write_bytes":
				_, err = fmt.Sscan(rest, &n)
				u.written += n
			}
			if err != nil {
				return fmt.Errorf("read %q: %w", line, err)
			}
		}
	}
	return nil
}

// ticksPerSecond is USER_HZ, which is 100 on every Linux that Go runs on.
const ticksPerSecond = 100

func (u *usage) addCPU(stat string) error {
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
		u.cpu += n / ticksPerSecond
	}
	return nil
}

func loadAverage() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(b))[:3], " ")
}
