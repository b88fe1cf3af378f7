package metrics

import (
	"fmt"
	"slices"
	"time"

	raft "github.com/drover-fleet/drover/consensus"
	"github.com/drover-fleet/drover/store"
)

// Severity says how soon somebody must act.
type Severity string

// The severities.
const (
	Critical Severity = "critical" // the hub, or this member, does not do its work: now
	Warning  Severity = "warning"  // it does, with less to spare: today
)

// Alarm is one thing that may be wrong with a member. Its name and severity never change.
type Alarm struct {
	Name     string
	Severity Severity
	On       bool
	Message  string // what is wrong and what to do; empty when it is off
}

// Condition is all that alarms are judged by, as one member knows it.
type Condition struct {
	Status raft.Status
	Usage  store.Usage
	// Slow are the parts whose writes take too long, and Syncs how long the log's take.
	Slow  []raft.DiskPart
	Syncs Quantiles
	// Free and Size are the bytes of the volume that the directory is on; Size 0: not known.
	Free, Size int64
	// Clocks are how far other members' clocks are ahead of this one's, by name.
	Clocks map[string]time.Duration
	// Diverged: this member's contents differ from another's.
	Diverged bool
	// Damaged: this member's file does not hold what was written to it.
	Damaged bool
	// AuditErr is why nothing can be put on record; AuditRefuses: and so writes are refused.
	AuditErr     error
	AuditRefuses bool
	// UpkeepErr is why the last look at the store's bounds, or at its file, failed.
	UpkeepErr error
}

const (
	// fillingTenths of a quota are a warning.
	fillingTenths = 7
	// roomTenth: less of the volume free is an alarm. It comes before the disk is full, and grows with it as what fills it does.
	roomTenth = 10
	// clockApart is how far clocks of members may be apart: devices are shown times of whichever member they talk to.
	clockApart = 2 * time.Second
)

// Judge lists every alarm, the standing ones with their message.
func Judge(c Condition) []Alarm {
	leader := ""
	if c.Status.Leader == 0 && c.Status.Fenced == "" {
		leader = "no member leads: most members must run and reach each other on their peer addresses; nothing can be written"
	}
	fenced := ""
	if c.Status.Fenced != "" {
		fenced = "this member takes no part: " + c.Status.Fenced
	}
	return []Alarm{
		alarm("fenced", Critical, fenced),
		alarm("no_leader", Critical, leader),
		alarm("contents_full", Critical, full("contents", c.Usage.Data, c.Usage.Limits.Data, c.Usage.DataFull)),
		alarm("contents_filling", Warning, filling("contents", c.Usage.Data, c.Usage.Limits.Data)),
		alarm("events_full", Warning, full("events", c.Usage.Events, c.Usage.Limits.Events, c.Usage.EventsFull)),
		alarm("slow_disk", Warning, c.slow()),
		alarm("disk_room", Critical, c.room()),
		alarm("clock", Warning, c.clock()),
		alarm("diverged", Critical, c.diverged()),
		alarm("damaged", Critical, c.damaged()),
		alarm("audit", Critical, c.audit()),
		alarm("upkeep", Warning, c.upkeep()),
	}
}

func alarm(name string, s Severity, message string) Alarm {
	return Alarm{Name: name, Severity: s, On: message != "", Message: message}
}

func full(what string, used uint64, q store.Quota, is bool) string {
	if !is {
		return ""
	}
	return fmt.Sprintf("the store's %s take %d bytes of the %d allowed: writes that add are refused until deleting brings them below %d", what, used, q.Max, q.Low)
}

func filling(what string, used uint64, q store.Quota) string {
	if q.Max == 0 || used <= q.Max/10*fillingTenths {
		return ""
	}
	return fmt.Sprintf("the store's %s take %d bytes of the %d allowed: at %d, writes that add are refused", what, used, q.Max, q.High)
}

func (c *Condition) slow() string {
	if len(c.Slow) == 0 {
		return ""
	}
	what := c.Status.LogPath
	if !slices.Contains(c.Slow, raft.DiskLog) {
		what = "the state file beside " + what
	}
	return fmt.Sprintf("writes to %s take up to %s (p99 of late: %s): look at the disk and at what else uses it", what, c.Status.Lag, c.Syncs.P99)
}

// Scarce tells whether so little of a volume is free that it is an alarm; a size of 0 is not known.
func Scarce(free, size int64) bool { return size > 0 && free < size/roomTenth }

func (c *Condition) room() string {
	if !Scarce(c.Free, c.Size) {
		return ""
	}
	return fmt.Sprintf("%d of %d bytes of the volume are free: make room before the member must stop", c.Free, c.Size)
}

func (c *Condition) clock() string {
	worst, who := time.Duration(0), ""
	for name, d := range c.Clocks {
		if d.Abs() > worst.Abs() || d.Abs() == worst.Abs() && name < who {
			worst, who = d, name
		}
	}
	if worst.Abs() < clockApart {
		return ""
	}
	return fmt.Sprintf("the clock of %s and this member's are %s apart: see to time synchronisation on both", who, worst.Abs().Round(10*time.Millisecond))
}

func (c *Condition) diverged() string {
	if !c.Diverged {
		return ""
	}
	return "members hold different contents at the same index: the member that a majority contradicts is given the state again by itself; where no majority decides, replace one"
}

func (c *Condition) damaged() string {
	if !c.Damaged {
		return ""
	}
	return "the state file beside " + c.Status.LogPath + " does not hold what was written to it: the disk fails. Where a majority of others runs the member is given the state again by itself; " +
		"else restore a backup, or replace the member. Replace the disk"
}

func (c *Condition) audit() string {
	switch {
	case c.AuditErr == nil:
		return ""
	case c.AuditRefuses:
		return "requests cannot be put on record, so this member takes no writes from people and enrolls nobody: make room, or look at the disk: " + c.AuditErr.Error()
	}
	return "requests cannot be put on record, and go on all the same; how many are missing is recorded afterwards: " + c.AuditErr.Error()
}

func (c *Condition) upkeep() string {
	if c.UpkeepErr == nil {
		return ""
	}
	return "keeping the store within its bounds failed and is tried again: " + c.UpkeepErr.Error()
}
