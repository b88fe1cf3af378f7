// Command drover-hub is one member of a Drover hub.
//
//	drover-hub --dir DIR --name h1 --api HOST:PORT --peer HOST:PORT --init                    founds a new hub
//	drover-hub --dir DIR --name h2 --api HOST:PORT --peer HOST:PORT --join TOKEN --server URL   joins one
//	drover-hub --dir DIR                                                                      starts the member again
//	drover-hub --dir DIR store list|watch [PREFIX]                                            looks at keys of a running one
//
// It runs until SIGTERM or SIGINT (exit code 0). Exit codes: 1 error, 2 usage, 7 the hub to join cannot be reached, 9 the
// hub refuses the token.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/hub"
)

var version = "unknown" // set by the build

// maxToken bounds a token file, in bytes.
const maxToken = 4 << 10

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := app().RunContext(ctx, os.Args)
	stop()
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "drover-hub:", err)
	var usage usageError
	if errors.As(err, &usage) {
		os.Exit(fault.ExitUsage)
	}
	os.Exit(fault.ExitCode(err))
}

type usageError string

func (e usageError) Error() string { return string(e) }

func app() *cli.App {
	return &cli.App{
		Name: "drover-hub", Usage: "one member of a Drover hub", Version: version,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "dir", Usage: "the member's `DIRECTORY`", Required: true},
			&cli.BoolFlag{Name: "init", Usage: "found a new hub in an empty directory"},
			&cli.StringFlag{Name: "join", Usage: "join a hub with this `TOKEN`, or a file that holds it (drover token create --for hub)"},
			&cli.StringFlag{Name: "server", Usage: "with --join: `URL` of any member, as https://10.0.0.1:7443"},
			&cli.StringFlag{Name: "name", Usage: "the member's `NAME`, with --init and --join"},
			&cli.StringFlag{Name: "api", Usage: "`HOST:PORT` at which operators and devices reach it, with --init and --join"},
			&cli.StringFlag{Name: "peer", Usage: "`HOST:PORT` at which other members reach it, with --init and --join"},
			&cli.StringFlag{Name: "listen-api", Usage: "`HOST:PORT` to listen on where that differs from --api"},
			&cli.StringFlag{Name: "listen-peer", Usage: "`HOST:PORT` to listen on where that differs from --peer"},
			&cli.DurationFlag{Name: "poll", Value: 5 * time.Minute, Usage: "`INTERVAL` in which devices call; presence is judged by it"},
			&cli.StringSliceFlag{Name: "plain-registry", Usage: "`HOST[:PORT]` of an image registry that speaks HTTP; may be repeated"},
			&cli.StringFlag{Name: "log-level", Value: "info", Usage: "debug, info, warn or error"},
		},
		Commands:       []*cli.Command{storeCommand()},
		Action:         run,
		ExitErrHandler: func(*cli.Context, error) {}, // main maps errors to codes
		OnUsageError: func(_ *cli.Context, err error, _ bool) error {
			return usageError(err.Error())
		},
	}
}

func run(c *cli.Context) error {
	if c.Args().Present() {
		return usageError(fmt.Sprintf("unexpected argument %q", c.Args().First()))
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.String("log-level"))); err != nil {
		return usageError(fmt.Sprintf("--log-level: %v", err))
	}
	if p := c.Duration("poll"); p < time.Second || p > time.Hour {
		return usageError(fmt.Sprintf("--poll %s: want 1s to 1h", p))
	}
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	if err := prepare(c); err != nil {
		return err
	}
	h, err := hub.Open(hub.Config{
		Dir: c.String("dir"), Version: version, Logger: logger,
		ListenAPI: c.String("listen-api"), ListenPeer: c.String("listen-peer"),
		PollHold: c.Duration("poll"), PlainRegistries: c.StringSlice("plain-registry"),
	})
	if err != nil {
		return err
	}
	return h.Run(c.Context)
}

// prepare founds or joins when that was asked for. Asking for it again after it succeeded is refused, so that nobody founds a
// second hub by a forgotten flag.
func prepare(c *cli.Context) error {
	founds, joins := c.Bool("init"), c.String("join") != ""
	id := hub.Identity{Name: c.String("name"), API: c.String("api"), Peer: c.String("peer")}
	switch {
	case founds && joins:
		return usageError("--init founds a new hub and --join joins one: choose")
	case !founds && !joins:
		if id != (hub.Identity{}) || c.String("server") != "" {
			return usageError("--name, --api, --peer and --server go with --init or --join; a member keeps what it was made with")
		}
		return nil
	case founds:
		return hub.Init(c.String("dir"), id)
	case c.String("server") == "":
		return usageError("--join needs --server, the URL of any member")
	}
	token, err := tokenOf(c.String("join"))
	if err != nil {
		return err
	}
	return hub.Join(c.Context, c.String("dir"), id, hub.Joining{Token: token, Server: strings.TrimRight(c.String("server"), "/")})
}

// tokenOf reads the token itself or the file that holds it.
func tokenOf(arg string) (string, error) {
	if strings.HasPrefix(arg, "drover1.") {
		return arg, nil
	}
	info, err := os.Stat(arg)
	if err != nil {
		return "", fmt.Errorf("--join: neither a token nor a file that holds one: %w", err)
	}
	if info.Size() > maxToken {
		return "", fmt.Errorf("--join: %s is larger than %d bytes: no token", arg, maxToken)
	}
	b, err := os.ReadFile(arg)
	return strings.TrimSpace(string(b)), err
}
