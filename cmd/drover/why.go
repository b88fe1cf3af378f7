package main

import (
	"encoding/json"
	"fmt"

	"github.com/urfave/cli/v2"
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
