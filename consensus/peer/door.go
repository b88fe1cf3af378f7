package peer

import (
	"net"
	"slices"
	"sync"
)

// door keeps count of accepted connections. Who has shown no certificate yet may be anybody: such connections must not take the places of
// members', however many there are. So each kind has bounds of its own, and a stranger too many ends the oldest of the address that
// has the most, rather than being turned away: a member gets through beside an address that does nothing but connect.
type door struct {
	strangers int // at most, at a time
	perMember int // connections of one member, at most

	mu      sync.Mutex // guards below
	waiting []net.Conn // of strangers, by age
	members map[string]int
}

func newDoor(strangers, perMember int) *door {
	return &door{strangers: strangers, perMember: perMember, members: map[string]int{}}
}

// enter takes a stranger in, and returns the connection that has to go for it, if any.
func (d *door) enter(c net.Conn) (goes net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.waiting) >= d.strangers {
		i := d.crowdLocked()
		goes = d.waiting[i]
		d.waiting = slices.Delete(d.waiting, i, i+1)
	}
	d.waiting = append(d.waiting, c)
	return goes
}

// crowdLocked is the oldest of the address that has the most.
func (d *door) crowdLocked() int {
	count, first := map[string]int{}, map[string]int{}
	oldest, most := 0, 0
	for i, c := range d.waiting {
		host := hostOf(c)
		if count[host]++; count[host] == 1 {
			first[host] = i
		}
		if count[host] > most {
			oldest, most = first[host], count[host]
		}
	}
	return oldest
}

// prove makes a stranger a member, and tells whether it may have another connection. leave ends what prove began.
func (d *door) prove(c net.Conn, name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.forgetLocked(c)
	if d.members[name] >= d.perMember {
		return false
	}
	d.members[name]++
	return true
}

func (d *door) leave(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.members[name]--; d.members[name] <= 0 {
		delete(d.members, name)
	}
}

// forget is for a stranger that ends as one; it is harmless for others.
func (d *door) forget(c net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.forgetLocked(c)
}

func (d *door) forgetLocked(c net.Conn) {
	if i := slices.Index(d.waiting, c); i >= 0 {
		d.waiting = slices.Delete(d.waiting, i, i+1)
	}
}

func hostOf(c net.Conn) string {
	host, _, err := net.SplitHostPort(c.RemoteAddr().String())
	if err != nil {
		return c.RemoteAddr().String()
	}
	return host
}
