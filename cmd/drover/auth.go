package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client/remote"
)

func authCommand() *cli.Command {
	return &cli.Command{
		Name: "auth", Usage: "who you are, what you may, and credentials for others",
		Subcommands: []*cli.Command{
			{Name: "whoami", Usage: "show for whom the hub takes you", Flags: []cli.Flag{outputFlag("json", "name")}, Action: whoAmI},
			{
				Name: "can-i", Usage: "ask whether you may do something: exit code 0 is yes, 9 is no", ArgsUsage: "VERB RESOURCE[/NAME] | VERB /PATH | --list",
				Flags: []cli.Flag{
					&cli.BoolFlag{Name: "list", Usage: "list all that you may do in the namespace"},
					&cli.BoolFlag{Name: "all-namespaces", Aliases: []string{"A"}, Usage: "in every namespace"},
					&cli.StringFlag{Name: "subresource", Usage: "`NAME` of a subresource, as status or log"},
					&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "print nothing; the exit code tells"},
					outputFlag("json"),
				},
				Action: canI,
			},
			{
				Name: "token", Usage: "have a token made for a service account and print it; it is shown this once", ArgsUsage: "SERVICEACCOUNT",
				Flags: []cli.Flag{
					&cli.StringSliceFlag{Name: "audience", Usage: "who is to accept it, `NAME` (default: the hub); may be repeated"},
					&cli.DurationFlag{Name: "for", Usage: "it ends after `DURATION`", DefaultText: "the hub's, 1h"},
				},
				Action: serviceToken,
			},
			addUserCommand(),
		},
	}
}

func whoAmI(c *cli.Context) error {
	output, err := outputOf(c, "json", "name")
	if err != nil {
		return err
	}
	hub, err := connectBare(c)
	if err != nil {
		return err
	}
	who, err := hub.remote.WhoAmI(c.Context)
	if err != nil {
		return err
	}
	switch output {
	case "json":
		b, err := json.Marshal(who)
		if err != nil {
			return err
		}
		return writeIndented(c.App.Writer, b)
	case "name":
		_, err = fmt.Fprintln(c.App.Writer, plain(who.Username))
		return err
	}
	tw := tabwriter.NewWriter(c.App.Writer, 0, 8, 3, ' ', 0)
	fmt.Fprintln(tw, "ATTRIBUTE\tVALUE")
	fmt.Fprintf(tw, "Username\t%s\n", plain(who.Username))
	if who.UID != "" {
		fmt.Fprintf(tw, "UID\t%s\n", plain(who.UID))
	}
	fmt.Fprintf(tw, "Groups\t%s\n", dash(plain(strings.Join(who.Groups, ", "))))
	for _, k := range slices.Sorted(maps.Keys(who.Extra)) {
		fmt.Fprintf(tw, "Extra: %s\t%s\n", plain(k), plain(strings.Join(who.Extra[k], ", ")))
	}
	fmt.Fprintf(tw, "Context\t%s\n", plain(hub.config.Context))
	return tw.Flush()
}

func canI(c *cli.Context) error {
	output, err := outputOf(c, "json")
	if err != nil {
		return err
	}
	if c.Bool("list") {
		if c.Bool("quiet") || c.String("subresource") != "" {
			return usagef("--list stands alone or beside -n and -o")
		}
		return listRights(c, output)
	}
	question, err := accessAsked(c)
	if err != nil {
		return err
	}
	hub, err := connect(c)
	if err != nil {
		return err
	}
	if question.Namespace == ownNamespace {
		question.Namespace = hub.namespace
	}
	d, err := hub.remote.CanI(c.Context, question)
	if err != nil {
		return err
	}
	if err := sayDecision(c, output, d); err != nil || d.Allowed {
		return err
	}
	return fault.WithExit(fault.ExitDenied, errSaid)
}

func sayDecision(c *cli.Context, output string, d remote.Decision) error {
	switch {
	case c.Bool("quiet"):
		return nil
	case output == "json":
		b, err := json.Marshal(d)
		if err != nil {
			return err
		}
		return writeIndented(c.App.Writer, b)
	}
	answer := "no"
	if d.Allowed {
		answer = "yes"
	} else if why := cmp.Or(d.Reason, d.EvaluationError); why != "" {
		answer += " - " + plain(why)
	}
	_, err := fmt.Fprintln(c.App.Writer, answer)
	return err
}

// ownNamespace stands for the namespace that the command works in, until the config is read. No namespace has such a name.
const ownNamespace = "."

// accessAsked reads VERB RESOURCE[/NAME] or VERB /PATH. Kinds may be named as everywhere; what is no kind of this release is asked
// for as it stands, RESOURCE or RESOURCE.GROUP, for rules may name it.
func accessAsked(c *cli.Context) (a remote.Access, err error) {
	args := c.Args().Slice()
	if len(args) != 2 && len(args) != 3 || args[0] == "" || args[1] == "" {
		return a, usagef("want VERB RESOURCE, VERB RESOURCE/NAME or VERB /PATH, as drover auth can-i create workloads")
	}
	a.Verb, a.Subresource = args[0], c.String("subresource")
	if strings.HasPrefix(args[1], "/") {
		if len(args) == 3 || a.Subresource != "" {
			return a, usagef("a path has no name and no subresource")
		}
		a.Path = args[1]
		return a, nil
	}
	resource, name, _ := strings.Cut(args[1], "/")
	if len(args) == 3 {
		if name != "" {
			return a, usagef("%q names an object already", args[1])
		}
		name = args[2]
	}
	a.Name = name
	namespaced := true
	if k, ok := api.KindByName(resource); ok {
		a.Resource, a.Group, namespaced = k.Plural, groupOf(k), k.Namespaced
	} else {
		a.Resource, a.Group, _ = strings.Cut(resource, ".")
		if resource == "*" {
			a.Group = "*"
		} else {
			fmt.Fprintf(c.App.ErrWriter, "warning: this release has no kind %q\n", resource)
		}
	}
	if namespaced && !c.Bool("all-namespaces") {
		a.Namespace = ownNamespace
	}
	return a, nil
}

func groupOf(k *api.Kind) string {
	group, _, ok := strings.Cut(k.APIVersion, "/")
	if !ok {
		return ""
	}
	return group
}

func listRights(c *cli.Context, output string) error {
	hub, err := connectBare(c)
	if err != nil {
		return err
	}
	r, err := hub.remote.MyRights(c.Context, hub.namespace)
	if err != nil {
		return err
	}
	if output == "json" {
		b, err := json.Marshal(r)
		if err != nil {
			return err
		}
		return writeIndented(c.App.Writer, b)
	}
	if err := printRights(c.App.Writer, r); err != nil {
		return err
	}
	if r.Incomplete {
		fmt.Fprintf(c.App.ErrWriter, "warning: the list may lack rights: %s\n", plain(cmp.Or(r.EvaluationError, "the hub does not say why")))
	}
	return nil
}

// printRights has the columns of kubectl auth can-i --list.
func printRights(w io.Writer, r remote.Rights) error {
	var lines []string
	for _, rule := range r.ResourceRules {
		for _, resource := range rule.Resources {
			for _, group := range rule.APIGroups {
				lines = append(lines, fmt.Sprintf("%s\t\t%s\t%s", plain(inGroup(resource, group)), plain(strings.Join(rule.ResourceNames, ",")), plain(strings.Join(rule.Verbs, ","))))
			}
		}
	}
	for _, rule := range r.NonResourceRules {
		lines = append(lines, fmt.Sprintf("\t%s\t\t%s", plain(strings.Join(rule.NonResourceURLs, ",")), plain(strings.Join(rule.Verbs, ","))))
	}
	slices.Sort(lines)
	tw := tabwriter.NewWriter(w, 0, 8, 3, ' ', 0)
	fmt.Fprintln(tw, "RESOURCES\tNON-RESOURCE URLS\tRESOURCE NAMES\tVERBS")
	for _, l := range slices.Compact(lines) {
		fmt.Fprintln(tw, l)
	}
	return tw.Flush()
}

// inGroup is RESOURCE.GROUP; resources of the core group stand alone.
func inGroup(resource, group string) string {
	if group == "" {
		return resource
	}
	return resource + "." + group
}

func serviceToken(c *cli.Context) error {
	if c.NArg() != 1 {
		return usagef("name one service account, as drover auth token ci -n default")
	}
	if d := c.Duration("for"); c.IsSet("for") && d < time.Second {
		return usagef("--for takes a duration from now, as 1h, not %s", d)
	}
	hub, err := connect(c)
	if err != nil {
		return err
	}
	name := strings.TrimPrefix(c.Args().First(), "serviceaccount/")
	t, err := hub.remote.ServiceAccountToken(c.Context, hub.namespace, name, remote.TokenSpec{Audiences: c.StringSlice("audience"), Life: c.Duration("for")})
	if err != nil {
		return err
	}
	fmt.Fprintf(c.App.ErrWriter, "token of system:serviceaccount:%s:%s, until %s; it is shown this once\n", hub.namespace, name, t.Ends.UTC().Format(time.RFC3339))
	_, err = fmt.Fprintln(c.App.Writer, string(t.Token))
	return err
}
