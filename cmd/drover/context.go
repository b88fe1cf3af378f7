package main

import (
	"encoding/json"
	"fmt"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/drover-fleet/drover/client/remote"
)

func contextCommand() *cli.Command {
	return &cli.Command{
		Name: "context", Usage: "the hubs and identities that the config knows",
		Subcommands: []*cli.Command{
			{Name: "list", Usage: "list the contexts; * marks the current one", Flags: []cli.Flag{outputFlag("json", "name")}, Action: listContexts},
			contextChange("use", "make NAME the current context", "NAME", func(f *remote.ConfigFile, args []string) (string, error) {
				return "context " + args[0] + " is the current one", f.Use(args[0])
			}),
			contextChange("rename", "give a context another name", "NAME NEW-NAME", func(f *remote.ConfigFile, args []string) (string, error) {
				return "context " + args[0] + " is now " + args[1], f.Rename(args[0], args[1])
			}),
			contextChange("delete", "remove a context with its credentials", "NAME", func(f *remote.ConfigFile, args []string) (string, error) {
				return "context " + args[0] + " deleted", f.Delete(args[0])
			}),
		},
	}
}

// contextChange is a command that changes the config file by as many names as argsUsage has.
func contextChange(name, usage, argsUsage string, do func(*remote.ConfigFile, []string) (string, error)) *cli.Command {
	want := 1
	if argsUsage != "NAME" {
		want = 2
	}
	return &cli.Command{Name: name, Usage: usage, ArgsUsage: argsUsage, Action: func(c *cli.Context) error {
		args := c.Args().Slice()
		if len(args) != want {
			return usagef("want drover context %s %s", name, argsUsage)
		}
		for _, a := range args {
			if a == "" {
				return usagef("a context's name is not empty")
			}
		}
		var said string
		err := changeConfig(c, func(f *remote.ConfigFile) (err error) {
			said, err = do(f, args)
			return err
		})
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(c.App.Writer, said)
		return err
	}}
}

func listContexts(c *cli.Context) error {
	output, err := outputOf(c, "json", "name")
	if err != nil {
		return err
	}
	if err := noArguments(c); err != nil {
		return err
	}
	path, err := configPath(c)
	if err != nil {
		return err
	}
	f, err := remote.ReadConfigFile(path)
	if err != nil {
		return noConfig(path, err)
	}
	all := f.Contexts()
	switch output {
	case "json":
		b, err := json.Marshal(map[string]any{"items": all})
		if err != nil {
			return err
		}
		return writeIndented(c.App.Writer, b)
	case "name":
		for _, x := range all {
			if _, err := fmt.Fprintln(c.App.Writer, x.Name); err != nil {
				return err
			}
		}
		return nil
	}
	if len(all) == 0 {
		fmt.Fprintln(c.App.ErrWriter, "no contexts found")
		return nil
	}
	tw := tabwriter.NewWriter(c.App.Writer, 0, 8, 3, ' ', 0)
	fmt.Fprintln(tw, "CURRENT\tNAME\tSERVER\tUSER\tNAMESPACE")
	for _, x := range all {
		mark, user := "", x.User
		if x.Current {
			mark = "*"
		}
		if !x.LoggedIn {
			user = "(logged out)"
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\n", mark, plain(x.Name), dash(plain(x.Server)), plain(user), dash(plain(x.Namespace)))
	}
	return tw.Flush()
}
