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
	"github.com/drover-fleet/drover/test/bench/side"
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
	if is, err := side.Driver(ctx, args); is {
		return err
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
	h, err := side.New(rq.bin, rq.profiles != "")
	if err != nil {
		return err
	}
	figures, err := measure(ctx, h, rq)
	err = errors.Join(err, h.Down(ctx))
	if len(figures) > 0 { // what was measured is worth having, whatever else failed
		err = errors.Join(err, report.Print(os.Stdout, figures), report.WriteJSON(os.Getenv("JSON"), figures))
	}
	return err
}

// measure returns what it has, and in the error which rows it has not.
func measure(ctx context.Context, h *side.House, rq request) ([]report.Figure, error) {
	began := time.Now()
	fmt.Fprintf(os.Stderr, "load average at the start: %s\n", report.LoadAverage())
	b, err := start(ctx, h, rq)
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
		if rq.quick && !r.Quick || r.API && b.API == nil {
			continue
		}
		try(r.Name, func() error { return b.Row(ctx, r) })
	}
	try(memoryLoaded, func() error { return b.memory(memoryLoaded, 0.5) })
	if rq.profiles != "" {
		if err := b.Ours.Profile(ctx, rq.profiles, put(1000, 256).Spec); err != nil { // whichever rows were asked for
			failed = append(failed, fmt.Errorf("profiles: %w", err))
		}
	}
	try(killed, func() error { return b.kills(ctx) })
	if !rq.quick {
		try(manyKeys, func() error { return b.open(ctx) })
	}
	fmt.Fprintf(os.Stderr, "took %.0f s; load average at the end: %s\n", time.Since(began).Seconds(), report.LoadAverage())
	return b.Figures(), errors.Join(append(failed, ctx.Err())...)
}

// start starts both sides and writes the keys that the rows draw from.
func start(ctx context.Context, h *side.House, rq request) (*bench, error) {
	ours, err := h.Hub(ctx)
	if err != nil {
		return nil, err
	}
	peer, err := h.Etcd(ctx)
	if err != nil {
		return nil, err
	}
	b := &bench{&side.Bench{Ours: ours, Peer: peer, Len: side.LengthsOf(rq.quick)}}
	if rq.api {
		if b.API, err = h.API(ours); err != nil {
			return nil, err
		}
		if err := b.API.Fill(ctx, apiKeys); err != nil {
			return nil, err
		}
	}
	return b, errors.Join(ours.Fill(ctx, keys), peer.Fill(ctx, keys))
}
