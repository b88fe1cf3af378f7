package apiserver_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/wire"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/client/remote"
	"github.com/drover-fleet/drover/hub/apiserver"
)

// fakeLogs answers as the gateway of one member; without a text the device's link is not there.
type fakeLogs struct {
	text  string
	err   error // instead of "no link here"
	asked atomic.Int32
	last  atomic.Pointer[wire.Logs]
	wait  chan struct{} // when set, the log goes on after its text until it is closed
}

func (f *fakeLogs) Logs(_ context.Context, device string, q wire.Logs) (io.ReadCloser, error) {
	f.asked.Add(1)
	f.last.Store(&q)
	if f.err != nil {
		return nil, f.err
	}
	if f.text == "" {
		return nil, fault.Unavailable.Errorf("device %q has no link to this member", device)
	}
	var r io.Reader = strings.NewReader(f.text)
	if f.wait != nil {
		r = io.MultiReader(r, blocked(f.wait))
	}
	return io.NopCloser(r), nil
}

type blocked chan struct{}

func (b blocked) Read([]byte) (int, error) {
	<-b
	return 0, io.EOF
}

// latePeer is a transport that is known only once the hub's authority exists.
type latePeer struct{ atomic.Pointer[http.Transport] }

func (p *latePeer) RoundTrip(rq *http.Request) (*http.Response, error) { return p.Load().RoundTrip(rq) }

// twoMembers serves one registry by two members, whose gateways have the given logs; a third is down. It returns the first.
func twoMembers(t *testing.T, first, second *fakeLogs) *hub {
	t.Helper()
	var list atomic.Pointer[[]remote.Member]
	members := apiserver.MembersFunc(func(context.Context) ([]remote.Member, error) { return *list.Load(), nil })
	var peer latePeer
	var cfg apiserver.Config
	h := startHub(t, func(c *apiserver.Config) {
		c.Members, c.Peer = members, &peer
		cfg = *c
		c.Logs = first
	})
	transport := &http.Transport{TLSClientConfig: h.ca.clientTLS("h1", wire.OrgHubs)}
	t.Cleanup(transport.CloseIdleConnections)
	peer.Store(transport)
	cfg.Member, cfg.Logs = "h2", second
	other := h.serve(cfg)
	list.Store(&[]remote.Member{{Name: "h1", URL: h.server.URL}, {Name: "h3", URL: "https://127.0.0.1:1"}, {Name: "h2", URL: other.URL}})
	_, err := h.own().Create(t.Context(), &api.Assignment{
		Metadata: api.ObjectMeta{Name: "web.pi-07", Namespace: "default"}, Spec: api.AssignmentSpec{Workload: "web", Revision: "web-1", Device: "pi-07"},
	}, client.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestLogComesFromTheMemberThatHasTheLink(t *testing.T) {
	for _, tt := range []struct {
		name          string
		first, second *fakeLogs
	}{{"here", &fakeLogs{text: "line\n"}, &fakeLogs{}}, {"elsewhere", &fakeLogs{}, &fakeLogs{text: "line\n"}}, {"half-open here", &fakeLogs{err: fault.Timeout.Errorf("no stream")}, &fakeLogs{text: "line\n"}}} {
		t.Run(tt.name, func(t *testing.T) {
			h := twoMembers(t, tt.first, tt.second)
			tail := int64(5)
			log, err := h.remote("alice").Logs(t.Context(), "default", "web.pi-07", remote.LogOptions{Container: "main", TailLines: &tail, Previous: true})
			if err != nil {
				t.Fatal(err)
			}
			defer log.Close()
			got, err := io.ReadAll(log)
			if err != nil || string(got) != "line\n" {
				t.Errorf("log: got %q, %v; want the line", got, err)
			}
			for _, f := range []*fakeLogs{tt.first, tt.second} {
				if q := f.last.Load(); q != nil && (q.Container != "main" || q.TailLines != 5 || !q.Previous || q.Follow || q.UID == "") {
					t.Errorf("query: got %+v", q)
				}
			}
			if tt.name != "here" && !strings.Contains(h.logs.String(), "actor=user:alice verb=get object=\"Assignment default/web.pi-07 (log)\"") {
				t.Errorf("the second member's record lacks who asked:\n%s", h.logs.String())
			}
		})
	}
}

// TestLogOfADeviceWithoutALinkIsRefusedAtOnce: each member is asked once, and none asks on.
func TestLogOfADeviceWithoutALinkIsRefusedAtOnce(t *testing.T) {
	var first, second fakeLogs
	h := twoMembers(t, &first, &second)
	b := h.admin()
	r := b.want(503, b.get("/apis/fleet.drover.dev/v1/namespaces/default/assignments/web.pi-07/log"))
	if !strings.Contains(r.body, "no link to any member") || first.asked.Load() != 1 || second.asked.Load() != 1 {
		t.Errorf("got %s after %d and %d questions, want one each", r.body, first.asked.Load(), second.asked.Load())
	}
	b.want(404, b.get("/apis/fleet.drover.dev/v1/namespaces/default/assignments/none/log"))
	first.err = fault.Timeout.Errorf("device did not open the stream")
	r = b.want(504, b.get("/apis/fleet.drover.dev/v1/namespaces/default/assignments/web.pi-07/log"))
	if !strings.Contains(r.body, "did not open the stream") {
		t.Errorf("dead link: got %s, want this member's own error", r.body)
	}
}

func TestFollowedLogIsFlushedAsItComes(t *testing.T) {
	logs := fakeLogs{text: "first\n", wait: make(chan struct{})}
	h := twoMembers(t, &logs, &fakeLogs{})
	s := h.admin().stream("/apis/fleet.drover.dev/v1/namespaces/default/assignments/web.pi-07/log?follow=true")
	line, err := s.in.ReadString('\n')
	if err != nil || line != "first\n" {
		t.Fatalf("got %q, %v; want the first line while the log is open", line, err)
	}
	close(logs.wait)
	if _, err := s.in.ReadByte(); err != io.EOF { // io.Reader's contract
		t.Errorf("got %v, want the end", err)
	}
}
