package main

import (
	"context"
	"errors"
	"fmt"
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
	hub, err := connect(c)
	if err != nil {
		return err
	}
	list, err := deleteTargets(c, hub.namespace)
	if err != nil {
		return err
	}
	var errs []error
	var gone []api.Ref
	for _, r := range list {
		err := hub.Delete(c.Context, r, client.DeleteOptions{})
		switch {
		case err == nil:
			gone = append(gone, r)
		case fault.ClassOf(err) == fault.NotFound && c.Bool("ignore-not-found"):
		default:
			errs = append(errs, err)
		}
	}
	ctx, cancel := context.WithTimeout(c.Context, c.Duration("timeout"))
	defer cancel()
	for _, r := range gone {
		if c.Bool("wait") {
			if err := waitOne(ctx, c, hub, r, nil); err != nil {
				errs = append(errs, timedOut(err, "deletion of "+r.Kind.Singular+"/"+r.Name, c.Duration("timeout")))
				continue
			}
		}
		fmt.Fprintf(c.App.Writer, "%s/%s deleted\n", r.Kind.Singular, r.Name)
	}
	return errors.Join(errs...)
}

func deleteTargets(c *cli.Context, namespace string) ([]api.Ref, error) {
	files := c.StringSlice("filename")
	if len(files) == 0 {
		_, list, err := refs(c.Args().Slice(), namespace)
		if err == nil && len(list) == 0 {
			err = usagef("name the objects to delete")
		}
		return list, err
	}
	if c.Args().Present() {
		return nil, usagef("give either names or -f, not both")
	}
	items, err := readManifests(c.App.Reader, files)
	if err != nil {
		return nil, err
	}
	var list []api.Ref
	for i := len(items) - 1; i >= 0; i-- { // what was declared last goes first: content before its namespace
		o := items[i].Object
		setNamespace(o, namespace)
		k, ok := api.KindOf(o.Type().APIVersion, o.Type().Kind)
		if !ok {
			return nil, fmt.Errorf("%s: unknown kind %s", items[i].File, o.Type().Kind)
		}
		list = append(list, ref(k, o.Meta().Namespace, o.Meta().Name))
	}
	return list, nil
}
