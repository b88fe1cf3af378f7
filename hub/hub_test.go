package hub

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/client"
)

func configMap(name string) *api.ConfigMap {
	return &api.ConfigMap{
		TypeMeta: api.TypeMeta{APIVersion: api.CoreV1, Kind: "ConfigMap"},
		Metadata: api.ObjectMeta{Name: name, Namespace: api.DefaultNS},
	}
}

// Its controllers' term outlives the services, and an open watch has no end of its own: neither keeps it.
func TestLeaderWithAWatchEndsAtOnceWhenAsked(t *testing.T) {
	h, admin := found(t, Config{DrainTimeout: time.Minute})
	w, err := admin.Watch(t.Context(), api.KindDevice, client.WatchOptions{Bookmarks: true})
	check(t, err)
	defer w.Close()
	if _, err := w.Next(within(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	h.stop()
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it ended after %s, want at once", took)
	}
}

func TestLeaderThatEndsHandsOver(t *testing.T) {
	h1, admin := found(t, Config{})
	var others []*running
	for i := range 2 {
		d := t.TempDir()
		name := fmt.Sprintf("h%d", i+2)
		check(t, Join(within(t, 20*time.Second), d, identity(t, name), h1.joining(h1.token(admin, name))))
		others = append(others, run(t, Config{Dir: d}))
	}
	await(t, "two more voters", func() bool {
		voters := 0
		for _, m := range h1.node.Members() {
			if !m.Learner {
				voters++
			}
		}
		return voters == 3
	})
	term := h1.node.Status().Term
	h1.stop()
	// Without a hand-over nobody leads before an election time-out, and then the term rises by more than one only after a split vote.
	if s := h1.node.Status(); s.Leader == 0 || s.Leader == s.ID || s.Term != term+1 {
		t.Errorf("when it ended it knew of leader %d in term %d, want another than %d in term %d", s.Leader, s.Term, s.ID, term+1)
	}
	for _, o := range others {
		await(t, o.id.Name+" knows who leads", func() bool { return o.node.Status().Leader != 0 })
	}
}

func TestIdleWatchLearnsHowFarTheHubHasCome(t *testing.T) {
	_, admin := found(t, Config{Progress: 20 * time.Millisecond})
	w, err := admin.Watch(t.Context(), api.KindDevice, client.WatchOptions{Bookmarks: true})
	check(t, err)
	defer w.Close()
	ctx := within(t, 10*time.Second)
	if _, err := w.Next(ctx); err != nil {
		t.Fatal(err)
	}
	made, err := admin.Create(t.Context(), configMap("other"), client.WriteOptions{})
	check(t, err)
	for {
		e, err := w.Next(ctx)
		if err != nil {
			t.Fatalf("no bookmark at or past revision %s of another kind's object: %v", made.Meta().ResourceVersion, err)
		}
		if e.Type == client.Bookmark && e.Object.Meta().ResourceVersion >= made.Meta().ResourceVersion {
			return
		}
	}
}

// A cleaned path would turn a delete of an object whose name came out empty into one of what it lies in.
func TestPathsAreNotCleaned(t *testing.T) {
	h, _ := found(t, Config{})
	tr := h.keys.toMembers()
	defer tr.CloseIdleConnections()
	for _, path := range []string{
		"/api/v1/namespaces//configmaps", "/api/v1/namespaces/default/configmaps/..", "/api/v1/namespaces/default/configmaps/",
		"/api/v1/namespaces/default/./configmaps", "/api/v1/namespaces/default%2Fconfigmaps/a", "/drover/v1/../../api/v1/namespaces/default",
	} {
		rq, err := http.NewRequestWithContext(within(t, 10*time.Second), http.MethodDelete, "https://"+h.id.API+path, nil)
		check(t, err)
		resp, err := tr.RoundTrip(rq)
		check(t, err)
		check(t, resp.Body.Close())
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("DELETE %s: got %d, want %d", path, resp.StatusCode, http.StatusBadRequest)
		}
	}
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx := within(t, 20*time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: still not so", what)
		}
	}
}
