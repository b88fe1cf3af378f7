package main

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/drover-fleet/drover/client/remote"
)

func addUserCommand() *cli.Command {
	return &cli.Command{
		Name: "add-user", Usage: "make a key here, have the hub certify it for a colleague, and print a kubeconfig with both", ArgsUsage: "NAME",
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "group", Usage: "`GROUP` that the colleague belongs to; may be repeated"},
			&cli.StringFlag{Name: "for", Value: "90d", Usage: "the certificate ends after `DURATION`, as 12h or 90d"},
			&cli.StringFlag{Name: "out", Usage: "write it to a new `FILE` that only you can read, instead of printing it"},
		},
		Action: addUser,
	}
}

func addUser(c *cli.Context) error {
	if c.NArg() != 1 || c.Args().First() == "" {
		return usagef("name one colleague, as drover auth add-user alice --group operators")
	}
	name := c.Args().First()
	life, err := daysOrDuration(c.String("for"))
	if err != nil {
		return usagef("--for %v", err)
	}
	hub, err := connect(c)
	if err != nil {
		return err
	}
	keyPEM, request, err := newRequest(name)
	if err != nil {
		return err
	}
	made, err := hub.remote.AddUser(c.Context, remote.UserRequest{User: name, Groups: c.StringSlice("group"), Request: request, ExpirationSeconds: int64(life / time.Second)})
	if err != nil {
		return err
	}
	config, err := colleague(hub, made, keyPEM)
	if err != nil {
		return err
	}
	config.Namespace = cmp.Or(c.String("namespace"), hub.config.Namespace)
	b, err := renderKubeconfig(config, nil)
	if err != nil {
		return err
	}
	if err := writeConfigOut(c, b); err != nil {
		return err
	}
	groups := "no group: bindings may name the user"
	if len(made.Groups) > 0 {
		groups = "groups " + strings.Join(made.Groups, ", ")
	}
	fmt.Fprintf(c.App.ErrWriter, "certificate of %s (%s), until %s; the key was made here and the hub has not seen it\n",
		plain(made.User), plain(groups), made.NotAfter.UTC().Format(time.RFC3339))
	return nil
}

// colleague is the config of who was certified. It reaches the members that the hub names, and trusts the CA that we trust: an answer
// cannot give another one.
func colleague(hub *connection, made *remote.UserCertificate, keyPEM []byte) (*remote.Kubeconfig, error) {
	config := &remote.Kubeconfig{
		Servers: slices.Clone(hub.config.Servers), ServerName: hub.config.ServerName, CA: hub.config.CA,
		Credentials: remote.Credentials{Cert: made.Certificate, Key: keyPEM},
	}
	if len(made.Servers) == 0 {
		return config, nil
	}
	config.Servers = nil
	for _, s := range made.Servers {
		u, err := remote.CheckServer(s)
		if err != nil {
			return nil, fmt.Errorf("the hub's answer: %w", err)
		}
		config.Servers = append(config.Servers, u)
	}
	return config, nil
}

// newRequest makes a key and a PKCS#10 request by it.
func newRequest(name string) (keyPEM, request []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	request, err = x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}, key)
	if err != nil {
		return nil, nil, fmt.Errorf("make a request: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), request, nil
}

// maxDays bounds what is written in days, a hundred years, far from where a duration overflows.
const maxDays = 36500

// daysOrDuration reads a duration as Go writes it, or whole days: 90d.
func daysOrDuration(s string) (time.Duration, error) {
	if digits, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.Atoi(digits); err == nil && n > 0 && n <= maxDays {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	}
	if d, err := time.ParseDuration(s); err == nil && d >= time.Second {
		return d, nil
	}
	return 0, fmt.Errorf("takes a duration from now, as 12h or 90d, not %q", s)
}
