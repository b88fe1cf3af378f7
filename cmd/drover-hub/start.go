package main

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/hub"
)

// maxToken bounds a token file, in bytes.
const maxToken = 4 << 10

// leastRate is in bytes a second: slower, no member would ever catch up.
const leastRate = 64 << 10

func memberFlags() []cli.Flag {
	return append([]cli.Flag{
		dirFlag(),
		&cli.BoolFlag{Name: "init", Usage: "found a new hub in an empty directory"},
		&cli.BoolFlag{Name: "force-new", Usage: "with --init: found it even where members or devices of another hub call"},
		&cli.StringFlag{Name: "join", Usage: "join a hub with this `TOKEN`, or a file that holds it (drover token create --for hub)"},
		&cli.StringFlag{Name: "server", Usage: "with --join: `URL` of any member, as https://10.0.0.1:7443"},
	}, append(identityFlags("with --init and --join"),
		&cli.StringFlag{Name: "listen-api", Usage: "`HOST:PORT` to listen on where that differs from --api"},
		&cli.StringFlag{Name: "listen-peer", Usage: "`HOST:PORT` to listen on where that differs from --peer"},
		&cli.DurationFlag{Name: "poll", Value: 5 * time.Minute, Usage: "`INTERVAL` in which devices call; presence is judged by it"},
		&cli.StringFlag{Name: "copy-rate", Value: "64Mi", Usage: "`SIZE` a second of copies of the state that this member sends to others"},
		&cli.StringSliceFlag{Name: "plain-registry", Usage: "`HOST[:PORT]` of an image registry that speaks HTTP; may be repeated"},
		&cli.StringFlag{Name: "log-level", Value: "info", Usage: "debug, info, warn or error"},
	)...)
}

func identityFlags(when string) []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "name", Usage: "the member's `NAME`, " + when},
		&cli.StringFlag{Name: "api", Usage: "`HOST:PORT` at which operators and devices reach it, " + when},
		&cli.StringFlag{Name: "peer", Usage: "`HOST:PORT` at which other members reach it, " + when},
	}
}

func identityOf(c *cli.Context) hub.Identity {
	return hub.Identity{Name: c.String("name"), API: c.String("api"), Peer: c.String("peer")}
}

// checked refuses an identity that makes no sense as a wrong use, in one line.
func checked(id hub.Identity) error {
	if err := id.Validate(); err != nil {
		return usageError(strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return nil
}

func run(c *cli.Context) error {
	if err := noArguments(c); err != nil {
		return err
	}
	dir, err := dirOf(c)
	if err != nil {
		return err
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.String("log-level"))); err != nil {
		return usageError(fmt.Sprintf("--log-level: %v", err))
	}
	if p := c.Duration("poll"); p < time.Second || p > time.Hour {
		return usageError(fmt.Sprintf("--poll %s: want 1s to 1h", p))
	}
	growth, err := growthOf(c)
	if err != nil {
		return err
	}
	rate, err := api.ParseQuantity(c.String("copy-rate"))
	if err != nil || rate.Bytes() < leastRate {
		return usageError(fmt.Sprintf("--copy-rate %q: want a size of %dKi or more, as 512Ki or 64Mi", c.String("copy-rate"), leastRate>>10))
	}
	record, err := auditOf(c)
	if err != nil {
		return err
	}
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	if err := prepare(c, dir); err != nil {
		return err
	}
	h, err := hub.Open(hub.Config{
		Dir: dir, Version: version, Logger: logger,
		ListenAPI: c.String("listen-api"), ListenPeer: c.String("listen-peer"),
		PollHold: c.Duration("poll"), PlainRegistries: c.StringSlice("plain-registry"), Growth: growth, CopyRate: rate.Bytes(), Audit: record,
	})
	if err != nil {
		return err
	}
	return runMember(c, dir, h)
}

// prepare founds or joins when that was asked for. Asking for it again after it succeeded is refused, so that nobody founds a
// second hub by a forgotten flag.
func prepare(c *cli.Context, dir string) error {
	founds, joins := c.Bool("init"), c.String("join") != ""
	id := identityOf(c)
	switch {
	case founds && joins:
		return usageError("--init founds a new hub and --join joins one: choose")
	case c.Bool("force-new") && !founds:
		return usageError("--force-new goes with --init")
	case !founds && !joins:
		if id != (hub.Identity{}) || c.String("server") != "" {
			return usageError("--name, --api, --peer and --server go with --init or --join; a member keeps what it was made with")
		}
		return nil
	case joins && c.String("server") == "":
		return usageError("--join needs --server, the URL of any member")
	}
	if err := checked(id); err != nil {
		return err
	}
	switch {
	case founds && c.Bool("force-new"):
		if err := hub.Init(dir, id); err != nil {
			return err
		}
		return hub.NoteForced(dir, "force-new", "founded without looking for members and devices of another hub")
	case founds:
		return hub.InitUnlessMissed(c.Context, dir, id, c.String("listen-api"), c.String("listen-peer"))
	}
	token, err := tokenOf(c.String("join"))
	if err != nil {
		return err
	}
	return hub.Join(c.Context, dir, id, hub.Joining{Token: token, Server: strings.TrimRight(c.String("server"), "/")})
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
