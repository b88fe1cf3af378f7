package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/urfave/cli/v2"

	"github.com/drover-fleet/drover/api"
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
	hub, err := connect(c)
	if err != nil {
		return err
	}
	copies, err := logTargets(c, hub)
	if err != nil {
		return err
	}
	rq := remote.LogOptions{Container: c.String("container"), Follow: c.Bool("follow"), Previous: c.Bool("previous")}
	if n := c.Int64("tail"); n >= 0 {
		rq.TailLines = &n
	}
	out := &lineWriter{w: c.App.Writer}
	var wg sync.WaitGroup
	errs := make([]error, len(copies))
	for i, a := range copies {
		prefix := ""
		if len(copies) > 1 {
			prefix = a.Spec.Device + " "
		}
		wg.Go(func() { errs[i] = copyLog(c.Context, hub, a, rq, prefix, out) })
		if !rq.Follow {
			wg.Wait() // one after the other, so that what belongs together stands together
		}
	}
	wg.Wait()
	return errors.Join(errs...)
}

// logTargets are the bound copies that the argument and --device name.
func logTargets(c *cli.Context, hub *connection) ([]*api.Assignment, error) {
	arg := c.Args().First()
	if !strings.Contains(arg, "/") {
		arg = "workload/" + arg
	}
	kind, list, err := refs([]string{arg}, hub.namespace)
	if err != nil {
		return nil, err
	}
	var found []api.Object
	switch kind {
	case api.KindAssignment:
		obj, err := hub.Get(c.Context, list[0], client.GetOptions{})
		if err != nil {
			return nil, err
		}
		found = []api.Object{obj}
	case api.KindWorkload:
		if _, err := hub.Get(c.Context, list[0], client.GetOptions{}); err != nil {
			return nil, err
		}
		l, err := hub.List(c.Context, api.KindAssignment, client.ListOptions{Namespace: hub.namespace, FieldSelector: "spec.workload=" + list[0].Name})
		if err != nil {
			return nil, err
		}
		found = l.Items
	default:
		return nil, usagef("logs are of a workload or an assignment, not of a %s", kind.Singular)
	}
	var out []*api.Assignment
	for _, o := range found {
		a := o.(*api.Assignment)
		if a.Spec.Device != "" && (len(c.StringSlice("device")) == 0 || contains(c.StringSlice("device"), a.Spec.Device)) {
			out = append(out, a)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s has no copy on a device that was asked for", arg)
	}
	return out, nil
}

func copyLog(ctx context.Context, hub *connection, a *api.Assignment, rq remote.LogOptions, prefix string, out *lineWriter) error {
	body, err := hub.remote.Logs(ctx, a.Metadata.Namespace, a.Metadata.Name, rq)
	if err != nil {
		return fmt.Errorf("logs of %s: %w", a.Metadata.Name, err)
	}
	defer body.Close()
	r := bufio.NewReaderSize(body, 64<<10)
	for {
		line, err := r.ReadSlice('\n')
		if len(line) > 0 {
			if werr := out.write(prefix, line); werr != nil {
				return werr
			}
		}
		switch {
		case err == nil || errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) || ctx.Err() != nil:
			return nil
		default:
			return fmt.Errorf("logs of %s ended early: %w", a.Metadata.Name, err)
		}
	}
}

// lineWriter keeps the lines of several copies whole.
type lineWriter struct {
	mu sync.Mutex
	w  io.Writer // guarded by mu
}

func (l *lineWriter) write(prefix string, line []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := io.WriteString(l.w, prefix); err != nil {
		return err
	}
	_, err := l.w.Write(line)
	return err
}
