// Command demo is a newcomer's first five minutes: it sets up a three-member hub, three devices, a registry and a sample
// workload on this machine out of real parts, and takes all of it away again.
//
//	demo up     sets up what is missing and follows the rollout; running it twice is harmless
//	demo down   removes every process, container, mount, network namespace and file of the demo
//	demo serve  (started by up) the loopback registry and the devices' links, until SIGTERM
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("usage: demo up|down")
	}
	d, err := newDemo()
	if err != nil {
		return err
	}
	switch args[0] {
	case "up":
		return d.up(ctx)
	case "down":
		return d.down(ctx)
	case "serve":
		return d.serve(ctx)
	default:
		return fmt.Errorf("usage: demo up|down (not %q)", args[0])
	}
}
