package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/drover-fleet/drover/api"
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
	for _, k := range change.remove {
		if _, both := change.set[k]; both {
			return nil, change, usagef("label %s is both set and removed", k)
		}
	}
	if len(change.set)+len(change.remove) == 0 {
		return nil, change, usagef("name at least one label, as site=north or site-")
	}
	return names, change, nil
}

func label(c *cli.Context) error {
	names, want, err := splitLabels(c.Args().Slice())
	if err != nil {
		return err
	}
	hub, list, err := named(c, names)
	if err != nil {
		return err
	}
	for _, r := range list {
		changed, err := change(c.Context, hub, r, "drover-label", func(o api.Object) (bool, error) { return want.on(o, c.Bool("overwrite")) })
		if err != nil {
			return fmt.Errorf("%s: %w", title(r), err)
		}
		action := "unchanged"
		if changed {
			action = "labeled"
		}
		if _, err := fmt.Fprintln(c.App.Writer, title(r), action); err != nil {
			return err
		}
	}
	return nil
}

func (l labelChange) on(o api.Object, overwrite bool) (changed bool, err error) {
	labels := o.Meta().Labels
	for _, k := range slices.Sorted(maps.Keys(l.set)) {
		v := l.set[k]
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
