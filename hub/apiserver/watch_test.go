package apiserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/wire"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/hub/apiserver"
	"github.com/drover-fleet/drover/hub/registry"
)

type event struct {
	Type   string
	Object json.RawMessage
}

// stream is an open watch, read line by line.
type stream struct {
	t    *testing.T
	resp *http.Response
	in   *bufio.Reader
}

func (b *browser) stream(path string, headers ...string) *stream {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), 20*time.Second)
	b.t.Cleanup(cancel)
	rq, err := http.NewRequestWithContext(ctx, http.MethodGet, b.base+path, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		rq.Header.Set(headers[i], headers[i+1])
	}
	resp, err := b.http.Do(rq)
	if err != nil {
		b.t.Fatalf("%s: %v", path, err)
	}
	b.t.Cleanup(func() { _ = resp.Body.Close() })
	return &stream{b.t, resp, bufio.NewReader(resp.Body)}
}

func (s *stream) next() event {
	s.t.Helper()
	line, err := s.in.ReadBytes('\n')
	if err != nil {
		s.t.Fatalf("next event: %v", err)
	}
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		s.t.Fatalf("line %q: %v", line, err)
	}
	return e
}

func (s *stream) want(typ, name string) event {
	s.t.Helper()
	e := s.next()
	var o struct{ Metadata api.ObjectMeta }
	if err := json.Unmarshal(e.Object, &o); err != nil {
		s.t.Fatal(err)
	}
	if e.Type != typ || o.Metadata.Name != name {
		s.t.Fatalf("event: got %s %q, want %s %q", e.Type, o.Metadata.Name, typ, name)
	}
	return e
}

func TestWatchOfOneObjectTellsItsLifeOnly(t *testing.T) {
	h := startHub(t, nil)
	b := h.admin()
	b.want(201, b.send("POST", configMaps, `{"metadata":{"name":"a"}}`))
	s := b.stream(configMaps + "/a?watch=true&resourceVersion=0")
	s.want("ADDED", "a")
	b.want(201, b.send("POST", configMaps, `{"metadata":{"name":"b"}}`))
	b.want(200, b.send("PATCH", configMaps+"/a", `{"data":{"x":"y"}}`, "Content-Type", "application/merge-patch+json"))
	s.want("MODIFIED", "a")
	b.want(200, b.send("DELETE", configMaps+"/a", ""))
	s.want("DELETED", "a")
}

func TestTableWatchSendsItsColumnsOnce(t *testing.T) {
	h := startHub(t, nil)
	b := h.admin()
	b.want(201, b.send("POST", configMaps, `{"metadata":{"name":"a"},"data":{"x":"y"}}`))
	s := b.stream(configMaps+"?watch=1", "Accept", asTable)
	var first, second tableDoc
	for _, into := range []*tableDoc{&first, &second} {
		if err := json.Unmarshal(s.next().Object, into); err != nil {
			t.Fatal(err)
		}
		if into == &first {
			b.want(201, b.send("POST", configMaps, `{"metadata":{"name":"b"}}`))
		}
	}
	if first.column("Data") != 1.0 || len(second.Columns) != 0 || second.Rows[0].Cells[0] != "b" {
		t.Errorf("got %+v then %+v; want columns first, then a row for b without them", first, second)
	}
}

// TestInitialEventsEndWithAMarkedBookmark is what client-go's streaming lists wait for.
func TestInitialEventsEndWithAMarkedBookmark(t *testing.T) {
	h := startHub(t, nil)
	b := h.admin()
	b.want(201, b.send("POST", configMaps, `{"metadata":{"name":"a"}}`))
	s := b.stream(configMaps + "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true")
	s.want("ADDED", "a")
	e := s.next()
	var o api.ConfigMap
	if err := json.Unmarshal(e.Object, &o); err != nil {
		t.Fatal(err)
	}
	if e.Type != "BOOKMARK" || o.Metadata.Annotations["k8s.io/initial-events-end"] != "true" || o.Metadata.ResourceVersion == "" || o.Kind != "ConfigMap" {
		t.Errorf("got %s %s, want the marked bookmark", e.Type, e.Object)
	}
}

func TestCompactedRevisionIsGoneForListsAndWatches(t *testing.T) {
	h := startHub(t, nil)
	b := h.admin()
	old := decoded[api.ConfigMap](t, b.want(201, b.send("POST", configMaps, `{"metadata":{"name":"a"}}`))).Metadata.ResourceVersion
	b.want(201, b.send("POST", configMaps, `{"metadata":{"name":"b"}}`))
	page := decoded[struct {
		Metadata struct{ Continue string }
	}](t, b.want(200, b.get(configMaps+"?limit=1")))
	for range 3 {
		b.want(200, b.send("PATCH", configMaps+"/b", `{"data":{"x":"`+time.Now().Format(time.RFC3339Nano)+`"}}`, "Content-Type", "application/merge-patch+json"))
	}
	if err := h.backend.Compact(t.Context(), h.backend.Revision()); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{configMaps + "?watch=1&resourceVersion=" + old, configMaps + "?limit=1&continue=" + page.Metadata.Continue} {
		if st := decoded[fault.Status](t, b.want(410, b.get(path))); st.Reason != "Expired" {
			t.Errorf("%s: got %+v, want Expired", path, st)
		}
	}
}

// fakeWatch is a view whose watches end as the test says.
type fakeWatch struct {
	client.Client
	events chan client.Event
	end    error
}

func (f *fakeWatch) As(registry.Actor) client.Client { return f }

func (f *fakeWatch) Watch(context.Context, *api.Kind, client.WatchOptions) (client.Watcher, error) {
	return f, nil
}

func (f *fakeWatch) Next(ctx context.Context) (client.Event, error) {
	select {
	case e, ok := <-f.events:
		if !ok {
			return client.Event{}, f.end
		}
		return e, nil
	case <-ctx.Done():
		return client.Event{}, ctx.Err()
	}
}

func (f *fakeWatch) Close() {}

func TestWatchThatFallsBehindEndsWithAnErrorEvent(t *testing.T) {
	f := &fakeWatch{events: make(chan client.Event), end: fault.Expired.Errorf("compacted")}
	h := startHub(t, func(c *apiserver.Config) { c.Clients = f })
	s := h.admin().stream(configMaps + "?watch=1&resourceVersion=5")
	close(f.events)
	e := s.next()
	var st fault.Status
	if err := json.Unmarshal(e.Object, &st); err != nil {
		t.Fatal(err)
	}
	if e.Type != "ERROR" || st.Code != 410 || st.Reason != "Expired" {
		t.Errorf("got %s %+v, want ERROR with 410", e.Type, st)
	}
	if _, err := s.in.ReadByte(); err != io.EOF { // io.Reader's contract
		t.Errorf("after the error: got %v, want the end", err)
	}
}

func TestWatchesBeyondTheLimitAreToldToWait(t *testing.T) {
	h := startHub(t, func(c *apiserver.Config) { c.Limits.Watches = 1 })
	b := h.admin()
	s := b.stream("/api/v1/namespaces?watch=1")
	s.want("ADDED", "default")
	r := b.want(429, b.get("/api/v1/namespaces?watch=1"))
	if r.header.Get("Retry-After") == "" {
		t.Error("no Retry-After on the refusal")
	}
	b.want(200, b.get("/api/v1/namespaces")) // other requests have their own limit
}

func TestWatchEndsCleanlyWhenItsTimeIsOver(t *testing.T) {
	h := startHub(t, nil)
	r := h.admin().get("/api/v1/namespaces?watch=1&timeoutSeconds=1")
	if r.code != 200 || strings.Count(r.body, "\n") != 1 || strings.Contains(r.body, "ERROR") {
		t.Errorf("got %d %q, want the one event and a clean end", r.code, r.body)
	}
}

// TestClientThatReadsNothingIsCutOff: a watcher stops reading; its slot is free again once a write has waited too long and
// net/http has closed the connection, which takes crypto/tls 5 s.
func TestClientThatReadsNothingIsCutOff(t *testing.T) {
	t.Parallel()
	f := &fakeWatch{events: make(chan client.Event)}
	h := startHub(t, func(c *apiserver.Config) {
		c.Clients = f
		c.Limits = apiserver.Limits{Watches: 1, Write: 100 * time.Millisecond}
	})
	tr := &http.Transport{TLSClientConfig: h.ca.clientTLS("alice", wire.OrgAdmins), DialContext: smallWindow}
	defer tr.CloseIdleConnections()
	rq, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.server.URL+configMaps+"?watch=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := tr.RoundTrip(rq)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	big := &api.ConfigMap{Metadata: api.ObjectMeta{Name: "big"}, Data: map[string]string{"k": strings.Repeat("v", 512<<10)}}
	done := make(chan struct{})
	t.Cleanup(func() { close(done) })
	go func() {
		for {
			select {
			case f.events <- client.Event{Type: client.Added, Object: big}:
			case <-done:
				return
			}
		}
	}()
	// The slot is free again once the first watch has been cut off.
	b, tick := h.admin(), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for start := time.Now(); ; <-tick.C {
		s := b.stream(configMaps + "?watch=1")
		if s.resp.StatusCode == 200 {
			return
		}
		_ = s.resp.Body.Close()
		if time.Since(start) > 20*time.Second {
			t.Fatalf("code %d after 20 s: the watch that nobody reads still has its slot", s.resp.StatusCode)
		}
	}
}

// smallWindow dials with a small receive buffer, so that a peer's writes block soon.
func smallWindow(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if tcp, ok := c.(*net.TCPConn); ok {
		err = tcp.SetReadBuffer(4 << 10)
	}
	return c, err
}

func TestWhyReachesTheJournal(t *testing.T) {
	h := startHub(t, nil)
	c := h.remote("alice")
	made, err := c.Create(t.Context(), &api.ConfigMap{Metadata: api.ObjectMeta{Name: "c", Namespace: "default"}}, client.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	chain, err := c.Why(t.Context(), api.Ref{Kind: api.KindConfigMap, Namespace: "default", Name: "c"}, 10)
	if err != nil {
		t.Fatal(err)
	}
	if len(chain.Links) != 1 || chain.Links[0].Actor != "user:alice" || chain.Links[0].Revision != made.Meta().ResourceVersion || !chain.Complete {
		t.Errorf("chain: got %+v, want the one write by user:alice at %s", chain, made.Meta().ResourceVersion)
	}
	_, err = c.Why(t.Context(), api.Ref{Kind: api.KindConfigMap, Namespace: "default", Name: "none"}, 10)
	if !fault.Is(err, fault.NotFound) {
		t.Errorf("nothing recorded: got %v, want NotFound", err)
	}
}

// HTTP/2 cuts a stream when its write deadline passes, HTTP/1.1 the connection at the next write.
func TestIdleWatchOutlivesTheDeadlineOfItsWrites(t *testing.T) {
	const deadline = 300 * time.Millisecond // for the write itself, on a busy machine
	h := startHub(t, func(c *apiserver.Config) { c.Limits.Write = deadline })
	b := h.admin()
	one := h.admin()
	one.http.Transport.(*http.Transport).ForceAttemptHTTP2 = false
	one.http.Transport.(*http.Transport).TLSClientConfig.NextProtos = []string{"http/1.1"}
	for proto, watcher := range map[int]*browser{2: b, 1: one} {
		name := "late-" + string(rune('0'+proto))
		b.want(201, b.send("POST", "/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"`+name+`"}}`))
		s := watcher.stream("/api/v1/namespaces/default/configmaps?watch=1&fieldSelector=metadata.name%3D" + name)
		if s.resp.ProtoMajor != proto {
			t.Fatalf("HTTP version: got %d, want %d", s.resp.ProtoMajor, proto)
		}
		s.want("ADDED", name) // the write that has the deadline
		read := make(chan error, 1)
		var line []byte
		go func() {
			var err error
			line, err = s.in.ReadBytes('\n')
			read <- err
		}()
		select {
		case err := <-read:
			t.Errorf("HTTP/%d: the idle watch ended: %q, %v", proto, line, err)
			continue
		case <-time.After(3 * deadline): // it is that nothing happens which is shown
		}
		b.want(200, b.send("DELETE", "/api/v1/namespaces/default/configmaps/"+name, ""))
		if err := <-read; err != nil || !strings.Contains(string(line), name) {
			t.Errorf("HTTP/%d: event after a while: got %q, %v, want that of %s", proto, line, err, name)
		}
	}
}
