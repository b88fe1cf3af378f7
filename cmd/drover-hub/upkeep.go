package main

import (
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/hub"
	"github.com/drover-fleet/drover/hub/replica"
)

const (
	leastSize      = 8 << 20 // bytes; less does not hold what a hub needs for itself
	leastRevisions = 100
	leastKept      = time.Minute
)

// upkeepFlags are obeyed by the member that leads, so they are to be the same on all.
func upkeepFlags() []cli.Flag {
	const same = "; the same on every member"
	return []cli.Flag{
		&cli.Uint64Flag{Name: "keep-revisions", Value: 10_000, Usage: "`N` revisions can be read besides the newest" + same},
		&cli.DurationFlag{Name: "keep-for", Value: time.Hour, Usage: "what was superseded less than `DURATION` ago can be read" + same},
		&cli.StringFlag{Name: "quota", Value: "1Gi", Usage: "`SIZE` that the contents may take, as 512Mi or 4Gi" + same},
		&cli.StringFlag{Name: "event-quota", Value: "64Mi", Usage: "`SIZE` that events may take besides" + same},
		&cli.IntFlag{Name: "quota-high", Value: 90, Usage: "`PERCENT` of a quota at which writes that add are refused" + same},
		&cli.IntFlag{Name: "quota-low", Value: 80, Usage: "`PERCENT` of a quota below which they are taken again" + same},
		&cli.StringFlag{Name: "journal", Value: "256Mi", Usage: "`SIZE` of the journal of causes (drover why)" + same},
		&cli.DurationFlag{Name: "journal-for", Value: 30 * 24 * time.Hour, Usage: "`DURATION` for which the journal keeps what no object stands on" + same},
	}
}

// growthOf reads them.
func growthOf(c *cli.Context) (replica.Growth, error) {
	g := replica.Growth{KeepRevisions: c.Uint64("keep-revisions"), KeepFor: c.Duration("keep-for"), JournalFor: c.Duration("journal-for")}
	high, low := c.Int("quota-high"), c.Int("quota-low")
	switch {
	case g.KeepRevisions < leastRevisions:
		return g, usageError(fmt.Sprintf("--keep-revisions %d: want %d or more: who lists and watches needs them", g.KeepRevisions, leastRevisions))
	case g.KeepFor < leastKept:
		return g, usageError(fmt.Sprintf("--keep-for %s: want %s or more", g.KeepFor, leastKept))
	case g.JournalFor < leastKept:
		return g, usageError(fmt.Sprintf("--journal-for %s: want %s or more", g.JournalFor, leastKept))
	case low < 1 || high <= low || high > 100:
		return g, usageError(fmt.Sprintf("--quota-high %d and --quota-low %d: want percents with 1 <= low < high <= 100", high, low))
	}
	data, err := sizeFlag(c, "quota")
	if err != nil {
		return g, err
	}
	events, err := sizeFlag(c, "event-quota")
	if err != nil {
		return g, err
	}
	g.Limits = hub.LimitsOf(data, events, high, low)
	g.JournalBytes, err = sizeFlag(c, "journal")
	return g, err
}

func sizeFlag(c *cli.Context, flag string) (uint64, error) {
	q, err := api.ParseQuantity(c.String(flag))
	if err != nil {
		return 0, usageError(fmt.Sprintf("--%s: %v", flag, err))
	}
	if q.Bytes() < leastSize {
		return 0, usageError(fmt.Sprintf("--%s %s: want %dMi or more", flag, c.String(flag), leastSize>>20))
	}
	return uint64(q.Bytes()), nil
}
