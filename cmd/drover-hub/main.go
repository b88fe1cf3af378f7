// Command drover-hub is one member of a Drover hub.
//
//	drover-hub --dir DIR --name h1 --api HOST:PORT --peer HOST:PORT --init                    founds a new hub
//	drover-hub --dir DIR --name h2 --api HOST:PORT --peer HOST:PORT --join TOKEN --server URL   joins one
//	drover-hub --dir DIR                                                                      starts the member again
//	drover-hub store list|watch --dir DIR [PREFIX]                                            looks at keys of a running one
//
// and, on a directory that no member runs on:
//
//	drover-hub doctor --dir DIR                                                               looks whether it is sound
//	drover-hub snapshot restore --dir DIR --from FILE --key FILE --name ... --api ... --peer ...   a hub from a backup
//	drover-hub reset-from-survivor --dir DIR                                                  a hub that lost its majority
//	drover-hub key export --dir DIR FILE                                                      what a backup needs besides
//
// It runs until SIGTERM or SIGINT (exit code 0). The exit codes of failures are in its help.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/hub"
)

var version = "unknown" // set by the build

const exitCodes = `EXIT CODES:
   0 told to end, or done   1 error   2 usage
   3 doctor: may not work for long   6 doctor: does not work
   7 the hub to join cannot be reached   9 the hub refuses the token
   10 another process works on the directory   11 the directory is no member's, or another's
   12 the disk is full   13 the hub was restored or reset since: this directory is of its past
   14 a new hub was to be founded where one is missed (--force-new)
   A supervisor should not start again after 2, 9, 11, 13 and 14, and may after 10 and 12; systemd: RestartPreventExitStatus=2 9 11 13 14
`

func main() {
	if err := keepMemory(); err != nil {
		fmt.Fprintln(os.Stderr, "drover-hub:", err)
		os.Exit(fault.ExitError)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := app().RunContext(ctx, os.Args)
	stop()
	if err == nil {
		return
	}
	if text := err.Error(); text != "" {
		fmt.Fprintln(os.Stderr, "drover-hub:", text)
	}
	if advice := hub.Advice(err); advice != "" {
		fmt.Fprintln(os.Stderr, "drover-hub:", advice)
	}
	var usage usageError
	if errors.As(err, &usage) {
		os.Exit(fault.ExitUsage)
	}
	os.Exit(hub.ExitCode(err))
}

type usageError string

func (e usageError) Error() string { return string(e) }

func app() *cli.App {
	a := &cli.App{
		Name: "drover-hub", Usage: "one member of a Drover hub", Version: version,
		CustomAppHelpTemplate: cli.AppHelpTemplate + "\n" + exitCodes,
		Flags:                 slices.Concat(memberFlags(), upkeepFlags(), auditFlags(), profileFlags()),
		Commands:              []*cli.Command{storeCommand(), doctorCommand(), snapshotCommand(), resetCommand(), keyCommand()},
		Action:                run,
		ExitErrHandler:        func(*cli.Context, error) {}, // main maps errors to codes
		OnUsageError:          onUsageError,
	}
	finish(a.Commands)
	return a
}

func onUsageError(c *cli.Context, err error, _ bool) error {
	const unknown = "flag provided but not defined: "
	text, help := err.Error(), strings.TrimSpace(c.App.Name+" "+strings.TrimPrefix(c.Command.FullName(), c.App.Name))
	if flag, ok := strings.CutPrefix(text, unknown); ok {
		text = "there is no flag -" + flag
	}
	return usageError(text + "; see " + help + " --help")
}

// finish gives every command the flag --dir, so that it may stand on either side of the command's name, and one way to be used wrongly.
func finish(cmds []*cli.Command) {
	for _, c := range cmds {
		c.OnUsageError, c.HideHelpCommand = onUsageError, true
		if len(c.Subcommands) > 0 {
			finish(c.Subcommands)
			c.Action = func(ctx *cli.Context) error {
				if ctx.Args().Present() {
					return usageError(fmt.Sprintf("there is no command %q; see drover-hub %s --help", ctx.Args().First(), ctx.Command.Name))
				}
				return cli.ShowSubcommandHelp(ctx)
			}
		}
		c.Flags = append(c.Flags, dirFlag())
	}
}

func dirFlag() cli.Flag { return &cli.StringFlag{Name: "dir", Usage: "the member's `DIRECTORY`"} }

// dirOf finds --dir wherever it was given.
func dirOf(c *cli.Context) (string, error) {
	for _, at := range c.Lineage() {
		if at != nil && at.IsSet("dir") && at.String("dir") != "" {
			return at.String("dir"), nil
		}
	}
	return "", usageError("--dir is missing: name the member's directory")
}

func noArguments(c *cli.Context) error {
	if c.Args().Present() {
		return usageError(fmt.Sprintf("unexpected argument %q", c.Args().First()))
	}
	return nil
}
