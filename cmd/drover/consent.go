package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/drover-fleet/drover/api/fault"
)

// consent is how a plan is agreed to: by a person at a terminal, or by flags.
type consent struct {
	in      *bufio.Reader // nil: nobody can be asked
	out     io.Writer
	yes     bool
	confirm int // the count that was given; below 0 = none
}

func consentOf(c *cli.Context) *consent {
	q := &consent{out: c.App.ErrWriter, yes: c.Bool("yes"), confirm: c.Int("confirm")}
	fromStdin := slices.Contains(c.StringSlice("filename"), "-")
	if isTerminal(c.App.Reader) && isTerminal(c.App.ErrWriter) && !fromStdin {
		q.in = bufio.NewReader(c.App.Reader)
	}
	return q
}

func isTerminal(v any) bool {
	f, ok := v.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// begin agrees to the first plan. One that deletes nothing needs no more than the command.
func (q *consent) begin(p *setPlan) error {
	if len(p.pruned) == 0 {
		return nil
	}
	if why := p.tooMuch(); why != "" {
		return q.count(p, why)
	}
	if q.confirm >= 0 && q.confirm != len(p.pruned) {
		return notConfirmed(p, fmt.Sprintf("--confirm %d was given", q.confirm))
	}
	if q.yes || q.in == nil || q.confirm >= 0 {
		return nil
	}
	return q.ask(p, nil)
}

// count wants the number of objects that go: --yes is what a script says by habit.
func (q *consent) count(p *setPlan, why string) error {
	if q.confirm >= 0 {
		if q.confirm == len(p.pruned) {
			return nil
		}
		return notConfirmed(p, fmt.Sprintf("%s, and --confirm %d is not their number", why, q.confirm))
	}
	if q.in == nil {
		return notConfirmed(p, why)
	}
	q.show(p)
	fmt.Fprintf(q.out, "%s; type the number of objects to prune to go on: ", why)
	if n, err := strconv.Atoi(q.line()); err != nil || n != len(p.pruned) {
		return stoppedByHand()
	}
	return nil
}

// notConfirmed is a gate, not an error of the set.
func notConfirmed(p *setPlan, why string) error {
	return fault.WithExit(fault.ExitStopped, fmt.Errorf("nothing was done: %s; look at the plan (--dry-run), and if it is meant, say --confirm %d", why, len(p.pruned)))
}

func stoppedByHand() error {
	return fault.WithExit(fault.ExitStopped, errors.New("nothing was done"))
}

// again agrees to a plan that was made because the ground of the one agreed to had moved.
func (q *consent) again(agreed, next *setPlan) error {
	grown := next.grown(agreed)
	if len(grown) == 0 {
		return nil
	}
	if len(next.pruned) > len(agreed.pruned) {
		if why := next.tooMuch(); why != "" {
			q.confirm = -1 // that number was for another plan
			return q.count(next, "others wrote meanwhile: "+why)
		}
	}
	switch {
	case q.yes:
		fmt.Fprintln(q.out, "others wrote meanwhile;", next.summary())
		return nil
	case q.in == nil:
		return fault.Conflict.Errorf("nothing was done: others wrote meanwhile, and the set would now do more than was planned: %s; run it again, or with --yes", strings.Join(grown, ", "))
	}
	return q.ask(next, grown)
}

func (q *consent) ask(p *setPlan, grown []string) error {
	if len(grown) > 0 {
		fmt.Fprintln(q.out, "others wrote meanwhile, and the set would now do more:", strings.Join(grown, ", "))
	}
	q.show(p)
	fmt.Fprint(q.out, "go on? [y/N] ")
	switch strings.ToLower(q.line()) {
	case "y", "yes":
		return nil
	}
	return stoppedByHand()
}

// show lists what goes, as far as a person reads.
func (q *consent) show(p *setPlan) {
	const shown = 20
	for i, o := range p.pruned {
		if i == shown {
			fmt.Fprintf(q.out, "  and %d more\n", len(p.pruned)-shown)
			break
		}
		line := "  prune " + refOf(o)
		if ns := o.Meta().Namespace; ns != "" {
			line += " of " + ns
		}
		if on := p.touched.of(len(p.set.items) + i); on != "" {
			line += ", " + on
		}
		fmt.Fprintln(q.out, line)
	}
}

func (q *consent) line() string {
	text, err := q.in.ReadString('\n')
	if err != nil {
		return ""
	}
	return strings.TrimSpace(text)
}
