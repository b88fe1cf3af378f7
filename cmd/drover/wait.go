package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
)

func waitCommand() *cli.Command {
	return &cli.Command{
		Name: "wait", Usage: "wait until objects are as asked", ArgsUsage: "KIND/NAME...",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "for", Usage: "`WHAT`: condition=TYPE[=STATUS], delete, or phase=PHASE", Required: true},
			&cli.DurationFlag{Name: "timeout", Value: 30 * time.Second, Usage: "give up after `DURATION` (exit code 4)"},
		},
		Action: waitFor,
	}
}

// goal is what one object is waited for: it says whether it is reached, else what stands instead.
type goal func(obj api.Object) (reached bool, stands string)

func goalOf(text string) (goal, error) {
	what, arg, _ := strings.Cut(text, "=")
	switch what {
	case "delete":
		if arg == "" {
			return nil, nil
		}
	case "phase":
		if arg != "" {
			return func(o api.Object) (bool, string) {
				phase := phaseOf(o)
				return strings.EqualFold(phase, arg), "phase is " + dash(phase)
			}, nil
		}
	case "condition":
		typ, status, ok := strings.Cut(arg, "=")
		if !ok {
			status = api.True
		}
		if typ != "" {
			return conditionGoal(typ, status), nil
		}
	}
	return nil, usagef("--for takes condition=TYPE, condition=TYPE=STATUS, phase=PHASE or delete, not %q", text)
}

func conditionGoal(typ, status string) goal {
	return func(o api.Object) (bool, string) {
		c := api.FindCondition(conditionsOf(o), typ)
		switch {
		case c == nil:
			return false, fmt.Sprintf("there is no condition %s yet", typ)
		case c.ObservedGeneration != 0 && c.ObservedGeneration < o.Meta().Generation:
			return false, fmt.Sprintf("condition %s speaks of an earlier spec", typ)
		}
		return strings.EqualFold(c.Status, status), fmt.Sprintf("condition %s is %s (%s: %s)", typ, c.Status, c.Reason, c.Message)
	}
}

func phaseOf(o api.Object) string {
	switch o := o.(type) {
	case *api.Assignment:
		return o.Status.Phase
	case *api.Rollout:
		return o.Status.Phase
	case *api.EnrollmentRequest:
		return o.Status.Phase
	case *api.Namespace:
		return o.Status.Phase
	}
	return ""
}

func conditionsOf(o api.Object) []api.Condition {
	switch o := o.(type) {
	case *api.Workload:
		return o.Status.Conditions
	case *api.Device:
		return o.Status.Conditions
	case *api.Assignment:
		return o.Status.Conditions
	case *api.Rollout:
		return o.Status.Conditions
	}
	return nil
}

func waitFor(c *cli.Context) error {
	reached, err := goalOf(c.String("for"))
	if err != nil {
		return err
	}
	hub, err := connect(c)
	if err != nil {
		return err
	}
	_, list, err := refs(c.Args().Slice(), hub.namespace)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return usagef("name the objects to wait for, as device/pi-07")
	}
	timeout := c.Duration("timeout")
	ctx, cancel := context.WithTimeout(c.Context, timeout)
	defer cancel()
	for _, r := range list {
		if err := waitOne(ctx, c, hub, r, reached); err != nil {
			return timedOut(err, r.Kind.Singular+"/"+r.Name, timeout)
		}
		if _, err := fmt.Fprintf(c.App.Writer, "%s/%s %s\n", r.Kind.Singular, r.Name, c.String("for")); err != nil {
			return err
		}
	}
	return nil
}

func waitOne(ctx context.Context, c *cli.Context, hub *connection, r api.Ref, reached goal) error {
	stands := ""
	err := follow(ctx, hub, c.App.ErrWriter, watchOne(r), func(ctx context.Context) (bool, error) {
		obj, err := hub.Get(ctx, r, client.GetOptions{})
		switch {
		case err != nil && fault.ClassOf(err) == fault.NotFound:
			stands = "it does not exist yet"
			return reached == nil, nil
		case err != nil:
			return false, err
		case reached == nil:
			stands = "it still exists"
			return false, nil
		}
		var ok bool
		ok, stands = reached(obj)
		return ok, nil
	})
	if err != nil && stands != "" {
		return fmt.Errorf("%w: %s", err, stands)
	}
	return err
}

func watchOne(r api.Ref) []source {
	return []source{{r.Kind, client.WatchOptions{Namespace: r.Namespace, FieldSelector: "metadata.name=" + r.Name}}}
}
