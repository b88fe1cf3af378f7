package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/drover-fleet/drover/client/remote"
)

// maxCredentialFile bounds each file that login reads, in bytes.
const maxCredentialFile = 1 << 20

func loginCommand() *cli.Command {
	return &cli.Command{
		Name: "login", Usage: "verify a hub, show it who you are, and keep both as a context of the config", ArgsUsage: "https://HOST:PORT",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "token-file", Usage: "bearer token in `FILE`, which is read again at each use; - reads it once from standard input and keeps it"},
			&cli.StringFlag{Name: "certificate", Usage: "client certificate in `FILE`, PEM"},
			&cli.StringFlag{Name: "key", Usage: "its key in `FILE`, PEM"},
			&cli.StringFlag{Name: "ca", Usage: "the hub's CA in `FILE`, PEM: a member's ca.crt"},
			&cli.StringFlag{Name: "ca-fingerprint", Usage: "the hub's CA by its fingerprint, `sha256:HEX`"},
			&cli.StringFlag{Name: "name", Usage: "`NAME` of the context (default: the hub's host)"},
		},
		Action: login,
	}
}

func login(c *cli.Context) error {
	config, err := loginUsage(c)
	if err != nil {
		return err
	}
	path, err := configPath(c)
	if err != nil {
		return err
	}
	if config.Credentials, err = credentialsGiven(c); err != nil {
		return err
	}
	trust, err := trustGiven(c, path, config)
	if err != nil {
		return err
	}
	pinned, err := remote.Pin(c.Context, config.Servers[0], trust, c.Duration("patience"))
	if err != nil {
		return err
	}
	config.CA, config.ServerName = pinned.CA, pinned.ServerName
	who, err := introduce(c, config)
	if err != nil {
		return err
	}
	if err := remote.EditConfigFile(path, func(f *remote.ConfigFile) error { return f.Login(config) }); err != nil {
		return err
	}
	return welcome(c, path, config, who)
}

func loginUsage(c *cli.Context) (*remote.Kubeconfig, error) {
	if c.NArg() != 1 {
		return nil, usagef("name one hub, as drover login https://HOST:PORT")
	}
	server, err := remote.CheckServer(c.Args().First())
	if err != nil {
		return nil, usagef("%v", err)
	}
	switch {
	case c.String("token-file") != "" && c.String("certificate") != "":
		return nil, usagef("give --token-file, or --certificate and --key, not both")
	case (c.String("certificate") == "") != (c.String("key") == ""):
		return nil, usagef("--certificate and --key go together")
	case c.String("ca") != "" && c.String("ca-fingerprint") != "":
		return nil, usagef("give --ca or --ca-fingerprint, not both")
	}
	name := c.String("name")
	if name == "" {
		u, err := url.Parse(server)
		if err != nil {
			return nil, usagef("%v", err)
		}
		name = u.Hostname()
	}
	return &remote.Kubeconfig{Context: name, Servers: []string{server}, Namespace: c.String("namespace")}, nil
}

// credentialsGiven reads what the flags name, or asks at a terminal. Nothing secret is ever an argument: arguments are seen by
// every user of the machine.
func credentialsGiven(c *cli.Context) (remote.Credentials, error) {
	var k remote.Credentials
	var err error
	switch file := c.String("token-file"); {
	case c.String("certificate") != "":
		if k.Cert, err = readCredential(c.String("certificate")); err != nil {
			return k, err
		}
		if k.Key, err = readCredential(c.String("key")); err != nil {
			return k, err
		}
		if _, err = tls.X509KeyPair(k.Cert, k.Key); err != nil {
			return k, fmt.Errorf("--certificate and --key: %w", err)
		}
	case file == "-":
		k.Token, err = readToken(c.App.Reader, "standard input")
	case file != "":
		if k.TokenFile, err = filepath.Abs(file); err == nil {
			_, err = k.CurrentToken()
		}
	default:
		k.Token, err = askToken(c)
	}
	return k, err
}

func readCredential(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxCredentialFile+1))
	if err == nil && len(b) > maxCredentialFile {
		err = fmt.Errorf("%s is more than %d bytes", path, maxCredentialFile)
	}
	return b, err
}

func readToken(in io.Reader, where string) (remote.Token, error) {
	b, err := io.ReadAll(io.LimitReader(in, maxCredentialFile))
	if err != nil {
		return "", fmt.Errorf("%s: %w", where, err)
	}
	t, err := remote.CheckToken(b)
	if err != nil {
		return "", fmt.Errorf("%s: %w", where, err)
	}
	return t, nil
}

// askToken reads a token at the terminal without showing it.
func askToken(c *cli.Context) (remote.Token, error) {
	in, ok := c.App.Reader.(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		return "", usagef("say who you are: --token-file FILE (- for standard input), or --certificate FILE and --key FILE")
	}
	fmt.Fprint(c.App.ErrWriter, "Token (it is not shown): ")
	b, err := term.ReadPassword(int(in.Fd()))
	fmt.Fprintln(c.App.ErrWriter)
	if err != nil {
		return "", fmt.Errorf("read the token: %w", err)
	}
	return remote.CheckToken(b)
}

// trustGiven is what the flags say; without any, the CA that a context of that name has for the same server already.
func trustGiven(c *cli.Context, path string, config *remote.Kubeconfig) (remote.Trust, error) {
	t := remote.Trust{Fingerprint: c.String("ca-fingerprint")}
	var err error
	if c.String("ca") != "" {
		t.CA, err = readCredential(c.String("ca"))
		return t, err
	}
	if t.Fingerprint != "" {
		return t, nil
	}
	known, err := remote.LoadCluster(path, config.Context)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, remote.ErrNoContext):
		return t, nil
	case err != nil:
		return t, err
	case slices.Contains(known.Servers, config.Servers[0]):
		t.CA, config.Namespace = known.CA, cmp.Or(config.Namespace, known.Namespace)
	}
	return t, nil
}

// introduce shows the hub who one is, and asks for whom it takes one and which members it has.
func introduce(c *cli.Context, config *remote.Kubeconfig) (remote.UserInfo, error) {
	if err := notExpired("", config, time.Now()); err != nil {
		return remote.UserInfo{}, err
	}
	r, err := remote.New(config, remote.Options{UserAgent: "drover/" + version, Patience: c.Duration("patience")})
	if err != nil {
		return remote.UserInfo{}, err
	}
	defer r.Close()
	who, err := r.WhoAmI(c.Context)
	if err != nil {
		return who, err
	}
	config.Servers = append(config.Servers, others(c.Context, r, config.Servers)...)
	return who, nil
}

// others are the URLs of the members beside those known. Who may not see the members gets on with the one that was named.
func others(ctx context.Context, r *remote.Client, known []string) []string {
	members, err := r.Members(ctx)
	if err != nil {
		return nil
	}
	var more []string
	for _, m := range urlsOf(members) {
		if u, err := remote.CheckServer(m); err == nil && !slices.Contains(known, u) {
			more = append(more, u)
		}
	}
	return more
}

func welcome(c *cli.Context, path string, config *remote.Kubeconfig, who remote.UserInfo) error {
	_, err := fmt.Fprintf(c.App.Writer, "logged in to %s as %s\n", config.Servers[0], sayUser(who))
	fmt.Fprintf(c.App.ErrWriter, "context %s of %s is the current one; what you may do: drover auth can-i --list\n", config.Context, path)
	return err
}

func sayUser(who remote.UserInfo) string {
	if len(who.Groups) == 0 {
		return plain(who.Username)
	}
	return plain(fmt.Sprintf("%s (%s)", who.Username, strings.Join(who.Groups, ", ")))
}

func logoutCommand() *cli.Command {
	return &cli.Command{
		Name: "logout", Usage: "forget the credentials of the current context, or of NAME", ArgsUsage: "[NAME]",
		Action: func(c *cli.Context) error {
			if c.NArg() > 1 {
				return usagef("name one context at most")
			}
			return changeConfig(c, func(f *remote.ConfigFile) error {
				was, also, err := f.Logout(cmp.Or(c.Args().First(), c.String("context")))
				if err != nil {
					return err
				}
				if !was.LoggedIn {
					fmt.Fprintf(c.App.ErrWriter, "nobody was logged in to %s\n", was.Name)
					return nil
				}
				fmt.Fprintf(c.App.Writer, "logged out of %s\n", was.Name)
				if len(also) > 0 {
					fmt.Fprintf(c.App.ErrWriter, "the same credentials were those of %s\n", strings.Join(also, ", "))
				}
				fmt.Fprintln(c.App.ErrWriter, "a copy of a token or certificate that somebody kept stays good until it ends")
				return nil
			})
		},
	}
}

// changeConfig changes the config file, which must be there.
func changeConfig(c *cli.Context, edit func(*remote.ConfigFile) error) error {
	path, err := configPath(c)
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); err != nil {
		return noConfig(path, err)
	}
	return remote.EditConfigFile(path, edit)
}

func noConfig(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no config at %s: see drover login, or name one with --config or DROVER_CONFIG (drover-hub --init writes admin.kubeconfig)", path)
	}
	return err
}
