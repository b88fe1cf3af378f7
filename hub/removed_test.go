package hub

import (
	"io"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/client/remote"
	"github.com/drover-fleet/drover/store"
)

// TestRemovedMemberMayDoNothingThoughItsCertificateIsGood: it learns that it was left behind, and nothing else.
func TestRemovedMemberMayDoNothingThoughItsCertificateIsGood(t *testing.T) {
	h1, admin := found(t, Config{})
	token := h1.token(admin, "joins-h2")
	id, path := identity(t, "h2"), t.TempDir()
	check(t, Join(t.Context(), path, id, h1.joining(token)))
	h2 := run(t, Config{Dir: path})
	await(t, "h2 has a vote", func() bool { m := h1.node.Members(); return len(m) == 2 && !m[0].Learner && !m[1].Learner })
	_, err := admin.Create(t.Context(), configMap("c"), client.WriteOptions{})
	check(t, err)

	asks := h2.keys.toMembers()
	t.Cleanup(asks.CloseIdleConnections)
	get := func(path, behalf string) int {
		t.Helper()
		rq, err := http.NewRequestWithContext(within(t, 10*time.Second), http.MethodGet, "https://"+h1.id.API+path, nil)
		check(t, err)
		if behalf != "" {
			rq.Header.Set(remote.HeaderOnBehalfOf, behalf)
		}
		rs, err := asks.RoundTrip(rq)
		check(t, err)
		_, err = io.Copy(io.Discard, rs.Body)
		check(t, err)
		check(t, rs.Body.Close())
		return rs.StatusCode
	}
	doors := []struct{ path, behalf string }{
		{"/metrics", ""}, {"/api/v1/namespaces/default/configmaps/c", `{"kind":"person","name":"admin","groups":["drover:admins"]}`}, {pathStatus, ""}, {pathHashes, ""},
	}
	for _, d := range doors {
		if got := get(d.path, d.behalf); got != http.StatusOK {
			t.Errorf("%s on behalf of %q while it is a member: got %d, want %d", d.path, d.behalf, got, http.StatusOK)
		}
	}
	watches, err := DialStore(within(t, 10*time.Second), path, h1.id.API)
	check(t, err)
	t.Cleanup(func() { _ = watches.Close() })
	w, err := watches.Watch(within(t, 10*time.Second), store.WatchRequest{Start: "a", End: "b"}, false)
	check(t, err)

	check(t, h1.do(remote.HubRemoveOp, url.Values{"member": {"h2"}}))
	for _, d := range doors {
		if got := get(d.path, d.behalf); got != http.StatusForbidden {
			t.Errorf("%s on behalf of %q once it is removed: got %d, want %d", d.path, d.behalf, got, http.StatusForbidden)
		}
	}
	if got := get(pathHistory, ""); got != http.StatusOK {
		t.Errorf("the question whether its history is over: got %d, want %d", got, http.StatusOK)
	}
	if b, err := w.Next(within(t, 10*time.Second)); err == nil || t.Context().Err() != nil {
		t.Errorf("a watch that it had: got %v and %v, want its end", b, err)
	}
	if c, err := DialStore(within(t, 10*time.Second), path, h1.id.API); err == nil {
		if _, err := c.Range(within(t, 10*time.Second), store.RangeRequest{Start: "a", End: "z"}, true); err == nil {
			t.Error("the store was read")
		}
		_ = c.Close()
	}
	h2.stop()
	again := some(t, path, fileKey)
	if err := Join(within(t, 20*time.Second), again, id, h1.joining(token)); !fault.Is(err, fault.Forbidden) {
		t.Errorf("joining again with the token that it used: got %v, want a refusal", err)
	}
	if n := len(h1.node.Members()); n != 1 {
		t.Errorf("got %d members, want 1", n)
	}
	check(t, Join(t.Context(), again, id, h1.joining(h1.token(admin, "lets-h2-in-again"))))
}
