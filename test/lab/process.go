package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Spec says how to start a process of the lab.
type Spec struct {
	Name  string
	Path  string
	Args  []string
	Env   []string // added to the environment of the lab
	Log   string   // file that takes both outputs; opened for append
	Netns string   // name of the network namespace it runs in; "" = the lab's own
}

// Process is a process that the lab started. StartTime tells it from a later process with the same number.
type Process struct {
	Name      string `json:"name"`
	PID       int    `json:"pid"`
	StartTime uint64 `json:"startTime"` // clock ticks after boot, /proc/PID/stat field 22
	Log       string `json:"log"`

	done chan struct{} // closed when reaped; nil when another lab process started it
}

// Start starts a process in a session of its own, so that it outlives the starter when that is what is wanted.
func Start(s Spec) (*Process, error) {
	log, err := os.OpenFile(s.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", s.Name, err)
	}
	defer log.Close()
	cmd := exec.Command(s.Path, s.Args...)
	cmd.Env = append(os.Environ(), s.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := inNetns(s.Netns, cmd.Start); err != nil {
		return nil, fmt.Errorf("start %s: %w", s.Name, err)
	}
	p := &Process{Name: s.Name, PID: cmd.Process.Pid, Log: s.Log, done: make(chan struct{})}
	p.StartTime, err = startTime(p.PID)
	if err != nil {
		return nil, fmt.Errorf("start %s: it ended at once; see %s", s.Name, s.Log)
	}
	go func() {
		defer close(p.done)
		_ = cmd.Wait() // how it ended is in its log; the lab only needs to know that it did
	}()
	return p, nil
}

// startTime reads field 22 of /proc/PID/stat; a zombie counts as ended.
func startTime(pid int) (uint64, error) {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, err
	}
	_, rest, ok := strings.Cut(string(b), ") ")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 20 {
		return 0, errors.New("unreadable stat")
	}
	if fields[0] == "Z" {
		return 0, errors.New("ended")
	}
	return strconv.ParseUint(fields[19], 10, 64)
}

// Alive tells whether this very process still runs.
func (p *Process) Alive() bool {
	t, err := startTime(p.PID)
	return err == nil && t == p.StartTime
}

// Signal sends a signal if the process is still the one that was started.
func (p *Process) Signal(sig syscall.Signal) error {
	if !p.Alive() {
		return nil
	}
	return syscall.Kill(p.PID, sig)
}

// Kill ends the process by SIGKILL and waits until it is gone.
func (p *Process) Kill(ctx context.Context) error {
	if err := p.Signal(syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill %s: %w", p.Name, err)
	}
	return p.Gone(ctx)
}

// Stop asks the process to end, and kills it when it has not after grace.
func (p *Process) Stop(ctx context.Context, grace time.Duration) error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop %s: %w", p.Name, err)
	}
	soft, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	if p.Gone(soft) == nil {
		return nil
	}
	return p.Kill(ctx)
}

// Gone waits until the process has ended.
func (p *Process) Gone(ctx context.Context) error {
	if p.done != nil {
		select {
		case <-p.done:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("%s (pid %d) still runs: %w", p.Name, p.PID, ctx.Err())
		}
	}
	return Until(ctx, fmt.Sprintf("%s (pid %d) ends", p.Name, p.PID), func() error {
		if p.Alive() {
			return errors.New("still runs")
		}
		return nil
	})
}

// Until asks again, 20 ms apart, until ok returns nil. The error names what was waited for and what was last seen.
func Until(ctx context.Context, what string, ok func() error) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ok()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waited until %s: %w (last seen: %w)", what, ctx.Err(), err)
		}
	}
}
