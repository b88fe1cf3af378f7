package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/drover-fleet/drover/client/remote"
	"github.com/drover-fleet/drover/test/bench/report"
	"github.com/drover-fleet/drover/test/lab"
)

const (
	memoryAim = 64 // MiB resident, a member
	workloads = 3
	looks     = 3
)

// options are of the command line.
type options struct {
	bin          string
	devices      int
	settle, look time.Duration // before the first look; of each
	heap         string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute)
	err := run(ctx, os.Args[1:])
	cancel()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-idle:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	var o options
	flags := flag.NewFlagSet("bench-idle", flag.ContinueOnError)
	flags.StringVar(&o.bin, "bin", "bin", "folder of drover and drover-hub")
	flags.IntVar(&o.devices, "devices", 100, "how many")
	flags.DurationVar(&o.settle, "settle", 100*time.Second, "how long nothing happens before the first look; agents end connections that they do not need after 90 s")
	flags.DurationVar(&o.look, "look", 20*time.Second, "how long each look takes")
	flags.StringVar(&o.heap, "heap", "", "folder for heap profiles of members at the end")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if os.Getenv("QUICK") == "1" {
		o.settle, o.look = 5*time.Second, 2*time.Second
	}
	var figures []report.Figure
	var errs []error
	for _, members := range []int{1, 3} {
		got, err := measure(ctx, &o, members)
		figures = append(figures, got...)
		if err != nil {
			errs = append(errs, fmt.Errorf("%d member(s): %w", members, err))
		}
	}
	return errors.Join(append(errs, report.Print(os.Stdout, figures), report.WriteJSON(os.Getenv("JSON"), figures))...)
}

// measure runs one hub with its devices.
func measure(ctx context.Context, o *options, members int) (figures []report.Figure, err error) {
	dir, err := os.MkdirTemp("", "dri")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	bin, err := filepath.Abs(o.bin)
	if err != nil {
		return nil, err
	}
	plan := lab.Plan{Dir: dir, Bin: bin}
	if o.heap != "" {
		plan.HubArgs = []string{"--profiles"}
	}
	for i := range members {
		plan.Members = append(plan.Members, lab.Member{
			Name: fmt.Sprintf("h%d", i+1), API: fmt.Sprintf("127.0.0.1:%d", 17561+2*i), Peer: fmt.Sprintf("127.0.0.1:%d", 17562+2*i),
		})
	}
	f, err := lab.Load(plan)
	if err != nil {
		return nil, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		err = errors.Join(err, f.Down(ctx))
	}()
	if err := f.StartHub(ctx); err != nil {
		return nil, err
	}
	fleet, err := startDevices(ctx, f, o.devices)
	if err != nil {
		return nil, err
	}
	defer fleet.stop()
	if err := deploy(ctx, f, fleet); err != nil {
		return nil, err
	}
	if figures, err = watchMembers(ctx, f, o); err != nil {
		return nil, err
	}
	if o.heap != "" {
		err = saveHeaps(ctx, f, o.heap)
	}
	return figures, err
}

const manifest = `apiVersion: fleet.drover.dev/v1
kind: Workload
metadata: {name: idle-%d}
spec:
  placement: {everywhere: true, all: true}
  template:
    spec:
      containers: [{name: main, image: "%s"}]
`

// deploy waits until every device runs every workload.
func deploy(ctx context.Context, f *lab.Fleet, d *fleet) error {
	for i := range workloads {
		if _, err := f.DroverIn(ctx, fmt.Sprintf(manifest, i+1, image), "apply", "-f", "-"); err != nil {
			return err
		}
	}
	for i := range workloads {
		if _, err := f.Drover(ctx, "rollout", "status", fmt.Sprintf("idle-%d", i+1), "--timeout", "3m"); err != nil {
			return err
		}
	}
	if got, want := d.running(), workloads*d.count(); got != want {
		return fmt.Errorf("%d containers run, want %d", got, want)
	}
	return nil
}

// watchMembers looks at each member a few times.
func watchMembers(ctx context.Context, f *lab.Fleet, o *options) ([]report.Figure, error) {
	fmt.Fprintf(os.Stderr, "%d member(s), %d devices: all runs; load average %s\n", len(f.Members), o.devices, report.LoadAverage())
	if err := pause(ctx, o.settle); err != nil {
		return nil, err
	}
	leader, err := leaderOf(ctx, f)
	if err != nil {
		return nil, err
	}
	all := make([]*member, len(f.Members))
	for i, m := range f.Members {
		all[i] = newMember(roleOf(m.Name, leader, len(f.Members)), f.Procs[m.Name].PID)
		if err := all[i].begin(); err != nil {
			return nil, err
		}
	}
	for range looks {
		if err := pause(ctx, o.look); err != nil {
			return nil, err
		}
		for _, m := range all {
			if err := m.look(); err != nil {
				return nil, err
			}
		}
	}
	var figures []report.Figure
	for i, m := range all {
		first := slices.IndexFunc(all, func(o *member) bool { return o.role == m.role })
		if first < i {
			all[first].join(m) // members of one role make one figure
		}
	}
	for i, m := range all {
		if slices.IndexFunc(all, func(o *member) bool { return o.role == m.role }) == i {
			figures = append(figures, m.figures(o.devices)...)
		}
	}
	return figures, nil
}

func roleOf(name, leader string, members int) string {
	switch {
	case members == 1:
		return "a single member"
	case name == leader:
		return fmt.Sprintf("leader of %d", members)
	}
	return fmt.Sprintf("follower of %d", members)
}

func leaderOf(ctx context.Context, f *lab.Fleet) (string, error) {
	out, err := f.Drover(ctx, "hub", "members", "-o", "json")
	if err != nil {
		return "", err
	}
	var list remote.MemberList
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		return "", err
	}
	for _, m := range list.Items {
		if m.Leader {
			return m.Name, nil
		}
	}
	return "", fmt.Errorf("no leader in %s", out)
}

// member is one of them while it is looked at.
type member struct {
	role string
	pid  int
	last report.Usage
	at   time.Time

	resident, own, cpu, written []float64
}

func newMember(role string, pid int) *member { return &member{role: role, pid: pid} }

// join takes the looks at another member over.
func (m *member) join(o *member) {
	m.resident, m.own = append(m.resident, o.resident...), append(m.own, o.own...)
	m.cpu, m.written = append(m.cpu, o.cpu...), append(m.written, o.written...)
}

func (m *member) begin() error {
	m.last, m.at = report.Usage{}, time.Now()
	return m.last.Add(m.pid)
}

func (m *member) look() error {
	var u report.Usage
	if err := u.Add(m.pid); err != nil {
		return err
	}
	now := time.Now()
	passed := now.Sub(m.at)
	m.resident, m.own = append(m.resident, u.Resident), append(m.own, u.Own)
	m.cpu = append(m.cpu, (u.CPU-m.last.CPU)/passed.Seconds()*100)
	m.written = append(m.written, (u.Written-m.last.Written)/1024/passed.Minutes())
	m.last, m.at = u, now
	return nil
}

func (m *member) figures(devices int) []report.Figure {
	what := fmt.Sprintf("%s, %d devices", m.role, devices)
	alone := func(name, unit string, aim float64, v []float64) report.Figure {
		s := report.Samples{Name: what + ": " + name, Unit: unit, Aim: aim, Less: true, Alone: true, Ours: v}
		return s.Figure("")
	}
	return []report.Figure{
		alone("resident memory", "MiB", memoryAim, m.resident),
		alone("of it without files", "MiB", 0, m.own),
		alone("processor time", "% of one", 0, m.cpu),
		alone("written to disk", "KiB/min", 0, m.written),
	}
}

// saveHeaps leaves heap profiles of all members, with their tables.
func saveHeaps(ctx context.Context, f *lab.Fleet, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var errs []error
	for _, m := range f.Members {
		file := filepath.Join(dir, fmt.Sprintf("%s-of-%d.heap.pb.gz", m.Name, len(f.Members)))
		errs = append(errs, report.Profile(ctx, f.Path("hub", m.Name), "heap", 0, file))
	}
	return errors.Join(errs...)
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
