package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"
	"go.yaml.in/yaml/v4"

	"github.com/drover-fleet/drover/client/remote"
)

func hubStatusCommand() *cli.Command {
	return &cli.Command{
		Name: "status", Usage: "show each member: who leads, how far it is, its disk, its alarms",
		Flags: []cli.Flag{outputFlag("wide", "json", "yaml")}, Action: hubStatus,
	}
}

func hubStatus(c *cli.Context) error {
	output, err := outputOf(c, "wide", "json", "yaml")
	if err != nil {
		return err
	}
	hub, err := connectBare(c)
	if err != nil {
		return err
	}
	s, err := hub.remote.HubStatus(c.Context)
	if err != nil {
		return err
	}
	switch output {
	case "json", "yaml":
		return printStatus(c.App.Writer, output, s)
	}
	if s.Leader == "" {
		fmt.Fprintln(c.App.ErrWriter, "warning: no leader is known: nothing can be written; most of the members must run and reach each other")
	}
	if s.Diverged != "" {
		fmt.Fprintln(c.App.ErrWriter, "warning: "+plain(s.Diverged))
	}
	return tabulateStatus(c.App.Writer, s, output == "wide")
}

func printStatus(w io.Writer, output string, s *remote.HubStatus) error {
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if output == "json" {
		return writeIndented(w, b)
	}
	var v any
	if err := yaml.Unmarshal(b, &v); err != nil { // JSON is YAML, and keeps the names of the fields
		return err
	}
	if b, err = yaml.Marshal(v); err != nil {
		return err
	}
	_, err = w.Write(b)
	return err
}

func tabulateStatus(w io.Writer, s *remote.HubStatus, wide bool) error {
	tw := tabwriter.NewWriter(w, 0, 8, 3, ' ', 0)
	head := []string{"NAME", "ROLE", "TERM", "APPLIED", "LAG", "SYNC-P99", "LOG", "STATE", "USED", "VERSION", "ALARMS"}
	if wide {
		head = append(head, "ID", "COMMITTED", "EPOCH", "REVISION", "CLOCK", "DISK-FREE", "CERTIFICATE-ENDS", "URL", "PEER")
	}
	fmt.Fprintln(tw, strings.Join(head, "\t"))
	for i := range s.Members {
		fmt.Fprintln(tw, strings.Join(statusCells(&s.Members[i], wide), "\t"))
	}
	return tw.Flush()
}

func statusCells(m *remote.HubMember, wide bool) []string {
	var cells []string
	add := func(format string, args ...any) { cells = append(cells, plain(fmt.Sprintf(format, args...))) }
	add("%s", m.Name)
	add("%s", m.Role)
	if m.Error != "" {
		for range 8 {
			add("-")
		}
		add("not reachable: %s", m.Error)
	} else {
		add("%d", m.Term)
		add("%d", m.Applied)
		add("%d", m.Lag)
		add("%s", took(m.SyncP99Micros))
		add("%s", size(m.LogBytes))
		add("%s", size(m.StateBytes))
		add("%s", used(m.Data))
		add("%s", m.Version)
		add("%s", cmp.Or(strings.Join(alarms(m, wide), ", "), "-"))
	}
	if !wide {
		return cells
	}
	add("%s", m.ID)
	if m.Error != "" {
		for range 6 {
			add("-")
		}
	} else {
		add("%d", m.Committed)
		add("%d", m.Epoch)
		add("%s", m.Revision)
		add("%+.1fs", float64(m.ClockOffsetMillis)/1000)
		add("%s", size(m.DiskFree))
		add("%s", m.CertificateEnds.UTC().Format(time.DateOnly))
	}
	add("%s", dash(m.URL))
	add("%s", dash(m.Peer))
	return cells
}

// alarms are a few words each; wide, with the sentence that follows them.
func alarms(m *remote.HubMember, wide bool) []string {
	out := slices.Clone(m.Alarms)
	for i := range out {
		if short, _, ok := strings.Cut(out[i], ": "); ok && !wide {
			out[i] = short
		}
	}
	return out
}

// took is a duration of microseconds, to three digits.
func took(micros int64) string {
	if micros == 0 {
		return "-"
	}
	d := time.Duration(micros) * time.Microsecond
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= 10*time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(10 * time.Microsecond).String()
}

func used(q remote.HubQuota) string {
	if q.Max == 0 {
		return size(int64(q.Used))
	}
	return fmt.Sprintf("%s (%d%%)", size(int64(q.Used)), q.Used*100/q.Max)
}

// size is a number of bytes, to three digits or so.
func size(n int64) string {
	const step = 1024
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	f, u := float64(n), 0
	for f >= step && u < len(units)-1 {
		f, u = f/step, u+1
	}
	if u == 0 || f >= 100 {
		return fmt.Sprintf("%.0f%s", f, units[u])
	}
	return fmt.Sprintf("%.1f%s", f, units[u])
}
