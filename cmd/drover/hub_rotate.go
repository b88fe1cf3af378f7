package main

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client/remote"
)

func hubRotateCommand() *cli.Command {
	return &cli.Command{
		Name: "rotate-encryption-key", Usage: "seal all secrets by a new key while the hub runs; ended early, it goes on by itself",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "status", Usage: "only show how far it has come"},
			&cli.BoolFlag{Name: "restart", Usage: "give a key up that is still being spread, because the member that made it is gone"},
			&cli.BoolFlag{Name: "drop-old", Usage: "forget old keys on every member; backups that were sealed by them need a key file of their time"},
			&cli.DurationFlag{Name: "timeout", Value: 10 * time.Minute, Usage: "stop showing the progress after `DURATION` (exit code 4)"},
		},
		Action: rotateKey,
	}
}

func hubTokenKeyCommand() *cli.Command {
	return &cli.Command{
		Name: "rotate-token-key", Usage: "sign tokens of service accounts by a new key; those that were made before stay good until their end",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "forget", Usage: "end every token that was made before, at once: workloads and others that hold one are refused until they have another"},
		},
		Action: rotateTokenKey,
	}
}

func rotateTokenKey(c *cli.Context) error {
	if err := noArguments(c); err != nil {
		return err
	}
	hub, err := connectBare(c)
	if err != nil {
		return err
	}
	q, said := url.Values{}, "tokens are signed by a new key; those made before stay good until their end"
	if c.Bool("forget") {
		q.Set("forget", "true")
		said = "tokens are signed by a new key; those made before are refused from now on"
	}
	if err := hub.remote.HubDo(c.Context, remote.HubTokenKeyOp, q, nil); err != nil {
		return err
	}
	_, err = fmt.Fprintln(c.App.Writer, said)
	return err
}

func rotateKey(c *cli.Context) error {
	if err := noArguments(c); err != nil {
		return err
	}
	if c.Bool("status") && (c.Bool("restart") || c.Bool("drop-old")) || c.Bool("restart") && c.Bool("drop-old") {
		return usagef("give one of --status, --restart and --drop-old")
	}
	hub, err := connectBare(c)
	if err != nil {
		return err
	}
	var s remote.Sealing
	switch {
	case c.Bool("status"):
		now, err := hub.remote.HubSealing(c.Context)
		if err != nil {
			return err
		}
		return printSealing(c, now)
	case c.Bool("drop-old"):
		if err := hub.remote.HubDo(c.Context, remote.HubDropKeysOp, nil, &s); err != nil {
			return err
		}
		return printSealing(c, &s)
	}
	q := url.Values{}
	if c.Bool("restart") {
		q.Set("restart", "true")
	}
	if err := hub.remote.HubDo(c.Context, remote.HubRotateOp, q, &s); err != nil {
		return err
	}
	return followSealing(c, hub, &s)
}

// followSealing shows a change of the key until it is finished. It outlives a change of the leader, and of the member that is asked.
func followSealing(c *cli.Context, hub *connection, s *remote.Sealing) error {
	ctx, cancel := context.WithTimeout(c.Context, c.Duration("timeout"))
	defer cancel()
	screen := newScreen(c.App.ErrWriter)
	for s.Phase != "sealed" {
		line := sealingLine(s)
		screen.show([]string{line}, line, line)
		if wait(ctx, nil, true) != nil {
			if c.Context.Err() != nil {
				return c.Context.Err()
			}
			return fault.WithExit(fault.ExitStillGoing, fmt.Errorf("not finished after %s: %s; it goes on by itself, and --status shows how far it is", c.Duration("timeout"), line))
		}
		next, err := hub.remote.HubSealing(ctx)
		switch {
		case err == nil:
			s = next
		case ctx.Err() == nil && !fault.Is(err, fault.Unreachable, fault.Unavailable, fault.Timeout):
			return err
		}
	}
	return printSealing(c, s)
}

func sealingLine(s *remote.Sealing) string {
	total := 0
	for _, n := range s.Values {
		total += n
	}
	switch s.Phase {
	case "spreading":
		if len(s.Waiting) > 0 {
			return "the new key goes to all members first; it waits for " + strings.Join(s.Waiting, ", ")
		}
		return "the new key is on all members"
	case "sealing":
		return fmt.Sprintf("%d of %d values are sealed by the new key", s.Values[s.Active], total)
	case "sealed":
		return fmt.Sprintf("all %d values are sealed by the key %s", total, s.Active)
	}
	return fmt.Sprintf("the key %s seals; it was never changed", s.Active)
}

func printSealing(c *cli.Context, s *remote.Sealing) error {
	w := c.App.Writer
	if _, err := fmt.Fprintln(w, sealingLine(s)); err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(s.Values)) {
		fmt.Fprintf(w, "  key %s: %d values\n", id, s.Values[id])
	}
	if len(s.Old) > 0 && s.Phase == "sealed" {
		fmt.Fprintf(w, "old keys are kept (%s): history before revision %s needs them, and so do backups taken before; "+
			"save the keys again (drover-hub key export), and forget old ones with --drop-old\n", strings.Join(s.Old, ", "), s.Since)
	}
	return nil
}
