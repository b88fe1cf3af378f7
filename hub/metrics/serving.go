package metrics

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drover-fleet/drover/hub/kv"
)

// serving is what the member answered, at each of its doors, and how often its own caches had to list again.
type serving struct {
	api, device, kv *prometheus.CounterVec
	apiTook, kvTook *prometheus.HistogramVec
	relists         *prometheus.CounterVec
	kvDone          map[kvDone]kvInstruments // of answers that went well; never changed
}

type kvDone struct{ verb, code string }

type kvInstruments struct {
	count prometheus.Counter
	took  prometheus.Observer
}

// Users of relists.
const (
	UserControllers = "controllers" // the leader's informers
	UserGateway     = "gateway"     // the view from which devices are told what to run
)

// apiVerbs are those of hub/apiserver; whatever else a request asks for counts as other.
func apiVerbs() []string {
	return []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "transact", "other"}
}

func newServing() serving {
	s := serving{
		api: counters("api", "requests_total",
			"Requests of the operators' API that were answered, by verb and HTTP status; code 0 had no answer.", "verb", "code"),
		apiTook: histograms("api", "request_seconds",
			"From a request of the operators' API to the end of its answer; watches and logs, which last, are not in it.", diskSeconds(), "verb"),
		kv: counters("kv", "requests_total",
			"Requests of other members and tools to the store's own service that were answered, by verb and outcome.", "verb", "code"),
		kvTook: histograms("kv", "request_seconds",
			"From a request to the store's own service to its answer; watches are not in it.", diskSeconds(), "verb"),
		device: counters("gateway", "requests_total",
			"Requests of the device protocol that were answered, by message and HTTP status.", "message", "code"),
		relists: counters("", "relists_total",
			"Times that a cache of this member read a kind anew, by who reads and why. All but reason first are a watch that was lost.", "user", "reason"),
		kvDone: map[kvDone]kvInstruments{},
	}
	for _, v := range apiVerbs() {
		s.apiTook.WithLabelValues(v)
	}
	for _, v := range []string{kv.VerbPropose, kv.VerbRange} {
		s.kvDone[kvDone{v, kv.CodeOK}] = kvInstruments{s.kv.WithLabelValues(v, kv.CodeOK), s.kvTook.WithLabelValues(v)}
	}
	for _, u := range []string{UserControllers, UserGateway} {
		for _, r := range relistReasons() {
			s.relists.WithLabelValues(u, r)
		}
	}
	return s
}

// relistReasons are those that client/cache and hub/gateway give.
func relistReasons() []string { return []string{"first", "Expired", "OtherEpoch", "Ahead"} }

func (s *serving) all() []prometheus.Collector {
	return []prometheus.Collector{s.api, s.apiTook, s.kv, s.kvTook, s.device, s.relists}
}

// API counts an answer of the operators' API; lasting ones are watches and logs. It is apiserver.Config.Observe.
func (m *Metrics) API(verb string, code int, took time.Duration, lasting bool) {
	if m == nil {
		return
	}
	verb = known(verb, apiVerbs())
	m.api.WithLabelValues(verb, strconv.Itoa(code)).Inc()
	if !lasting {
		m.apiTook.WithLabelValues(verb).Observe(seconds(took))
	}
}

func known(word string, list []string) string {
	for _, w := range list {
		if w == word {
			return w
		}
	}
	return "other"
}

// KV counts an answer of the store's own service; it is kv.Server.Observe.
func (m *Metrics) KV(verb, code string, took time.Duration) {
	if m == nil {
		return
	}
	i, ok := m.kvDone[kvDone{verb, code}]
	if !ok {
		i = kvInstruments{count: m.kv.WithLabelValues(verb, code)}
		if verb != kv.VerbWatch {
			i.took = m.kvTook.WithLabelValues(verb)
		}
	}
	i.count.Inc()
	if i.took != nil {
		i.took.Observe(seconds(took))
	}
}

// Device counts an answer of the device protocol; it is httpgw.Config.Observe.
func (m *Metrics) Device(message string, code int) {
	if m != nil {
		m.device.WithLabelValues(message, strconv.Itoa(code)).Inc()
	}
}

// Relisted returns what counts the lists of one user; it is client/cache's and hub/gateway's Options.Relisted.
func (m *Metrics) Relisted(user string) func(reason string) {
	return func(reason string) {
		if m != nil {
			m.relists.WithLabelValues(user, known(reason, relistReasons())).Inc()
		}
	}
}
