package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/client"
)

// maxEvents is how many events are shown, the newest.
const maxEvents = 20

func describeCommand() *cli.Command {
	return &cli.Command{
		Name: "describe", Usage: "show an object with what belongs to it: conditions, copies, events", ArgsUsage: "KIND NAME... | KIND/NAME...",
		Action: describe,
	}
}

func describe(c *cli.Context) error {
	hub, list, err := named(c, c.Args().Slice())
	if err != nil {
		return err
	}
	var errs []error
	for i, r := range list {
		if i > 0 {
			fmt.Fprintln(c.App.Writer)
		}
		errs = append(errs, describeOne(c, hub, r))
	}
	return errors.Join(errs...)
}

func describeOne(c *cli.Context, hub *connection, r api.Ref) error {
	obj, err := hub.Get(c.Context, r, client.GetOptions{})
	if err != nil {
		return err
	}
	w := c.App.Writer
	if err := describeBody(w, obj); err != nil {
		return err
	}
	if list := conditionsOf(obj); list != nil {
		if err := describeConditions(w, *list, time.Now()); err != nil {
			return err
		}
	}
	switch o := obj.(type) {
	case *api.Device:
		describeContact(w, o, time.Now())
		err = describeCopies(c, hub, client.ListOptions{FieldSelector: "spec.device=" + r.Name})
	case *api.Workload:
		if err = describeRollout(c, hub, o); err == nil {
			err = describeCopies(c, hub, client.ListOptions{Namespace: r.Namespace, FieldSelector: "spec.workload=" + r.Name})
		}
	case *api.Rollout:
		err = describeCopies(c, hub, client.ListOptions{Namespace: r.Namespace, FieldSelector: "spec.workload=" + o.Spec.Workload})
	}
	if err != nil {
		return err
	}
	return describeEvents(c, hub, obj)
}

// describeContact says how old the knowledge of a device is.
func describeContact(w io.Writer, d *api.Device, now time.Time) {
	if t := d.Status.LastContact; !t.IsZero() {
		fmt.Fprintf(w, "\nLast contact: %s ago\n", age(t, now))
		return
	}
	fmt.Fprintln(w, "\nLast contact: none that the hub remembers")
}

func describeRollout(c *cli.Context, hub *connection, w *api.Workload) error {
	p, err := progressOf(c.Context, hub, api.Ref{Kind: api.KindWorkload, Namespace: w.Metadata.Namespace, Name: w.Metadata.Name})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.App.Writer, "\nRollout: %s\n", p.line())
	return err
}

// describeBody prints the object itself without what is shown below it in a better form, and without a Secret's values.
func describeBody(w io.Writer, obj api.Object) error {
	shown := obj.DeepCopyObject()
	shown.Meta().ManagedFields = nil
	if list := conditionsOf(shown); list != nil {
		*list = nil
	}
	if o, ok := shown.(*api.Secret); ok {
		sizes := make(map[string]string, len(o.Data))
		for k, v := range o.Data {
			sizes[k] = fmt.Sprintf("%d bytes", len(v))
		}
		o.Data, o.StringData = nil, sizes
	}
	b, err := api.EncodeYAML(shown)
	if err != nil {
		return err
	}
	_, err = w.Write(b)
	return err
}

func describeConditions(w io.Writer, list []api.Condition, now time.Time) error {
	if len(list) == 0 {
		return nil
	}
	fmt.Fprintln(w, "\nConditions:")
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "  TYPE\tSTATUS\tSINCE\tREASON\tMESSAGE")
	for _, c := range list {
		fmt.Fprintf(tw, "  %s\t%s\t%s\t%s\t%s\n", c.Type, c.Status, age(c.LastTransitionTime, now), dash(plain(c.Reason)), dash(plain(c.Message)))
	}
	return tw.Flush()
}

func describeCopies(c *cli.Context, hub *connection, o client.ListOptions) error {
	items, err := listAll(c.Context, hub, api.KindAssignment, o)
	if err != nil || len(items) == 0 {
		return err
	}
	w := c.App.Writer
	fmt.Fprintln(w, "\nAssignments:")
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "  NAME\tDEVICE\tPHASE\tREADY\tREVISION\tRESTARTS\tMESSAGE")
	for _, o := range items {
		a := o.(*api.Assignment)
		var restarts int32
		for _, ct := range a.Status.Containers {
			restarts += ct.Restarts
		}
		fmt.Fprintf(tw, "  %s\t%s\t%s\t%t\t%s\t%d\t%s\n", a.Metadata.Name, dash(a.Spec.Device), dash(a.Status.Phase), a.Status.Ready, dash(a.Status.Revision), restarts, dash(plain(a.Status.Message)))
	}
	return tw.Flush()
}

func describeEvents(c *cli.Context, hub *connection, obj api.Object) error {
	list, err := listAll(c.Context, hub, api.KindEvent, client.ListOptions{Namespace: obj.Meta().Namespace})
	if err != nil {
		return err
	}
	var events []*api.Event
	for _, o := range list {
		e := o.(*api.Event)
		if e.InvolvedObject.Kind == obj.Type().Kind && e.InvolvedObject.Name == obj.Meta().Name &&
			(e.InvolvedObject.UID == "" || e.InvolvedObject.UID == obj.Meta().UID) {
			events = append(events, e)
		}
	}
	if len(events) == 0 {
		return nil
	}
	slices.SortFunc(events, func(a, b *api.Event) int { return a.LastTimestamp.Compare(b.LastTimestamp.Time) })
	events = events[max(0, len(events)-maxEvents):]
	fmt.Fprintln(c.App.Writer, "\nEvents:")
	tw := tabwriter.NewWriter(c.App.Writer, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "  LAST\tCOUNT\tTYPE\tREASON\tFROM\tMESSAGE")
	for _, e := range events {
		from := strings.Trim(e.Source.Component+" "+e.Source.Host, " ")
		fmt.Fprintf(tw, "  %s\t%d\t%s\t%s\t%s\t%s\n", age(e.LastTimestamp, time.Now()), cmp.Or(e.Count, 1), e.EventType, plain(e.Reason), dash(plain(from)), plain(e.Message))
	}
	return tw.Flush()
}
