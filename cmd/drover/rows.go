package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/client/remote"
)

// tables is what a hub renders; a remote.Client is one.
type tables interface {
	Table(ctx context.Context, k *api.Kind, name string, o client.ListOptions) (*remote.Table, error)
	WatchTable(ctx context.Context, k *api.Kind, o client.WatchOptions, row func(client.EventType, remote.Row) error) error
}

// rowWatch prints a row for every change after a revision, across failures of hub members, until its context ends. Where changes
// were missed it says so and shows the present state again.
type rowWatch struct {
	hub   tables
	kind  *api.Kind
	opts  client.ListOptions
	from  string // the last revision seen; "" = unknown: the present state is shown first
	p     *rowPrinter
	notes io.Writer
	lost  bool // the hub does not answer, and that was said
}

func (w *rowWatch) run(ctx context.Context) error {
	for {
		err := w.once(ctx)
		switch {
		case ctx.Err() != nil:
			return nil // ended by whoever watches
		case err != nil && !passing(err):
			return err
		case fault.Is(err, fault.Expired, fault.OtherEpoch):
			fmt.Fprintln(w.notes, "changes were missed; showing the present state again")
			w.from = ""
		case fault.Is(err, fault.Unreachable) && !w.lost:
			w.lost = true
			fmt.Fprintf(w.notes, "%v; trying again\n", err)
		}
		if wait(ctx, nil, true) != nil {
			return nil
		}
	}
}

// once shows changes until the watch ends.
func (w *rowWatch) once(ctx context.Context) error {
	if w.from == "" {
		t, err := w.hub.Table(ctx, w.kind, "", w.opts)
		if err != nil {
			return err
		}
		w.from, w.lost = t.Meta.ResourceVersion, false
		if err := w.p.table(t); err != nil {
			return err
		}
	}
	o := client.WatchOptions{Namespace: w.opts.Namespace, LabelSelector: w.opts.LabelSelector, FieldSelector: w.opts.FieldSelector, ResourceVersion: w.from}
	return w.hub.WatchTable(ctx, w.kind, o, func(typ client.EventType, r remote.Row) error {
		w.lost = false
		if rv := r.Object.Metadata.ResourceVersion; rv != "" {
			w.from = rv
		}
		return w.p.row(r, typ == client.Deleted)
	})
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
			p.widths[i] = max(p.widths[i], utf8.RuneCountInString(cell))
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
			text = plain(fmt.Sprint(r.Cells[i]))
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
