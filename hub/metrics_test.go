package hub

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/drover-fleet/drover/api/wire"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/client/remote"
	"github.com/drover-fleet/drover/store"
)

// documented are the rows of docs/metrics.md: names and types.
func documented(t *testing.T) map[string]string {
	t.Helper()
	b, err := os.ReadFile("../docs/metrics.md")
	check(t, err)
	out := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (gauge|counter|histogram|summary) \\|").FindAllStringSubmatch(string(b), -1) {
		if out[m[1]] != "" {
			t.Errorf("docs/metrics.md has %s twice", m[1])
		}
		out[m[1]] = m[2]
	}
	return out
}

// scrape reads /metrics of a member as Prometheus does: over TLS, with an operator's certificate.
func (h *running) scrape() map[string]*dto.MetricFamily {
	h.t.Helper()
	k, err := remote.LoadKubeconfig(h.dir.path(fileAdmin), "")
	check(h.t, err)
	pair, err := tls.X509KeyPair(k.Cert, k.Key)
	check(h.t, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(k.CA)
	web := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{
		MinVersion: tls.VersionTLS13, RootCAs: roots, Certificates: []tls.Certificate{pair}, ServerName: wire.HubServerName,
	}}}
	defer web.CloseIdleConnections()
	resp, err := web.Get("https://" + h.id.API + "/metrics")
	check(h.t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	check(h.t, err)
	if resp.StatusCode != http.StatusOK {
		h.t.Fatalf("got %s: %s", resp.Status, body)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(string(body)))
	check(h.t, err)
	return families
}

// value is that of the one series of a family with the labels given as name, value, ...
func value(families map[string]*dto.MetricFamily, name string, labels ...string) float64 {
	for _, m := range families[name].GetMetric() {
		have := map[string]string{}
		for _, l := range m.GetLabel() {
			have[l.GetName()] = l.GetValue()
		}
		fits := true
		for i := 0; i < len(labels); i += 2 {
			fits = fits && have[labels[i]] == labels[i+1]
		}
		switch {
		case !fits:
		case m.Counter != nil:
			return m.Counter.GetValue()
		case m.Histogram != nil:
			return float64(m.Histogram.GetSampleCount())
		default:
			return m.GetGauge().GetValue()
		}
	}
	return -1
}

func TestMetricsAreThoseOfTheDocument(t *testing.T) {
	h1, admin := found(t, Config{})
	d := t.TempDir()
	check(t, Join(within(t, 20*time.Second), d, identity(t, "h2"), h1.joining(h1.token(admin, "h2"))))
	run(t, Config{Dir: d})
	await(t, "a second voter", func() bool {
		m := h1.node.Members()
		return len(m) == 2 && !m[0].Learner && !m[1].Learner
	})
	_, err := admin.Create(t.Context(), configMap("secret-object"), client.WriteOptions{})
	check(t, err)
	c, err := DialStore(within(t, 20*time.Second), h1.cfg.Dir, "")
	check(t, err)
	defer func() { check(t, c.Close()) }()
	_, err = c.Propose(t.Context(), &store.Command{
		Actor: "hub:test", If: []store.Precondition{{Key: "secret-key", Exists: true}}, Ops: []store.Op{{Type: store.OpDelete, Key: "secret-key"}},
	})
	check(t, err)
	w, err := c.Watch(t.Context(), store.WatchRequest{Start: "secret-key"}, false)
	check(t, err)
	defer w.Close()
	await(t, "limits, members' clocks and round trips", func() bool {
		h1.compareOnce(t.Context())
		f := h1.scrape()
		return value(f, "drover_store_quota_bytes", "mark", "max") > 0 && value(f, "drover_clock_offset_seconds", "peer", "h2") != -1 && value(f, "drover_consensus_peer_round_trip_seconds", "peer", "h2") > 0
	})
	h1.metrics.Observer().FramesLost("h2", 2)
	h1.metrics.Observer().FramesLost("left-long-ago", 2)
	h1.metrics.Device("poll", http.StatusOK)

	got, want := h1.scrape(), documented(t)
	for name, family := range got {
		if is := strings.ToLower(family.GetType().String()); is != want[name] {
			t.Errorf("%s is a %s, and docs/metrics.md has it as %q", name, is, want[name])
		}
		if family.GetHelp() == "" {
			t.Errorf("%s has no help", name)
		}
		for _, m := range family.GetMetric() {
			for _, l := range m.GetLabel() {
				if v := l.GetValue(); strings.Contains(v, "secret") || v == "left-long-ago" {
					t.Errorf("%s has the label %s=%q", name, l.GetName(), v)
				}
			}
		}
	}
	for name := range want {
		if got[name] == nil {
			t.Errorf("docs/metrics.md has %s, and a member does not", name)
		}
	}
	for _, is := range []struct {
		want   float64
		name   string
		labels []string
	}{
		{1, "drover_consensus_leads", nil},
		{2, "drover_consensus_members", []string{"role", "voter"}},
		{1, "drover_proposals_total", []string{"outcome", "conflict"}},
		{1, "drover_kv_requests_total", []string{"verb", "propose", "code", "conflict"}},
		{1, "drover_kv_connections", nil},
		{2, "drover_watch_watchers", []string{"kind", "key", "state", "live"}}, // the test's, and the member's own of the key that seals
		{1 << 30, "drover_store_quota_bytes", []string{"class", "contents", "mark", "max"}},
		{1, "drover_consensus_snapshots_total", []string{"direction", "sent", "result", "done"}},
		{0, "drover_alarm", []string{"alarm", "no_leader", "severity", "critical"}},
	} {
		if v := value(got, is.name, is.labels...); v != is.want {
			t.Errorf("%s%v: got %v, want %v", is.name, is.labels, v, is.want)
		}
	}
	for _, some := range []string{"drover_consensus_log_sync_seconds", "drover_consensus_apply_seconds", "drover_consensus_batch_commands", "drover_proposal_seconds"} {
		if value(got, some) <= 0 {
			t.Errorf("%s has no observation", some)
		}
	}
}

func TestF41EachListOfACacheIsCounted(t *testing.T) {
	h, _ := found(t, Config{})
	// Controllers and gateway list each of their kinds once, and no more while nothing is compacted.
	await(t, "the first lists", func() bool {
		f := h.scrape()
		return value(f, "drover_relists_total", "user", "gateway", "reason", "first") > 5 &&
			value(f, "drover_relists_total", "user", "controllers", "reason", "first") > 5
	})
	if f := h.scrape(); value(f, "drover_relists_total", "user", "gateway", "reason", "Expired") != 0 {
		t.Error("the gateway listed again, though nothing is compacted")
	}
}
