package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
)

func labelCommand() *cli.Command {
	return &cli.Command{
		Name: "label", Usage: "set labels (key=value) or remove them (key-)", ArgsUsage: "KIND NAME|KIND/NAME key=value|key- ...",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "overwrite", Usage: "change a label that has another value"},
		},
		Action: label,
	}
}

// labelChange holds what to set and what to remove.
type labelChange struct {
	set    map[string]string
	remove []string
}

// splitLabels takes the arguments from the first one that is a label change.
func splitLabels(args []string) (names []string, change labelChange, err error) {
	change.set = map[string]string{}
	for i, a := range args {
		key, value, isSet := strings.Cut(a, "=")
		switch {
		case isSet && key != "":
			change.set[key] = value
		case i > 0 && strings.HasSuffix(a, "-") && len(a) > 1:
			change.remove = append(change.remove, strings.TrimSuffix(a, "-"))
		case len(change.set)+len(change.remove) > 0:
			return nil, change, usagef("%q is neither key=value nor key-", a)
		default:
			names = append(names, a)
		}
	}
	if len(change.set)+len(change.remove) == 0 {
		return nil, change, usagef("name at least one label, as site=north or site-")
	}
	return names, change, nil
}

func label(c *cli.Context) error {
	names, change, err := splitLabels(c.Args().Slice())
	if err != nil {
		return err
	}
	hub, err := connect(c)
	if err != nil {
		return err
	}
	_, list, err := refs(names, hub.namespace)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return usagef("name the objects to label")
	}
	for _, r := range list {
		action, err := labelOne(c, hub, r, change)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(c.App.Writer, "%s/%s %s\n", r.Kind.Singular, r.Name, action); err != nil {
			return err
		}
	}
	return nil
}

// labelOne reads, changes and writes with the read version as precondition, again when someone else was quicker.
func labelOne(c *cli.Context, hub *connection, r api.Ref, change labelChange) (string, error) {
	for {
		obj, err := hub.Get(c.Context, r, client.GetOptions{})
		if err != nil {
			return "", err
		}
		next := obj.DeepCopyObject()
		changed, err := change.on(next, c.Bool("overwrite"))
		if err != nil {
			return "", fmt.Errorf("%s/%s: %w", r.Kind.Singular, r.Name, err)
		}
		if !changed {
			return "unchanged", nil
		}
		_, err = hub.Update(c.Context, next, client.WriteOptions{FieldManager: "drover-label"})
		if err == nil {
			return "labeled", nil
		}
		if fault.ClassOf(err) != fault.Conflict || errors.Is(c.Context.Err(), err) {
			return "", err
		}
	}
}

func (l labelChange) on(o api.Object, overwrite bool) (changed bool, err error) {
	labels := o.Meta().Labels
	for k, v := range l.set {
		old, has := labels[k]
		if has && old != v && !overwrite {
			return false, fmt.Errorf("label %s is %q already; --overwrite changes it", k, old)
		}
		if !has || old != v {
			if labels == nil {
				labels = map[string]string{}
			}
			labels[k], changed = v, true
		}
	}
	for _, k := range l.remove {
		if _, has := labels[k]; has {
			delete(labels, k)
			changed = true
		}
	}
	o.Meta().Labels = labels
	return changed, nil
}
