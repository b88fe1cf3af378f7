package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// clockVariable names the file from which a member that was built here reads by how many seconds its wall clock is off.
const clockVariable = "DROVER_CHAOS_CLOCK"

// shiftSource stands beside package time, and hookSource beside the member's main.
const shiftSource = `package time

import "sync/atomic"

var chaosShift atomic.Int64

// ChaosShift sets by how many seconds the wall clock is off. The monotonic clock goes on as it was.
func ChaosShift(seconds int64) { chaosShift.Store(seconds) }
`

const hookSource = `package main

import (
	"os"
	"strconv"
	"strings"
	"time"
)

func init() {
	shift := func() {
		b, err := os.ReadFile(os.Getenv("` + clockVariable + `"))
		if err != nil {
			return
		}
		if n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil {
			time.ChaosShift(n)
		}
	}
	shift()
	go func() {
		for range time.Tick(50 * time.Millisecond) {
			shift()
		}
	}()
}
`

const (
	nowSource  = "\tsec, nsec, mono := runtimeNow()\n\tif mono == 0 {\n\t\treturn Time{"
	nowShifted = "\tsec, nsec, mono := runtimeNow()\n\tsec += chaosShift.Load()\n\tif mono == 0 {\n\t\treturn Time{"
)

// A member that was away is given a snapshot once the log has gone on without it. With the log that the product keeps that takes 64 MiB
// of writes.
const (
	keepSource = "c.KeepBytes = 64 << 20"
	keepShort  = "c.KeepBytes = 4 << 20"
)

// edit lays another text over a source that holds the one text exactly once.
func edit(path, text, with string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(b), text); n != 1 {
		return "", fmt.Errorf("%s holds %q %d times, want it once: this package does not know that version", path, text, n)
	}
	return strings.Replace(string(b), text, with, 1), nil
}

// Build compiles drover-hub of the module at root into out, with a wall clock that can be stepped and a log that is cut sooner.
// Nothing else differs from the product: the sources that differ are laid over the compiler's view of the tree.
func Build(ctx context.Context, root, out string) (err error) {
	if root, err = filepath.Abs(root); err != nil {
		return err
	}
	goroot, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("find the Go tree: %w", err)
	}
	timeDir := filepath.Join(strings.TrimSpace(string(goroot)), "src", "time")
	api := filepath.Join(root, "consensus", "api.go")
	now, errNow := edit(filepath.Join(timeDir, "time.go"), nowSource, nowShifted)
	keep, errKeep := edit(api, keepSource, keepShort)
	if err := errors.Join(errNow, errKeep); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "drover-overlay-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	replace := map[string]string{}
	for target, text := range map[string]string{
		filepath.Join(timeDir, "time.go"):        now,
		api:                                      keep,
		filepath.Join(timeDir, "chaos_shift.go"): shiftSource,
		filepath.Join(root, "cmd", "drover-hub", "zz_chaos.go"): hookSource,
	} {
		replace[target] = filepath.Join(tmp, filepath.Base(target))
		if err := os.WriteFile(replace[target], []byte(text), 0o600); err != nil {
			return err
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	file := filepath.Join(tmp, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-overlay", file, "-o", out, "./cmd/drover-hub")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build a member with a clock that can be stepped: %w\n%s", err, text)
	}
	return nil
}
