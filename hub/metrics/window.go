package metrics

import (
	"slices"
	"sync"
	"time"
)

// windowSize is how many durations are kept: enough for a 99th percentile that one odd sync does not make.
const windowSize = 512

// window keeps the newest durations, for people who ask a member how its disk does just now. Prometheus has the histogram.
type window struct {
	mu    sync.Mutex
	ring  [windowSize]time.Duration
	count int // ever added
}

func (w *window) add(d time.Duration) {
	w.mu.Lock()
	w.ring[w.count%windowSize] = d
	w.count++
	w.mu.Unlock()
}

// Quantiles are of the newest syncs of the log, at most 512 of them; all zero before the first.
type Quantiles struct{ P50, P99, Max time.Duration }

func (w *window) quantiles() Quantiles {
	w.mu.Lock()
	d := slices.Clone(w.ring[:min(w.count, windowSize)])
	w.mu.Unlock()
	if len(d) == 0 {
		return Quantiles{}
	}
	slices.Sort(d)
	at := func(q float64) time.Duration { return d[min(len(d)-1, int(q*float64(len(d))))] }
	return Quantiles{P50: at(0.50), P99: at(0.99), Max: d[len(d)-1]}
}

// Syncs tells how long syncs of the log take just now.
func (m *Metrics) Syncs() Quantiles {
	if m == nil {
		return Quantiles{}
	}
	return m.syncs.quantiles()
}
