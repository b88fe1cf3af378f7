package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drover-fleet/drover/hub/replica"
)

// writes are what the member proposed, what keeps the store within its bounds, and what reached the state file.
type writes struct {
	proposals    *prometheus.CounterVec
	proposalTook prometheus.Histogram
	byOutcome    map[string]prometheus.Counter // of proposals; never changed

	checkpointTook, checkpointBytes prometheus.Histogram
	checkpointFailures              prometheus.Counter

	upkeepFailures  *prometheus.CounterVec
	fileCompactions prometheus.Counter
}

func newWrites() writes {
	w := writes{
		proposals: counters("", "proposals_total",
			"Commands that parts of this member proposed, by what they came to.", "outcome"),
		proposalTook: histogram("", "proposal_seconds",
			"From a proposal to its outcome here, repeats after a lost answer included.", diskSeconds()),
		byOutcome: map[string]prometheus.Counter{},
		checkpointTook: histogram("store", "checkpoint_seconds",
			"Writing what was applied since the last checkpoint to the state file, synced.", diskSeconds()),
		checkpointBytes: histogram("store", "checkpoint_bytes",
			"Bytes of memory that one checkpoint brought to the file.", prometheus.ExponentialBuckets(4096, 4, 9)),
		checkpointFailures: counter("store", "checkpoint_failures_total",
			"Checkpoints that failed; the member ends then, for its disk does."),
		upkeepFailures: counters("store", "upkeep_failures_total",
			"Times that keeping the store within its bounds failed; it is tried again each time.", "task"),
		fileCompactions: counter("store", "file_compactions_total",
			"Times that the state file was written anew without its free pages."),
	}
	for _, o := range replica.Outcomes() {
		w.byOutcome[o] = w.proposals.WithLabelValues(o)
	}
	for _, t := range replica.UpkeepTasks() {
		w.upkeepFailures.WithLabelValues(t)
	}
	return w
}

func (w *writes) all() []prometheus.Collector {
	return []prometheus.Collector{
		w.proposals, w.proposalTook, w.checkpointTook, w.checkpointBytes, w.checkpointFailures, w.upkeepFailures, w.fileCompactions,
	}
}

// Proposed counts a proposal; it is replica.Options.Proposed.
func (m *Metrics) Proposed(outcome string, took time.Duration) {
	if m == nil {
		return
	}
	if c, ok := m.byOutcome[outcome]; ok {
		c.Inc()
	}
	m.proposalTook.Observe(seconds(took))
}

// Checkpoint counts a checkpoint of the state file, which ends with the call of what it returns; it is mvcc.Options.Checkpoint.
func (m *Metrics) Checkpoint(bytes int) (ended func(error)) {
	if m == nil {
		return func(error) {}
	}
	began := time.Now()
	return func(err error) {
		if err != nil {
			m.checkpointFailures.Inc()
			return
		}
		m.checkpointTook.Observe(seconds(time.Since(began)))
		m.checkpointBytes.Observe(float64(bytes))
	}
}

// KeptUp counts a look of the upkeep; it is replica.UpkeepOptions.Looked.
func (m *Metrics) KeptUp(task string, err error) {
	if m == nil {
		return
	}
	if err != nil {
		m.upkeepFailures.WithLabelValues(task).Inc()
	}
}

// FileCompacted counts a compaction of the state file; it is replica.UpkeepOptions.Compacted.
func (m *Metrics) FileCompacted() {
	if m != nil {
		m.fileCompactions.Inc()
	}
}
