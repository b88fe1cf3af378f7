package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drover-fleet/drover/hub/audit"
	"github.com/drover-fleet/drover/hub/fair"
)

// guards are what the member refused, and what it put on record.
type guards struct {
	refused                     *prometheus.CounterVec
	auditRecords, auditFailures prometheus.Counter
	auditSync                   prometheus.Histogram
}

// refusals are all reasons for which something is refused before it reaches the objects.
func refusals() []string {
	return []string{
		"malformed", "unauthenticated", "forbidden", "too_large", "media", "slow_body", "busy", "audit", "http2", "certificate",
		fair.ReasonQueueFull, fair.ReasonQueueWait, fair.ReasonShare, fair.ReasonConnections, fair.ReasonHandshakes, fair.ReasonSlowHandshake,
		fair.ReasonSlowHeader, fair.ReasonStrangers, fair.ReasonOfIdentity, "other",
	}
}

func newGuards() guards {
	g := guards{
		refused:       counters("api", "refused_total", "Requests and connections that were refused before they reached an object, by why.", "reason"),
		auditRecords:  counter("audit", "records_total", "Audit records written."),
		auditFailures: counter("audit", "failures_total", "Writes of the audit that failed."),
		auditSync:     histogram("audit", "sync_seconds", "One synced write of the audit, of whatever receipts wait.", diskSeconds()),
	}
	for _, r := range refusals() {
		g.refused.WithLabelValues(r)
	}
	return g
}

func (g *guards) all() []prometheus.Collector {
	return []prometheus.Collector{g.refused, g.auditRecords, g.auditFailures, g.auditSync}
}

// Refused counts what was refused, by its reason.
func (m *Metrics) Refused(reason string) {
	if m != nil {
		m.refused.WithLabelValues(known(reason, refusals())).Inc()
	}
}

// Audited counts a write of the audit; it is audit.Config.Observe.
func (m *Metrics) Audited(records int, synced bool, took time.Duration, err error) {
	switch {
	case m == nil:
		return
	case err != nil:
		m.auditFailures.Inc()
		return
	case synced:
		m.auditSync.Observe(seconds(took))
	}
	m.auditRecords.Add(float64(records))
}

func (e emitter) guards(h audit.Health, seats []fair.Load, conns fair.ConnLoad) {
	e.gauge("audit", "sequence", "Number of the newest audit record; it never falls.", float64(h.Seq))
	e.counter("audit", "lost_total", "Audit records that could not be written; a later record says how many and why.", float64(h.Lost))
	for _, l := range seats {
		class := label{"class", string(l.Class)}
		e.gauge("fair", "seats", "Seats for requests.", float64(l.Seats), class)
		e.gauge("fair", "seats_used", "Seats taken by requests under way; a costly request takes several.", float64(l.Used), class)
		e.gauge("fair", "waiting", "Requests that wait for seats.", float64(l.Waiting), class)
	}
	const help = "Open connections by how far they have shown who they are."
	e.gauge("", "connections", help, float64(conns.Handshaking), label{"state", "handshaking"})
	e.gauge("", "connections", help, float64(conns.Strangers), label{"state", "stranger"})
	e.gauge("", "connections", help, float64(conns.Known), label{"state", "known"})
}
