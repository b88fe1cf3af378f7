package main

import (
	"cmp"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/urfave/cli/v2"
	"go.yaml.in/yaml/v4"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/client/remote"
)

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

// connect reads the config. Nothing is dialled before the first request.
func connect(c *cli.Context) (*connection, error) {
	path, err := configPath(c)
	if err != nil {
		return nil, err
	}
	config, err := remote.LoadKubeconfig(path, "")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no config at %s: name one with --config or DROVER_CONFIG (drover-hub --init writes admin.kubeconfig)", path)
	}
	if err != nil {
		return nil, err
	}
	if s := c.String("server"); s != "" {
		config.Servers = []string{s}
	}
	r, err := remote.New(config, remote.Options{
		UserAgent: "drover/" + version,
		Warn:      func(text string) { fmt.Fprintln(c.App.ErrWriter, "warning:", text) },
	})
	if err != nil {
		return nil, err
	}
	ns := cmp.Or(c.String("namespace"), config.Namespace, api.DefaultNS)
	return &connection{Client: r, remote: r, config: config, namespace: ns}, nil
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
		Action: func(c *cli.Context) error {
			hub, err := connect(c)
			if err != nil {
				return err
			}
			members, err := hub.remote.Members(c.Context)
			if err != nil {
				return err
			}
			b, err := renderKubeconfig(hub.config, members)
			if err != nil {
				return err
			}
			_, err = c.App.Writer.Write(b)
			return err
		},
	}
}

// renderKubeconfig writes what it was given with the members' addresses of now. kubectl uses the first server only.
func renderKubeconfig(k *remote.Kubeconfig, members []remote.Member) ([]byte, error) {
	servers := k.Servers
	if len(members) > 0 {
		servers = nil
		for _, m := range members {
			if m.URL != "" {
				servers = append(servers, m.URL)
			}
		}
	}
	if len(servers) == 0 {
		return nil, errors.New("no member of the hub has an address")
	}
	b64 := base64.StdEncoding.EncodeToString
	cluster := map[string]any{
		"server": servers[0], "certificate-authority-data": b64(k.CA),
		"extensions": []any{map[string]any{"name": "fleet.drover.dev/servers", "extension": map[string]any{"servers": servers}}},
	}
	if k.ServerName != "" {
		cluster["tls-server-name"] = k.ServerName
	}
	context := map[string]any{"cluster": "drover", "user": "drover"}
	if k.Namespace != "" {
		context["namespace"] = k.Namespace
	}
	return yaml.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "drover",
		"clusters": []any{map[string]any{"name": "drover", "cluster": cluster}},
		"contexts": []any{map[string]any{"name": "drover", "context": context}},
		"users": []any{map[string]any{"name": "drover", "user": map[string]any{
			"client-certificate-data": b64(k.Cert), "client-key-data": b64(k.Key),
		}}},
	})
}

func hubCommand() *cli.Command {
	return &cli.Command{
		Name: "hub", Usage: "the hub itself",
		Subcommands: []*cli.Command{{
			Name: "members", Usage: "list the hub's members",
			Action: func(c *cli.Context) error {
				hub, err := connect(c)
				if err != nil {
					return err
				}
				members, err := hub.remote.Members(c.Context)
				if err != nil {
					return err
				}
				tw := tabwriter.NewWriter(c.App.Writer, 0, 8, 3, ' ', 0)
				fmt.Fprintln(tw, "NAME\tROLE\tHEALTHY\tURL\tMESSAGE")
				for _, m := range members {
					role := "follower"
					if m.Leader {
						role = "leader"
					}
					fmt.Fprintf(tw, "%s\t%s\t%t\t%s\t%s\n", m.Name, role, m.Healthy, dash(m.URL), dash(m.Message))
				}
				return tw.Flush()
			},
		}},
	}
}
