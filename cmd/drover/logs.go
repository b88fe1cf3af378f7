package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/client/remote"
)

func logsCommand() *cli.Command {
	return &cli.Command{
		Name: "logs", Usage: "what containers print, from the devices themselves", ArgsUsage: "WORKLOAD | workload/NAME | assignment/NAME",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "container", Aliases: []string{"c"}, Usage: "`NAME` of the container (default: the only one)"},
			&cli.StringSliceFlag{Name: "device", Usage: "only from this device; may be repeated"},
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "go on as lines come"},
			&cli.Int64Flag{Name: "tail", Value: -1, Usage: "begin with the last `N` lines (default: all that is kept)"},
			&cli.BoolFlag{Name: "previous", Usage: "of the container before its last restart"},
		},
		Action: logs,
	}
}

func logs(c *cli.Context) error {
	if c.NArg() != 1 {
		return usagef("name one workload or assignment")
	}
	if n := c.Int64("tail"); n < -1 {
		return usagef("--tail takes a number of lines, not %d", n)
	}
	arg := c.Args().First()
	if !strings.Contains(arg, "/") {
		arg = "workload/" + arg
	}
	_, list, err := refs([]string{arg})
	if err != nil {
		return err
	}
	if k := list[0].Kind; k != api.KindWorkload && k != api.KindAssignment {
		return usagef("logs are of a workload or an assignment, not of a %s", k.Singular)
	}
	hub, err := connect(c)
	if err != nil {
		return err
	}
	copies, err := copiesOf(c.Context, hub, hub.place(list)[0], c.StringSlice("device"))
	if err != nil {
		return err
	}
	rq := remote.LogOptions{Container: c.String("container"), Follow: c.Bool("follow"), Previous: c.Bool("previous")}
	if n := c.Int64("tail"); n >= 0 {
		rq.TailLines = &n
	}
	out, notes := &lineWriter{w: c.App.Writer}, &lineWriter{w: c.App.ErrWriter}
	if len(copies) == 1 {
		return copyLog(c.Context, hub, copies[0], rq, "", out)
	}
	return readLogs(c.Context, hub, copies, rq, out, notes)
}

// readLogs reads one log after the other, so that what belongs together stands together, or follows all at once. What can be read is
// shown, whatever stands in the way of the others; that is told as soon as it is known.
func readLogs(ctx context.Context, hub *connection, copies []*api.Assignment, rq remote.LogOptions, out, notes *lineWriter) error {
	var wg sync.WaitGroup
	errs := make([]error, len(copies))
	for i, a := range copies {
		wg.Go(func() {
			if errs[i] = copyLog(ctx, hub, a, rq, a.Spec.Device+" ", out); errs[i] != nil {
				_ = notes.write("", []byte(errs[i].Error()), true) // the exit code tells it too
			}
		})
		if !rq.Follow {
			wg.Wait()
		}
	}
	wg.Wait()
	failed := slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(failed) == 0 {
		return nil
	}
	return fault.WithExit(fault.ExitCode(failed[0]), fmt.Errorf("%d of %d logs could not be read to their end", len(failed), len(copies)))
}

// copiesOf are the bound copies that the reference and the devices (none: all) name.
func copiesOf(ctx context.Context, hub client.Client, r api.Ref, devices []string) ([]*api.Assignment, error) {
	obj, err := hub.Get(ctx, r, client.GetOptions{})
	if err != nil {
		return nil, err
	}
	found := []api.Object{obj}
	if r.Kind == api.KindWorkload {
		found, err = listAll(ctx, hub, api.KindAssignment, client.ListOptions{Namespace: r.Namespace, FieldSelector: "spec.workload=" + r.Name})
		if err != nil {
			return nil, err
		}
	}
	var out []*api.Assignment
	for _, o := range found {
		a := o.(*api.Assignment)
		if a.Spec.Device != "" && (len(devices) == 0 || slices.Contains(devices, a.Spec.Device)) {
			out = append(out, a)
		}
	}
	switch {
	case len(out) > 0:
		return out, nil
	case len(devices) > 0:
		return nil, fmt.Errorf("%s has no copy on %s", title(r), strings.Join(devices, ", "))
	}
	return nil, fmt.Errorf("%s has no copy on a device yet", title(r))
}

// offline is the error of a device that is known to be away: it answers at once, where the hub would look for the device's link on
// every member first. Nil for one that may answer, and where the asker may not see devices: who may read a log need not.
func offline(ctx context.Context, hub client.Client, device string) error {
	obj, err := hub.Get(ctx, api.Ref{Kind: api.KindDevice, Name: device}, client.GetOptions{})
	if fault.Is(err, fault.Forbidden) {
		return nil
	}
	if err != nil {
		return err
	}
	d := obj.(*api.Device)
	c := api.FindCondition(d.Status.Conditions, "Connected")
	if c == nil || c.Status != api.False {
		return nil
	}
	last := "no contact known"
	if t := d.Status.LastContact; !t.IsZero() {
		last = "last contact " + age(t, time.Now()) + " ago"
	}
	return fault.WithExit(fault.ExitPending, fmt.Errorf("device %s is offline (%s); its log can be read when it is back", device, last))
}

func copyLog(ctx context.Context, hub *connection, a *api.Assignment, rq remote.LogOptions, prefix string, out *lineWriter) error {
	if err := offline(ctx, hub, a.Spec.Device); err != nil {
		return fmt.Errorf("logs of %s: %w", a.Metadata.Name, err)
	}
	body, err := hub.remote.Logs(ctx, a.Metadata.Namespace, a.Metadata.Name, rq)
	if fault.Is(err, fault.Unavailable) { // the hub answered the reads before: it is the device's link that is gone
		err = fault.WithExit(fault.ExitPending, err)
	}
	if err != nil {
		return fmt.Errorf("logs of %s: %w", a.Metadata.Name, err)
	}
	defer body.Close()
	err = out.copy(prefix, body)
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("logs of %s ended early: %w", a.Metadata.Name, err)
	}
	return nil
}

// maxLine is how much of one line of a log is held back until its end comes, in bytes; a longer line is written in pieces.
const maxLine = 64 << 10

// lineWriter keeps the lines of several copies whole.
type lineWriter struct {
	mu sync.Mutex
	w  io.Writer // guarded by mu
}

// copy writes every line of r behind the prefix. With one, a last line that lacks its end gets it, so that the next copy's begins a line
// of its own.
func (l *lineWriter) copy(prefix string, r io.Reader) error {
	in := bufio.NewReaderSize(r, maxLine)
	for {
		line, err := in.ReadSlice('\n')
		whole := len(line) > 0 && line[len(line)-1] == '\n'
		if len(line) > 0 {
			if werr := l.write(prefix, line, prefix != "" && !whole); werr != nil {
				return werr
			}
		}
		switch {
		case err == nil || errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			return nil
		default:
			return err
		}
	}
}

func (l *lineWriter) write(prefix string, line []byte, end bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := append([]byte(prefix), line...)
	if end {
		b = append(b, '\n')
	}
	_, err := l.w.Write(b)
	return err
}
