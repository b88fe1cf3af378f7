package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/client/remote"
)

func dryRunFlag() cli.Flag {
	return &cli.BoolFlag{Name: "dry-run", Usage: "say what would be done, and do nothing"}
}

func forceFlag(usage string) cli.Flag { return &cli.BoolFlag{Name: "force", Usage: usage} }

// oneName is the argument of a command that takes one.
func oneName(c *cli.Context, what string) (string, error) {
	if c.NArg() != 1 {
		return "", usagef("%s takes one %s, not %d", c.Command.HelpName, what, c.NArg())
	}
	return c.Args().First(), nil
}

// memberOf finds a member by its name.
func memberOf(s *remote.HubStatus, name string) (remote.HubMember, error) {
	i := slices.IndexFunc(s.Members, func(m remote.HubMember) bool { return m.Name == name })
	if i < 0 {
		return remote.HubMember{}, fault.NotFound.Errorf("the hub has no member %q; drover hub members lists them", name)
	}
	return s.Members[i], nil
}

// withMember connects, and finds the one member that the command names.
func withMember(c *cli.Context) (*connection, *remote.HubStatus, remote.HubMember, error) {
	name, err := oneName(c, "member")
	if err != nil {
		return nil, nil, remote.HubMember{}, err
	}
	hub, err := connect(c)
	if err != nil {
		return nil, nil, remote.HubMember{}, err
	}
	s, err := hub.remote.HubStatus(c.Context)
	if err != nil {
		return nil, nil, remote.HubMember{}, err
	}
	m, err := memberOf(s, name)
	return hub, s, m, err
}

func hubRemoveCommand() *cli.Command {
	return &cli.Command{
		Name: "remove", Usage: "take a member out of the hub for good", ArgsUsage: "MEMBER",
		Flags:  []cli.Flag{dryRunFlag(), forceFlag("even if the members that stay have no majority, and the hub stops")},
		Action: removeMember,
	}
}

func removeMember(c *cli.Context) error {
	hub, s, m, err := withMember(c)
	if err != nil {
		return err
	}
	if err := mayRemove(s, m, c.Bool("force")); err != nil {
		return err
	}
	left := len(s.Members) - 1
	if c.Bool("dry-run") {
		voters, alive := without(s, m)
		_, err = fmt.Fprintf(c.App.Writer, "member %s would be removed, %d would stay, and the hub would stand the loss of %d; its directory would be of no use any more\n",
			m.Name, left, max(alive-voters/2-1, 0))
		return err
	}
	q := url.Values{"member": {m.Name}}
	if c.Bool("force") {
		q.Set("force", "true")
	}
	if err := hub.remote.HubDo(c.Context, remote.HubRemoveOp, q, nil); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.App.Writer, "member %s removed, %d stay; stop it, and clear its directory\n", m.Name, left)
	return err
}

// without counts the members with a vote but for one, and those of them that answer.
func without(s *remote.HubStatus, m remote.HubMember) (voters, alive int) {
	for i := range s.Members {
		if o := &s.Members[i]; o.Name != m.Name && o.Role != "learner" {
			voters++
			if o.Error == "" {
				alive++
			}
		}
	}
	return voters, alive
}

// mayRemove tells why a member should not be removed. The hub judges the same, by what it sees itself.
func mayRemove(s *remote.HubStatus, m remote.HubMember, force bool) error {
	voters, alive := without(s, m)
	switch {
	case voters == 0:
		return fault.Conflict.Errorf("%s is the only member with a vote: it cannot be removed", m.Name)
	case alive <= voters/2 && !force:
		return fault.Conflict.Errorf("without %s only %d of %d members with a vote are reachable, which is no majority: the hub would stop. "+
			"Bring the others back first, or remove one that is dead; --force does it all the same", m.Name, alive, voters)
	}
	return nil
}

func hubTransferCommand() *cli.Command {
	return &cli.Command{
		Name: "transfer", Usage: "make a member the leader", ArgsUsage: "MEMBER",
		Action: func(c *cli.Context) error {
			hub, s, m, err := withMember(c)
			if err != nil {
				return err
			}
			if s.Leader == m.Name {
				_, err = fmt.Fprintf(c.App.Writer, "member %s leads already\n", m.Name)
				return err
			}
			if err := hub.remote.HubDo(c.Context, remote.HubTransferOp, url.Values{"member": {m.Name}}, nil); err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.App.Writer, "member %s leads now, before it %s\n", m.Name, dash(s.Leader))
			return err
		},
	}
}

func hubCompactCommand() *cli.Command {
	return &cli.Command{
		Name: "compact", Usage: "forget what was superseded (the hub does so by itself, by count and age)",
		Flags:  []cli.Flag{&cli.Uint64Flag{Name: "keep", Value: 1000, Usage: "`N` revisions can still be read besides the newest; few make those who list or watch just now begin again"}},
		Action: compact,
	}
}

func compact(c *cli.Context) error {
	hub, err := connectBare(c)
	if err != nil {
		return err
	}
	q := url.Values{"keep": {strconv.FormatUint(c.Uint64("keep"), 10)}}
	for {
		var done remote.Compacted
		if err := hub.remote.HubDo(c.Context, remote.HubCompactOp, q, &done); err != nil {
			return err
		}
		if done.More == 0 {
			_, err = fmt.Fprintf(c.App.Writer, "compacted: revisions before %s cannot be read any more; drover hub defrag gives the room back to the disk\n", done.Revision)
			return err
		}
		fmt.Fprintf(c.App.ErrWriter, "compacted to revision %s, %d revisions to go\n", done.Revision, done.More)
	}
}

func hubDefragCommand() *cli.Command {
	return &cli.Command{
		Name: "defrag", Usage: "rewrite members' state files without the room that is free in them, one member at a time", ArgsUsage: "[MEMBER...]",
		Flags:  []cli.Flag{&cli.DurationFlag{Name: "timeout", Value: 10 * time.Minute, Usage: "`DURATION` for which each member is waited for"}},
		Action: defrag,
	}
}

// defrag leaves the leader to the end: entries wait while its file is rewritten.
func defrag(c *cli.Context) error {
	hub, err := connect(c)
	if err != nil {
		return err
	}
	s, err := hub.remote.HubStatus(c.Context)
	if err != nil {
		return err
	}
	members := s.Members
	if c.Args().Present() {
		members = nil
		for _, name := range c.Args().Slice() {
			m, err := memberOf(s, name)
			if err != nil {
				return err
			}
			members = append(members, m)
		}
	}
	slices.SortStableFunc(members, func(a, b remote.HubMember) int {
		return strings.Compare(strconv.FormatBool(a.Role == "leader"), strconv.FormatBool(b.Role == "leader"))
	})
	var failed []string
	for _, m := range members {
		if m.Error != "" {
			failed = append(failed, m.Name)
			fmt.Fprintf(c.App.ErrWriter, "member %s is not reachable: %s\n", m.Name, plain(m.Error))
			continue
		}
		if err := defragOne(c, hub, m); err != nil {
			return err
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("left as they are: %s", strings.Join(failed, ", "))
	}
	return nil
}

func defragOne(c *cli.Context, hub *connection, before remote.HubMember) error {
	fmt.Fprintf(c.App.ErrWriter, "member %s waits for its turn\n", before.Name)
	if err := hub.remote.HubDo(c.Context, remote.HubDefragOp, url.Values{"member": {before.Name}}, nil); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Context, c.Duration("timeout"))
	defer cancel()
	for {
		if wait(ctx, nil, true) != nil {
			return fault.WithExit(fault.ExitStillGoing, fmt.Errorf("member %s has not had its turn after %s; it still waits", before.Name, c.Duration("timeout")))
		}
		s, err := hub.remote.HubStatus(ctx)
		if err != nil {
			continue // a member that answers is found again, or the time ends
		}
		m, err := memberOf(s, before.Name)
		if err != nil {
			return err
		}
		if m.Rewriting || m.Error != "" {
			continue
		}
		_, err = fmt.Fprintf(c.App.Writer, "member %s: state %s -> %s\n", m.Name, size(before.StateBytes), size(m.StateBytes))
		return err
	}
}

func tokenFileFlag() cli.Flag {
	return &cli.StringFlag{Name: "token-file", Usage: "new `FILE` for the join token (default: MEMBER.token here)"}
}

func hubJoinCommand() *cli.Command {
	return &cli.Command{
		Name: "join", Usage: "make a join token for a new member and print the command that it joins by", ArgsUsage: "MEMBER",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "api", Usage: "`HOST:PORT` at which operators and devices will reach it"},
			&cli.StringFlag{Name: "peer", Usage: "`HOST:PORT` at which other members will reach it"},
			tokenFileFlag(),
		},
		Action: func(c *cli.Context) error {
			name, err := oneName(c, "member")
			if err != nil {
				return err
			}
			if c.String("api") == "" || c.String("peer") == "" {
				return usagef("hub join needs --api and --peer, the addresses of the new member")
			}
			if err := addresses(c); err != nil {
				return err
			}
			hub, err := connect(c)
			if err != nil {
				return err
			}
			s, err := hub.remote.HubStatus(c.Context)
			if err != nil {
				return err
			}
			if _, err := memberOf(s, name); err == nil {
				return fault.AlreadyExists.Errorf("the hub has a member %s; to put another in its place: drover hub replace-member %s", name, name)
			}
			if err := ownAddresses(s, name, c.String("api"), c.String("peer")); err != nil {
				return err
			}
			if err := freeTokenFile(c, name); err != nil {
				return err
			}
			return invite(c, hub, s, name, c.String("api"), c.String("peer"))
		},
	}
}

// addresses checks --api and --peer where they are given.
func addresses(c *cli.Context) error {
	for _, flag := range []string{"api", "peer"} {
		addr := c.String(flag)
		if addr == "" {
			continue
		}
		if host, port, err := net.SplitHostPort(addr); err != nil || host == "" || port == "" || strings.ContainsAny(addr, " \t\"'$`\\;&|<>") {
			return usagef("--%s %q: want host:port as others reach it, as 10.0.0.1:7443 or [fd00::1]:7443", flag, addr)
		}
	}
	return nil
}

// ownAddresses refuses those of another member. The hub refuses them too, but only when the new one asks.
func ownAddresses(s *remote.HubStatus, name, apiAddr, peerAddr string) error {
	if apiAddr == peerAddr {
		return usagef("--api and --peer are both %s: want two ports", apiAddr)
	}
	for i := range s.Members {
		m := &s.Members[i]
		if url := strings.TrimPrefix(m.URL, "https://"); m.Name != name && (url == apiAddr || m.Peer == peerAddr) {
			return fault.AlreadyExists.Errorf("member %s of the hub is at %s and %s: %s needs addresses of its own", m.Name, dash(url), dash(m.Peer), name)
		}
	}
	return nil
}

// invite leaves a join token in a file and prints the command by which the member joins.
func invite(c *cli.Context, hub *connection, s *remote.HubStatus, name, apiAddr, peerAddr string) error {
	server := ""
	for i := range s.Members {
		if m := &s.Members[i]; m.Name != name && m.Error == "" && m.URL != "" {
			server = m.URL
			break
		}
	}
	if server == "" {
		return fault.Unavailable.Errorf("no other member is reachable: nobody could be asked to take %s in", name)
	}
	file := tokenFile(c, name)
	token, text, err := newToken(hub, api.JoinTokenSpec{For: api.TokenForHub, Uses: 1, Expires: api.TimeOf(time.Now().Add(24 * time.Hour))}, "")
	if err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, text)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if _, err := hub.Create(c.Context, token, client.WriteOptions{FieldManager: "drover"}); err != nil {
		return errors.Join(err, os.Remove(file))
	}
	fmt.Fprintf(c.App.ErrWriter, "the join token is in %s, good for one member until %s; take it to the machine of %s and run there:\n",
		file, token.Spec.Expires.Format(time.RFC3339), name)
	_, err = fmt.Fprintf(c.App.Writer, "drover-hub --dir /var/lib/drover --name %s --api %s --peer %s --join %s --server %s\n", name, apiAddr, peerAddr, file, server)
	return err
}

func tokenFile(c *cli.Context, name string) string {
	if f := c.String("token-file"); f != "" {
		return f
	}
	return name + ".token"
}

// freeTokenFile refuses a file that exists, before anything is done.
func freeTokenFile(c *cli.Context, name string) error {
	if _, err := os.Lstat(tokenFile(c, name)); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s exists already: name another file with --token-file", tokenFile(c, name))
	}
	return nil
}

func hubReplaceCommand() *cli.Command {
	return &cli.Command{
		Name: "replace-member", Usage: "one member of a living hub is dead: remove it, and let another in under its name and addresses " +
			"(a hub without a majority: drover-hub reset-from-survivor)",
		ArgsUsage: "MEMBER",
		Flags: []cli.Flag{
			dryRunFlag(), forceFlag("even if the member still answers"), tokenFileFlag(),
			&cli.StringFlag{Name: "api", Usage: "`HOST:PORT` of the new one, if not that of the old"},
			&cli.StringFlag{Name: "peer", Usage: "`HOST:PORT` of the new one, if not that of the old"},
		},
		Action: replaceMember,
	}
}

func replaceMember(c *cli.Context) error {
	if err := addresses(c); err != nil {
		return err
	}
	hub, s, m, err := withMember(c)
	if err != nil {
		return err
	}
	switch {
	case m.Error == "" && !c.Bool("force"):
		return fault.Conflict.Errorf("member %s answers: it is not dead. Stop it first, or say --force; to take it out without another: drover hub remove %s", m.Name, m.Name)
	case s.Leader == "":
		return fault.Unavailable.Errorf("the hub has no leader: most of its members must run. If they are gone for good: drover-hub reset-from-survivor on one that is left")
	}
	if err := mayRemove(s, m, false); err != nil {
		return err
	}
	apiAddr, peerAddr := strings.TrimPrefix(m.URL, "https://"), m.Peer
	if a := c.String("api"); a != "" {
		apiAddr = a
	}
	if p := c.String("peer"); p != "" {
		peerAddr = p
	}
	if err := ownAddresses(s, m.Name, apiAddr, peerAddr); err != nil {
		return err
	}
	if c.Bool("dry-run") {
		_, err := fmt.Fprintf(c.App.Writer, "member %s (%s) would be removed: what it acknowledged stands on the %d others, so nothing is lost;\n"+
			"its directory would be of no use any more. A join token would be left in %s, by which a member %s at %s joins\n",
			m.Name, m.Peer, len(s.Members)-1, tokenFile(c, m.Name), m.Name, peerAddr)
		return err
	}
	if err := freeTokenFile(c, m.Name); err != nil {
		return err
	}
	if err := hub.remote.HubDo(c.Context, remote.HubRemoveOp, url.Values{"member": {m.Name}}, nil); err != nil {
		return err
	}
	fmt.Fprintf(c.App.ErrWriter, "member %s removed\n", m.Name)
	return invite(c, hub, s, m.Name, apiAddr, peerAddr)
}
