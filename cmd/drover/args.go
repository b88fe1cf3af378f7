package main

import (
	"strings"

	"github.com/urfave/cli/v2"
)

// reorder moves flags before the positional arguments of the command they belong to, because people type them on either
// side and the flag parser stops at the first positional. Global flags are moved before the command. What follows "--"
// stays as it is.
func reorder(app *cli.App, args []string) []string {
	if len(args) == 0 || contains(args, "--generate-bash-completion") {
		return args
	}
	globals := takesValue(app.Flags)
	var front, path, flags, rest []string
	commands, known := app.Commands, map[string]bool{}
	deepest := false
	for i := 1; i < len(args); i++ {
		a := args[i]
		if a == "--" {
			rest = append(rest, args[i:]...)
			break
		}
		if len(a) > 1 && a[0] == '-' {
			name, _, inline := strings.Cut(strings.TrimLeft(a, "-"), "=")
			value, own := known[name]
			to := &flags
			if !own {
				if v, ok := globals[name]; ok {
					value, to = v, &front
				}
			}
			*to = append(*to, a)
			if value && !inline && i+1 < len(args) {
				i++
				*to = append(*to, args[i])
			}
			continue
		}
		if c := find(commands, a); c != nil && !deepest {
			path = append(path, a)
			known = takesValue(c.Flags)
			commands = c.Subcommands
			continue
		}
		deepest = true
		rest = append(rest, a)
	}
	out := append([]string{args[0]}, front...)
	out = append(out, path...)
	out = append(out, flags...)
	return append(out, rest...)
}

func find(commands []*cli.Command, name string) *cli.Command {
	for _, c := range commands {
		if c.HasName(name) {
			return c
		}
	}
	return nil
}

// takesValue maps every name of every flag to whether an argument follows it.
func takesValue(flags []cli.Flag) map[string]bool {
	m := map[string]bool{"help": false, "h": false}
	for _, f := range flags {
		_, isBool := f.(*cli.BoolFlag)
		for _, n := range f.Names() {
			m[n] = !isBool
		}
	}
	return m
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}
