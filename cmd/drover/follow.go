package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
)

// retryPause is how long a wait pauses after the hub could not be asked; a failover takes a second or two.
const retryPause = 500 * time.Millisecond

// source is a set of objects whose changes wake a wait.
type source struct {
	kind *api.Kind
	opts client.WatchOptions
}

// follow calls look at once and after every change of the sources until it says done or fails for good, or ctx ends. It
// survives a hub member's failure: what is passing (no leader, unreachable, compacted) is said once on notes and tried
// again. look is called from one goroutine.
func follow(ctx context.Context, hub client.Client, notes io.Writer, sources []source, look func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithCancel(ctx)
	wake := make(chan struct{}, 1)
	ended := make(chan struct{}, len(sources))
	for _, s := range sources {
		go func() {
			defer func() { ended <- struct{}{} }()
			poke(ctx, hub, s, wake)
		}()
	}
	defer func() {
		cancel()
		for range sources {
			<-ended
		}
	}()
	lost := false
	for {
		done, err := look(ctx)
		switch {
		case err == nil && done:
			return nil
		case err == nil && lost:
			lost = false
			fmt.Fprintln(notes, "the hub answers again")
		case err != nil && !passing(err):
			return err
		case err != nil && ctx.Err() == nil && !lost:
			lost = true
			fmt.Fprintf(notes, "%v; trying again\n", err)
		}
		if err := wait(ctx, wake, lost); err != nil {
			return err
		}
	}
}

// wait ends with a change, and soon after in any case if asked.
func wait(ctx context.Context, wake <-chan struct{}, soon bool) error {
	var again <-chan time.Time // never, unless soon
	if soon {
		again = time.After(retryPause)
	}
	select {
	case <-wake:
	case <-again:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// poke watches one source and signals every change, and every new start of the watch, since something may have been missed.
func poke(ctx context.Context, hub client.Client, s source, wake chan<- struct{}) {
	signal := func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
	for ctx.Err() == nil {
		w, err := hub.Watch(ctx, s.kind, s.opts)
		for err == nil {
			if _, err = w.Next(ctx); err == nil {
				signal()
			}
		}
		if w != nil {
			w.Close()
		}
		select {
		case <-time.After(retryPause):
			signal()
		case <-ctx.Done():
		}
	}
}

// passing tells errors that another try may cure.
func passing(err error) bool {
	switch fault.ClassOf(err) {
	case fault.Unavailable, fault.Unreachable, fault.Timeout, fault.TooManyRequests, fault.Ahead, fault.Expired, fault.OtherEpoch:
		return true
	}
	return errors.Is(err, context.DeadlineExceeded)
}

// timedOut turns the end of a wait's own time into exit code 4.
func timedOut(err error, what string, after time.Duration) error {
	if errors.Is(err, context.DeadlineExceeded) {
		stands := strings.TrimPrefix(err.Error(), context.DeadlineExceeded.Error())
		return fault.WithExit(fault.ExitStillGoing, fmt.Errorf("%s: not done after %s%s; it goes on", what, after, stands))
	}
	return err
}
