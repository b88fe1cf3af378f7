package metrics

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	raft "github.com/drover-fleet/drover/consensus"
	"github.com/drover-fleet/drover/store"
)

// line is the sample of a metric in a scrape, or "".
func line(t *testing.T, m *Metrics, series string) string {
	t.Helper()
	text, err := m.Text()
	if err != nil {
		t.Fatal(err)
	}
	for l := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(l, series+" "); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

func TestF28ASlowDiskIsMeasuredAndAnAlarm(t *testing.T) {
	m := New("h1", "test")
	o := m.Observer()
	for range 99 {
		o.LogSynced(2*time.Millisecond, 1, 100)
	}
	o.LogSynced(3*time.Second, 2, 200)
	o.SlowDisk(raft.DiskLog, true)
	o.HandedOver("h2")
	for series, want := range map[string]string{
		`drover_consensus_log_sync_seconds_bucket{le="0.0025"}`: "99",
		`drover_consensus_log_sync_seconds_count`:               "100",
		`drover_consensus_log_synced_entries_total`:             "101",
		`drover_consensus_disk_slow{part="log"}`:                "1",
		`drover_consensus_disk_slow{part="state"}`:              "0",
		`drover_consensus_hand_overs_total`:                     "1",
	} {
		if got := line(t, m, series); got != want {
			t.Errorf("%s: got %q, want %q", series, got, want)
		}
	}
	c := Condition{Status: raft.Status{Leader: 1, LogPath: "/data/raft.db", Lag: 3 * time.Second}, Slow: m.SlowParts(), Syncs: m.Syncs()}
	if c.Syncs.P50 != 2*time.Millisecond || c.Syncs.P99 != 3*time.Second {
		t.Errorf("got %+v, want 2 ms and 3 s", c.Syncs)
	}
	a := standing(c)["slow_disk"]
	if a.Severity != Warning || !strings.Contains(a.Message, "/data/raft.db") || !strings.Contains(a.Message, "3s") {
		t.Errorf("got %+v, want a warning that names file and duration", a)
	}
	o.SlowDisk(raft.DiskLog, false)
	if got := m.SlowParts(); len(got) != 0 {
		t.Errorf("after it recovered: got %v, want none", got)
	}
}

func standing(c Condition) map[string]Alarm {
	out := map[string]Alarm{}
	for _, a := range Judge(c) {
		if a.On {
			out[a.Name] = a
		}
	}
	return out
}

func TestAlarmsStandForTheirReasonOnly(t *testing.T) {
	led := raft.Status{ID: 1, Leader: 2}
	q := store.Limits{Data: store.Quota{Max: 100, High: 90, Low: 80}, Events: store.Quota{Max: 10, High: 9, Low: 8}}
	for _, tt := range []struct {
		name string
		c    Condition
		want map[string]Severity
	}{
		{"all is well", Condition{Status: led, Usage: store.Usage{Data: 70, Limits: q}, Free: 10, Size: 100, Clocks: map[string]time.Duration{"h2": -time.Second}}, nil},
		{"nothing is known yet", Condition{Status: led}, nil},
		{"no leader", Condition{Status: raft.Status{ID: 1}}, map[string]Severity{"no_leader": Critical}},
		{"fenced", Condition{Status: raft.Status{ID: 1, Fenced: "removed"}}, map[string]Severity{"fenced": Critical}},
		{"filling", Condition{Status: led, Usage: store.Usage{Data: 71, Limits: q}}, map[string]Severity{"contents_filling": Warning}},
		{"full", Condition{Status: led, Usage: store.Usage{Data: 95, DataFull: true, Limits: q}}, map[string]Severity{"contents_filling": Warning, "contents_full": Critical}},
		{"events full", Condition{Status: led, Usage: store.Usage{Events: 9, EventsFull: true, Limits: q}}, map[string]Severity{"events_full": Warning}},
		{"room", Condition{Status: led, Free: 9, Size: 100}, map[string]Severity{"disk_room": Critical}},
		{"clock behind", Condition{Status: led, Clocks: map[string]time.Duration{"h2": -3 * time.Second, "h3": time.Second}}, map[string]Severity{"clock": Warning}},
		{"damaged", Condition{Status: led, Damaged: true}, map[string]Severity{"damaged": Critical}},
		{"diverged", Condition{Status: led, Diverged: true}, map[string]Severity{"diverged": Critical}},
		{"upkeep", Condition{Status: led, UpkeepErr: errors.New("no room")}, map[string]Severity{"upkeep": Warning}},
	} {
		got := map[string]Severity{}
		for name, a := range standing(tt.c) {
			got[name] = a.Severity
			if a.Message == "" {
				t.Errorf("%s: alarm %s says nothing", tt.name, name)
			}
		}
		if diff := cmp.Diff(tt.want, got, cmp.FilterValues(func(a, b map[string]Severity) bool { return len(a)+len(b) == 0 }, cmp.Ignore())); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestLeaderChangesCountLeadersAndNotMomentsWithoutOne(t *testing.T) {
	m := New("h1", "test")
	changed := m.Observer().LeaderChanged
	for _, leader := range []uint64{7, 0, 7, 0, 0, 8, 8, 7} {
		changed(1, leader)
	}
	if got := line(t, m, "drover_consensus_leader_changes_total"); got != "3" {
		t.Errorf("got %s changes, want 3: to 7, to 8 and back", got)
	}
}

func TestWordsThatClientsChooseAreNoLabels(t *testing.T) {
	m := New("h1", "test")
	before := lines(t, m)
	for i := range 1000 {
		m.API(fmt.Sprint("verb-", i), 404, time.Millisecond, false)
		m.Relisted(UserGateway)(fmt.Sprint("reason-", i))
		m.Proposed(fmt.Sprint("outcome-", i), time.Millisecond)
	}
	if grown := lines(t, m) - before; grown > 2 {
		t.Errorf("a thousand words added %d series, want 2: other", grown)
	}
	if got := line(t, m, `drover_api_requests_total{code="404",verb="other"}`); got != "1000" {
		t.Errorf("got %q requests of verb other, want 1000", got)
	}
}

func lines(t *testing.T, m *Metrics) int {
	t.Helper()
	text, err := m.Text()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for l := range strings.Lines(string(text)) {
		if strings.HasPrefix(l, "drover_") {
			n++
		}
	}
	return n
}

func TestTransfersAreCountedByDirectionAndEnd(t *testing.T) {
	m := New("h1", "test")
	for _, e := range []raft.TransferEvent{
		{Stage: raft.TransferBegun, Sending: true, Member: "h2"},
		{Stage: raft.TransferBegun, Sending: true, Member: "h3"},
		{Stage: raft.TransferResumed, Sending: true, Member: "h2", Offset: 10},
		{Stage: raft.TransferEnded, Sending: true, Member: "h2", Moved: 30},
		{Stage: raft.TransferBegun, Member: "h4"},
		{Stage: raft.TransferEnded, Member: "h4", Moved: 5, Err: errors.New("cut")},
	} {
		m.Observer().Transfer(e)
	}
	for series, want := range map[string]string{
		`drover_consensus_snapshots_running{direction="sent"}`:                   "1",
		`drover_consensus_snapshots_running{direction="received"}`:               "0",
		`drover_consensus_snapshot_resumes_total{direction="sent"}`:              "1",
		`drover_consensus_snapshot_bytes_total{direction="sent"}`:                "30",
		`drover_consensus_snapshots_total{direction="sent",result="done"}`:       "1",
		`drover_consensus_snapshots_total{direction="received",result="failed"}`: "1",
	} {
		if got := line(t, m, series); got != want {
			t.Errorf("%s: got %q, want %q", series, got, want)
		}
	}
}
