package hub

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/drover-fleet/drover/store"
)

func TestStoreIsServedToMembersBesideTheAPI(t *testing.T) {
	h, _ := found(t, Config{DrainTimeout: time.Minute})
	ctx := within(t, 20*time.Second)
	c, err := DialStore(ctx, h.cfg.Dir, "")
	check(t, err)
	defer func() { check(t, c.Close()) }()
	r, err := c.Propose(ctx, &store.Command{Actor: "hub:test", Ops: []store.Op{{Type: store.OpPut, Key: "k", Value: []byte("v")}}})
	check(t, err)
	check(t, r.Err)
	got, err := c.Range(ctx, store.RangeRequest{Start: "k"}, false)
	check(t, err)
	if len(got.KVs) != 1 || got.KVs[0].ModRevision != r.Revisions[0] {
		t.Errorf("got %+v, want k at %d", got.KVs, r.Revisions[0])
	}
	var listed strings.Builder
	check(t, ListKeys(ctx, KeyQuery{Dir: h.cfg.Dir, Prefix: "k", Values: true}, &listed))
	if want := fmt.Sprintf("\"k\" revision=%s version=1 bytes=1 value=\"v\"\n", r.Revisions[0]); listed.String() != want {
		t.Errorf("list of keys: got %q, want %q", listed.String(), want)
	}
	w, err := c.Watch(ctx, store.WatchRequest{Start: "k"}, false)
	check(t, err)
	defer w.Close()

	web := &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{
		MinVersion: tls.VersionTLS13, InsecureSkipVerify: true, //nolint:gosec // only the protocol is looked at
	}}}
	defer web.CloseIdleConnections()
	resp, err := web.Get("https://" + h.id.API + "/livez")
	check(t, err)
	check(t, resp.Body.Close())
	if resp.ProtoMajor != 2 {
		t.Errorf("the API answers by %s, want HTTP/2", resp.Proto)
	}

	began := time.Now()
	h.stop()
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("with an open watch of the store it ended after %s, want at once", took)
	}
}
