package hub

import (
	"errors"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/drover-fleet/drover/hub/audit"
	"github.com/drover-fleet/drover/hub/metrics"
)

// findings are what this member found out about the group and its own upkeep, for alarms.
type findings struct {
	mu       sync.Mutex // guards below
	clocks   map[string]time.Duration
	diverged bool
	damaged  bool
	upkeep   map[string]error // by task
}

// clock notes how far another member's clock is ahead of this one's.
func (f *findings) clock(member string, ahead time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.clocks == nil {
		f.clocks = map[string]time.Duration{}
	}
	f.clocks[member] = ahead
}

// forgetClocks drops what is known of clocks, before they are looked at again: a member that does not answer has none.
func (f *findings) forgetClocks() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.clocks = nil
}

func (f *findings) differ(is bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.diverged = is
}

func (f *findings) damage(is bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.damaged = is
}

func (f *findings) keptUp(task string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.upkeep == nil {
		f.upkeep = map[string]error{}
	}
	f.upkeep[task] = err
}

func (f *findings) into(c *metrics.Condition) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c.Clocks, c.Diverged, c.Damaged = maps.Clone(f.clocks), f.diverged, f.damaged
	for _, err := range f.upkeep {
		c.UpkeepErr = errors.Join(c.UpkeepErr, err)
	}
}

// keptUp is for alarms and metrics.
func (h *Hub) keptUp(task string, err error) {
	h.metrics.KeptUp(task, err)
	h.findings.keptUp(task, err)
}

// condition is all that this member's alarms are judged by.
func (h *Hub) condition() metrics.Condition {
	c := metrics.Condition{
		Status: h.node.Status(), Usage: h.store.Usage(), Slow: h.metrics.SlowParts(), Syncs: h.metrics.Syncs(),
	}
	h.findings.into(&c)
	c.AuditErr, c.AuditRefuses = h.audit.Health().Err, h.cfg.Audit.OnFailure != audit.RecordGap
	c.Free, c.Size = room(string(h.dir))
	return c
}

// follow lets scrapes ask for what is true at their moment.
func (h *Hub) follow() {
	h.metrics.Follow(metrics.Sources{
		Condition: h.condition, Revision: h.store.Revision, Compacted: h.store.Compacted, Synced: h.store.Synced, Watchers: h.store.Watchers,
		StateFile: h.store.Wasted, KV: h.kv.Load, Gateway: h.gateway.Load,
		Audit: h.audit.Health, Seats: h.seats.Load, Conns: h.conns.Load,
	})
}

// headerTime carries a member's wall clock in an answer to another member, in nanoseconds since 1970.
const headerTime = "Drover-Time"

func tellTime(w http.ResponseWriter) {
	w.Header().Set(headerTime, strconv.FormatInt(time.Now().UnixNano(), 10))
}

// readTime notes the other member's clock by its answer to a request that began at the given moment; it told its time about half-way.
func (f *findings) readTime(member string, began time.Time, answer http.Header) {
	theirs, err := strconv.ParseInt(answer.Get(headerTime), 10, 64)
	if err != nil {
		return // a member of an earlier version
	}
	half := time.Since(began) / 2
	f.clock(member, time.Duration(theirs-began.Add(half).UnixNano()))
}
