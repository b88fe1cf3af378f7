package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/drover-fleet/drover/test/bench/store/load"
)

// wholeRun bounds everything, members' start and end included.
const wholeRun = 15 * time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(ctx, wholeRun)
	err := run(ctx, os.Args[1:])
	cancel()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-store:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 1 {
		switch args[0] {
		case "load":
			return load.Main(ctx, dialDirect, os.Stdin, os.Stdout)
		case "load-api":
			return load.Main(ctx, dialAPI, os.Stdin, os.Stdout)
		}
	}
	flags := flag.NewFlagSet("bench-store", flag.ContinueOnError)
	bin := flags.String("bin", "bin", "folder of drover, drover-hub and bench-etcd")
	only := flags.String("only", "", "rows whose name contains this")
	if err := flags.Parse(args); err != nil {
		return err
	}
	p, err := newPlan(*bin)
	if err != nil {
		return err
	}
	figures, err := p.measure(ctx, *only, os.Getenv("QUICK") == "1")
	err = errors.Join(err, p.down(ctx))
	if err != nil {
		return err
	}
	printTable(os.Stdout, figures)
	return writeJSON(os.Getenv("JSON"), figures)
}

func (p *plan) measure(ctx context.Context, only string, quick bool) ([]figure, error) {
	began := time.Now()
	fmt.Fprintf(os.Stderr, "load average at the start: %s\n", loadAverage())
	ours, err := p.ours(ctx)
	if err != nil {
		return nil, fmt.Errorf("start drover: %w", err)
	}
	peer, err := p.etcd(ctx)
	if err != nil {
		return nil, err
	}
	api, err := p.api(ours)
	if err != nil {
		return nil, err
	}
	b := &bench{ours: ours, peer: peer, api: api, len: lengthsOf(quick)}
	for s, n := range map[*side]int{ours: keys, peer: keys, api: apiKeys} {
		if _, err := s.run(ctx, load.Spec{Fill: true, Conns: members, ValueBytes: 256, Keys: n}); err != nil {
			return nil, fmt.Errorf("fill %s: %w", s.name, err)
		}
	}
	if err := b.memory("resident memory a member, 10,000 keys", 0); err != nil {
		return nil, err
	}
	for _, r := range rows() {
		if quick && !r.quick || !strings.Contains(r.name, only) {
			continue
		}
		if err := b.row(ctx, r); err != nil {
			return nil, fmt.Errorf("%s: %w", r.name, err)
		}
	}
	if err := b.memory("resident memory a member, after all loads", 0.5); err != nil {
		return nil, err
	}
	if strings.Contains("kill -9", only) {
		if err := b.kills(ctx); err != nil {
			return nil, err
		}
	}
	fmt.Fprintf(os.Stderr, "took %.0f s; load average at the end: %s\n", time.Since(began).Seconds(), loadAverage())
	return b.figures(), nil
}
