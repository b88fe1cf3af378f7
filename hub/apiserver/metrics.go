package apiserver

import (
	"net/http"

	"github.com/drover-fleet/drover/api/fault"
)

// metricsType is Prometheus' text format, which every version of it reads.
const metricsType = "text/plain; version=0.0.4; charset=utf-8"

// metrics answers a scrape, for operators and other members. What could not be read is in the log; the rest is worth having.
func (x *exchange) metrics() error {
	if x.s.cfg.Metrics == nil {
		return fault.NotFound.Errorf("this member serves no metrics")
	}
	text, err := x.s.cfg.Metrics()
	if err != nil {
		x.s.cfg.Logger.Warn("metrics are not whole", "err", err)
	}
	if len(text) == 0 {
		return fault.Internal.Errorf("no metric could be read; the hub's log has it under request id %s", x.id)
	}
	return x.w.bytes(http.StatusOK, metricsType, text)
}
