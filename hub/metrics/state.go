package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	raft "github.com/drover-fleet/drover/consensus"
	"github.com/drover-fleet/drover/hub/audit"
	"github.com/drover-fleet/drover/hub/fair"
	"github.com/drover-fleet/drover/store"
	"github.com/drover-fleet/drover/store/watch"
)

// Sources are asked at each scrape. All of them answer from memory, within moments. All are required.
type Sources struct {
	Condition func() Condition
	Revision  func() store.Revision
	Compacted func() store.Revision
	Synced    func() uint64 // index of the last checkpoint
	Watchers  func() watch.Stats
	StateFile func() (free, size int64, err error) // bytes
	KV        func() (connections, watches int64)  // of the store's own service
	Gateway   func() (sessions, polls int)         // of devices
	Audit     func() audit.Health
	Seats     func() []fair.Load
	Conns     func() fair.ConnLoad
}

// state is the half of the metrics that is asked for.
type state struct {
	s Sources
	m *Metrics
}

func gauges(subsystem, name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help}, labels)
}

// Describe sends nothing: what is collected depends on the members there are. Names are checked by the tests.
func (st *state) Describe(chan<- *prometheus.Desc) {}

// Collect asks all sources.
func (st *state) Collect(to chan<- prometheus.Metric) {
	e, c := emitter{to}, st.s.Condition()
	e.raft(&c.Status)
	e.store(&c.Usage, st.s.Revision(), st.s.Compacted())
	e.gauge("store", "synced_index", "Last entry whose effect is in the state file; after a crash, what follows is applied again from the log.", float64(st.s.Synced()))
	e.watchers(st.s.Watchers())
	st.files(e, &c)
	conns, watches := st.s.KV()
	e.gauge("kv", "connections", "Open connections to the store's own service.", float64(conns))
	e.gauge("kv", "watches", "Watches over those connections.", float64(watches))
	sessions, polls := st.s.Gateway()
	e.gauge("gateway", "sessions", "Devices with a session at this member.", float64(sessions))
	e.gauge("gateway", "polls", "Polls of devices that this member holds now.", float64(polls))
	e.guards(st.s.Audit(), st.s.Seats(), st.s.Conns())
	for name, d := range c.Clocks {
		e.gauge("", "clock_offset_seconds", "How far another member's wall clock is ahead of this one's.", d.Seconds(), label{"peer", name})
	}
	for _, a := range Judge(c) {
		e.gauge("", "alarm", "1 while the alarm stands.", bit(a.On), label{"alarm", a.Name}, label{"severity", string(a.Severity)})
	}
}

// SlowParts are the parts of the member whose writes take too long now.
func (m *Metrics) SlowParts() []raft.DiskPart {
	if m == nil {
		return nil
	}
	var slow []raft.DiskPart
	for _, p := range []raft.DiskPart{raft.DiskLog, raft.DiskState} {
		if m.slowNow.is(p) {
			slow = append(slow, p)
		}
	}
	return slow
}

func (st *state) files(e emitter, c *Condition) {
	const help = "Size of a file of this member."
	e.gauge("", "file_bytes", help, float64(c.Status.LogBytes), label{"file", "log"})
	if free, size, err := st.s.StateFile(); err != nil {
		e.to <- prometheus.NewInvalidMetric(describe("", "file_bytes", help, nil), err)
	} else {
		e.gauge("", "file_bytes", help, float64(size), label{"file", "state"})
		e.gauge("", "file_free_bytes", "Bytes of the file's pages that hold nothing.", float64(free), label{"file", "state"})
	}
	if c.Size > 0 {
		e.gauge("", "volume_free_bytes", "Free bytes of the volume that the member's directory is on.", float64(c.Free))
		e.gauge("", "volume_size_bytes", "Size of the volume that the member's directory is on.", float64(c.Size))
	}
}

type label struct{ name, value string }

// emitter sends metrics of one scrape.
type emitter struct{ to chan<- prometheus.Metric }

func (e emitter) gauge(subsystem, name, help string, v float64, labels ...label) {
	e.send(prometheus.GaugeValue, subsystem, name, help, v, labels)
}

func (e emitter) counter(subsystem, name, help string, v float64, labels ...label) {
	e.send(prometheus.CounterValue, subsystem, name, help, v, labels)
}

func (e emitter) send(t prometheus.ValueType, subsystem, name, help string, v float64, labels []label) {
	e.to <- prometheus.MustNewConstMetric(describe(subsystem, name, help, labels), t, v, values(labels)...)
}

func describe(subsystem, name, help string, labels []label) *prometheus.Desc {
	names := make([]string, len(labels))
	for i, l := range labels {
		names[i] = l.name
	}
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, subsystem, name), help, names, nil)
}

func values(labels []label) []string {
	out := make([]string, len(labels))
	for i, l := range labels {
		out[i] = l.value
	}
	return out
}

func (e emitter) raft(s *raft.Status) {
	const sub = "consensus"
	e.gauge(sub, "term", "Present term of office.", float64(s.Term))
	e.gauge(sub, "leads", "1 on the member that leads.", bit(s.Leader != 0 && s.Leader == s.ID))
	e.gauge(sub, "has_leader", "1 while this member knows who leads.", bit(s.Leader != 0))
	e.gauge(sub, "applied_index", "Last entry applied to the store here.", float64(s.Applied))
	e.gauge(sub, "committed_index", "Last entry that this member knows to be committed.", float64(s.Committed))
	e.gauge(sub, "last_index", "Last entry of this member's log.", float64(s.Last))
	e.gauge(sub, "log_entries", "Entries kept in this member's log.", float64(s.Entries))
	e.gauge(sub, "waiting_commands", "Commands of this member between proposal and outcome.", float64(s.Waiting))
	e.gauge(sub, "waiting_bytes", "Bytes of the commands between proposal and outcome.", float64(s.WaitingBytes))
	e.gauge(sub, "disk_lag_seconds", "Longest write of late, or the present one where that is longer; 0 is less than a tick.", s.Lag.Seconds())
	voters, learners := 0, 0
	for _, m := range s.Members {
		if m.Learner {
			learners++
		} else {
			voters++
		}
	}
	const help = "Members of the group, as this one knows it."
	e.gauge(sub, "members", help, float64(voters), label{"role", "voter"})
	e.gauge(sub, "members", help, float64(learners), label{"role", "learner"})
	for _, m := range s.Members {
		p, ok := s.Progress[m.ID]
		if !ok || m.ID == s.ID {
			continue // only a leader knows
		}
		e.gauge(sub, "peer_lag_entries", "Entries that another member has yet to sync; told by the leader.", float64(p.Lag), label{"peer", m.Name})
		e.gauge(sub, "peer_active", "1 for another member that was heard of within an election time-out; told by the leader.", bit(p.Active), label{"peer", m.Name})
	}
}

func (e emitter) store(u *store.Usage, newest, compacted store.Revision) {
	const sub = "store"
	e.gauge(sub, "epoch", "Number of the hub's history; a restore or a reset begins a new one.", float64(newest.Epoch()))
	e.gauge(sub, "revision", "Newest revision here, counted from the beginning of its epoch.", float64(newest.Counter()))
	kept := uint64(0)
	if newest.Epoch() == compacted.Epoch() {
		kept = newest.Counter() - compacted.Counter()
	}
	e.gauge(sub, "kept_revisions", "Revisions that can still be read and watched from.", float64(kept))
	for _, c := range []struct {
		name string
		used uint64
		q    store.Quota
		full bool
	}{{"contents", u.Data, u.Limits.Data, u.DataFull}, {"events", u.Events, u.Limits.Events, u.EventsFull}} {
		l := label{"class", c.name}
		e.gauge(sub, "used_bytes", "Logical bytes kept, history included.", float64(c.used), l)
		e.gauge(sub, "full", "1 while writes that add are refused.", bit(c.full), l)
		const help = "Bounds of the logical bytes kept; 0 is none."
		e.gauge(sub, "quota_bytes", help, float64(c.q.Max), l, label{"mark", "max"})
		e.gauge(sub, "quota_bytes", help, float64(c.q.High), l, label{"mark", "high"})
		e.gauge(sub, "quota_bytes", help, float64(c.q.Low), l, label{"mark", "low"})
	}
	e.gauge(sub, "used_bytes", "Logical bytes kept, history included.", float64(u.Journal), label{"class", "journal"})
}

func (e emitter) watchers(s watch.Stats) {
	const sub = "watch"
	for k, l := range s.Load {
		kind := label{"kind", watch.Kind(k).String()}
		const help = "Open watchers by what they watch; those behind read history and are not fed yet."
		e.gauge(sub, "watchers", help, float64(l.Live), kind, label{"state", "live"})
		e.gauge(sub, "watchers", help, float64(l.Behind), kind, label{"state", "behind"})
		e.gauge(sub, "lag_revisions", "Revisions that the watcher furthest back has yet to take.", float64(l.Lag), kind)
		e.gauge(sub, "buffered_events", "Events that wait for watchers.", float64(l.Events), kind)
		e.gauge(sub, "buffered_bytes", "Bytes of keys and values that wait for watchers.", float64(l.Bytes), kind)
	}
	for r, n := range s.Ended {
		e.counter(sub, "resyncs_total", "Watchers that were ended, or not begun, so that their owners must resume or list again, by why.",
			float64(n), label{"reason", watch.Reason(r).String()})
	}
}
