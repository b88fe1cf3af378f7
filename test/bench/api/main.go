// Command api measures the operators' HTTPS API of a hub of three members beside raw puts and reads of three members of etcd, in the
// same run. It prints a table for people and, with JSON=FILE, the same as a list; with QUICK=1 it takes shorter looks, and with
// -profile DIR (PROFILE=DIR make bench-api) it leaves profiles of our members under a load of creates there. Every figure is the median of
// three runs, taken in turn with the peer.
//
// Each of our requests is decoded, authorised, admitted, journalled and audited; etcd's are bare keys. That is the point: how much of the
// store's speed is left for those who use objects.
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
	"github.com/drover-fleet/drover/test/bench/store/load"
)

// wholeRun bounds everything, members' start and end included; a run takes about 8 minutes.
const wholeRun = 30 * time.Minute

const (
	keys    = 10_000
	conns   = 100
	perSet  = 100 // objects of a transaction
	fanOut  = 1000
	listing = 300 // ms, for all keys
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(ctx, wholeRun)
	err := run(ctx, os.Args[1:])
	cancel()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-api:", err)
		os.Exit(1)
	}
}

// request is what the command line asks for.
type request struct {
	only     string // rows whose name contains it
	profiles string // folder; "" = none
	quick    bool
}

func run(ctx context.Context, args []string) error {
	if is, err := side.Driver(ctx, args); is {
		return err
	}
	var rq request
	var bin string
	flags := flag.NewFlagSet("bench-api", flag.ContinueOnError)
	flags.StringVar(&bin, "bin", "bin", "folder of drover, drover-hub and bench-etcd")
	flags.StringVar(&rq.only, "only", "", "rows whose name contains this")
	flags.StringVar(&rq.profiles, "profile", "", "folder for profiles of our members under a load of the first row")
	if err := flags.Parse(args); err != nil {
		return err
	}
	rq.quick = os.Getenv("QUICK") == "1"
	h, err := side.New(bin, rq.profiles != "")
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

func measure(ctx context.Context, h *side.House, rq request) ([]report.Figure, error) {
	began := time.Now()
	fmt.Fprintf(os.Stderr, "load average at the start: %s\n", report.LoadAverage())
	b, err := start(ctx, h, rq)
	if err != nil {
		return nil, err
	}
	var failed []error
	var measured []side.Row
	for _, r := range rows() {
		if rq.quick && !r.Quick || !strings.Contains(r.Name, rq.only) || ctx.Err() != nil {
			continue
		}
		measured = append(measured, r)
		if err := b.Row(ctx, r); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", r.Name, err)
			failed = append(failed, fmt.Errorf("%s: %w", r.Name, err))
		}
	}
	if rq.profiles != "" && len(measured) > 0 {
		spec := measured[0].Spec
		spec.Run = "profiled"
		failed = append(failed, b.API.Profile(ctx, rq.profiles, spec))
	}
	fmt.Fprintf(os.Stderr, "took %.0f s; load average at the end: %s\n", time.Since(began).Seconds(), report.LoadAverage())
	return b.Figures(), errors.Join(append(failed, ctx.Err())...)
}

// start starts both sides and writes what is read and listed.
func start(ctx context.Context, h *side.House, rq request) (*side.Bench, error) {
	ours, err := h.Hub(ctx)
	if err != nil {
		return nil, err
	}
	peer, err := h.Etcd(ctx)
	if err != nil {
		return nil, err
	}
	b := &side.Bench{Ours: ours, Peer: peer, Len: side.LengthsOf(rq.quick)}
	if b.API, err = h.API(ours); err != nil {
		return nil, err
	}
	if err := makeNamespace(ctx, h); err != nil {
		return nil, err
	}
	return b, errors.Join(b.API.Fill(ctx, keys), peer.Fill(ctx, keys))
}

func makeNamespace(ctx context.Context, h *side.House) (err error) {
	f, err := os.CreateTemp("", "namespace-*.yaml")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(f.Name())) }()
	_, err = fmt.Fprintf(f, "apiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n", side.CreatedIn)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if said, err := h.Drover(ctx, "apply", "-f", f.Name()); err != nil {
		return fmt.Errorf("make a namespace: %w: %s", err, said)
	}
	return nil
}

// rows stand beside what etcd does with bare keys of the same size. Only creates have an aim for their ratio.
func rows() []side.Row {
	of := func(op string, clients int) load.Spec {
		return load.Spec{Op: op, Clients: clients, Conns: min(clients, conns), ValueBytes: 256, Keys: keys}
	}
	put := of(load.OpPut, 100)
	sets, txns := of(load.OpBatch, 20), of(load.OpBatch, 20)
	sets.Batch, txns.Batch = perSet, perSet
	watch := of(load.OpWatchAll, 10)
	watch.Watchers, watch.Conns, watch.Keys = fanOut, conns, 1000
	return []side.Row{
		{Name: "create, 100 clients, against raw puts", Spec: of(load.OpCreate, 100), API: true, Rate: 0.5, Cost: true, Quick: true},
		{Name: "create, 1 client, against a raw put", Spec: of(load.OpCreate, 1), API: true, OnLeader: true},
		{Name: "update, 100 clients, against raw puts", Spec: put, API: true},
		{Name: "server-side apply, 100 clients, against raw puts", Spec: of(load.OpApply, 100), PeerSpec: &put, API: true, Quick: true},
		{Name: "transactions of 100, objects, against Txn of 100 puts", Spec: sets, PeerSpec: &txns, API: true, Per: perSet, Quick: true},
		{Name: "get, 100 clients, against a linearizable range", Spec: of(load.OpGet, 100), API: true, Quick: true},
		{Name: "list of 10,000, 1 client, against a range of as many", Spec: of(load.OpList, 1), API: true, Limit: listing, Quick: true},
		{Name: "watch fan-out to 1,000 clients, events", Spec: watch, API: true, Quick: true},
	}
}
