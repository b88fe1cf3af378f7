package main

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client/remote"
)

// annotationFollow is where the hub's gateway looks for what was decided for a device that is ahead of the hub: a word and the id of
// the present epoch.
const annotationFollow = "fleet.drover.dev/follow"

// conditionAhead is True on a device that holds what the hub's present history does not have.
const conditionAhead = "AheadOfHub"

// hubFollowCommand decides for devices that are ahead of a hub that was restored or reset.
func hubFollowCommand(word string) *cli.Command {
	usage := map[string]string{
		"adopt":     "devices that are ahead of a restored hub follow it again; what they run and the hub does not know goes on running",
		"overwrite": "devices that are ahead of a restored hub follow it again; what they run and the hub does not know is stopped",
	}[word]
	return &cli.Command{
		Name: word, Usage: usage, ArgsUsage: "DEVICE...",
		Flags:  []cli.Flag{dryRunFlag(), &cli.BoolFlag{Name: "all", Usage: "every device that is ahead"}},
		Action: func(c *cli.Context) error { return decideFollow(c, word) },
	}
}

func decideFollow(c *cli.Context, word string) error {
	if c.Args().Present() == c.Bool("all") {
		return usagef("name the devices, or say --all; drover hub doctor lists those that are ahead")
	}
	hub, err := connect(c)
	if err != nil {
		return err
	}
	s, err := hub.remote.HubStatus(c.Context)
	if err != nil {
		return err
	}
	epoch := epochID(s)
	if epoch == "" {
		return fault.Unavailable.Errorf("the hub has no epoch yet: it is being founded")
	}
	names := c.Args().Slice()
	if c.Bool("all") {
		if names, err = devicesAhead(c, hub); err != nil {
			return err
		}
	}
	for _, name := range names {
		if err := followOne(c, hub, name, word, epoch); err != nil {
			return err
		}
	}
	if len(names) == 0 {
		fmt.Fprintln(c.App.ErrWriter, "no device is ahead of the hub")
	}
	return nil
}

// epochID is that of the member that is furthest.
func epochID(s *remote.HubStatus) string {
	id, number := "", uint32(0)
	for i := range s.Members {
		if m := &s.Members[i]; m.Epoch > number {
			id, number = m.EpochID, m.Epoch
		}
	}
	return id
}

func followOne(c *cli.Context, hub *connection, name, word, epoch string) error {
	ahead := false
	_, err := change(c.Context, hub, api.Ref{Kind: api.KindDevice, Name: name}, "drover", func(d *api.Device) (bool, error) {
		decided := strings.HasSuffix(d.Metadata.Annotations[annotationFollow], " "+epoch) // and may be decided otherwise
		if ahead = decided || api.ConditionIs(d.Status.Conditions, conditionAhead, api.True); !ahead || c.Bool("dry-run") {
			return false, nil
		}
		if d.Metadata.Annotations == nil {
			d.Metadata.Annotations = map[string]string{}
		}
		d.Metadata.Annotations[annotationFollow] = word + " " + epoch
		return true, nil
	})
	what := map[string]string{"adopt": "keeps what the hub does not know", "overwrite": "stops what the hub does not know"}[word]
	switch {
	case err != nil:
		return err
	case !ahead:
		_, err = fmt.Fprintf(c.App.Writer, "device/%s is not ahead of the hub: nothing to decide\n", name)
	case c.Bool("dry-run"):
		_, err = fmt.Fprintf(c.App.Writer, "device/%s would follow the hub, and %s\n", name, what)
	default:
		_, err = fmt.Fprintf(c.App.Writer, "device/%s follows the hub, and %s\n", name, what)
	}
	return err
}
