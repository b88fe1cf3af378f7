package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
)

func deleteCommand() *cli.Command {
	return &cli.Command{
		Name: "delete", Usage: "delete objects; what ran for them stops on the devices", ArgsUsage: "KIND NAME... | KIND/NAME...",
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "filename", Aliases: []string{"f"}, Usage: "delete what this manifest `FILE` names"},
			&cli.BoolFlag{Name: "ignore-not-found", Usage: "exit 0 when there was nothing to delete"},
			&cli.BoolFlag{Name: "wait", Value: true, Usage: "wait until the objects are gone"},
			&cli.DurationFlag{Name: "timeout", Value: time.Minute, Usage: "with --wait, give up after `DURATION` (exit code 4)"},
		},
		Action: deleteObjects,
	}
}

func deleteObjects(c *cli.Context) error {
	hub, list, err := deleteTargets(c)
	if err != nil {
		return err
	}
	var errs []error
	var marked []doomed
	for _, r := range list {
		d, err := deleteOne(c.Context, hub, r)
		switch {
		case err == nil:
			marked = append(marked, d)
		case fault.Is(err, fault.NotFound) && c.Bool("ignore-not-found"):
		default:
			errs = append(errs, err)
		}
	}
	ctx, cancel := context.WithTimeout(c.Context, c.Duration("timeout"))
	defer cancel()
	for _, d := range marked {
		if c.Bool("wait") {
			if err := waitOne(ctx, c.App.ErrWriter, hub, d.ref, gone(d.uid)); err != nil {
				errs = append(errs, timedOut(err, "deletion of "+title(d.ref), c.Duration("timeout")))
				continue
			}
		}
		if _, err := fmt.Fprintln(c.App.Writer, title(d.ref), "deleted"); err != nil {
			return err
		}
	}
	return errors.Join(errs...)
}

// doomed is an object whose deletion the hub took. The name may soon belong to another one, the uid never.
type doomed struct {
	ref api.Ref
	uid string
}

func deleteOne(ctx context.Context, hub client.Client, r api.Ref) (doomed, error) {
	obj, err := hub.Get(ctx, r, client.GetOptions{})
	if err != nil {
		return doomed{}, err
	}
	return doomed{r, obj.Meta().UID}, hub.Delete(ctx, r, client.DeleteOptions{})
}

func deleteTargets(c *cli.Context) (*connection, []api.Ref, error) {
	files := c.StringSlice("filename")
	if len(files) == 0 {
		return named(c, c.Args().Slice())
	}
	if c.Args().Present() {
		return nil, nil, usagef("give either names or -f, not both")
	}
	items, err := readManifests(c.App.Reader, files)
	if err != nil {
		return nil, nil, err
	}
	hub, err := connect(c)
	if err != nil {
		return nil, nil, err
	}
	if err := hub.setNamespaces(items); err != nil {
		return nil, nil, err
	}
	var list []api.Ref
	for _, it := range slices.Backward(items) { // what was declared last goes first: content before its namespace
		r, _ := api.RefOf(it.Object)
		list = append(list, r)
	}
	return hub, list, nil
}
