package replica

import (
	"fmt"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/hub/registry"
	"github.com/drover-fleet/drover/store"
)

// Growth says how much of the past the hub keeps, and how much of anything. Zero values are their defaults.
type Growth struct {
	KeepRevisions uint64        // that can be read besides the newest; default 10,000
	KeepFor       time.Duration // that can be read, by the leader's own clock since it leads; default 1 h

	Limits       store.Limits  // default: 1 GiB of contents and 64 MiB of events, alarms at 90 % and back at 80 %
	JournalBytes uint64        // default 256 MiB
	JournalFor   time.Duration // default 30 days
}

func (g Growth) withDefaults() Growth {
	if g.KeepRevisions == 0 {
		g.KeepRevisions = 10_000
	}
	if g.KeepFor == 0 {
		g.KeepFor = time.Hour
	}
	if g.Limits.Data.Max == 0 {
		g.Limits.Data = quotaOf(1 << 30)
	}
	if g.Limits.Events.Max == 0 {
		g.Limits.Events = quotaOf(64 << 20)
	}
	if g.Limits.EventPrefix == "" {
		g.Limits.EventPrefix = "events/"
	}
	if g.Limits.Needed == [2]string{} {
		g.Limits.Needed = [2]string{registry.OwnPrefix, registry.KeyOf(api.Ref{Kind: api.KindJoinToken})}
	}
	if g.JournalBytes == 0 {
		g.JournalBytes = 256 << 20
	}
	if g.JournalFor == 0 {
		g.JournalFor = 30 * 24 * time.Hour
	}
	return g
}

func quotaOf(most uint64) store.Quota {
	return store.Quota{Max: most, High: most / 10 * 9, Low: most / 10 * 8}
}

func (g Growth) validate() error {
	if g.KeepFor < 0 || g.JournalFor < 0 {
		return fmt.Errorf("growth: times to keep must not be negative")
	}
	return nil
}

const (
	// compactionStep bounds the revisions of one compact command, so that no entry is held up for long.
	compactionStep = 5000
	// pressedRevisions is what is kept for reading while the store is nearly full: enough for who lists and watches just now.
	pressedRevisions = 500
	// trimStep bounds the records of one trim command.
	trimStep = 4096
)

// sample is what the newest revision was at a moment of the leader's clock.
type sample struct {
	at  time.Time
	rev store.Revision
}

// past tells what was the newest revision some time ago: the epoch's beginning if nobody knows.
type past struct{ samples []sample }

// note adds a sample and drops those of which a newer one is old enough.
func (p *past) note(now time.Time, rev store.Revision, keep time.Duration) {
	p.samples = append(p.samples, sample{now, rev})
	for len(p.samples) > 1 && now.Sub(p.samples[1].at) >= keep {
		p.samples = p.samples[1:]
	}
}

func (p *past) before(now time.Time, keep time.Duration) store.Revision {
	if len(p.samples) == 0 || now.Sub(p.samples[0].at) < keep {
		return 0
	}
	return p.samples[0].rev
}

// planCompaction is the next revision to compact to; zero: none. Both bounds keep, unless the store is pressed for room: then little
// is kept, whatever its age. Where that little alone keeps writes from being accepted, it goes too: the last deletions free nothing
// as long as what they deleted can be read. A set is not split: the store rounds down.
func planCompaction(newest, compacted, old store.Revision, keep uint64, u store.Usage) store.Revision {
	if pressed(u) {
		keep, old = min(keep, pressedRevisions), newest
	}
	target := store.Revision(0)
	if newest.Counter() > keep {
		target = min(store.MakeRevision(newest.Epoch(), newest.Counter()-keep), old)
	}
	if target <= compacted && (u.DataFull || u.EventsFull) {
		target = newest
	}
	if target <= compacted {
		return 0
	}
	return min(target, compacted+compactionStep)
}

// pressed tells that history is to go before writes are refused: from the low mark on.
func pressed(u store.Usage) bool {
	over := func(used uint64, q store.Quota) bool { return q.Max != 0 && used > q.Low }
	return over(u.Data, u.Limits.Data) || over(u.Events, u.Limits.Events)
}
