package main

import (
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/wire"
	"github.com/drover-fleet/drover/client"
)

func tokenCommand() *cli.Command {
	return &cli.Command{
		Name: "token", Usage: "tokens by which devices and hub members join",
		Subcommands: []*cli.Command{{
			Name: "create", Usage: "make a token and print it; it is shown this once",
			Flags: []cli.Flag{
				&cli.StringFlag{Name: "for", Value: "device", Usage: "device or hub"},
				&cli.StringFlag{Name: "name", Usage: "`NAME` of the token (default: generated)"},
				&cli.IntFlag{Name: "uses", Value: 1, Usage: "how many may join by it"},
				&cli.DurationFlag{Name: "expires", Value: 24 * time.Hour, Usage: "after how long it ends"},
				&cli.StringSliceFlag{Name: "label", Usage: "`KEY=VALUE` given to each device that joins by it; may be repeated"},
				&cli.BoolFlag{Name: "approve", Usage: "a person must approve each device (drover approve)"},
			},
			Action: tokenCreate,
		}},
	}
}

func tokenCreate(c *cli.Context) error {
	labels := map[string]string{}
	for _, l := range c.StringSlice("label") {
		k, v, ok := strings.Cut(l, "=")
		if !ok || k == "" {
			return usagef("label %q is not KEY=VALUE", l)
		}
		labels[k] = v
	}
	hub, err := connect(c)
	if err != nil {
		return err
	}
	ca, err := hub.caDER()
	if err != nil {
		return err
	}
	name := c.String("name")
	if name == "" {
		name = c.String("for") + "-" + strings.ToLower(rand.Text()[:8])
	}
	secret, err := wire.NewToken(rand.Reader, ca, name)
	if err != nil {
		return err
	}
	token := &api.JoinToken{
		TypeMeta: api.TypeMeta{APIVersion: api.FleetV1, Kind: "JoinToken"},
		Metadata: api.ObjectMeta{Name: name},
		Spec: api.JoinTokenSpec{
			For: c.String("for"), Uses: int32(c.Int("uses")), Expires: api.TimeOf(time.Now().Add(c.Duration("expires"))),
			Labels: labels, Approve: c.Bool("approve"), SecretHash: secret.SecretHash(),
		},
	}
	if _, err := hub.Create(c.Context, token, client.WriteOptions{FieldManager: "drover"}); err != nil {
		return err
	}
	fmt.Fprintf(c.App.ErrWriter, "token %s: %d use(s), until %s; it is shown this once\n", name, token.Spec.Uses, token.Spec.Expires.Format(time.RFC3339))
	_, err = fmt.Fprintln(c.App.Writer, string(secret.Reveal()))
	return err
}

func approveCommand() *cli.Command {
	return &cli.Command{
		Name: "approve", Usage: "let devices in that wait for it (drover get enrollmentrequests)", ArgsUsage: "REQUEST...",
		Flags:  []cli.Flag{&cli.BoolFlag{Name: "replace", Usage: "the device takes over a name that another key holds"}},
		Action: func(c *cli.Context) error { return decide(c, "approved") },
	}
}

func denyCommand() *cli.Command {
	return &cli.Command{
		Name: "deny", Usage: "turn devices away that wait to be let in", ArgsUsage: "REQUEST...",
		Action: func(c *cli.Context) error { return decide(c, "denied") },
	}
}

func decide(c *cli.Context, word string) error {
	if !c.Args().Present() {
		return usagef("name the requests; drover get enrollmentrequests lists them")
	}
	hub, err := connect(c)
	if err != nil {
		return err
	}
	for _, name := range c.Args().Slice() {
		obj, err := hub.Get(c.Context, api.Ref{Kind: api.KindEnrollmentRequest, Name: name}, client.GetOptions{})
		if err != nil {
			return err
		}
		rq := obj.DeepCopyObject().(*api.EnrollmentRequest)
		rq.Spec.Approved, rq.Spec.Denied = word == "approved", word == "denied"
		rq.Spec.Replace = rq.Spec.Replace || c.Bool("replace")
		if _, err := hub.Update(c.Context, rq, client.WriteOptions{FieldManager: "drover"}); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(c.App.Writer, "enrollmentrequest/%s %s\n", name, word); err != nil {
			return err
		}
	}
	return nil
}
