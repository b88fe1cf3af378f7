package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/wire"
	"github.com/drover-fleet/drover/client"
)

func tokenCommand() *cli.Command {
	return &cli.Command{
		Name: "token", Usage: "tokens by which devices and hub members join",
		Subcommands: []*cli.Command{{
			Name: "create", Usage: "make a token and print it; it is shown this once",
			Flags: []cli.Flag{
				&cli.StringFlag{Name: "for", Value: "device", Usage: "`WHO` may join by it: device or hub"},
				&cli.StringFlag{Name: "name", Usage: "`NAME` of the token (default: generated)"},
				&cli.IntFlag{Name: "uses", Value: 1, Usage: "how many may join by it, `N`"},
				&cli.DurationFlag{Name: "expires", Value: 24 * time.Hour, Usage: "it ends after `DURATION`"},
				&cli.StringSliceFlag{Name: "label", Usage: "`KEY=VALUE` given to each device that joins by it; may be repeated"},
				&cli.BoolFlag{Name: "approve", Usage: "a person must approve each device (drover approve)"},
			},
			Action: tokenCreate,
		}},
	}
}

// tokenLabels reads --label, each one KEY=VALUE or several with commas between them.
func tokenLabels(c *cli.Context) (map[string]string, error) {
	labels := map[string]string{}
	for _, l := range strings.Split(strings.Join(c.StringSlice("label"), ","), ",") {
		k, v, ok := strings.Cut(l, "=")
		switch {
		case l == "":
		case !ok || k == "":
			return nil, usagef("label %q is not KEY=VALUE", l)
		default:
			labels[k] = v
		}
	}
	return labels, nil
}

func tokenUsage(c *cli.Context) error {
	who := c.String("for")
	switch {
	case who != api.TokenForDevice && who != api.TokenForHub:
		return usagef("--for takes device or hub, not %q", who)
	case who == api.TokenForHub && (len(c.StringSlice("label")) > 0 || c.Bool("approve")):
		return usagef("--label and --approve are for devices, not for hub members")
	case c.Int("uses") < 1 || c.Int("uses") > api.MaxTokenUses:
		return usagef("--uses takes 1 to %d, not %d", api.MaxTokenUses, c.Int("uses"))
	case c.Duration("expires") <= 0:
		return usagef("--expires takes a duration from now, as 24h, not %s", c.Duration("expires"))
	}
	return noArguments(c)
}

func tokenCreate(c *cli.Context) error {
	if err := tokenUsage(c); err != nil {
		return err
	}
	labels, err := tokenLabels(c)
	if err != nil {
		return err
	}
	hub, err := connect(c)
	if err != nil {
		return err
	}
	token, text, err := newToken(hub, api.JoinTokenSpec{
		For: c.String("for"), Uses: int32(c.Int("uses")), Expires: api.TimeOf(time.Now().Add(c.Duration("expires"))),
		Labels: labels, Approve: c.Bool("approve"),
	}, c.String("name"))
	if err != nil {
		return err
	}
	if _, err := hub.Create(c.Context, token, client.WriteOptions{FieldManager: "drover"}); err != nil {
		return err
	}
	fmt.Fprintf(c.App.ErrWriter, "token %s: for %s, until %s; it is shown this once\n", token.Metadata.Name, joiners(token.Spec), token.Spec.Expires.Format(time.RFC3339))
	_, err = fmt.Fprintln(c.App.Writer, text)
	return err
}

// newToken makes a token and its text, which is not kept anywhere; name "" is generated.
func newToken(hub *connection, spec api.JoinTokenSpec, name string) (token *api.JoinToken, text string, err error) {
	ca, err := hub.caDER()
	if err != nil {
		return nil, "", err
	}
	if name == "" {
		name = spec.For + "-" + strings.ToLower(rand.Text()[:8])
	}
	secret, err := wire.NewToken(rand.Reader, ca, name)
	if err != nil {
		return nil, "", err
	}
	spec.SecretHash = secret.SecretHash()
	token = &api.JoinToken{TypeMeta: api.TypeMeta{APIVersion: api.FleetV1, Kind: "JoinToken"}, Metadata: api.ObjectMeta{Name: name}, Spec: spec}
	return token, string(secret.Reveal()), nil
}

// joiners says who may join by a token: "one device", "3 hub members".
func joiners(s api.JoinTokenSpec) string {
	who := map[string]string{api.TokenForHub: "hub member"}[s.For]
	if who == "" {
		who = "device"
	}
	if s.Uses == 1 {
		return "one " + who
	}
	return fmt.Sprintf("%d %ss", s.Uses, who)
}

func approveCommand() *cli.Command {
	return &cli.Command{
		Name: "approve", Usage: "let devices in that wait for it (drover get enrollmentrequests)", ArgsUsage: "REQUEST|DEVICE...",
		Flags:  []cli.Flag{&cli.BoolFlag{Name: "replace", Usage: "the device takes over a name that another key holds"}},
		Action: func(c *cli.Context) error { return decide(c, "approved") },
	}
}

func denyCommand() *cli.Command {
	return &cli.Command{
		Name: "deny", Usage: "turn devices away that wait to be let in", ArgsUsage: "REQUEST|DEVICE...",
		Action: func(c *cli.Context) error { return decide(c, "denied") },
	}
}

func decide(c *cli.Context, word string) error {
	if !c.Args().Present() {
		return usagef("name the requests or their devices; drover get enrollmentrequests lists them")
	}
	hub, err := connect(c)
	if err != nil {
		return err
	}
	for _, arg := range c.Args().Slice() {
		r, err := requestNamed(c.Context, hub, arg)
		if err != nil {
			return err
		}
		var device, fingerprint string
		_, err = change(c.Context, hub, r, "drover", func(rq *api.EnrollmentRequest) (bool, error) {
			device, fingerprint = rq.Spec.Device, rq.Spec.Fingerprint
			rq.Spec.Approved, rq.Spec.Denied = word == "approved", word == "denied"
			rq.Spec.Replace = word == "approved" && (rq.Spec.Replace || c.Bool("replace"))
			return true, nil
		})
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(c.App.Writer, "%s %s: device %s, key %s\n", title(r), word, device, fingerprint); err != nil {
			return err
		}
	}
	return nil
}

// requestNamed finds a request by its own name or, when only one waits for it, by the name that the device wants.
func requestNamed(ctx context.Context, hub client.Client, arg string) (api.Ref, error) {
	name := strings.TrimPrefix(arg, "enrollmentrequest/")
	r := api.Ref{Kind: api.KindEnrollmentRequest, Name: name}
	_, err := hub.Get(ctx, r, client.GetOptions{})
	if !fault.Is(err, fault.NotFound) {
		return r, err
	}
	list, listErr := listAll(ctx, hub, api.KindEnrollmentRequest, client.ListOptions{})
	if listErr != nil {
		return r, listErr
	}
	var waiting []string
	for _, o := range list {
		if rq := o.(*api.EnrollmentRequest); rq.Spec.Device == name && rq.Status.Phase != api.EnrollApproved && !rq.Spec.Denied {
			waiting = append(waiting, rq.Metadata.Name)
		}
	}
	switch len(waiting) {
	case 0:
		return r, err
	case 1:
		r.Name = waiting[0]
		return r, nil
	}
	return r, fmt.Errorf("%d requests want the name %s, each with a key of its own: %s; name the one that is meant", len(waiting), name, strings.Join(waiting, ", "))
}
