package main

import (
	"maps"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// arrange puts a command line into the one order that the flag parser takes: global flags, the command, its flags, "--", its
// arguments. People write flags on either side of arguments and short ones in a bundle (-Aw, -nprod, -l=x), and a value may look
// like a command or a flag (-n get, --tail -1). An error is a command line that makes no sense.
func arrange(app *cli.App, args []string) ([]string, error) {
	if len(args) == 0 || args[len(args)-1] == "--generate-bash-completion" {
		return args, nil
	}
	a := arranger{commands: app.Commands, global: shapesOf(app.Flags), name: app.Name}
	if err := a.read(args[1:]); err != nil {
		return nil, err
	}
	if a.help {
		if len(a.rest) > 0 && len(a.commands) > 0 { // where a command was due
			return nil, usagef("there is no command %q; see %s --help", a.rest[0], a.name)
		}
		a.rest = nil // "rollout undo hello --help" asks about the command
	}
	out := slices.Concat(args[:1], a.front, a.path, a.flags)
	if len(a.rest) > 0 {
		out = append(out, "--")
	}
	return append(out, a.rest...), nil
}

// arranger sorts the words of a command line into their four places.
type arranger struct {
	commands    []*cli.Command // that may come next
	global, own map[string]shape
	name        string // what was typed up to here, for errors
	literal     bool   // all that follows is arguments
	help        bool   // --help or -h was given

	front, path, flags, rest []string
}

// shape is how a flag is written.
type shape struct{ takesValue bool }

func (a *arranger) read(words []string) error {
	for i := 0; i < len(words); i++ {
		w := words[i]
		switch {
		case a.literal || len(w) < 2 || w[0] != '-': // "-" alone is standard input
			a.word(w)
		case w == "--":
			a.literal = true
		default:
			used, err := a.flag(w, words[i+1:])
			if err != nil {
				return err
			}
			i += used
		}
	}
	return nil
}

// word is a command where one may stand, else an argument. The first argument ends the commands.
func (a *arranger) word(w string) {
	if c := find(a.commands, w); c != nil && !a.literal && len(a.rest) == 0 {
		a.path = append(a.path, w)
		a.name += " " + w
		a.own, a.commands = shapesOf(c.Flags), c.Subcommands
		return
	}
	a.rest = append(a.rest, w)
}

// flag takes one word that begins with a dash, and returns how many of the following words are its value.
func (a *arranger) flag(w string, next []string) (used int, err error) {
	name, _, inline := strings.Cut(strings.TrimLeft(w, "-"), "=")
	s, to, ok := a.find(name)
	if !ok {
		if w[1] != '-' {
			return a.bundle(w, next)
		}
		return 0, a.unknown("--" + name)
	}
	*to = append(*to, w)
	if !s.takesValue || inline {
		return 0, nil
	}
	return a.value(to, w, next)
}

func (a *arranger) value(to *[]string, flag string, next []string) (int, error) {
	if len(next) == 0 {
		return 0, usagef("flag %s needs a value; see %s --help", flag, a.name)
	}
	*to = append(*to, next[0])
	return 1, nil
}

// bundle takes short flags that share a dash. One with a value ends the bundle: what is left of the word is its value, or else
// the next word.
func (a *arranger) bundle(w string, next []string) (int, error) {
	for i, letter := range w[1:] {
		short := "-" + string(letter)
		s, to, ok := a.find(string(letter))
		if !ok {
			return 0, a.unknown(w)
		}
		if !s.takesValue {
			*to = append(*to, short)
			continue
		}
		if left := strings.TrimPrefix(w[1+i+len(string(letter)):], "="); left != "" {
			*to = append(*to, short+"="+left)
			return 0, nil
		}
		*to = append(*to, short)
		return a.value(to, short, next)
	}
	return 0, nil
}

// find looks a flag up, of the command first.
func (a *arranger) find(name string) (shape, *[]string, bool) {
	if s, ok := a.own[name]; ok {
		a.help = a.help || name == "help" || name == "h"
		return s, &a.flags, true
	}
	if s, ok := a.global[name]; ok {
		if name == "help" || name == "h" {
			a.help = true
			return s, &a.flags, true
		}
		return s, &a.front, true
	}
	return shape{}, nil, false
}

func (a *arranger) unknown(flag string) error {
	for _, name := range slices.Sorted(maps.Keys(a.own)) {
		if typed := strings.TrimLeft(flag, "-"); len(typed) > 1 && strings.HasPrefix(name, typed) {
			return usagef("there is no flag %s; did you mean --%s? see %s --help", flag, name, a.name)
		}
	}
	return usagef("there is no flag %s; see %s --help", flag, a.name)
}

func find(commands []*cli.Command, name string) *cli.Command {
	for _, c := range commands {
		if c.HasName(name) {
			return c
		}
	}
	return nil
}

// shapesOf lists every name of every flag.
func shapesOf(flags []cli.Flag) map[string]shape {
	m := map[string]shape{"help": {}, "h": {}}
	for _, f := range flags {
		_, isBool := f.(*cli.BoolFlag)
		for _, n := range f.Names() {
			m[n] = shape{takesValue: !isBool}
		}
	}
	return m
}
