package main

import (
	"encoding/json"
	"fmt"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/drover-fleet/drover/client/remote"
)

func hubCommand() *cli.Command {
	return &cli.Command{
		Name: "hub", Usage: "the hub itself: its members, its store, its backups",
		Subcommands: []*cli.Command{
			hubStatusCommand(), hubDoctorCommand(),
			{Name: "members", Usage: "list the hub's members", Flags: []cli.Flag{outputFlag("json")}, Action: listMembers},
			hubJoinCommand(), hubReplaceCommand(), hubRemoveCommand(), hubTransferCommand(),
			hubSnapshotCommand(), hubCompactCommand(), hubDefragCommand(),
			offlineCommand("reset-from-survivor", "drover-hub reset-from-survivor"),
			hubFollowCommand("adopt"), hubFollowCommand("overwrite"),
		},
	}
}

func listMembers(c *cli.Context) error {
	output, err := outputOf(c, "json")
	if err != nil {
		return err
	}
	if err := noArguments(c); err != nil {
		return err
	}
	hub, err := connect(c)
	if err != nil {
		return err
	}
	members, err := hub.remote.Members(c.Context)
	if err != nil {
		return err
	}
	if output == "json" {
		b, err := json.Marshal(remote.MemberList{Items: members})
		if err != nil {
			return err
		}
		return writeIndented(c.App.Writer, b)
	}
	tw := tabwriter.NewWriter(c.App.Writer, 0, 8, 3, ' ', 0)
	fmt.Fprintln(tw, "NAME\tROLE\tHEALTHY\tURL\tMESSAGE")
	for _, m := range members {
		role := "follower"
		if m.Leader {
			role = "leader"
		}
		fmt.Fprintf(tw, "%s\t%s\t%t\t%s\t%s\n", m.Name, role, m.Healthy, dash(m.URL), dash(plain(m.Message)))
	}
	return tw.Flush()
}
