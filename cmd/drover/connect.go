package main

import (
	"cmp"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"
	"go.yaml.in/yaml/v4"

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
	config, err := remote.LoadKubeconfig(path, "")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no config at %s: name one with --config or DROVER_CONFIG (drover-hub --init writes admin.kubeconfig)", path)
	}
	if err != nil {
		return nil, err
	}
	if err := config.UseServer(c.String("server")); err != nil {
		return nil, usagef("--server: %v", err)
	}
	if err := notExpired(path, config.Cert, time.Now()); err != nil {
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

// notExpired refuses a certificate that no hub will take any more, and says where a new one is to be had: the refusal of a TLS
// handshake could not.
func notExpired(path string, certPEM []byte, now time.Time) error {
	block, _ := pem.Decode(certPEM)
	if block == nil {
		return nil // what is wrong with it, remote.New says
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil || now.Before(cert.NotAfter) {
		return nil
	}
	return fault.Unauthorized.Errorf("kubeconfig %s: the certificate of %s ended at %s; get a new kubeconfig (a hub member's admin.kubeconfig, or drover kubeconfig)",
		path, cert.Subject.CommonName, cert.NotAfter.UTC().Format(time.RFC3339))
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
