package main

import (
	"cmp"
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

func describeCommand() *cli.Command {
	return &cli.Command{
		Name: "describe", Usage: "show an object with what belongs to it: conditions, copies, events", ArgsUsage: "KIND NAME... | KIND/NAME...",
		Action: describe,
	}
}

func describe(c *cli.Context) error {
	hub, err := connect(c)
	if err != nil {
		return err
	}
	_, list, err := refs(c.Args().Slice(), hub.namespace)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return usagef("name the objects to describe")
	}
	for i, r := range list {
		if i > 0 {
			fmt.Fprintln(c.App.Writer)
		}
		if err := describeOne(c, hub, r); err != nil {
			return err
		}
	}
	return nil
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
	describeConditions(w, conditionsOf(obj), time.Now())
	copies := client.ListOptions{}
	switch r.Kind {
	case api.KindWorkload:
		copies = client.ListOptions{Namespace: r.Namespace, FieldSelector: "spec.workload=" + r.Name}
	case api.KindDevice:
		copies.FieldSelector = "spec.device=" + r.Name
	}
	if copies.FieldSelector != "" {
		list, err := hub.List(c.Context, api.KindAssignment, copies)
		if err != nil {
			return err
		}
		describeCopies(w, list.Items)
	}
	return describeEvents(c, hub, obj)
}

// describeBody prints the object itself without what is shown below it in a better form, and without a Secret's values.
func describeBody(w io.Writer, obj api.Object) error {
	shown := obj.DeepCopyObject()
	shown.Meta().ManagedFields = nil
	switch o := shown.(type) {
	case *api.Workload:
		o.Status.Conditions = nil
	case *api.Device:
		o.Status.Conditions = nil
	case *api.Assignment:
		o.Status.Conditions = nil
	case *api.Rollout:
		o.Status.Conditions = nil
	case *api.Secret:
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

func describeConditions(w io.Writer, list []api.Condition, now time.Time) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintln(w, "\nConditions:")
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "  TYPE\tSTATUS\tSINCE\tREASON\tMESSAGE")
	for _, c := range list {
		fmt.Fprintf(tw, "  %s\t%s\t%s\t%s\t%s\n", c.Type, c.Status, age(c.LastTransitionTime, now), dash(c.Reason), dash(c.Message))
	}
	tw.Flush()
}

func describeCopies(w io.Writer, items []api.Object) {
	if len(items) == 0 {
		return
	}
	fmt.Fprintln(w, "\nAssignments:")
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "  NAME\tDEVICE\tPHASE\tREADY\tREVISION\tRESTARTS\tMESSAGE")
	for _, o := range items {
		a := o.(*api.Assignment)
		var restarts int32
		for _, ct := range a.Status.Containers {
			restarts += ct.Restarts
		}
		fmt.Fprintf(tw, "  %s\t%s\t%s\t%t\t%s\t%d\t%s\n", a.Metadata.Name, dash(a.Spec.Device), dash(a.Status.Phase), a.Status.Ready, dash(a.Status.Revision), restarts, dash(a.Status.Message))
	}
	tw.Flush()
}

func describeEvents(c *cli.Context, hub *connection, obj api.Object) error {
	list, err := hub.List(c.Context, api.KindEvent, client.ListOptions{Namespace: obj.Meta().Namespace})
	if err != nil {
		return err
	}
	var events []*api.Event
	for _, o := range list.Items {
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
	if len(events) > 20 {
		events = events[len(events)-20:]
	}
	fmt.Fprintln(c.App.Writer, "\nEvents:")
	tw := tabwriter.NewWriter(c.App.Writer, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "  LAST\tCOUNT\tTYPE\tREASON\tFROM\tMESSAGE")
	for _, e := range events {
		from := strings.Trim(e.Source.Component+" "+e.Source.Host, " ")
		fmt.Fprintf(tw, "  %s\t%d\t%s\t%s\t%s\t%s\n", age(e.LastTimestamp, time.Now()), cmp.Or(e.Count, 1), e.EventType, e.Reason, dash(from), e.Message)
	}
	return tw.Flush()
}
