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
			hubSnapshotCommand(), hubCompactCommand(), hubDefragCommand(), hubRotateCommand(), hubTokenKeyCommand(),
			offlineCommand("reset-from-survivor", "drover-hub reset-from-survivor"),
			hubFollowCommand("adopt"), hubFollowCommand("overwrite"),
		},
	}
}

// memberRow is a member as it is listed, in the table as in JSON.
type memberRow struct {
	remote.Member
	Role string `json:"role"`
}

func listMembers(c *cli.Context) error {
	output, err := outputOf(c, "json")
	if err != nil {
		return err
	}
	hub, err := connectBare(c)
	if err != nil {
		return err
	}
	members, err := hub.remote.Members(c.Context)
	if err != nil {
		return err
	}
	rows := make([]memberRow, len(members))
	for i, m := range members {
		rows[i] = memberRow{m, "follower"}
		if m.Leader {
			rows[i].Role = "leader"
		}
	}
	if output == "json" {
		b, err := json.Marshal(map[string]any{"items": rows})
		if err != nil {
			return err
		}
		return writeIndented(c.App.Writer, b)
	}
	tw := tabwriter.NewWriter(c.App.Writer, 0, 8, 3, ' ', 0)
	fmt.Fprintln(tw, "NAME\tROLE\tHEALTHY\tURL\tMESSAGE")
	for _, m := range rows {
		fmt.Fprintf(tw, "%s\t%s\t%t\t%s\t%s\n", m.Name, m.Role, m.Healthy, dash(m.URL), dash(plain(m.Message)))
	}
	return tw.Flush()
}
