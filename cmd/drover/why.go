package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/drover-fleet/drover/client/remote"
)

func whyCommand() *cli.Command {
	return &cli.Command{
		Name: "why", Usage: "explain an object's state by the chain of causes up to a person or a device", ArgsUsage: "KIND/NAME",
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "limit", Value: 20, Usage: "at most `N` links"},
			outputFlag("json"),
		},
		Action: why,
	}
}

func why(c *cli.Context) error {
	output, err := outputOf(c, "json")
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
	if len(list) != 1 {
		return usagef("name one object, as workload/hello")
	}
	chain, err := hub.remote.Why(c.Context, list[0], c.Int("limit"))
	if err != nil {
		return err
	}
	if output == "json" {
		enc := json.NewEncoder(c.App.Writer)
		enc.SetIndent("", "  ")
		return enc.Encode(chain)
	}
	_, err = fmt.Fprint(c.App.Writer, renderChain(chain))
	return err
}

// renderChain writes the chain for people: from the newest write of the object back to its cause, then what it led to.
func renderChain(chain *remote.Chain) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", chain.Object)
	for i, l := range chain.Links {
		lead := "  "
		if i > 0 {
			lead = "  because "
		}
		b.WriteString(lead + renderLink(l) + "\n")
	}
	switch {
	case !chain.Complete && chain.End != "":
		fmt.Fprintf(&b, "  the chain breaks off here: %s\n", chain.End)
	case !chain.Complete:
		b.WriteString("  the chain goes on; ask for more with --limit\n")
	}
	if len(chain.Effects) > 0 {
		b.WriteString("\nwhat came of it:\n")
		for _, l := range chain.Effects {
			fmt.Fprintf(&b, "  %s%s\n", strings.Repeat("  ", max(0, l.Depth-1)), renderLink(l))
		}
	}
	return b.String()
}

func renderLink(l remote.Link) string {
	s := fmt.Sprintf("%s %s: %s %s", l.Time.UTC().Format(time.RFC3339), l.Actor, l.Verb, l.Object)
	if d := renderDiff(l.Diff); d != "" {
		s += " (" + d + ")"
	}
	return s
}

// renderDiff shows the first few fields that changed, in one line.
func renderDiff(raw json.RawMessage) string {
	var d struct {
		Changes []struct {
			Path string `json:"path"`
			Old  string `json:"old"`
			New  string `json:"new"`
		} `json:"changes"`
		More int `json:"more"`
	}
	if len(raw) == 0 || json.Unmarshal(raw, &d) != nil {
		return ""
	}
	const shown = 3
	var parts []string
	for i, c := range d.Changes {
		if i == shown {
			d.More += len(d.Changes) - shown
			break
		}
		parts = append(parts, fmt.Sprintf("%s: %s -> %s", c.Path, brief(c.Old), brief(c.New)))
	}
	if d.More > 0 {
		parts = append(parts, fmt.Sprintf("%d more", d.More))
	}
	return strings.Join(parts, ", ")
}

func brief(s string) string {
	if s == "" || s == "null" {
		return "none"
	}
	if r := []rune(s); len(r) > 40 {
		s = string(r[:37]) + "..."
	}
	return s
}
