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

	"github.com/drover-fleet/drover/test/bench/report"
	"github.com/drover-fleet/drover/test/bench/store/load"
)

// wholeRun bounds everything, members' start and end included; a run takes about 25 minutes.
const wholeRun = 45 * time.Minute

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

// request is what the command line asks for.
type request struct {
	bin      string
	only     string // rows whose name contains it
	quick    bool
	profiles string // folder for profiles of our members; "" = none
	api      bool   // ours by the HTTPS API too
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
	var rq request
	flags := flag.NewFlagSet("bench-store", flag.ContinueOnError)
	flags.StringVar(&rq.bin, "bin", "bin", "folder of drover, drover-hub and bench-etcd")
	flags.StringVar(&rq.only, "only", "", "rows whose name contains this")
	flags.StringVar(&rq.profiles, "profile", "", "folder for cpu, block, mutex and heap profiles of our members under a load of puts")
	flags.BoolVar(&rq.api, "api", true, "ours by the HTTPS API too")
	if err := flags.Parse(args); err != nil {
		return err
	}
	rq.quick = os.Getenv("QUICK") == "1"
	p, err := newPlan(rq)
	if err != nil {
		return err
	}
	figures, err := p.measure(ctx, rq)
	err = errors.Join(err, p.down(ctx))
	if len(figures) > 0 { // what was measured is worth having, whatever else failed
		err = errors.Join(err, report.Print(os.Stdout, figures), report.WriteJSON(os.Getenv("JSON"), figures))
	}
	return err
}

// measure returns what it has, and in the error which rows it has not.
func (p *plan) measure(ctx context.Context, rq request) ([]report.Figure, error) {
	began := time.Now()
	fmt.Fprintf(os.Stderr, "load average at the start: %s\n", report.LoadAverage())
	b, err := p.bench(ctx, rq)
	if err != nil {
		return nil, err
	}
	var failed []error
	try := func(what string, do func() error) {
		if ctx.Err() != nil || !strings.Contains(what, rq.only) {
			return
		}
		if err := do(); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", what, err)
			failed = append(failed, fmt.Errorf("%s: %w", what, err))
		}
	}
	try(memoryEmpty, func() error { return b.memory(memoryEmpty, 0) })
	for _, r := range rows() {
		if rq.quick && !r.quick || r.api && b.api == nil {
			continue
		}
		try(r.name, func() error { return b.row(ctx, r) })
	}
	try(memoryLoaded, func() error { return b.memory(memoryLoaded, 0.5) })
	if rq.profiles != "" {
		if err := b.profile(ctx, rq.profiles); err != nil { // whichever rows were asked for
			failed = append(failed, fmt.Errorf("profiles: %w", err))
		}
	}
	try(killed, func() error { return b.kills(ctx) })
	if !rq.quick {
		try(manyKeys, func() error { return b.open(ctx) })
	}
	fmt.Fprintf(os.Stderr, "took %.0f s; load average at the end: %s\n", time.Since(began).Seconds(), report.LoadAverage())
	return b.figures(), errors.Join(append(failed, ctx.Err())...)
}

// bench starts both sides and writes the keys that the rows draw from.
func (p *plan) bench(ctx context.Context, rq request) (*bench, error) {
	ours, err := p.ours(ctx)
	if err != nil {
		return nil, fmt.Errorf("start drover: %w", err)
	}
	peer, err := p.etcd(ctx)
	if err != nil {
		return nil, err
	}
	b := &bench{ours: ours, peer: peer, len: lengthsOf(rq.quick)}
	if rq.api {
		if b.api, err = p.api(ours); err != nil {
			return nil, err
		}
		if err := b.api.fill(ctx, apiKeys); err != nil {
			return nil, err
		}
	}
	return b, errors.Join(ours.fill(ctx, keys), peer.fill(ctx, keys))
}
