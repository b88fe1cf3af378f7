package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/client/remote"
)

func getCommand() *cli.Command {
	return &cli.Command{
		Name: "get", Usage: "list objects, or show some", ArgsUsage: "KIND [NAME...] | KIND/NAME...",
		Flags: []cli.Flag{
			outputFlag("table", "wide", "json", "yaml", "name"),
			&cli.StringFlag{Name: "selector", Aliases: []string{"l"}, Usage: "only objects whose labels match, `k=v,...`"},
			&cli.StringFlag{Name: "field-selector", Usage: "only objects whose fields match, as `spec.device=pi-07`"},
			&cli.BoolFlag{Name: "all-namespaces", Aliases: []string{"A"}, Usage: "of all namespaces"},
			&cli.BoolFlag{Name: "watch", Aliases: []string{"w"}, Usage: "go on with a line for every change"},
			&cli.BoolFlag{Name: "no-headers", Usage: "leave the line of column names out"},
		},
		Action: get,
	}
}

func get(c *cli.Context) error {
	output, err := outputOf(c, "table", "wide", "json", "yaml", "name")
	if err != nil {
		return err
	}
	kind, names, err := refs(c.Args().Slice())
	if err != nil {
		return err
	}
	table := output == "" || output == "table" || output == "wide"
	if err := getUsage(c, names, table); err != nil {
		return err
	}
	hub, err := connect(c)
	if err != nil {
		return err
	}
	o := client.ListOptions{LabelSelector: c.String("selector"), FieldSelector: c.String("field-selector")}
	if kind.Namespaced && !c.Bool("all-namespaces") {
		o.Namespace = hub.namespace
	}
	g := getter{c, hub, o, output == "wide"}
	switch {
	case table && len(names) > 0:
		return g.tables(hub.place(names))
	case table:
		return g.list(kind)
	case len(names) == 0:
		objects, err := g.all(kind)
		if err != nil {
			return err
		}
		return printList(c.App.Writer, output, objects, false)
	}
	objects, missing := g.each(hub.place(names))
	if len(objects) > 0 {
		missing = errors.Join(printList(c.App.Writer, output, objects, len(names) == 1), missing)
	}
	return missing
}

// getUsage refuses flags that contradict each other.
func getUsage(c *cli.Context, names []api.Ref, table bool) error {
	switch {
	case c.Bool("watch") && !table:
		return usagef("--watch shows tables only; use -o table or wide")
	case c.Bool("watch") && len(names) > 1:
		return usagef("--watch takes one name at most")
	case len(names) > 0 && (c.String("selector") != "" || c.String("field-selector") != ""):
		return usagef("give either names or a selector, not both")
	case len(names) > 0 && c.Bool("all-namespaces"):
		return usagef("a name is looked for in one namespace; leave -A out")
	}
	return nil
}

// getter is one run of the command.
type getter struct {
	c    *cli.Context
	hub  *connection
	opts client.ListOptions
	wide bool
}

// printList prints one named object as itself, and a list always as a List, however many it holds.
func printList(w io.Writer, output string, objects []api.Object, single bool) error {
	if output == "json" && !single {
		return printJSONList(w, objects)
	}
	return printObjects(w, output, objects)
}

// each reads the objects one by one; those that cannot be had are in the error.
func (g getter) each(names []api.Ref) ([]api.Object, error) {
	var objects []api.Object
	var errs []error
	for _, r := range names {
		obj, err := g.hub.Get(g.c.Context, r, client.GetOptions{})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		objects = append(objects, obj)
	}
	return objects, errors.Join(errs...)
}

func (g getter) all(kind *api.Kind) ([]api.Object, error) {
	return listAll(g.c.Context, g.hub, kind, g.opts)
}

// listAll reads all pages.
func listAll(ctx context.Context, hub client.Client, kind *api.Kind, o client.ListOptions) ([]api.Object, error) {
	var objects []api.Object
	o.Limit = 500
	for {
		page, err := hub.List(ctx, kind, o)
		if err != nil {
			return nil, err
		}
		objects = append(objects, page.Items...)
		if o.Continue = page.Continue; o.Continue == "" {
			return objects, nil
		}
	}
}

func (g getter) printer(kind *api.Kind, namespaces bool) *rowPrinter {
	return &rowPrinter{w: g.c.App.Writer, wide: g.wide, namespaces: kind.Namespaced && namespaces, headers: !g.c.Bool("no-headers")}
}

// list shows the objects of a kind, and with --watch their changes.
func (g getter) list(kind *api.Kind) error {
	p := g.printer(kind, g.opts.Namespace == "")
	t, err := g.hub.remote.Table(g.c.Context, kind, "", g.opts)
	if err != nil {
		return err
	}
	if len(t.Rows) == 0 && !g.c.Bool("watch") {
		fmt.Fprintf(g.c.App.ErrWriter, "no %s found\n", kind.Plural)
		return nil
	}
	if kind == api.KindEvent {
		slices.SortStableFunc(t.Rows, newestLast)
	}
	if err := p.table(t); err != nil || !g.c.Bool("watch") {
		return err
	}
	w := rowWatch{hub: g.hub.remote, kind: kind, opts: g.opts, from: t.Meta.ResourceVersion, p: p, notes: g.c.App.ErrWriter}
	return w.run(g.c.Context)
}

// newestLast orders rows by their objects' last writes. Revisions are decimal numbers without leading zeros.
func newestLast(a, b remote.Row) int {
	x, y := a.Object.Metadata.ResourceVersion, b.Object.Metadata.ResourceVersion
	return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y))
}

// tables shows named objects, a table for each kind in the order in which they were named.
func (g getter) tables(names []api.Ref) error {
	var kinds []*api.Kind
	found := map[*api.Kind]*remote.Table{}
	var errs []error
	for _, r := range names {
		t, err := g.hub.remote.Table(g.c.Context, r.Kind, r.Name, client.ListOptions{Namespace: r.Namespace})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if all := found[r.Kind]; all != nil {
			all.Rows = append(all.Rows, t.Rows...)
			continue
		}
		kinds = append(kinds, r.Kind)
		found[r.Kind] = t
	}
	var p *rowPrinter
	for i, k := range kinds {
		if i > 0 {
			fmt.Fprintln(g.c.App.Writer)
		}
		p = g.printer(k, false)
		errs = append(errs, p.table(found[k]))
	}
	if err := errors.Join(errs...); err != nil || !g.c.Bool("watch") {
		return err
	}
	r := names[0]
	o := client.ListOptions{Namespace: r.Namespace, FieldSelector: "metadata.name=" + r.Name}
	w := rowWatch{hub: g.hub.remote, kind: r.Kind, opts: o, from: found[r.Kind].Meta.ResourceVersion, p: p, notes: g.c.App.ErrWriter}
	return w.run(g.c.Context)
}
