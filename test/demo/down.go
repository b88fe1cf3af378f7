package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/drover-fleet/drover/test/lab"
)

// down removes everything, going on past what fails, so that one stuck part does not keep the rest.
func (d *demo) down(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	var errs []error
	stop := func(names ...string) {
		for _, n := range names {
			if p := d.procs[n]; p != nil {
				errs = append(errs, p.Stop(ctx, 10*time.Second))
			}
		}
	}
	stop(devices...)
	stop("h1", "h2", "h3", "serve")
	if p := d.procs["containerd"]; p != nil {
		c := &lab.Containerd{Dir: d.path("containerd"), Process: p}
		errs = append(errs, c.Remove(ctx))
	}
	for _, dev := range devices {
		errs = append(errs, lab.DeleteNetns(netnsOf(dev)))
	}
	errs = append(errs, lab.UnmountBelow(d.dir))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("some of the demo is left: %w", err)
	}
	if err := os.RemoveAll(d.dir); err != nil {
		return err
	}
	say("nothing is left of it")
	return nil
}
