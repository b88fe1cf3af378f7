package main

import (
	"encoding/json"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/drover-fleet/drover/client/remote"
)

// chainLimit is how many links are asked of the hub, which gives no more: what is left out is decided here.
const chainLimit = 500

func whyCommand() *cli.Command {
	return &cli.Command{
		Name: "why", Usage: "explain an object's state by the chain of causes up to a person or a device, and what came of it", ArgsUsage: "KIND NAME | KIND/NAME",
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "limit", Value: 20, Usage: "show at most `N` links of the chain"},
			&cli.BoolFlag{Name: "all", Usage: "show every write and every field, bookkeeping too"},
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
	_, list, err := refs(c.Args().Slice())
	if err != nil {
		return err
	}
	if len(list) != 1 {
		return usagef("name one object, as workload/hello")
	}
	if c.Int("limit") < 1 {
		return usagef("--limit takes a number from 1 up, not %d", c.Int("limit"))
	}
	hub, err := connect(c)
	if err != nil {
		return err
	}
	chain, err := hub.remote.Why(c.Context, hub.place(list)[0], chainLimit)
	if err != nil {
		return err
	}
	if output == "json" {
		return printChain(c, chain)
	}
	s := story{all: c.Bool("all"), limit: c.Int("limit")}
	_, err = fmt.Fprint(c.App.Writer, s.tell(chain))
	return err
}

func printChain(c *cli.Context, chain *remote.Chain) error {
	b, err := json.Marshal(chain)
	if err != nil {
		return err
	}
	return writeIndented(c.App.Writer, b)
}
