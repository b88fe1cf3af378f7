package metrics

import (
	"bytes"
	"fmt"
	"regexp"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/common/expfmt"

	raft "github.com/drover-fleet/drover/consensus"
)

// namespace begins the name of every metric of ours.
const namespace = "drover"

// Metrics holds a member's instruments. Its methods are safe for concurrent use, and a nil *Metrics takes everything and keeps
// nothing.
type Metrics struct {
	registry *prometheus.Registry
	consensus
	writes
	serving
	guards

	members func() []raft.Member // nil until Follow

	mu    sync.Mutex          // guards below
	peers map[string]struct{} // names that are labels now
}

// New makes the instruments of a member.
func New(member, version string) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), peers: map[string]struct{}{}}
	m.consensus, m.writes, m.serving, m.guards = newConsensus(), newWrites(), newServing(), newGuards()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: namespace, Name: "member_info", Help: "1, with the member's name and Drover's version.",
		ConstLabels: prometheus.Labels{"member": member, "version": version},
	})
	info.Set(1)
	m.registry.MustRegister(info,
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewGoCollector(
			collectors.WithGoCollectorMemStatsMetricsDisabled(),
			collectors.WithGoCollectorRuntimeMetrics(collectors.GoRuntimeMetricsRule{Matcher: heapInUse()}),
		),
	)
	m.registry.MustRegister(m.consensus.all()...)
	m.registry.MustRegister(m.writes.all()...)
	m.registry.MustRegister(m.serving.all()...)
	m.registry.MustRegister(m.guards.all()...)
	return m
}

// Follow adds what is asked of the sources at each scrape. It is called once.
func (m *Metrics) Follow(s Sources) {
	m.registry.MustRegister(&state{s: s, m: m})
	m.members = func() []raft.Member { return s.Condition().Status.Members }
}

// heapInUse is the runtime's name of what live and not yet swept objects take.
func heapInUse() *regexp.Regexp { return regexp.MustCompile(`^/memory/classes/heap/objects:bytes$`) }

// ContentType is that of Text.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// Text is one scrape in Prometheus' text format. What could be read is in it, even where something else could not: then the error
// says what.
func (m *Metrics) Text() ([]byte, error) {
	if m.members != nil {
		m.forget(m.members()) // before anything is gathered: that is done side by side
	}
	families, err := m.registry.Gather()
	var b bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&b, f); err != nil {
			return nil, fmt.Errorf("write metric %s: %w", f.GetName(), err)
		}
	}
	return b.Bytes(), err
}

func counter(subsystem, name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help})
}

func counters(subsystem, name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help}, labels)
}

func histogram(subsystem, name, help string, buckets []float64) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help, Buckets: buckets})
}

func histograms(subsystem, name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help, Buckets: buckets}, labels)
}

// diskSeconds reach from a fast SSD's sync to a card that stalls; requests are measured in them too, since each write waits for one.
func diskSeconds() []float64 {
	return []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
}

func counts() []float64 { return []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024} }

// sizes are in bytes, from 256 to 16 MiB.
func sizes() []float64 { return prometheus.ExponentialBuckets(256, 4, 9) }

func seconds(d time.Duration) float64 { return d.Seconds() }
