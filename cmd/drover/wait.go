package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
)

func waitCommand() *cli.Command {
	return &cli.Command{
		Name: "wait", Usage: "wait until objects are as asked", ArgsUsage: "KIND NAME... | KIND/NAME...",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "for", Usage: "`WHAT`: condition=TYPE[=STATUS], delete, or phase=PHASE"},
			&cli.DurationFlag{Name: "timeout", Value: 30 * time.Second, Usage: "give up after `DURATION` (exit code 4)"},
		},
		Action: waitFor,
	}
}

// goal is what one object is waited for: it says whether it is reached, else what stands instead. obj is nil when there is none.
type goal func(obj api.Object) (reached bool, stands string)

// goalOf reads --for, for objects of the kinds.
func goalOf(text string, list []api.Ref) (func() goal, error) {
	what, arg, given := strings.Cut(text, "=")
	switch what {
	case "delete":
		if !given {
			return func() goal { return gone("") }, nil
		}
	case "phase":
		if arg != "" {
			return func() goal { return phaseGoal(arg) }, lacking(list, "phase", func(k *api.Kind) bool { return phaseOf(k.New()) != nil })
		}
	case "condition":
		typ, status, ok := strings.Cut(arg, "=")
		if !ok {
			status = api.True
		}
		if typ != "" && status != "" {
			return func() goal { return conditionGoal(typ, status) }, lacking(list, "conditions", func(k *api.Kind) bool { return conditionsOf(k.New()) != nil })
		}
	}
	return nil, usagef("--for takes condition=TYPE, condition=TYPE=STATUS, phase=PHASE or delete, not %q", text)
}

// lacking refuses to wait for what can never come.
func lacking(list []api.Ref, what string, has func(*api.Kind) bool) error {
	for _, r := range list {
		if !has(r.Kind) {
			return usagef("a %s has no %s to wait for", r.Kind.Singular, what)
		}
	}
	return nil
}

// gone waits for the end of the object with the uid, or of the one that is seen first. One of the same name that came after it is
// another.
func gone(uid string) goal {
	return func(o api.Object) (bool, string) {
		if o == nil {
			return true, ""
		}
		if uid == "" {
			uid = o.Meta().UID
		}
		return o.Meta().UID != uid, "it still exists"
	}
}

func phaseGoal(want string) goal {
	return func(o api.Object) (bool, string) {
		if o == nil {
			return false, "it does not exist yet"
		}
		phase := *phaseOf(o)
		return strings.EqualFold(phase, want), "phase is " + dash(phase)
	}
}

func conditionGoal(typ, status string) goal {
	return func(o api.Object) (bool, string) {
		if o == nil {
			return false, "it does not exist yet"
		}
		c := api.FindCondition(*conditionsOf(o), typ)
		switch {
		case c == nil:
			return false, fmt.Sprintf("there is no condition %s yet", typ)
		case c.ObservedGeneration != 0 && c.ObservedGeneration < o.Meta().Generation:
			return false, fmt.Sprintf("condition %s speaks of an earlier spec", typ)
		}
		return strings.EqualFold(c.Status, status), fmt.Sprintf("condition %s is %s (%s: %s)", typ, c.Status, c.Reason, plain(c.Message))
	}
}

// phaseOf points to the object's phase; nil for kinds that have none.
func phaseOf(o api.Object) *string {
	switch o := o.(type) {
	case *api.Assignment:
		return &o.Status.Phase
	case *api.Rollout:
		return &o.Status.Phase
	case *api.EnrollmentRequest:
		return &o.Status.Phase
	case *api.Namespace:
		return &o.Status.Phase
	}
	return nil
}

// conditionsOf points to the object's conditions; nil for kinds that have none.
func conditionsOf(o api.Object) *[]api.Condition {
	switch o := o.(type) {
	case *api.Workload:
		return &o.Status.Conditions
	case *api.Device:
		return &o.Status.Conditions
	case *api.Assignment:
		return &o.Status.Conditions
	case *api.Rollout:
		return &o.Status.Conditions
	}
	return nil
}

func waitFor(c *cli.Context) error {
	_, list, err := refs(c.Args().Slice())
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return usagef("name the objects to wait for, as device/pi-07")
	}
	newGoal, err := goalOf(c.String("for"), list)
	if err != nil {
		return err
	}
	hub, err := connect(c)
	if err != nil {
		return err
	}
	timeout := c.Duration("timeout")
	ctx, cancel := context.WithTimeout(c.Context, timeout)
	defer cancel()
	for _, r := range hub.place(list) {
		if err := waitOne(ctx, c.App.ErrWriter, hub, r, newGoal()); err != nil {
			return timedOut(err, title(r), timeout)
		}
		if _, err := fmt.Fprintln(c.App.Writer, title(r), c.String("for")); err != nil {
			return err
		}
	}
	return nil
}

// waitOne waits until the object is as the goal says. It does not exist while the hub says so, not while the hub is silent.
func waitOne(ctx context.Context, notes io.Writer, hub client.Client, r api.Ref, reached goal) error {
	stands := ""
	err := follow(ctx, hub, notes, watchOne(r), func(ctx context.Context) (ok bool, err error) {
		obj, err := hub.Get(ctx, r, client.GetOptions{})
		if err != nil && !fault.Is(err, fault.NotFound) {
			return false, err
		}
		if err != nil {
			obj = nil
		}
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
