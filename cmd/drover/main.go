// Command drover is the operator's tool: it applies manifests, follows rollouts, shows what runs where and why.
//
// Standard output is data, standard error is progress and errors. Exit codes: 0 done, 1 error, 2 usage, 3 done with some
// devices pending-offline (drover diff --detailed-exitcode: differences; drover hub doctor: warnings), 4 timed out and still going,
// 5 some devices failed, 6 stopped by a person, a newer revision or a missing --confirm (drover hub doctor and audit verify: trouble),
// 7 unreachable, 8 conflict, 9 denied (drover auth can-i: no).
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/drover-fleet/drover/api/fault"
)

var version = "unknown" // set by the build

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	code := run(ctx, os.Args, os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the whole program, so that tests can call it. The exit code is returned.
func run(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	app := newApp(in, out, errOut)
	args, err := arrange(app, args)
	if err == nil {
		err = app.RunContext(ctx, args)
	}
	var usage *usageError
	switch {
	case err == nil:
		return fault.ExitDone
	case errors.As(err, &usage):
		fmt.Fprintf(errOut, "drover: %v\n", err)
		return fault.ExitUsage
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		fmt.Fprintln(errOut, "drover: "+interrupted(args))
		return fault.ExitStillGoing
	}
	if !errors.Is(err, errSaid) {
		fmt.Fprintf(errOut, "drover: %s\n", err)
	}
	return fault.ExitCode(err)
}

// interrupted says what goes on after a command was cut short, by its arranged command line.
func interrupted(args []string) string {
	for _, w := range args[1:] {
		switch w {
		case "get", "describe", "diff", "logs", "why", "history", "kubeconfig", "login", "logout", "context", "auth":
			return "interrupted"
		case "status", "wait":
			return "interrupted; what was followed goes on"
		case "apply", "delete", "label", "undo", "token", "approve", "deny", "hub", "--":
			return "interrupted; what was sent to the hub goes on there"
		}
	}
	return "interrupted"
}

// errSaid is the error of a command whose output is all that there is to say; only its exit code is wanted.
var errSaid = errors.New("said already")

// usageError is a command line that makes no sense; exit code 2.
type usageError struct{ msg string }

func (e *usageError) Error() string { return e.msg }

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

const exitCodes = `EXIT CODES:
   0 done   1 error   2 usage   3 done, some devices pending-offline   4 timed out and still going
   5 some devices failed   6 stopped by a person, a newer revision or a missing --confirm   7 unreachable   8 conflict   9 denied
   hub doctor: 3 warnings   6 trouble      diff --detailed-exitcode: 3 differences      audit verify: 6 trouble      auth can-i: 9 no
`

func newApp(in io.Reader, out, errOut io.Writer) *cli.App {
	app := &cli.App{
		Name: "drover", HelpName: "drover", Usage: "run workloads on fleets of small devices", Version: version,
		Reader: in, Writer: out, ErrWriter: errOut,
		HideVersion: true, EnableBashCompletion: true, DisableSliceFlagSeparator: true, // file names may hold commas
		CustomAppHelpTemplate: cli.AppHelpTemplate + "\n" + exitCodes,
		ExitErrHandler:        func(*cli.Context, error) {}, // run maps errors to codes in one place
		OnUsageError: func(_ *cli.Context, err error, _ bool) error {
			return usagef("%v; see drover --help", err)
		},
		Flags: globalFlags(),
		Action: func(c *cli.Context) error {
			switch {
			case c.Args().Present():
				return usagef("there is no command %q; see drover --help", c.Args().First())
			case c.Bool("version"):
				return printVersion(c)
			}
			return cli.ShowAppHelp(c)
		},
		Commands: []*cli.Command{
			applyCommand(), diffCommand(), getCommand(), describeCommand(), deleteCommand(), rolloutCommand(), logsCommand(), labelCommand(),
			waitCommand(), whyCommand(), auditCommand(), tokenCommand(), hubCommand(), debugCommand(), approveCommand(), denyCommand(),
			loginCommand(), logoutCommand(), contextCommand(), authCommand(), kubeconfigCommand(), versionCommand(),
		},
	}
	finishCommands(app.Commands, "drover")
	return app
}

func globalFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "config", EnvVars: []string{"DROVER_CONFIG"}, Usage: "kubeconfig `FILE` (default ~/.config/drover/config)"},
		&cli.StringFlag{Name: "context", Usage: "context `NAME` of the config (default: its current one)"},
		&cli.StringFlag{Name: "as", Usage: "act as `USER`, which needs the right to impersonate"},
		&cli.StringSliceFlag{Name: "as-group", Usage: "act as a member of `GROUP`, beside --as; may be repeated"},
		&cli.StringFlag{Name: "server", Usage: "ask only the hub member at `URL`"},
		&cli.StringFlag{Name: "namespace", Aliases: []string{"n"}, Usage: "`NAMESPACE` of the objects", DefaultText: "the config's, or default"},
		&cli.DurationFlag{Name: "patience", Value: defaultPatience, Usage: "`DURATION` for which one request looks for a hub member that answers"},
		&cli.BoolFlag{Name: "version", Usage: "print this program's version"},
	}
}

// finishCommands makes a wrong flag of any command exit 2 with one line, and keeps the library's own "help" command from taking
// an argument of that name.
func finishCommands(cmds []*cli.Command, parent string) {
	for _, c := range cmds {
		name := parent + " " + c.Name
		c.OnUsageError = func(_ *cli.Context, err error, _ bool) error {
			return usagef("%v; see %s --help", err, name)
		}
		c.HideHelpCommand = true
		if len(c.Subcommands) > 0 {
			c.Action = func(ctx *cli.Context) error {
				if ctx.Args().Present() {
					return usagef("there is no command %q; see %s --help", ctx.Args().First(), name)
				}
				return cli.ShowSubcommandHelp(ctx)
			}
		}
		finishCommands(c.Subcommands, name)
	}
}

func versionCommand() *cli.Command {
	return &cli.Command{Name: "version", Usage: "print this program's version", Action: func(c *cli.Context) error {
		if err := noArguments(c); err != nil {
			return err
		}
		return printVersion(c)
	}}
}

func printVersion(c *cli.Context) error {
	_, err := fmt.Fprintln(c.App.Writer, "drover", version)
	return err
}

func noArguments(c *cli.Context) error {
	if c.Args().Present() {
		return usagef("%s takes no arguments, not %q", c.Command.HelpName, c.Args().First())
	}
	return nil
}
