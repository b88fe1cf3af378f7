// Command run is make chaos: a hub of three real processes under faults for a while, and a table of what held.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/drover-fleet/drover/test/chaos"
)

// exitBroken is the exit code for a rule that did not hold.
const exitBroken = 6

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	held, err := run(ctx)
	stop()
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	case !held:
		os.Exit(exitBroken)
	}
}

func run(ctx context.Context) (held bool, err error) {
	length := flag.Duration("time", time.Minute, "how long faults come")
	seed := flag.Uint64("seed", rand.Uint64(), "of the schedule and of what clients do") //nolint:gosec // a schedule
	root := flag.String("root", ".", "the tree to build the members from")
	flag.Parse()
	if os.Geteuid() != 0 {
		return false, errors.New("it needs root: network namespaces and mounts")
	}
	dir, err := os.MkdirTemp("", "drc")
	if err != nil {
		return false, err
	}
	fmt.Printf("seed %d, logs in %s\n", *seed, dir)
	binary := filepath.Join(dir, "drover-hub")
	if err := chaos.Build(ctx, *root, binary); err != nil {
		return false, err
	}
	v, err := chaos.Run(ctx, chaos.Config{Dir: dir, Binary: binary, Seed: *seed, Time: *length, Out: os.Stdout})
	if err != nil {
		return false, fmt.Errorf("%w; logs are in %s", err, dir)
	}
	if err := v.Print(os.Stdout); err != nil || !v.OK() {
		return false, err
	}
	return true, os.RemoveAll(dir)
}
