package main

import (
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/drover-fleet/drover/api"
)

// kindNamed finds a kind by plural, singular, short name or kind, in any case; "workloads.fleet.drover.dev" works too.
func kindNamed(name string) (*api.Kind, error) {
	if k, ok := api.KindByName(name); ok {
		return k, nil
	}
	var all []string
	for _, k := range api.Kinds() {
		all = append(all, k.Plural)
	}
	return nil, usagef("there is no kind %q; the kinds are %s", name, strings.Join(all, ", "))
}

// refs reads "KIND NAME...", "KIND/NAME..." or "KIND" from the arguments. With no name, out is nil and kind tells what was
// asked for. The references have no namespace yet.
func refs(args []string) (kind *api.Kind, out []api.Ref, err error) {
	if len(args) == 0 {
		return nil, nil, usagef("name a kind, or KIND/NAME")
	}
	if strings.Contains(args[0], "/") {
		for _, a := range args {
			k, n, ok := strings.Cut(a, "/")
			if !ok || n == "" || strings.Contains(n, "/") {
				return nil, nil, usagef("%q is not KIND/NAME", a)
			}
			if kind, err = kindNamed(k); err != nil {
				return nil, nil, err
			}
			out = append(out, api.Ref{Kind: kind, Name: n})
		}
		return kind, out, nil
	}
	if kind, err = kindNamed(args[0]); err != nil {
		return nil, nil, err
	}
	for _, n := range args[1:] {
		if n == "" || strings.Contains(n, "/") {
			return nil, nil, usagef("%q is not a name", n)
		}
		out = append(out, api.Ref{Kind: kind, Name: n})
	}
	return kind, out, nil
}

// named are the objects that the arguments name, at least one, and the hub they are on. Arguments are judged before the config is
// read: a wrong command line is a usage error wherever it is typed.
func named(c *cli.Context, args []string) (*connection, []api.Ref, error) {
	_, list, err := refs(args)
	if err != nil {
		return nil, nil, err
	}
	if len(list) == 0 {
		return nil, nil, usagef("name at least one object, as %s", c.Command.ArgsUsage)
	}
	hub, err := connect(c)
	if err != nil {
		return nil, nil, err
	}
	return hub, hub.place(list), nil
}

// place puts the references into the namespace that the command works in.
func (c *connection) place(list []api.Ref) []api.Ref {
	for i := range list {
		if list[i].Kind.Namespaced {
			list[i].Namespace = c.namespace
		}
	}
	return list
}

// title is how a reference is named in output: singular/name.
func title(r api.Ref) string { return r.Kind.Singular + "/" + r.Name }

// refOf is how an object is named in output: singular/name.
func refOf(o api.Object) string { return strings.ToLower(o.Type().Kind) + "/" + o.Meta().Name }
