package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
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
	hub, err := connect(c)
	if err != nil {
		return err
	}
	kind, names, err := refs(c.Args().Slice(), hub.namespace)
	if err != nil {
		return err
	}
	if len(names) > 0 && (c.String("selector") != "" || c.String("field-selector") != "") {
		return usagef("give either names or a selector, not both")
	}
	o := client.ListOptions{LabelSelector: c.String("selector"), FieldSelector: c.String("field-selector")}
	if kind.Namespaced && !c.Bool("all-namespaces") {
		o.Namespace = hub.namespace
	}
	table := output == "" || output == "table" || output == "wide"
	switch {
	case c.Bool("watch") && !table:
		return usagef("--watch shows tables only; use -o table or wide")
	case table:
		return getTable(c, hub, kind, names, o, output == "wide")
	}
	objects, err := getObjects(c.Context, hub, kind, names, o)
	if err != nil {
		return err
	}
	return printList(c.App.Writer, output, objects, len(names) == 1)
}

// printList prints one named object as itself, and a list always as a List, however many it holds.
func printList(w io.Writer, output string, objects []api.Object, single bool) error {
	if output == "json" && !single {
		return printJSONList(w, objects)
	}
	return printObjects(w, output, objects)
}

func getObjects(ctx context.Context, hub *connection, kind *api.Kind, names []api.Ref, o client.ListOptions) ([]api.Object, error) {
	var objects []api.Object
	if len(names) > 0 {
		var errs []error
		for _, r := range names {
			obj, err := hub.Get(ctx, r, client.GetOptions{})
			if err != nil {
				errs = append(errs, err)
				continue
			}
			objects = append(objects, obj)
		}
		return objects, errors.Join(errs...)
	}
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

func getTable(c *cli.Context, hub *connection, kind *api.Kind, names []api.Ref, o client.ListOptions, wide bool) error {
	if c.Bool("watch") && len(names) > 1 {
		return usagef("--watch takes one name at most")
	}
	p := &rowPrinter{w: c.App.Writer, wide: wide, namespaces: kind.Namespaced && o.Namespace == "", headers: !c.Bool("no-headers")}
	if len(names) == 0 {
		t, err := hub.remote.Table(c.Context, kind, "", o)
		if err != nil {
			return err
		}
		if len(t.Rows) == 0 && !c.Bool("watch") {
			fmt.Fprintf(c.App.ErrWriter, "no %s found\n", kind.Plural)
			return nil
		}
		if err := p.table(t); err != nil || !c.Bool("watch") {
			return err
		}
		return watchRows(c, hub, kind, o, t.Meta.ResourceVersion, p)
	}
	var errs []error
	all := &remote.Table{}
	for _, r := range names {
		t, err := hub.remote.Table(c.Context, kind, r.Name, client.ListOptions{Namespace: r.Namespace})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		all.Columns, all.Meta = t.Columns, t.Meta
		all.Rows = append(all.Rows, t.Rows...)
	}
	errs = append(errs, p.table(all))
	if err := errors.Join(errs...); err != nil || !c.Bool("watch") {
		return err
	}
	o.FieldSelector = "metadata.name=" + names[0].Name
	return watchRows(c, hub, kind, o, all.Meta.ResourceVersion, p)
}

// watchRows goes on from a revision, across failures of hub members.
func watchRows(c *cli.Context, hub *connection, kind *api.Kind, o client.ListOptions, from string, p *rowPrinter) error {
	for {
		err := hub.remote.WatchTable(c.Context, kind, client.WatchOptions{
			Namespace: o.Namespace, LabelSelector: o.LabelSelector, FieldSelector: o.FieldSelector, ResourceVersion: from,
		}, func(typ client.EventType, r remote.Row) error {
			if rv := r.Object.Metadata.ResourceVersion; rv != "" {
				from = rv
			}
			return p.row(r, typ == client.Deleted)
		})
		if c.Context.Err() != nil {
			return nil
		}
		if err != nil && !passing(err) {
			return err
		}
		if fault.Is(err, fault.Expired, fault.OtherEpoch) {
			fmt.Fprintln(c.App.ErrWriter, "changes were missed; showing the present state again")
			t, err := hub.remote.Table(c.Context, kind, "", o)
			if err != nil {
				return err
			}
			from = t.Meta.ResourceVersion
			if err := p.table(t); err != nil {
				return err
			}
		}
		select {
		case <-time.After(retryPause):
		case <-c.Context.Done():
			return nil
		}
	}
}

// rowPrinter prints tables whose columns the hub decided. Rows that come later use the widths of the first table.
type rowPrinter struct {
	w                         io.Writer
	wide, namespaces, headers bool
	shown                     []int // indexes of the columns that are printed
	widths                    []int
}

func (p *rowPrinter) table(t *remote.Table) error {
	if len(t.Columns) == 0 {
		return nil
	}
	p.shown = p.shown[:0]
	var head []string
	for i, col := range t.Columns {
		if p.wide || col.Priority == 0 {
			p.shown = append(p.shown, i)
			head = append(head, strings.ToUpper(strings.ReplaceAll(col.Name, " ", "-")))
		}
	}
	if p.namespaces {
		head = append([]string{"NAMESPACE"}, head...)
	}
	lines := make([][]string, 0, len(t.Rows)+1)
	if p.headers {
		lines = append(lines, head)
	}
	for _, r := range t.Rows {
		lines = append(lines, p.cells(r, false))
	}
	p.widths = make([]int, len(head))
	tw := tabwriter.NewWriter(p.w, 0, 8, 3, ' ', 0)
	for _, l := range lines {
		for i, cell := range l {
			p.widths[i] = max(p.widths[i], len(cell))
		}
		fmt.Fprintln(tw, strings.Join(l, "\t"))
	}
	return tw.Flush()
}

func (p *rowPrinter) cells(r remote.Row, gone bool) []string {
	var out []string
	if p.namespaces {
		out = append(out, r.Object.Metadata.Namespace)
	}
	for n, i := range p.shown {
		text := "-"
		if i < len(r.Cells) && r.Cells[i] != nil && r.Cells[i] != "" {
			text = fmt.Sprint(r.Cells[i])
		}
		if gone && n == 0 {
			text += " (deleted)"
		}
		out = append(out, text)
	}
	return out
}

func (p *rowPrinter) row(r remote.Row, gone bool) error {
	var b strings.Builder
	for i, cell := range p.cells(r, gone) {
		width := 0
		if i < len(p.widths) {
			width = p.widths[i]
		}
		fmt.Fprintf(&b, "%-*s   ", width, cell)
	}
	_, err := fmt.Fprintln(p.w, strings.TrimRight(b.String(), " "))
	return err
}
