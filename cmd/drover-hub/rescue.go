package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/hub"
)

func jsonFlag() cli.Flag {
	return &cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "output `FORMAT`: json"}
}

// wantsJSON reads -o.
func wantsJSON(c *cli.Context) (bool, error) {
	switch o := c.String("output"); o {
	case "", "json":
		return o == "json", nil
	default:
		return false, usageError(fmt.Sprintf("there is no output format %q here; choose json", o))
	}
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

func doctorCommand() *cli.Command {
	return &cli.Command{
		Name: "doctor", Usage: "look whether a stopped member's directory is sound (of a running hub: drover hub doctor)",
		Flags: []cli.Flag{jsonFlag()}, Action: doctor,
	}
}

func doctor(c *cli.Context) error {
	dir, asJSON, err := plainly(c)
	if err != nil {
		return err
	}
	findings, err := hub.Examine(c.Context, dir)
	if err != nil {
		return err
	}
	if asJSON {
		err = printJSON(c.App.Writer, findings)
	} else {
		err = printFindings(c.App.Writer, findings)
	}
	if err != nil {
		return err
	}
	return verdict(findings)
}

// plainly reads the directory and -o of a command without arguments.
func plainly(c *cli.Context) (dir string, asJSON bool, err error) {
	if err := noArguments(c); err != nil {
		return "", false, err
	}
	if dir, err = dirOf(c); err != nil {
		return "", false, err
	}
	asJSON, err = wantsJSON(c)
	return dir, asJSON, err
}

func printFindings(w io.Writer, findings []hub.Finding) error {
	for _, f := range findings {
		line := fmt.Sprintf("%-8s %s\n", f.Level, f.What)
		if f.Do != "" {
			line += fmt.Sprintf("%-8s -> %s\n", "", f.Do)
		}
		if _, err := io.WriteString(w, line); err != nil {
			return err
		}
	}
	return nil
}

// verdict is the exit code of what was found.
func verdict(findings []hub.Finding) error {
	warnings, troubles := 0, 0
	for _, f := range findings {
		switch f.Level {
		case hub.FindingWarn:
			warnings++
		case hub.FindingBad:
			troubles++
		}
	}
	switch {
	case troubles > 0:
		return fault.WithExit(fault.ExitStopped, fmt.Errorf("findings: %d trouble, %d warnings", troubles, warnings))
	case warnings > 0:
		return fault.WithExit(fault.ExitPending, fmt.Errorf("findings: 0 trouble, %d warnings", warnings))
	}
	return nil
}

func snapshotCommand() *cli.Command {
	return &cli.Command{
		Name: "snapshot", Usage: "a hub from a backup (drover hub snapshot save makes one)",
		Subcommands: []*cli.Command{{
			Name: "restore", Usage: "make an empty directory the first member of a hub that goes on from a backup, in a new epoch",
			Flags: append([]cli.Flag{
				&cli.StringFlag{Name: "from", Usage: "the backup's `FILE`"},
				&cli.StringFlag{Name: "key", Usage: "the `FILE` of the hub's sealing key (drover-hub key export)"},
				dryRunFlag(), aboveFlag(), jsonFlag(),
			}, identityFlags("as the new hub's first member")...),
			Action: restore,
		}},
	}
}

func dryRunFlag() cli.Flag {
	return &cli.BoolFlag{Name: "dry-run", Usage: "say what would be made and what is lost, and leave everything as it is"}
}

func aboveFlag() cli.Flag {
	return &cli.UintFlag{Name: "above-epoch", Usage: "the new epoch's number is above `N`, for a hub whose clock was never set"}
}

func restore(c *cli.Context) error {
	dir, asJSON, err := plainly(c)
	if err != nil {
		return err
	}
	above, err := aboveOf(c)
	if err != nil {
		return err
	}
	if c.String("from") == "" || c.String("key") == "" {
		return usageError("snapshot restore needs --from, the backup, and --key, the sealing key that goes with it")
	}
	if err := checked(identityOf(c)); err != nil {
		return err
	}
	r, err := hub.RestoreBackup(c.Context, dir, hub.RestoreOptions{
		File: c.String("from"), Key: c.String("key"), Identity: identityOf(c), AboveEpoch: above, DryRun: c.Bool("dry-run"),
	})
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(c.App.Writer, r)
	}
	_, err = io.WriteString(c.App.Writer, sayRestore(dir, r, c.Bool("dry-run")))
	return err
}

func aboveOf(c *cli.Context) (uint32, error) {
	n := c.Uint("above-epoch")
	if n >= 1<<24-1 {
		return 0, usageError(fmt.Sprintf("--above-epoch %d: want less than %d", n, 1<<24-1))
	}
	return uint32(n), nil
}

func sayRestore(dir string, r hub.Restore, dry bool) string {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	say("%s of member %s, taken at %s:", "backup", r.From.Member, r.From.Time.Format(time.RFC3339))
	say("  cluster %s, epoch %d (%s), revision %d, entry %d, %d bytes", r.ClusterID, r.Epoch, r.EpochID, r.From.Revision, r.From.Index, r.Bytes)
	say("  %d devices, %d workloads, %d join tokens", r.Devices, r.Workloads, r.JoinTokens)
	say("%s:", would(dry, "made", "would be made"))
	say("  member %s in %s, alone in a new group; the others join it anew", r.Member, dir)
	say("  epoch %d (%s): every revision from %d on is above any that the hub gave out before", r.NextEpoch, r.NextEpochID, r.FirstRevision)
	say("lost:")
	say("  everything written after %s (after revision %d of epoch %d)", r.From.Time.Format(time.RFC3339), r.From.Revision, r.Epoch)
	say("  devices that enrolled since are not known: they keep what they run and enroll again")
	say("  devices deleted since are known again: delete them again, from a list of your own")
	say("  workloads made or changed since run on where they run: drover hub doctor lists devices that are ahead of this hub")
	say("  join tokens used up or deleted since may be used again until they expire: drover delete jointoken NAME")
	for _, m := range r.From.Members {
		if m.Name == r.Member {
			continue // it is this one
		}
		say("  member %s (%s) is not part of the new group; with its old directory it is refused", m.Name, m.Peer)
	}
	if dry {
		say("nothing was changed (--dry-run)")
	} else {
		say("next: drover-hub --dir %s", dir)
	}
	return b.String()
}

func would(dry bool, done, not string) string {
	if dry {
		return not
	}
	return done
}

func resetCommand() *cli.Command {
	return &cli.Command{
		Name: "reset-from-survivor", Usage: "a hub that has lost its majority for good goes on with this member alone, in a new epoch " +
			"(one dead member of a living hub: drover hub replace-member)",
		Flags:  []cli.Flag{dryRunFlag(), aboveFlag(), jsonFlag(), &cli.BoolFlag{Name: "yes", Usage: "the other members are gone for good: do it"}},
		Action: reset,
	}
}

func reset(c *cli.Context) error {
	dir, asJSON, err := plainly(c)
	if err != nil {
		return err
	}
	above, err := aboveOf(c)
	if err != nil {
		return err
	}
	dry := c.Bool("dry-run")
	if !dry && !c.Bool("yes") {
		return usageError("reset-from-survivor drops the other members for good: look with --dry-run first, then say --yes")
	}
	r, err := hub.ResetFromSurvivor(c.Context, dir, hub.ResetOptions{DryRun: dry, AboveEpoch: above})
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(c.App.Writer, r)
	}
	_, err = io.WriteString(c.App.Writer, sayReset(dir, r, dry))
	return err
}

func sayReset(dir string, r hub.Reset, dry bool) string {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	say("member %s of cluster %s holds:", r.Member, r.ClusterID)
	say("  everything up to revision %d of epoch %d (%s): %d devices, %d workloads", r.Revision, r.Epoch, r.EpochID, r.Devices, r.Workloads)
	say("  its file state was at entry %d; %d entries with %d commands came from raft.db", r.StateAt, r.Replayed, r.Commands)
	if r.Unproven > 0 {
		say("  of the last %d entries it does not know that a majority had them; they are kept, since they may have been acknowledged:", r.Unproven)
		say("  a write whose outcome was never told may turn out done")
	}
	if r.Learner {
		say("  it was still catching up when it stopped: it may lack much")
	}
	if r.Removed {
		say("  it had been removed from the hub: it lacks whatever was written since then")
	}
	say("%s:", would(dry, "made", "would be made"))
	say("  a new group of %s alone, with the same CA: devices and operators go on", r.Member)
	say("  epoch %d (%s): every revision from %d on is above any that the hub gave out before", r.NextEpoch, r.NextEpochID, r.FirstRevision)
	say("  the files as they were, in %s: remove them when the fleet is well", r.Old)
	say("lost:")
	say("  whatever was acknowledged after revision %d of epoch %d by a majority without %s: how much cannot be known from here", r.Revision, r.Epoch, r.Member)
	say("  devices that were told of it are ahead of this hub and are left alone: drover hub doctor lists them")
	for _, m := range r.Dropped {
		say("  member %s (%s) is dropped; with its old directory it is refused, wiped it joins again under the same name", m.Name, m.Peer)
	}
	if dry {
		say("nothing was changed (--dry-run); to do it, make sure that none of the dropped members runs, then: drover-hub reset-from-survivor --dir %s --yes", dir)
	} else {
		say("next: drover-hub --dir %s", dir)
	}
	return b.String()
}

func keyCommand() *cli.Command {
	return &cli.Command{
		Name: "key", Usage: "the key without which a backup's secrets, and the cluster's CA among them, cannot be read",
		Subcommands: []*cli.Command{{
			Name: "export", Usage: "save the sealing key to a new file that only its owner can read", ArgsUsage: "FILE", Action: exportKey,
		}},
	}
}

func exportKey(c *cli.Context) error {
	if c.NArg() != 1 {
		return usageError("key export takes the file to make, after the flags")
	}
	dir, err := dirOf(c)
	if err != nil {
		return err
	}
	file := c.Args().First()
	if err := hub.ExportKey(dir, file); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.App.Writer, "saved to %s (mode 0600). It is the same on every member and does not change. Keep it apart from the backups: whoever has both can read the fleet's secrets\n", file)
	return err
}
