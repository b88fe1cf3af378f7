package main

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/client/auditlog"
	"github.com/drover-fleet/drover/client/remote"
)

// Bounds of a support bundle, in bytes before it is compressed.
const (
	maxBundle     = 64 << 20
	maxBundleFile = 8 << 20
	bundleAudit   = 1000 // newest records of each member
)

func debugCommand() *cli.Command {
	return &cli.Command{
		Name: "debug", Usage: "help those who help you",
		Subcommands: []*cli.Command{{
			Name: "collect", Usage: "write what the hub says of itself and of its objects to a file, without any secret",
			Flags:  []cli.Flag{&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "`FILE`.tgz to write; it must not exist yet", DefaultText: "drover-debug-TIME.tgz"}},
			Action: collect,
		}},
	}
}

// bundle is a support bundle in the making. What goes in has been through an allow-list: see projected and collectedOutcome.
type bundle struct {
	ctx   context.Context
	hub   *connection
	names []string
	files map[string][]byte
	size  int
	notes []string // what is not in it, and why
}

func collect(c *cli.Context) error {
	hub, err := connectBare(c)
	if err != nil {
		return err
	}
	name := c.String("output")
	if name == "" {
		name = "drover-debug-" + time.Now().UTC().Format("20060102-150405") + ".tgz"
	}
	b := &bundle{ctx: c.Context, hub: hub, files: map[string][]byte{}}
	status, err := hub.remote.HubStatus(c.Context)
	if err != nil {
		return fmt.Errorf("no member answers, so there is nothing to collect (drover-hub doctor looks at a directory): %w", err)
	}
	b.ofHub(status)
	for i := range status.Members {
		b.ofMember(&status.Members[i])
	}
	b.objects()
	b.add("notes.txt", []byte(strings.Join(append([]string{"What is not in this bundle, and why. Logs of members and devices are never in it: they lie with whoever runs the processes."}, b.notes...), "\n")+"\n"))
	b.add("FILES.txt", []byte(strings.Join(b.names, "\n")+"\n"))
	for _, n := range b.names {
		fmt.Fprintf(c.App.ErrWriter, "%8d %s\n", len(b.files[n]), n)
	}
	if err := b.write(name); err != nil {
		return err
	}
	_, err = fmt.Fprintln(c.App.Writer, name)
	return err
}

// add puts a file in. What is too large is cut, and said to be.
func (b *bundle) add(name string, data []byte) {
	if most := min(maxBundleFile, maxBundle-b.size); len(data) > most {
		b.notes = append(b.notes, fmt.Sprintf("%s: cut after %d of %d bytes", name, most, len(data)))
		data = data[:most]
	}
	b.size += len(data)
	b.names = append(b.names, name)
	b.files[name] = data
}

func (b *bundle) addJSON(name string, v any) {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		b.fail(name, err)
		return
	}
	b.add(name, append(data, '\n'))
}

func (b *bundle) fail(name string, err error) {
	b.notes = append(b.notes, fmt.Sprintf("%s: %s", name, plain(err.Error())))
}

func (b *bundle) ofHub(s *remote.HubStatus) {
	b.addJSON("hub/status.json", s)
	b.addJSON("hub/client.json", map[string]any{"version": version, "servers": b.hub.config.Servers, "namespace": b.hub.namespace, "time": time.Now().UTC()})
	d := diagnosis{now: time.Now()}
	d.hub(s)
	for i := range s.Members {
		d.member(&s.Members[i], s)
	}
	devices, err := listAll(b.ctx, b.hub, api.KindDevice, client.ListOptions{ResourceVersion: "0"})
	d.devices(devices, err)
	b.addJSON("hub/doctor.json", d.findings)
	if sealing, err := b.hub.remote.HubSealing(b.ctx); err != nil {
		b.fail("hub/sealing.json", err)
	} else {
		b.addJSON("hub/sealing.json", sealing)
	}
}

// ofMember asks one member alone. One that does not answer is noted.
func (b *bundle) ofMember(m *remote.HubMember) {
	folder := "members/" + pathName(m.Name) + "/"
	if m.URL == "" {
		b.fail(folder, errors.New("it has no address"))
		return
	}
	config := *b.hub.config
	config.Servers = []string{m.URL}
	one, err := remote.New(&config, remote.Options{Patience: time.Second, UserAgent: "drover/" + version})
	if err != nil {
		b.fail(folder, err)
		return
	}
	defer one.Close()
	if v, err := one.Version(b.ctx); err != nil {
		b.fail(folder+"version.json", err)
		return // nobody there
	} else {
		b.addJSON(folder+"version.json", v)
	}
	if text, err := one.Metrics(b.ctx, maxBundleFile); err != nil {
		b.fail(folder+"metrics.txt", err)
	} else {
		b.add(folder+"metrics.txt", text)
	}
	if lines, err := collectedOutcomes(b.ctx, one); err != nil {
		b.fail(folder+"audit.jsonl", err)
	} else {
		b.add(folder+"audit.jsonl", lines)
	}
}

// pathName makes a name that others chose one element of a path.
func pathName(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '.' && s != "." && s != ".." {
			return r
		}
		return '_'
	}, s)
}

// collectedOutcome is what the bundle keeps of a record of the audit: who did what to which object, and what came of it.
type collectedOutcome struct {
	Seq      uint64            `json:"seq"`
	Stage    auditlog.Stage    `json:"stage"`
	Time     time.Time         `json:"time"`
	Actor    string            `json:"actor,omitempty"`
	Verb     string            `json:"verb,omitempty"`
	Object   *auditlog.Object  `json:"object,omitempty"`
	Code     int               `json:"code,omitempty"`
	Decision auditlog.Decision `json:"decision,omitempty"`
	Forced   bool              `json:"forced,omitempty"`
	Ms       int64             `json:"ms,omitempty"`
}

func collectedOutcomes(ctx context.Context, one *remote.Client) ([]byte, error) {
	in, err := one.Audit(ctx, auditlog.Query{}, bundleAudit, false)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	var out []byte
	lines := bufio.NewScanner(io.LimitReader(in, maxBundle))
	lines.Buffer(nil, 2*auditlog.MaxLine)
	for lines.Scan() {
		var r auditlog.Record
		if json.Unmarshal(lines.Bytes(), &r) != nil || r.Seq == 0 {
			continue // the answer's last line, or one of a newer hub
		}
		b, err := json.Marshal(collectedOutcome{r.Seq, r.Stage, r.Time, r.Actor, r.Verb, r.Object, r.Code, r.Decision, r.Forced, r.Ms})
		if err != nil {
			return nil, err
		}
		out = append(append(out, b...), '\n')
	}
	return out, lines.Err()
}

func (b *bundle) objects() {
	for _, k := range api.Kinds() {
		name := "objects/" + k.Plural + ".json"
		if slices.Contains(neverCollected, k) {
			continue
		}
		list, err := listAll(b.ctx, b.hub, k, client.ListOptions{})
		if err != nil {
			b.fail(name, err)
			continue
		}
		shown := make([]any, 0, len(list))
		for _, o := range list {
			p, err := projected(k, o)
			if err != nil {
				b.fail(name, err)
				continue
			}
			shown = append(shown, p)
		}
		b.addJSON(name, shown)
	}
}

// write makes the archive, readable by its owner only, with the list of its files first.
func (b *bundle) write(name string) (err error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return plainPathError(err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	gz := gzip.NewWriter(f)
	tw := tar.NewWriter(gz)
	order := append([]string{"FILES.txt"}, slices.DeleteFunc(slices.Clone(b.names), func(n string) bool { return n == "FILES.txt" })...)
	for _, n := range order {
		h := &tar.Header{Name: n, Mode: 0o600, Size: int64(len(b.files[n])), ModTime: time.Now()}
		if err := tw.WriteHeader(h); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
		if _, err := tw.Write(b.files[n]); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return errors.Join(tw.Close(), gz.Close(), f.Sync())
}
