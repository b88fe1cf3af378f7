package main

import (
	"cmp"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/client/remote"
)

// defaultPatience outlasts a failover of the hub, which takes a second or two.
const defaultPatience = 10 * time.Second

// connection is the hub with what the config says of it.
type connection struct {
	client.Client
	remote    *remote.Client
	config    *remote.Kubeconfig
	namespace string
}

func configPath(c *cli.Context) (string, error) {
	if p := c.String("config"); p != "" {
		return p, nil
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("find the config: %w; name one with --config", err)
	}
	return filepath.Join(dir, "drover", "config"), nil
}

// connectBare is connect for a command that takes no arguments.
func connectBare(c *cli.Context) (*connection, error) {
	if err := noArguments(c); err != nil {
		return nil, err
	}
	return connect(c)
}

// connect reads the config. Nothing is dialled before the first request.
func connect(c *cli.Context) (*connection, error) {
	path, err := configPath(c)
	if err != nil {
		return nil, err
	}
	config, err := loadConfig(c, path)
	if err != nil {
		return nil, err
	}
	r, err := remote.New(config, remote.Options{
		UserAgent: "drover/" + version,
		Patience:  c.Duration("patience"),
		Warn:      func(text string) { fmt.Fprintln(c.App.ErrWriter, "warning:", text) },
	})
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", path, err)
	}
	ns := cmp.Or(c.String("namespace"), config.Namespace, api.DefaultNS)
	return &connection{Client: r, remote: r, config: config, namespace: ns}, nil
}

// loadConfig reads the context that the command line means, with what it overrides.
func loadConfig(c *cli.Context, path string) (*remote.Kubeconfig, error) {
	config, err := remote.LoadKubeconfig(path, c.String("context"))
	var out *remote.LoggedOutError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, noConfig(path, err)
	case errors.As(err, &out):
		return nil, fault.Unauthorized.Wrap(err)
	case err != nil:
		return nil, err
	}
	if err := config.UseServer(c.String("server")); err != nil {
		return nil, usagef("--server: %v", err)
	}
	if as, groups := c.String("as"), c.StringSlice("as-group"); as != "" {
		config.As, config.AsGroups = as, groups
	} else if len(groups) > 0 {
		return nil, usagef("--as-group needs --as")
	}
	return config, notExpired(path, config, time.Now())
}

// notExpired refuses credentials that no hub will take any more, and says where new ones are to be had: the refusal of a TLS
// handshake could not. A token file is left to the moment when it is used.
func notExpired(path string, config *remote.Kubeconfig, now time.Time) error {
	at := ""
	if path != "" {
		at = "kubeconfig " + path + ": "
	}
	if end, ok := config.Token.Ends(); ok && !now.Before(end) && config.TokenFile == "" {
		return fault.Unauthorized.Errorf("%sthe token of context %s ended at %s; log in again: drover login %s", at, config.Context, end.UTC().Format(time.RFC3339), config.Servers[0])
	}
	block, _ := pem.Decode(config.Cert)
	if block == nil {
		return nil // what is wrong with it, remote.New says
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil || now.Before(cert.NotAfter) {
		return nil
	}
	return fault.Unauthorized.Errorf("%sthe certificate of %s ended at %s; get a new kubeconfig (drover auth add-user by somebody who may, a hub member's admin.kubeconfig, or drover kubeconfig)",
		at, cert.Subject.CommonName, cert.NotAfter.UTC().Format(time.RFC3339))
}

// caDER is the cluster's CA certificate, which tokens pin.
func (c *connection) caDER() ([]byte, error) {
	block, _ := pem.Decode(c.config.CA)
	if block == nil {
		return nil, errors.New("the config holds no CA certificate")
	}
	return block.Bytes, nil
}

func kubeconfigCommand() *cli.Command {
	return &cli.Command{
		Name: "kubeconfig", Usage: "print a kubeconfig with every member of the hub, for kubectl and for drover itself",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "out", Usage: "write it to a new `FILE` that only you can read, instead of printing it"},
		},
		Action: func(c *cli.Context) error {
			hub, err := connectBare(c)
			if err != nil {
				return err
			}
			members, err := hub.remote.Members(c.Context)
			if err != nil {
				return err
			}
			config := *hub.config
			config.Namespace = cmp.Or(c.String("namespace"), config.Namespace)
			b, err := renderKubeconfig(&config, members)
			if err != nil {
				return err
			}
			return writeConfigOut(c, b)
		},
	}
}

// writeConfigOut prints a kubeconfig, or puts it where --out says.
func writeConfigOut(c *cli.Context, b []byte) error {
	file := c.String("out")
	if file == "" {
		_, err := c.App.Writer.Write(b)
		return err
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is there already: name a new file", file)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(file)) // half a config helps nobody
	}
	return nil
}

// renderKubeconfig writes what it was given with the members' addresses of now, as one context "drover".
func renderKubeconfig(k *remote.Kubeconfig, members []remote.Member) ([]byte, error) {
	out := *k
	out.Context = "drover"
	if len(members) > 0 {
		out.Servers = urlsOf(members)
	}
	if len(out.Servers) == 0 {
		return nil, errors.New("no member of the hub has an address")
	}
	return out.Encode()
}

func urlsOf(members []remote.Member) []string {
	var urls []string
	for _, m := range members {
		if m.URL != "" {
			urls = append(urls, m.URL)
		}
	}
	return urls
}
