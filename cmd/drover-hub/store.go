package main

import (
	"context"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/drover-fleet/drover/hub"
)

func storeCommand() *cli.Command {
	member := &cli.StringFlag{Name: "member", Usage: "`HOST:PORT` of the API of the member to ask; default: the directory's own"}
	values := &cli.BoolFlag{Name: "values", Usage: "print values too, as they are stored: secrets are sealed"}
	return &cli.Command{
		Name: "store", Usage: "look at keys as a member holds them, with this directory's certificate",
		Subcommands: []*cli.Command{
			{
				Name: "list", Usage: "list keys", ArgsUsage: "[PREFIX]", Action: withKeys(hub.ListKeys),
				Flags: []cli.Flag{
					member, values,
					&cli.IntFlag{Name: "limit", Usage: "at most `N` keys; 0 is all"},
					&cli.BoolFlag{Name: "stale", Usage: "what the member has now, without asking the majority"},
				},
			},
			{
				Name: "watch", Usage: "print each change of keys as it is applied", ArgsUsage: "[PREFIX]", Action: withKeys(hub.WatchKeys),
				Flags: []cli.Flag{member, values},
			},
		},
	}
}

func withKeys(do func(context.Context, hub.KeyQuery, io.Writer) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		dir, err := dirOf(c)
		if err != nil {
			return err
		}
		q := hub.KeyQuery{
			Dir: dir, Member: c.String("member"), Prefix: c.Args().First(),
			Limit: c.Int("limit"), Stale: c.Bool("stale"), Values: c.Bool("values"),
		}
		switch {
		case c.NArg() > 1:
			return usageError(fmt.Sprintf("unexpected argument %q", c.Args().Get(1)))
		case q.Limit < 0:
			return usageError(fmt.Sprintf("--limit %d: want 0 or more", q.Limit))
		}
		return do(c.Context, q, c.App.Writer)
	}
}
