package attack

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/drover-fleet/drover/api/wire"
	"github.com/drover-fleet/drover/client/auditlog"
)

// answers fails unless somebody who connects anew is answered soon. The bound is for a machine with much else to do.
func (g *target) answers(when string) {
	g.t.Helper()
	began := time.Now()
	if code := g.get(g.client(g.operator), core+"secrets/db"); code != http.StatusOK {
		g.t.Errorf("%s an operator is answered with %d, want 200", when, code)
	}
	if took := time.Since(began); took > 10*time.Second {
		g.t.Errorf("%s an operator waits %s", when, took)
	}
}

// TestManyConnectionsLeaveTheMemberAnswering: ten thousand connections that say nothing, then some that shake hands and say nothing.
func TestManyConnectionsLeaveTheMemberAnswering(t *testing.T) {
	g := start(t)
	g.apply(world)
	g.operator = g.person("root", wire.OrgAdmins)
	g.answers("before anything")

	var open []net.Conn
	defer func() {
		for _, c := range open {
			_ = c.Close()
		}
	}()
	dial := func() net.Conn {
		c, err := (&net.Dialer{Timeout: 30 * time.Second}).DialContext(t.Context(), "tcp", g.addr)
		check(t, err)
		open = append(open, c)
		return c
	}
	for i := range 10_000 {
		dial()
		if i%2500 == 2499 {
			g.answers(fmt.Sprint("with ", i+1, " idle connections"))
		}
	}
	refused := g.counters("drover_api_refused_total", "reason")
	if n := refused["handshakes"]; n < 10_000-strangers-100 {
		t.Errorf("got %v connections that gave way, want all but the newest %d", n, strangers)
	}
	for range 2 * strangers {
		c := tls.Client(dial(), g.tls(nil))
		check(t, c.HandshakeContext(t.Context()))
	}
	g.answers("with idle connections that have shaken hands")
	if n := g.counters("drover_api_refused_total", "reason")["strangers"]; n < strangers/2 {
		t.Errorf("got %v strangers that gave way, want about %d", n, strangers)
	}
	await(t, "count of the flood on record", func() bool {
		records, _ := g.recorded(0)
		kept, counted := 0, uint64(0)
		for _, r := range records {
			if r.Verb == "connect" && r.Decision == auditlog.Deny || r.Omitted > 0 {
				kept, counted = kept+1, counted+r.Omitted
			}
		}
		return kept < 2000 && counted > 1000
	})
	g.stands()
}

// TestResetStreamsLeaveTheMemberAnswering: HTTP/2 requests that are taken back as soon as they are made.
func TestResetStreamsLeaveTheMemberAnswering(t *testing.T) {
	g := start(t)
	g.apply(world)
	g.operator = g.person("root", wire.OrgAdmins)
	config := g.tls(g.person("mallory", wire.OrgAdmins))
	config.NextProtos = []string{"h2"}
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			conn, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", g.addr)
			if err != nil {
				t.Errorf("dial: %v", err)
				return
			}
			defer conn.Close()
			group.Go(func() { _, _ = io.Copy(io.Discard, conn) })
			_ = resets(conn, 20_000) // the member may end it
		})
	}
	g.answers("while streams are reset")
	group.Wait()
	g.answers("after it")
	await(t, "seats that are free again", func() bool {
		return g.gauges("drover_fair_seats_used")["people"] == 0 && g.gauges("drover_fair_waiting")["people"] == 0
	})
	g.stands()
}

// resets opens n streams and resets each.
func resets(conn io.Writer, n int) error {
	w := bufio.NewWriter(conn)
	if _, err := io.WriteString(w, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"); err != nil {
		return err
	}
	const headers, rst, settings = 1, 3, 4
	if err := frame(w, settings, 0, 0, nil); err != nil {
		return err
	}
	path := "/api/v1/secrets"
	block := append([]byte{0x82, 0x87, 0x04, byte(len(path))}, path...) // :method GET, :scheme https, :path
	block = append(append(block, 0x01, 3), "hub"...)                    // :authority
	for i := range n {
		id := uint32(2*i + 1)
		if err := frame(w, headers, 0x5, id, block); err != nil { // the end of the stream and of its headers
			return err
		}
		if err := frame(w, rst, 0, id, []byte{0, 0, 0, 8}); err != nil { // CANCEL
			return err
		}
	}
	return w.Flush()
}

func frame(w io.Writer, kind, flags byte, stream uint32, payload []byte) error {
	head := []byte{0, 0, byte(len(payload)), kind, flags}
	_, err := w.Write(append(binary.BigEndian.AppendUint32(head, stream), payload...))
	return err
}
