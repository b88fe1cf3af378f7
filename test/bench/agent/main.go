// Command agent measures what the agent costs a board: the stripped arm64 binary on disk, and the resident memory of the
// native one with three idle workloads. It prints a table and, with JSON=FILE, the same as a list.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/drover-fleet/drover/test/bench/report"
	"github.com/drover-fleet/drover/test/lab"
)

const (
	mib       = 1 << 20
	sizeAim   = 22.0 // MiB; the official containerd client is 15.9 of them
	rssAim    = 25.0 // MiB
	workloads = 3
	settle    = 20 * time.Second // idle time before the first reading
	readings  = 5
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	rows, err := measure(ctx)
	if err == nil {
		err = show(rows)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-agent:", err)
		os.Exit(1)
	}
}

func show(figures []report.Figure) error {
	return errors.Join(report.Print(os.Stdout, figures), report.WriteJSON(os.Getenv("JSON"), figures))
}

// figure has no peer: the aim is for itself.
func figure(name string, aim float64, runs ...float64) report.Figure {
	s := report.Samples{Name: name, Unit: "MiB", Aim: aim, Less: true, Alone: true, Ours: runs}
	return s.Figure("")
}

func measure(ctx context.Context) ([]report.Figure, error) {
	var rows []report.Figure
	for _, f := range []struct {
		name, path string
		aim        float64
	}{{"agent on disk, arm64, stripped", "bin/arm64/drover-agent", sizeAim}, {"agent on disk, native, stripped", "bin/drover-agent", 0}} {
		info, err := os.Stat(f.path)
		if err != nil {
			return nil, err
		}
		rows = append(rows, figure(f.name, f.aim, float64(info.Size())/mib))
	}
	dir, err := os.MkdirTemp("", "dr")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	bin, err := filepath.Abs("bin")
	if err != nil {
		return nil, err
	}
	f, err := lab.Load(lab.Plan{
		Dir: dir, Bin: bin, Prefix: "drover-bench-", Devices: []string{"pi-01"}, Registry: "127.0.0.1:15055",
		Members: []lab.Member{{Name: "h1", API: "127.0.0.1:17443", Peer: "127.0.0.1:17444"}},
	})
	if err != nil {
		return nil, err
	}
	memory, err := resident(ctx, f)
	down, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	return append(rows, memory...), errors.Join(err, f.Down(down))
}

// resident runs one device with idle workloads and reads the agent's memory once it has settled.
func resident(ctx context.Context, f *lab.Fleet) ([]report.Figure, error) {
	r, err := lab.StartRegistry(f.Registry)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if err := start(ctx, f); err != nil {
		return nil, err
	}
	for i := range workloads {
		name := fmt.Sprintf("idle-%d", i+1)
		if _, err := f.DroverIn(ctx, fmt.Sprintf(manifest, name, f.Registry), "apply", "-f", "-"); err != nil {
			return nil, err
		}
		if _, err := f.Drover(ctx, "rollout", "status", name, "--timeout", "1m"); err != nil {
			return nil, err
		}
	}
	var rss, anon []float64
	for i := range readings {
		pause := time.Second
		if i == 0 {
			pause = settle
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		var u report.Usage
		if err := u.Add(f.Procs["pi-01"].PID); err != nil {
			return nil, err
		}
		rss, anon = append(rss, u.Resident), append(anon, u.Own)
	}
	return []report.Figure{
		figure(fmt.Sprintf("agent resident, %d idle workloads", workloads), rssAim, rss...),
		figure("of them not backed by the file", 0, anon...),
	}, nil
}

const manifest = `apiVersion: fleet.drover.dev/v1
kind: Workload
metadata: {name: %s}
spec:
  placement: {everywhere: true, all: true}
  template:
    spec:
      containers:
      - {name: main, image: "%s/hello:1.0", env: [{name: GREETING_EVERY, value: 1h}]}
`

func start(ctx context.Context, f *lab.Fleet) error {
	if err := lab.BuildProgram(ctx, ".", "./test/images/hello", runtime.GOARCH, f.Path("hello")); err != nil {
		return err
	}
	img, err := lab.ProgramImage(f.Path("hello"), nil)
	if err != nil {
		return err
	}
	if _, err := lab.Push(ctx, f.Registry, "hello:1.0", img); err != nil {
		return err
	}
	if _, err := f.Links(); err != nil {
		return err
	}
	if _, err := f.StartContainerd(ctx); err != nil {
		return err
	}
	if err := f.StartHub(ctx); err != nil {
		return err
	}
	if err := f.StartAgent(ctx, "pi-01"); err != nil {
		return err
	}
	return f.Ready(ctx, "pi-01")
}
