package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client/auditlog"
	"github.com/drover-fleet/drover/client/remote"
)

func auditCommand() *cli.Command {
	return &cli.Command{
		Name: "audit", Usage: "who asked for what, from where, and what came of it; with verify: whether the records are whole", ArgsUsage: "[verify [DIRECTORY | MEMBER]]",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "since", Value: "1h", Usage: "`DURATION` ago, or a time as 2026-11-30T09:00:00Z"},
			&cli.StringFlag{Name: "until", Usage: "`DURATION` ago, or a time"},
			&cli.StringFlag{Name: "actor", Usage: "only of `ACTOR`, as user:alice, serviceaccount:prod/ci, device:pi-07, anonymous"},
			&cli.StringFlag{Name: "object", Usage: "only about `KIND/NAME`"},
			&cli.StringFlag{Name: "request", Usage: "only of the request `ID`"},
			&cli.BoolFlag{Name: "denied", Usage: "only what was refused"},
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "go on as records come"},
			&cli.IntFlag{Name: "limit", Value: 1000, Usage: "at most `N` of each member's newest"},
			outputFlag("json"),
		},
		Action: auditAction,
	}
}

func auditAction(c *cli.Context) error {
	output, err := outputOf(c, "json")
	if err != nil {
		return err
	}
	switch args := c.Args().Slice(); {
	case len(args) > 0 && args[0] == "verify" && len(args) <= 2:
		return auditVerify(c, output, slices.Concat(args[1:], []string{""})[0])
	case len(args) > 0:
		return usagef("audit takes no arguments but verify, not %q", args[0])
	}
	q, err := auditQuery(c, time.Now())
	if err != nil {
		return err
	}
	hub, err := connect(c)
	if err != nil {
		return err
	}
	if q.Kind != "" && q.Namespace == "" {
		if k, err := kindNamed(q.Kind); err == nil && k.Namespaced {
			q.Namespace = hub.namespace
		}
	}
	members, err := eachMember(c.Context, hub)
	if err != nil {
		return err
	}
	if c.Bool("follow") {
		return followAudit(c, members, q, c.Int("limit"), output)
	}
	return listAudit(c, members, q, c.Int("limit"), output)
}

func auditQuery(c *cli.Context, now time.Time) (q auditlog.Query, err error) {
	q = auditlog.Query{Actor: c.String("actor"), RequestID: c.String("request"), Denied: c.Bool("denied")}
	if q.Since, err = moment("since", c.String("since"), now); err != nil {
		return q, err
	}
	if q.Until, err = moment("until", c.String("until"), now); err != nil {
		return q, err
	}
	if c.Int("limit") < 1 {
		return q, usagef("--limit takes a number from 1 up, not %d", c.Int("limit"))
	}
	if object := c.String("object"); object != "" {
		_, list, err := refs([]string{object})
		if err != nil {
			return q, err
		}
		if len(list) != 1 {
			return q, usagef("--object %q is not KIND/NAME", object)
		}
		q.Kind, q.Name = list[0].Kind.Plural, list[0].Name
	}
	return q, nil
}

// moment reads a duration ago, or a time; "" = none.
func moment(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, usagef("--%s %q: want a duration, as 90m or 24h, or a time, as 2026-11-30T09:00:00Z", flag, text)
	}
	return t, nil
}

// oneMember is one member that a command asks by itself.
type oneMember struct {
	name    string
	remote  *remote.Client
	err     error
	records []auditlog.Record
	end     remote.AuditEnd
}

// eachMember makes a client of each member, whatever the config names.
func eachMember(ctx context.Context, hub *connection) ([]*oneMember, error) {
	members, err := hub.remote.Members(ctx)
	if err != nil {
		return nil, err
	}
	var out []*oneMember
	for _, m := range members {
		config := *hub.config
		config.Servers = []string{m.URL}
		one, err := remote.New(&config, remote.Options{Patience: time.Millisecond, Dial: hereTime})
		out = append(out, &oneMember{name: m.Name, remote: one, err: err})
	}
	return out, nil
}

// each asks the members side by side.
func each(members []*oneMember, ask func(m *oneMember) error) {
	var wg sync.WaitGroup
	for _, m := range members {
		if m.err == nil {
			wg.Go(func() { m.err = ask(m) })
		}
	}
	wg.Wait()
}

// missing tells which members did not answer. All of them: the first one's error.
func missing(errOut io.Writer, members []*oneMember) error {
	var silent []string
	var first error
	for _, m := range members {
		if m.err != nil {
			silent = append(silent, m.name)
			first = orFirst(first, m.err)
			fmt.Fprintf(errOut, "drover: member %s did not answer: %s\n", m.name, plain(m.err.Error()))
		}
	}
	switch {
	case len(silent) == 0:
		return nil
	case len(silent) == len(members):
		return first
	}
	return fault.WithExit(fault.ExitNoHub, fmt.Errorf("what %s did not tell is missing above", strings.Join(silent, ", ")))
}

func orFirst(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// errNoEnd is of an answer that broke off.
var errNoEnd = errors.New("its answer broke off")

func (m *oneMember) read(ctx context.Context, q auditlog.Query, limit int) error {
	body, err := m.remote.Audit(ctx, q, limit, false)
	if err != nil {
		return err
	}
	defer body.Close()
	err = eachLine(body, func(line []byte) error {
		if err := json.Unmarshal(line, &m.end); err != nil || m.end.End {
			return err
		}
		var r auditlog.Record
		if err := json.Unmarshal(line, &r); err != nil {
			return err
		}
		m.records = append(m.records, r)
		return nil
	})
	if err == nil && !m.end.End {
		err = errNoEnd
	}
	return err
}

func eachLine(r io.Reader, fn func(line []byte) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), auditlog.MaxLine+1)
	for lines.Scan() {
		if err := fn(lines.Bytes()); err != nil {
			return err
		}
	}
	return lines.Err()
}

func listAudit(c *cli.Context, members []*oneMember, q auditlog.Query, limit int, output string) error {
	each(members, func(m *oneMember) error { return m.read(c.Context, q, limit) })
	var all []auditlog.Record
	for _, m := range members {
		all = append(all, m.records...)
		if m.end.More {
			fmt.Fprintf(c.App.ErrWriter, "drover: member %s has older records that match; raise --limit or narrow the question\n", m.name)
		}
	}
	slices.SortStableFunc(all, func(a, b auditlog.Record) int { return a.Time.Compare(b.Time) })
	if output == "json" {
		b, err := json.Marshal(map[string]any{"items": slices.Concat([]auditlog.Record{}, all)})
		if err != nil {
			return err
		}
		if err := writeIndented(c.App.Writer, b); err != nil {
			return err
		}
		return missing(c.App.ErrWriter, members)
	}
	tw := tabwriter.NewWriter(c.App.Writer, 0, 8, 3, ' ', 0)
	fmt.Fprintln(tw, strings.Join(auditHead(), "\t"))
	for _, r := range told(all) {
		fmt.Fprintln(tw, strings.Join(auditRow(r), "\t"))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	return missing(c.App.ErrWriter, members)
}

// told leaves out receipts whose outcome is there too. A client may use a request's id more than once: as many receipts go as there are
// outcomes of the same asker.
func told(all []auditlog.Record) []auditlog.Record {
	type key struct{ member, actor, id string }
	done := map[key]int{}
	for _, r := range all {
		if r.Stage == auditlog.Outcome {
			done[key{r.Member, r.Actor, r.RequestID}]++
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(r auditlog.Record) bool {
		of := key{r.Member, r.Actor, r.RequestID}
		if r.Stage != auditlog.Receipt || done[of] == 0 {
			return false
		}
		done[of]--
		return true
	})
}

func auditHead() []string {
	return []string{"TIME", "MEMBER", "ACTOR", "VERB", "OBJECT", "OUTCOME", "SOURCE"}
}

func auditRow(r auditlog.Record) []string {
	actor := r.Actor
	if r.By != "" {
		actor += " (by " + r.By + ")"
	}
	return []string{r.Time.UTC().Format(time.RFC3339), r.Member, dash(plain(actor)), dash(plain(r.Verb)), dash(plain(auditObject(&r))), dash(plain(auditOutcome(&r))), dash(r.Source)}
}

func auditObject(r *auditlog.Record) string {
	if len(r.Items) > 0 {
		var names []string
		for i, item := range r.Items {
			if i == 3 {
				names = append(names, fmt.Sprintf("and %d more", len(r.Items)-i))
				break
			}
			names = append(names, objectName(&item.Object))
		}
		return strings.Join(names, ", ")
	}
	if r.Object == nil {
		return r.Path
	}
	return objectName(r.Object)
}

func objectName(o *auditlog.Object) string {
	name := strings.ToLower(o.Kind)
	if o.Name != "" {
		name += "/" + o.Name
	}
	if o.Subresource != "" {
		name += " (" + o.Subresource + ")"
	}
	if o.Namespace != "" {
		name += " -n " + o.Namespace
	}
	return name
}

func auditOutcome(r *auditlog.Record) string {
	var words []string
	switch {
	case r.Stage == auditlog.Receipt:
		words = append(words, "no outcome is known")
	case r.Gap != nil:
		words = append(words, fmt.Sprintf("%d records are missing from %s on: %s", r.Gap.Count, r.Gap.From.UTC().Format(time.RFC3339), r.Gap.Reason))
	case r.Cut != nil && r.Cut.Broken != "":
		words = append(words, "the chain before does not hold: "+r.Cut.Broken)
	case r.Cut != nil:
		words = append(words, fmt.Sprintf("%d bytes that were no whole record were cut off", r.Cut.Bytes))
	case r.Code > 0 && r.Code < 400:
		words = append(words, "ok")
	case r.Code > 0:
		words = append(words, fmt.Sprint(r.Code))
	}
	for _, w := range []string{r.Reason, r.Note} {
		if w != "" {
			words = append(words, w)
		}
	}
	if r.Forced {
		words = append(words, "forced")
	}
	if r.Omitted > 0 {
		words = append(words, fmt.Sprintf("and %d refusals before it", r.Omitted))
	}
	return strings.Join(words, " ")
}

// followAudit prints records of all members as they come, until it is interrupted. A member that breaks off is asked again.
func followAudit(c *cli.Context, members []*oneMember, q auditlog.Query, limit int, output string) error {
	var mu sync.Mutex
	show := func(r auditlog.Record) error {
		mu.Lock()
		defer mu.Unlock()
		if output == "json" {
			return json.NewEncoder(c.App.Writer).Encode(r)
		}
		_, err := fmt.Fprintln(c.App.Writer, strings.Join(auditRow(r), "  "))
		return err
	}
	each(members, func(m *oneMember) error { return m.follow(c.Context, q, limit, c.App.ErrWriter, show) })
	return c.Context.Err()
}

func (m *oneMember) follow(ctx context.Context, q auditlog.Query, limit int, errOut io.Writer, show func(auditlog.Record) error) error {
	const again = time.Second
	told := false
	for ctx.Err() == nil {
		body, err := m.remote.Audit(ctx, q, limit, true)
		if err == nil {
			told = false
			err = eachLine(body, func(line []byte) error {
				var r auditlog.Record
				if err := json.Unmarshal(line, &r); err != nil {
					return err
				}
				q.After = r.Seq
				return show(r)
			})
			_ = body.Close()
		}
		if fault.Is(err, fault.Forbidden, fault.Unauthorized, fault.BadRequest) {
			return err
		}
		if err != nil && !told && ctx.Err() == nil {
			told = true
			fmt.Fprintf(errOut, "drover: member %s does not answer and is asked again: %s\n", m.name, plain(err.Error()))
		}
		select {
		case <-time.After(again):
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

// auditVerify judges a directory here, or what members say of theirs.
func auditVerify(c *cli.Context, output, what string) error {
	var reports []auditlog.Report
	var silent error
	if info, err := os.Stat(what); what != "" && err == nil && info.IsDir() {
		r, err := auditlog.Verify(c.Context, what)
		if err != nil {
			return err
		}
		reports = append(reports, r)
	} else {
		hub, err := connect(c)
		if err != nil {
			return err
		}
		members, err := eachMember(c.Context, hub)
		if err != nil {
			return err
		}
		if what != "" {
			members = slices.DeleteFunc(members, func(m *oneMember) bool { return m.name != what })
			if len(members) == 0 {
				return fault.NotFound.Errorf("%s is neither a directory here nor a member of the hub; drover hub members lists them", what)
			}
		}
		var mu sync.Mutex
		each(members, func(m *oneMember) error {
			r, err := m.remote.AuditVerify(c.Context)
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				reports = append(reports, *r)
			}
			return err
		})
		silent = missing(c.App.ErrWriter, members)
	}
	slices.SortFunc(reports, func(a, b auditlog.Report) int { return strings.Compare(a.Member, b.Member) })
	return errors.Join(printReports(c.App.Writer, output, reports), silent)
}

func printReports(w io.Writer, output string, reports []auditlog.Report) error {
	faults := 0
	for _, r := range reports {
		faults += len(r.Faults)
	}
	if output == "json" {
		b, err := json.Marshal(map[string]any{"items": reports})
		if err != nil {
			return err
		}
		if err := writeIndented(w, b); err != nil {
			return err
		}
	} else {
		for _, r := range reports {
			if err := printReport(w, r); err != nil {
				return err
			}
		}
	}
	if faults > 0 {
		return fault.WithExit(fault.ExitStopped, fmt.Errorf("the audit is not whole: %d faults", faults))
	}
	return nil
}

func printReport(w io.Writer, r auditlog.Report) error {
	verdict := "whole"
	if len(r.Faults) > 0 {
		verdict = "NOT WHOLE"
	}
	who := ""
	if r.Member != "" {
		who = r.Member + ": "
	}
	if _, err := fmt.Fprintf(w, "%s%s: records %d to %d in %d files; %d could not be written (%d gaps); newest %s\n", who, verdict, r.First, r.Last, r.Files, r.Lost, r.Gaps, dash(r.Head)); err != nil {
		return err
	}
	for _, f := range r.Faults {
		if _, err := fmt.Fprintf(w, "  %s\n", plain(f)); err != nil {
			return err
		}
	}
	return nil
}
