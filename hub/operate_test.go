package hub

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/client/remote"
	"github.com/drover-fleet/drover/store"
)

func TestOperatorMovesTheLeadAndTakesMembersOut(t *testing.T) {
	h, admin := three(t)
	s, err := admin.HubStatus(within(t, 20*time.Second))
	check(t, err)
	if s.Leader != "h1" || len(s.Members) != 3 || s.ClusterID == "" {
		t.Errorf("status: got %+v, want three members led by h1", s)
	}
	for _, m := range s.Members {
		if m.Error != "" || m.Applied == 0 || m.LogBytes == 0 || m.StateBytes == 0 || m.SyncP99Micros == 0 || m.Epoch != 1 || m.DiskSize == 0 {
			t.Errorf("member %s: got %+v, want what it says of itself", m.Name, m)
		}
	}
	check(t, admin.HubDo(within(t, 20*time.Second), remote.HubTransferOp, url.Values{"member": {"h2"}}, nil))
	await(t, "h2 leads", func() bool { return h[2].node.Status().Leader == h[1].node.Status().ID })

	h[2].stop()
	err = admin.HubDo(within(t, 20*time.Second), remote.HubRemoveOp, url.Values{"member": {"h1"}}, nil)
	if !fault.Is(err, fault.Conflict) {
		t.Errorf("removing one of two that live of three: got %v, want a conflict", err)
	}
	check(t, admin.HubDo(within(t, 20*time.Second), remote.HubRemoveOp, url.Values{"member": {"h3"}}, nil))
	await(t, "the hub has two members", func() bool { return len(h[1].node.Members()) == 2 })
	// The one that is asked may take itself out; it answers for the hub no more.
	check(t, admin.HubDo(within(t, 20*time.Second), remote.HubTransferOp, url.Values{"member": {"h1"}}, nil))
	check(t, admin.HubDo(within(t, 20*time.Second), remote.HubRemoveOp, url.Values{"member": {"h1"}}, nil))
	if _, err := admin.HubStatus(within(t, 20*time.Second)); !fault.Is(err, fault.Unavailable) {
		t.Errorf("status of a member that is out: got %v, want to be sent to another", err)
	}
	h[0].stop()
	if r, err := ResetFromSurvivor(t.Context(), h[0].cfg.Dir, ResetOptions{DryRun: true}); err != nil || !r.Removed {
		t.Errorf("a reset from a member that was taken out: got %+v (%v), want that it says so", r, err)
	}
	found, err := Examine(t.Context(), h[0].cfg.Dir)
	if err != nil || !slices.ContainsFunc(found, func(f Finding) bool {
		return f.Level == FindingWarn && strings.Contains(f.What, "has removed this member")
	}) {
		t.Errorf("the doctor on the directory of a member that was taken out: got %+v (%v), want that it says so", found, err)
	}
	saysThatItIsOut(t, h[0].cfg.Dir) // by its own log
	saysThatItIsOut(t, h[2].cfg.Dir) // told by the others: it was not there
	for _, op := range []string{remote.HubRemoveOp, remote.HubTransferOp, remote.HubDefragOp} {
		if err := h[1].do(op, url.Values{"member": {"h9"}}); !fault.Is(err, fault.NotFound) {
			t.Errorf("%s of a stranger: got %v, want not found", op, err)
		}
	}
	if err := h[1].do(remote.HubRemoveOp, url.Values{"member": {"h2"}, "force": {"true"}}); !fault.Is(err, fault.Conflict) {
		t.Errorf("removing the last member: got %v, want a conflict", err)
	}
}

// saysThatItIsOut starts a member that was taken out and waits until its log says what to do, more than once: it does not end by itself.
func saysThatItIsOut(t *testing.T, dir string) {
	t.Helper()
	said := make(chan string, 1)
	m, err := Open(Config{Dir: dir, Logger: slog.New(slog.NewTextHandler(writerFunc(func(line []byte) (int, error) {
		if strings.Contains(string(line), "waits for a majority") || strings.Contains(string(line), "was removed from the hub and serves nothing") {
			select {
			case said <- string(line):
			default:
			}
		}
		return len(line), nil
	}), nil))})
	check(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	for told := 0; told < 2 && ctx.Err() == nil; {
		select {
		case line := <-said:
			switch out := strings.Contains(line, "removed from the hub") && strings.Contains(line, "--join"); {
			case out:
				told++
			case told > 0: // before it is told by the others, it waits
				t.Errorf("a member that knows that it was taken out says: got %s, want that it was removed, and what to do", line)
			}
		case <-ctx.Done():
			t.Error("a member that was taken out does not say so, and what to do")
		}
	}
	cancel()
	check(t, <-ended)
}

type writerFunc func([]byte) (int, error)

func (w writerFunc) Write(b []byte) (int, error) { return w(b) }

func TestTransferWithoutALeaderSaysSoAtOnce(t *testing.T) {
	h, _ := three(t)
	h[1].stop()
	h[2].stop()
	await(t, "h1 knows of no leader", func() bool { return h[0].node.Status().Leader == 0 })
	began := time.Now()
	err := h[0].do(remote.HubTransferOp, url.Values{"member": {"h2"}})
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "no leader") {
		t.Errorf("got %v, want that there is no leader", err)
	}
	if took := time.Since(began); took > transferTime/2 {
		t.Errorf("it took %s, want it at once", took)
	}
}

// do asks this member as its API would.
func (h *running) do(op string, q url.Values) error {
	_, err := h.operations()[op].Write(within(h.t, 20*time.Second), q)
	return err
}

func TestOperatorCompactsAndRewritesTheStore(t *testing.T) {
	h, admin := found(t, Config{UpkeepEvery: 20 * time.Millisecond})
	for i := range 30 {
		_, err := admin.Create(t.Context(), configMap(fmt.Sprintf("c%d", i)), client.WriteOptions{})
		check(t, err)
	}
	newest := h.store.Revision()
	var done remote.Compacted
	check(t, admin.HubDo(within(t, 20*time.Second), remote.HubCompactOp, url.Values{"keep": {"10"}}, &done))
	if want := store.MakeRevision(newest.Epoch(), newest.Counter()-10); done.More != 0 || h.store.Compacted() < want-2 || done.Revision != h.store.Compacted().String() {
		t.Errorf("got %+v and compacted to %d, want %d", done, h.store.Compacted(), want)
	}
	if err := admin.HubDo(within(t, 20*time.Second), remote.HubCompactOp, url.Values{"keep": {"all"}}, nil); !fault.Is(err, fault.BadRequest) {
		t.Errorf("keep=all: got %v, want bad request", err)
	}
	check(t, admin.HubDo(within(t, 20*time.Second), remote.HubDefragOp, url.Values{"member": {"h1"}}, nil))
	await(t, "it has had its turn", func() bool {
		waits, err := h.upkeep.Wanted(t.Context(), "h1")
		return err == nil && !waits
	})
}

func TestOnlyOperatorsOperateTheHub(t *testing.T) {
	h, _ := found(t, Config{})
	member := h.keys.toMembers()
	nobody := &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true}} //nolint:gosec // a stranger does not verify
	defer member.CloseIdleConnections()
	defer nobody.CloseIdleConnections()
	for name, tt := range map[string]struct {
		as     http.RoundTripper
		method string
		path   string
		want   int
	}{
		"a stranger and the status":       {nobody, http.MethodGet, remote.PathHub + remote.HubStatusOp, http.StatusUnauthorized},
		"a stranger and the backup":       {nobody, http.MethodGet, remote.PathHub + remote.HubSnapshotOp, http.StatusUnauthorized},
		"a stranger and what members ask": {nobody, http.MethodGet, pathHistory, http.StatusForbidden},
		"a member and the backup":         {member, http.MethodGet, remote.PathHub + remote.HubSnapshotOp, http.StatusForbidden},
		"a member that removes another":   {member, http.MethodPost, remote.PathHub + remote.HubRemoveOp + "?member=h1", http.StatusForbidden},
		"a member and what members ask":   {member, http.MethodGet, pathStatus, http.StatusOK},
	} {
		rq, err := http.NewRequestWithContext(within(t, 10*time.Second), tt.method, "https://"+h.id.API+tt.path, strings.NewReader(""))
		check(t, err)
		rs, err := tt.as.RoundTrip(rq)
		check(t, err)
		check(t, rs.Body.Close())
		if rs.StatusCode != tt.want {
			t.Errorf("%s: got %s, want %d", name, rs.Status, tt.want)
		}
	}
}
