package peer

import (
	"net"
	"testing"
	"time"
)

// TestStrangersThatOnlyConnectKeepNoMemberOut: whoever reaches the port can open connections and say nothing on them.
func TestStrangersThatOnlyConnectKeepNoMemberOut(t *testing.T) {
	ca := newAuthority(t)
	b := run(t, "b", 2, with(ca.tls("b")))
	var idle []net.Conn
	for range 3 * b.cfg.Strangers {
		c, err := net.Dial("tcp", b.member.PeerAddr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		idle = append(idle, c)
	}
	began := time.Now()
	a := run(t, "a", 1, with(ca.tls("a")))
	if got := until(t, b.in, func() { a.Send(b.member, []byte("hello")) }); got != "a:hello" {
		t.Errorf("got %q, want a's frame", got)
	}
	if took := time.Since(began); took > b.cfg.DialTimeout/2 {
		t.Errorf("a was heard after %s, want before strangers run out of time (%s)", took, b.cfg.DialTimeout)
	}
	if err := idle[0].SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := idle[0].Read(make([]byte, 1)); err == nil {
		t.Error("the oldest stranger was answered, want its end")
	}
	b.door.mu.Lock()
	defer b.door.mu.Unlock()
	if n := len(b.door.waiting); n > b.cfg.Strangers {
		t.Errorf("got %d strangers at a time, want %d at most", n, b.cfg.Strangers)
	}
}

// from is a connection that says where it comes from.
type from struct {
	net.Conn
	addr net.TCPAddr
}

func (f *from) RemoteAddr() net.Addr { return &f.addr }

func at(ip string) *from { return &from{addr: net.TCPAddr{IP: net.ParseIP(ip), Port: 1}} }

func TestStrangersTooManyEndTheOldestOfTheirOwnAddress(t *testing.T) {
	d := newDoor(3, 2)
	member, first, second, third := at("10.0.0.1"), at("10.0.0.9"), at("10.0.0.9"), at("10.0.0.9")
	for _, c := range []net.Conn{member, first, second} {
		if goes := d.enter(c); goes != nil {
			t.Errorf("%v had to go while there was room", goes.RemoteAddr())
		}
	}
	if goes := d.enter(third); goes != first {
		t.Errorf("got %v to go, want the oldest of the address that has the most", goes)
	}
	if !d.prove(member, "a") || !d.prove(at("10.0.0.1"), "a") || d.prove(at("10.0.0.1"), "a") {
		t.Error("want two connections of a member and no third")
	}
	d.leave("a")
	if !d.prove(at("10.0.0.1"), "a") {
		t.Error("want another once one has ended")
	}
	if len(d.waiting) != 2 {
		t.Errorf("got %d strangers left, want 2", len(d.waiting))
	}
}
