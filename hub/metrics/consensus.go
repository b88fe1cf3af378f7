package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	raft "github.com/drover-fleet/drover/consensus"
)

// consensus is what a raft member does, as its observer hears of it.
type consensus struct {
	batchCommands, batchBytes  prometheus.Histogram
	syncTook, applyTook        prometheus.Histogram
	syncedEntries, syncedBytes prometheus.Counter
	appliedEntries, applied    prometheus.Counter
	leaderChanges, handOvers   prometheus.Counter
	slow                       *prometheus.GaugeVec
	roundTrip                  *prometheus.HistogramVec
	framesLost                 *prometheus.CounterVec
	transfers, transferBytes   *prometheus.CounterVec
	resumes                    *prometheus.CounterVec
	running                    *prometheus.GaugeVec

	known   *leaderSeen
	syncs   *window
	slowNow *slowParts
}

// Label values of transfers.
const (
	directionSent     = "sent"
	directionReceived = "received"
	resultDone        = "done"
	resultFailed      = "failed"
)

func newConsensus() consensus {
	const sub = "consensus"
	c := consensus{
		batchCommands:  histogram(sub, "batch_commands", "Commands of this member that became one entry.", counts()),
		batchBytes:     histogram(sub, "batch_bytes", "Bytes of the commands that became one entry.", sizes()),
		syncTook:       histogram(sub, "log_sync_seconds", "One transaction of the log, raft.db, until it is durable.", diskSeconds()),
		syncedEntries:  counter(sub, "log_synced_entries_total", "Entries that became durable in this member's log."),
		syncedBytes:    counter(sub, "log_synced_bytes_total", "Bytes of the entries that became durable in this member's log, as encoded."),
		applyTook:      histogram(sub, "apply_seconds", "One call that applies whatever entries wait to the store.", diskSeconds()),
		appliedEntries: counter(sub, "applied_entries_total", "Entries applied to the store."),
		applied:        counter(sub, "applied_commands_total", "Commands applied to the store, refused ones included."),
		leaderChanges:  counter(sub, "leader_changes_total", "Times that this member came to follow another leader, or led itself; losing sight of one counts at the next."),
		handOvers:      counter(sub, "hand_overs_total", "Times that this member asked another to lead because its own disk was slow."),
		slow:           gauges(sub, "disk_slow", "1 while a write has taken so long that a leader would hand over.", "part"),
		roundTrip:      histograms(sub, "peer_round_trip_seconds", "From a question to another member to its answer.", diskSeconds(), "peer"),
		framesLost:     counters(sub, "frames_lost_total", "Frames to or from another member that were lost; raft repeats what matters.", "peer"),
		transfers:      counters(sub, "snapshots_total", "Copies of the state that ended on their way to or from another member.", "direction", "result"),
		transferBytes:  counters(sub, "snapshot_bytes_total", "Bytes of copies that went over connections, those that went twice counted twice.", "direction"),
		resumes:        counters(sub, "snapshot_resumes_total", "Times that a copy went on over a new connection.", "direction"),
		running:        gauges(sub, "snapshots_running", "Copies of the state that are on their way now.", "direction"),
		known:          &leaderSeen{}, syncs: &window{}, slowNow: &slowParts{},
	}
	for _, d := range []string{directionSent, directionReceived} {
		c.transferBytes.WithLabelValues(d)
		c.resumes.WithLabelValues(d)
		c.running.WithLabelValues(d)
		for _, r := range []string{resultDone, resultFailed} {
			c.transfers.WithLabelValues(d, r)
		}
	}
	for _, p := range []raft.DiskPart{raft.DiskLog, raft.DiskState} {
		c.slow.WithLabelValues(string(p))
	}
	return c
}

func (c *consensus) all() []prometheus.Collector {
	return []prometheus.Collector{
		c.batchCommands, c.batchBytes, c.syncTook, c.syncedEntries, c.syncedBytes, c.applyTook, c.appliedEntries, c.applied, c.leaderChanges,
		c.handOvers, c.slow, c.roundTrip, c.framesLost, c.transfers, c.transferBytes, c.resumes, c.running,
	}
}

// Observer is what the member's consensus node tells.
func (m *Metrics) Observer() *raft.Observer {
	if m == nil {
		return nil
	}
	return &raft.Observer{
		LogSynced: func(took time.Duration, entries int, bytes int64) {
			m.syncTook.Observe(seconds(took))
			m.syncs.add(took)
			m.syncedEntries.Add(float64(entries))
			m.syncedBytes.Add(float64(bytes))
		},
		Applied: func(took time.Duration, entries, commands int) {
			m.applyTook.Observe(seconds(took))
			m.appliedEntries.Add(float64(entries))
			m.applied.Add(float64(commands))
		},
		Proposed: func(commands int, bytes int64) {
			m.batchCommands.Observe(float64(commands))
			m.batchBytes.Observe(float64(bytes))
		},
		LeaderChanged: func(_, leader uint64) {
			if m.known.changed(leader) {
				m.leaderChanges.Inc()
			}
		},
		RoundTrip: func(member string, took time.Duration) {
			m.peer(member)
			m.roundTrip.WithLabelValues(member).Observe(seconds(took))
		},
		FramesLost: func(member string, frames int) {
			m.peer(member)
			m.framesLost.WithLabelValues(member).Add(float64(frames))
		},
		Transfer: m.transfer,
		SlowDisk: func(part raft.DiskPart, slow bool) {
			m.slowNow.set(part, slow)
			m.slow.WithLabelValues(string(part)).Set(bit(slow))
		},
		HandedOver: func(string) { m.handOvers.Inc() },
	}
}

func (m *Metrics) transfer(e raft.TransferEvent) {
	direction := directionReceived
	if e.Sending {
		direction = directionSent
	}
	switch e.Stage {
	case raft.TransferBegun:
		m.running.WithLabelValues(direction).Inc()
	case raft.TransferResumed:
		m.resumes.WithLabelValues(direction).Inc()
	case raft.TransferEnded:
		m.running.WithLabelValues(direction).Dec()
		result := resultDone
		if e.Err != nil {
			result = resultFailed
		}
		m.transfers.WithLabelValues(direction, result).Inc()
		m.transferBytes.WithLabelValues(direction).Add(float64(e.Moved))
	}
}

// leaderSeen tells a change of leader from a moment without one.
type leaderSeen struct {
	mu   sync.Mutex
	last uint64 // 0 before the first
}

func (l *leaderSeen) changed(leader uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if leader == 0 || leader == l.last {
		return false
	}
	l.last = leader
	return true
}

// slowParts are the parts of the member whose disk is slow now.
type slowParts struct {
	mu   sync.Mutex
	slow map[raft.DiskPart]bool
}

func (s *slowParts) set(part raft.DiskPart, slow bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.slow == nil {
		s.slow = map[raft.DiskPart]bool{}
	}
	s.slow[part] = slow
}

func (s *slowParts) is(part raft.DiskPart) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.slow[part]
}

// peer notes that a member's name is a label now, so that forget can drop it.
func (m *Metrics) peer(name string) {
	m.mu.Lock()
	m.peers[name] = struct{}{}
	m.mu.Unlock()
}

// forget drops the series of members that are in the group no more: their names would pile up where members are replaced often.
func (m *Metrics) forget(members []raft.Member) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name := range m.peers {
		if !among(members, name) {
			delete(m.peers, name)
			m.roundTrip.DeleteLabelValues(name)
			m.framesLost.DeleteLabelValues(name)
		}
	}
}

func among(members []raft.Member, name string) bool {
	for _, m := range members {
		if m.Name == name {
			return true
		}
	}
	return false
}

func bit(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
