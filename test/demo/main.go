// Command demo is a newcomer's first five minutes: it sets up a three-member hub, three devices, a registry and a sample
// workload on this machine out of real parts, and takes all of it away again.
//
//	demo up     sets up what is missing and follows the rollout; running it twice is harmless
//	demo down   removes every process, container, mount, network namespace and file of the demo
//	demo serve  (started by up) the loopback registry and the devices' links, until SIGTERM
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/drover-fleet/drover/test/lab"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// demo is the fleet with the checkout that it is built from.
type demo struct {
	*lab.Fleet
	root string
}

func run(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return errors.New("usage: demo up|down")
	}
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		return errors.New("run this from the top of the checkout (make demo does)")
	}
	fleet, err := lab.Load(lab.Plan{
		Dir: filepath.Join(root, ".demo"), Bin: filepath.Join(root, "bin"), Prefix: "drover-demo-",
		Members: []lab.Member{
			{Name: "h1", API: "127.0.0.1:7443", Peer: "127.0.0.1:7444"},
			{Name: "h2", API: "127.0.0.1:7453", Peer: "127.0.0.1:7454"},
			{Name: "h3", API: "127.0.0.1:7463", Peer: "127.0.0.1:7464"},
		},
		Devices:  []string{"pi-01", "pi-02", "pi-03"},
		Registry: "127.0.0.1:5055",
		// Devices call every 20 s, so that somebody who stops one sees it Late and Offline within a minute.
		HubArgs: []string{"--poll", "20s"},
	})
	if err != nil {
		return err
	}
	d := &demo{fleet, root}
	switch args[0] {
	case "up":
		return d.up(ctx)
	case "down":
		return d.down(ctx)
	case "serve":
		return d.serve(ctx)
	}
	return fmt.Errorf("usage: demo up|down (not %q)", args[0])
}

// serve is the background process: registry and links.
func (d *demo) serve(ctx context.Context) error {
	r, err := lab.StartRegistry(d.Registry)
	if err != nil {
		return err
	}
	defer r.Close()
	img, err := lab.ProgramImage(d.Path("hello"), nil)
	if err != nil {
		return err
	}
	digest, err := lab.Push(ctx, d.Registry, "hello:1.0", img)
	if err != nil {
		return err
	}
	links, err := d.Links()
	defer func() {
		for _, of := range links {
			for _, l := range of {
				l.Cut()
			}
		}
	}()
	if err != nil {
		return err
	}
	if err := os.WriteFile(d.Path("serving"), []byte(digest), 0o644); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

func (d *demo) down(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if err := d.Down(ctx); err != nil {
		return fmt.Errorf("some of the demo is left: %w", err)
	}
	if err := os.RemoveAll(d.Dir); err != nil {
		return err
	}
	say("nothing is left of it")
	return nil
}
