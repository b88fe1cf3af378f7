package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/client/remote"
)

// What a doctor thinks of figures.
const (
	lagWarn      = 1000                   // entries behind the furthest member
	clockWarn    = 2 * time.Second        // between two members, beyond what the round trip leaves open
	clockBad     = 30 * time.Second       // certificates and tokens are judged by the clock
	syncWarn     = 500 * time.Millisecond // 99 of 100 writes to the log
	diskWarn     = 10                     // percent that are free
	diskBad      = 3
	quotaWarn    = 70 // percent
	certWarn     = 30 * 24 * time.Hour
	certBad      = 7 * 24 * time.Hour
	namesShown   = 5
	hereTime     = 3 * time.Second // for a member to answer from here
	deviceOnline = "Connected"
)

func hubDoctorCommand() *cli.Command {
	return &cli.Command{
		Name: "doctor", Usage: "look whether the hub is well, and say what to do about what is not (of a stopped member: drover-hub doctor)",
		Flags:       []cli.Flag{outputFlag("json"), &cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "only what is not well"}},
		Description: "Exit code 0: all is well; 3: warnings, it may not stay well; 6: trouble; 7: no member answers.",
		Action:      hubDoctor,
	}
}

func hubDoctor(c *cli.Context) error {
	output, err := outputOf(c, "json")
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
	d := &diagnosis{now: time.Now()}
	d.hub(s)
	for i := range s.Members {
		d.member(&s.Members[i], s)
	}
	d.fromHere(reachable(c.Context, hub, s))
	devices, err := listAll(c.Context, hub, api.KindDevice, client.ListOptions{ResourceVersion: "0"})
	d.devices(devices, err)
	findings := d.findings
	if c.Bool("quiet") {
		findings = slices.DeleteFunc(findings, func(f remote.Finding) bool { return f.Level == remote.FindingOK })
	}
	if output == "json" {
		b, err := json.Marshal(findings)
		if err != nil {
			return err
		}
		err = writeIndented(c.App.Writer, b)
		if err != nil {
			return err
		}
		return d.verdict()
	}
	for _, f := range findings {
		if err := sayFinding(c.App.Writer, f); err != nil {
			return err
		}
	}
	return d.verdict()
}

func sayFinding(w io.Writer, f remote.Finding) error {
	line := fmt.Sprintf("%-8s %s\n", f.Level, plain(f.What))
	if f.Do != "" {
		line += fmt.Sprintf("%-8s -> %s\n", "", f.Do)
	}
	_, err := io.WriteString(w, line)
	return err
}

// diagnosis collects findings. Its methods are pure but for that.
type diagnosis struct {
	now      time.Time
	findings []remote.Finding
}

func (d *diagnosis) add(level, do, what string, args ...any) {
	d.findings = append(d.findings, remote.Finding{Level: level, What: fmt.Sprintf(what, args...), Do: do})
}

func (d *diagnosis) ok(what string, args ...any) { d.add(remote.FindingOK, "", what, args...) }

func (d *diagnosis) verdict() error {
	count := map[string]int{}
	for _, f := range d.findings {
		count[f.Level]++
	}
	switch {
	case count[remote.FindingBad] > 0:
		return fault.WithExit(fault.ExitStopped, fmt.Errorf("findings: %d trouble, %d warnings", count[remote.FindingBad], count[remote.FindingWarn]))
	case count[remote.FindingWarn] > 0:
		return fault.WithExit(fault.ExitPending, fmt.Errorf("findings: 0 trouble, %d warnings", count[remote.FindingWarn]))
	}
	return nil
}

// hub judges the members together.
func (d *diagnosis) hub(s *remote.HubStatus) {
	voters, alive, learners := 0, 0, 0
	versions, leaders := map[string][]string{}, map[string][]string{}
	for i := range s.Members {
		m := &s.Members[i]
		if m.Role == "learner" {
			learners++
		} else {
			voters++
			if m.Error == "" {
				alive++
			}
		}
		if m.Error == "" {
			versions[m.Version] = append(versions[m.Version], m.Name)
			leaders[m.Leader] = append(leaders[m.Leader], m.Name)
		}
	}
	d.quorum(voters, alive)
	switch {
	case s.Leader == "":
		d.add(remote.FindingBad, "bring members back until a majority runs; if they are gone for good: drover-hub reset-from-survivor --dry-run", "%s knows of no leader: nothing can be written", s.Asked)
	case len(leaders) > 1:
		d.add(remote.FindingWarn, "ask again in a few seconds; if it stays, a member does not hear the others: check the network between the peers' addresses",
			"members do not agree who leads: %s", groups(leaders))
	default:
		d.ok("%s leads, and all members that answer follow it", s.Leader)
	}
	if len(versions) > 1 {
		d.add(remote.FindingWarn, "finish the upgrade: one member at a time, the leader last", "members run different versions: %s", groups(versions))
	} else {
		d.ok("members run the same version")
	}
	if s.Diverged != "" {
		d.add(remote.FindingBad, "the member that differs is given the state again by itself within a minute; if it stays, save a backup and report it", "%s", s.Diverged)
	} else {
		d.ok("members' contents are the same, as far as they can be compared")
	}
	if learners > 0 {
		d.add(remote.FindingWarn, "wait: the leader gives a vote to who has caught up, and strikes off who makes no progress for 10 minutes", "%d members are still catching up", learners)
	}
}

func (d *diagnosis) quorum(voters, alive int) {
	need := voters/2 + 1
	spare := alive - need
	switch {
	case alive < need:
		d.add(remote.FindingBad, "bring members back until a majority runs; if they are gone for good: drover-hub reset-from-survivor --dry-run",
			"%d of %d members with a vote answer, %d are needed", alive, voters, need)
	case alive < voters:
		d.add(remote.FindingBad, "bring it back, or if it is gone for good: drover hub replace-member MEMBER", "%d of %d members with a vote answer; the hub stands the loss of %d more", alive, voters, spare)
	case voters == 1:
		d.ok("one member: the hub stops with it. Two more make it stand the loss of one (drover hub join)")
	case voters%2 == 0:
		d.add(remote.FindingWarn, "add one (drover hub join) or remove one (drover hub remove): an even number stands no more losses than one less", "%d members with a vote", voters)
	default:
		d.ok("%d of %d members with a vote answer; the hub stands the loss of %d", alive, voters, spare)
	}
}

// groups prints members by what they say.
func groups(by map[string][]string) string {
	var out []string
	for what, names := range by {
		out = append(out, fmt.Sprintf("%s (%s)", strings.Join(names, ", "), dash(what)))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// member judges one of them.
func (d *diagnosis) member(m *remote.HubMember, s *remote.HubStatus) {
	if m.Error != "" {
		d.add(remote.FindingBad, "see whether it runs and its addresses are right ("+plain(dash(m.URL))+", peers "+plain(dash(m.Peer))+"); on its machine: drover-hub doctor --dir DIR",
			"%s is not reachable from %s: %s", m.Name, s.Asked, m.Error)
		return
	}
	before := len(d.findings)
	if m.Fenced != "" {
		d.add(remote.FindingBad, "nothing, if it was just started; else see its log", "%s takes no part: %s", m.Name, m.Fenced)
	}
	if m.Lag > lagWarn {
		d.add(remote.FindingWarn, "ask again: a lag that falls is a member that catches up; one that grows is a slow disk or link", "%s is %d entries behind", m.Name, m.Lag)
	}
	if p99 := time.Duration(m.SyncP99Micros) * time.Microsecond; p99 > syncWarn {
		d.add(remote.FindingWarn, "see what else writes to its disk, or give it a faster one; drover hub transfer moves the lead elsewhere meanwhile", "%s takes %s to sync its log (p99)", m.Name, p99)
	}
	d.clock(m)
	d.room(m)
	d.ends(m)
	if len(d.findings) == before {
		d.ok("%s: lag %d, sync p99 %s, %s free on disk, certificate until %s", m.Name, m.Lag, took(m.SyncP99Micros), size(m.DiskFree), m.CertificateEnds.UTC().Format(time.DateOnly))
	}
}

// clock gives half of the round trip to the network.
func (d *diagnosis) clock(m *remote.HubMember) {
	off := time.Duration(max(m.ClockOffsetMillis, -m.ClockOffsetMillis)-m.RoundTripMillis/2) * time.Millisecond
	const do = "set the clocks by NTP (timedatectl set-ntp true): certificates and tokens are judged by them"
	switch {
	case off > clockBad:
		d.add(remote.FindingBad, do, "the clock of %s differs by %s", m.Name, off)
	case off > clockWarn:
		d.add(remote.FindingWarn, do, "the clock of %s differs by %s", m.Name, off)
	}
}

func (d *diagnosis) room(m *remote.HubMember) {
	if m.DiskSize > 0 {
		free := m.DiskFree * 100 / m.DiskSize
		const do = "make room on the file system of the member's directory: a full disk stops the member"
		switch {
		case free < diskBad:
			d.add(remote.FindingBad, do, "%s has %s free of %s (%d%%)", m.Name, size(m.DiskFree), size(m.DiskSize), free)
		case free < diskWarn || m.DiskFree < m.StateBytes:
			d.add(remote.FindingWarn, do, "%s has %s free of %s (%d%%), its state takes %s", m.Name, size(m.DiskFree), size(m.DiskSize), free, size(m.StateBytes))
		}
	}
	for _, q := range []struct {
		what, flag string
		remote.HubQuota
	}{{"contents", "--quota", m.Data}, {"events", "--event-quota", m.Events}} {
		switch {
		case q.Full:
			d.add(remote.FindingBad, fmt.Sprintf("delete what is not needed, then drover hub compact --keep 0: writes that add are taken again below %s; or start every member with a larger %s", size(int64(q.Low)), q.flag),
				"the %s of %s are full: %s of %s", q.what, m.Name, size(int64(q.Used)), size(int64(q.Max)))
		case q.Max > 0 && q.Used > q.Max/100*quotaWarn:
			d.add(remote.FindingWarn, "delete what is not needed, or start every member with a larger "+q.flag,
				"the %s of %s take %s of %s", q.what, m.Name, size(int64(q.Used)), size(int64(q.Max)))
		}
	}
}

func (d *diagnosis) ends(m *remote.HubMember) {
	for _, c := range []struct {
		what, do string
		at       time.Time
	}{
		{"certificate of " + m.Name, "put another in its place: drover hub replace-member " + m.Name + " (with the member stopped)", m.CertificateEnds},
		{"cluster's CA", "every device and member has to be enrolled anew before", m.CAEnds},
	} {
		switch left := c.at.Sub(d.now); {
		case c.at.IsZero():
		case left < certBad:
			d.add(remote.FindingBad, c.do, "the %s ends at %s", c.what, c.at.UTC().Format(time.RFC3339))
		case left < certWarn:
			d.add(remote.FindingWarn, c.do, "the %s ends at %s", c.what, c.at.UTC().Format(time.RFC3339))
		}
	}
}

// reachable asks each member from here; the members ask each other by themselves.
func reachable(ctx context.Context, hub *connection, s *remote.HubStatus) map[string]error {
	out := map[string]error{}
	for i := range s.Members {
		m := &s.Members[i]
		if m.URL == "" || m.Error != "" {
			continue // that is said already
		}
		config := *hub.config
		config.Servers = []string{m.URL}
		one, err := remote.New(&config, remote.Options{Patience: time.Millisecond, Attempt: hereTime, Dial: hereTime})
		if err == nil {
			_, err = one.Version(ctx)
			one.Close()
		}
		out[m.Name] = err
	}
	return out
}

func (d *diagnosis) fromHere(answers map[string]error) {
	all := true
	for _, name := range slices.Sorted(maps.Keys(answers)) {
		if err := answers[name]; err != nil {
			all = false
			d.add(remote.FindingWarn, "check the way from here to it: operators and devices use the same address", "%s answers other members, but not here: %v", name, err)
		}
	}
	if all {
		d.ok("every member that runs can be reached from here")
	}
}

// devices judges what the gateways say of the fleet.
func (d *diagnosis) devices(devices []api.Object, err error) {
	if err != nil {
		d.add(remote.FindingBad, "see the members above", "devices cannot be listed: %v", err)
		return
	}
	online := 0
	var ahead []string
	for _, o := range devices {
		dev := o.(*api.Device)
		if api.ConditionIs(dev.Status.Conditions, deviceOnline, api.True) {
			online++
		}
		if api.ConditionIs(dev.Status.Conditions, conditionAhead, api.True) {
			ahead = append(ahead, dev.Metadata.Name)
		}
	}
	switch {
	case len(devices) > 0 && online == 0:
		d.add(remote.FindingWarn, "if all went at once it is the link or the members' API port, not the devices", "none of %d devices is connected", len(devices))
	default:
		d.ok("%d of %d devices are connected", online, len(devices))
	}
	if len(ahead) > 0 {
		shown := strings.Join(ahead[:min(len(ahead), namesShown)], ", ")
		if len(ahead) > namesShown {
			shown += fmt.Sprintf(" and %d more", len(ahead)-namesShown)
		}
		d.add(remote.FindingWarn, "they keep what they run; decide: drover hub adopt DEVICE keeps what the hub does not know, drover hub overwrite DEVICE stops it",
			"%d devices are ahead of the hub (it was restored or reset): %s", len(ahead), shown)
	}
}

// devicesAhead lists the devices for which a decision is due.
func devicesAhead(c *cli.Context, hub *connection) ([]string, error) {
	devices, err := listAll(c.Context, hub, api.KindDevice, client.ListOptions{})
	if err != nil {
		return nil, err
	}
	var out []string
	for _, o := range devices {
		if api.ConditionIs(o.(*api.Device).Status.Conditions, conditionAhead, api.True) {
			out = append(out, o.Meta().Name)
		}
	}
	return out, nil
}
