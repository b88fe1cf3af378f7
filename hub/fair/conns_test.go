package fair

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"
)

// pipes is a listener of connections in memory, from addresses that the test gives.
type pipes struct {
	next chan net.Conn
}

type from struct {
	net.Conn
	addr net.Addr
}

func (f from) RemoteAddr() net.Addr { return f.addr }

func (p *pipes) Accept() (net.Conn, error) {
	c, ok := <-p.next
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (p *pipes) Close() error   { close(p.next); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// dial connects from an address and returns both ends.
func (p *pipes) dial(t *testing.T, l *Listener, ip string) (client, server net.Conn) {
	t.Helper()
	client, raw := net.Pipe()
	p.next <- from{raw, &net.TCPAddr{IP: net.ParseIP(ip), Port: 1000}}
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close(); _ = server.Close() })
	return client, server
}

func alive(c net.Conn) bool {
	_ = c.SetReadDeadline(time.Now().Add(-time.Second))
	_, err := c.Read(make([]byte, 1))
	return errors.Is(err, os.ErrDeadlineExceeded)
}

type refusals struct {
	mu   sync.Mutex
	seen map[string]int
}

func (r *refusals) note(x Refusal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen == nil {
		r.seen = map[string]int{}
	}
	r.seen[x.Reason]++
}

func listen(limits ConnLimits) (*pipes, *Listener, *refusals) {
	p, r := &pipes{next: make(chan net.Conn, 1)}, &refusals{}
	return p, Listen(p, limits, r.note), r
}

func TestAnUnfinishedHandshakeGivesWayToANewer(t *testing.T) {
	p, l, r := listen(ConnLimits{Total: 100, Handshakes: 4, FromSource: 2})
	a1, _ := p.dial(t, l, "10.0.0.1")
	a2, _ := p.dial(t, l, "10.0.0.1")
	b1, _ := p.dial(t, l, "10.0.0.2")
	a3, _ := p.dial(t, l, "10.0.0.1") // a1 goes, b1 stays
	if alive(a1) || !alive(a2) || !alive(a3) || !alive(b1) {
		t.Errorf("from one address: got %t %t %t, other %t; want only the oldest ended", alive(a1), alive(a2), alive(a3), alive(b1))
	}
	c1, _ := p.dial(t, l, "10.0.0.3")
	d1, _ := p.dial(t, l, "10.0.0.4") // a2, the oldest of all, goes
	if alive(a2) || !alive(b1) || !alive(c1) || !alive(d1) {
		t.Error("in all: want only the oldest ended")
	}
	if r.seen[ReasonHandshakes] != 2 || l.Load() != (ConnLoad{Handshaking: 4}) {
		t.Errorf("got %v and %+v, want 2 refused and 4 left", r.seen, l.Load())
	}
}

func TestDevicesBehindOneAddressAreManyAndOneIdentityIsNot(t *testing.T) {
	p, l, r := listen(ConnLimits{Total: 1000, FromSource: 2, OfSource: 2, OfDevice: 3})
	for i := range 100 {
		_, s := p.dial(t, l, "10.0.0.1")
		l.Known(s, fmt.Sprint("device:", i), true)
	}
	if got := l.Load(); got != (ConnLoad{Known: 100}) {
		t.Errorf("got %+v, want 100 known", got)
	}
	var last net.Conn
	for range 3 {
		var s net.Conn
		last, s = p.dial(t, l, "10.0.0.1")
		l.Known(s, "device:0", true)
	}
	if alive(last) || r.seen[ReasonOfIdentity] != 1 {
		t.Errorf("the fourth of one device: alive %t, refused %v", alive(last), r.seen)
	}
}

func TestAnIdleStrangerGivesWayAndABusyOneDoesNot(t *testing.T) {
	p, l, r := listen(ConnLimits{Total: 100, OfSource: 2})
	a, sa := p.dial(t, l, "10.0.0.1")
	l.Known(sa, "", false)
	l.State(sa, http.StateActive)
	b, sb := p.dial(t, l, "10.0.0.1")
	l.Known(sb, "", false)
	c, sc := p.dial(t, l, "10.0.0.1")
	l.Known(sc, "", false)
	if !alive(a) || alive(b) || !alive(c) || r.seen[ReasonStrangers] != 1 {
		t.Errorf("got %t %t %t, refused %v; want the idle one ended", alive(a), alive(b), alive(c), r.seen)
	}
	l.State(sc, http.StateActive)
	d, sd := p.dial(t, l, "10.0.0.1")
	l.Known(sd, "", false)
	if !alive(a) || !alive(c) || alive(d) {
		t.Error("with all busy: want the newest refused")
	}
}

func TestAFullMemberRefusesAndCountsEndWithTheirConnections(t *testing.T) {
	p, l, r := listen(ConnLimits{Total: 3})
	var servers []net.Conn
	for i := range 3 {
		_, s := p.dial(t, l, fmt.Sprint("10.0.0.", i))
		l.Known(s, fmt.Sprint("user:", i), false)
		servers = append(servers, s)
	}
	client, raw := net.Pipe()
	p.next <- from{raw, &net.TCPAddr{IP: net.ParseIP("10.0.0.9")}}
	_ = p.Close()
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v, want the one beyond to be refused and the listener's end", err)
	}
	if _, err := client.Read(make([]byte, 1)); !errors.Is(err, io.EOF) || r.seen[ReasonConnections] != 1 {
		t.Errorf("got %v, refused %v", err, r.seen)
	}
	for _, s := range servers {
		_ = s.Close()
		_ = s.Close()
	}
	if got := l.Load(); got != (ConnLoad{}) || len(l.identity)+len(l.bySource)+len(l.strangeOf) != 0 {
		t.Errorf("got %+v, %v, %v, %v at the end; want nothing", got, l.identity, l.bySource, l.strangeOf)
	}
}
