package gateway

import (
	"sync"
	"time"
)

// Contacts knows when each device was last heard of, by this member or by another that told of it. Ages are measured on this
// process's monotonic clock, and only ages travel between members. Nothing of it is stored. Safe for concurrent use.
type Contacts struct {
	now func() time.Time // never steps

	mu    sync.Mutex
	seen  map[string]contact
	fresh map[string]bool // heard of here since the last Fresh
}

type contact struct {
	session uint64
	at      time.Time
}

// Contact is one device's last contact, as members tell each other.
type Contact struct {
	Device    string `cbor:"1,keyasint"`
	Session   uint64 `cbor:"2,keyasint"`
	AgeMillis uint64 `cbor:"3,keyasint"`
}

// maxContactAge bounds what is believed of another member's word; anything older says nothing about presence.
const maxContactAge = 30 * 24 * time.Hour

// NewContacts makes an empty table.
func NewContacts() *Contacts { return NewContactsBy(time.Now) }

// NewContactsBy makes an empty table that measures by a clock of the caller's, which never steps.
func NewContactsBy(now func() time.Time) *Contacts {
	return &Contacts{now: now, seen: map[string]contact{}, fresh: map[string]bool{}}
}

// Touch notes that bytes of the device came in now, at this member.
func (c *Contacts) Touch(device string, session uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[device] = contact{session, c.now()}
	c.fresh[device] = true
}

// Last is the time since the device was last heard of; ok is false when nothing is known.
func (c *Contacts) Last(device string) (age time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.seen[device]
	if !ok {
		return 0, false
	}
	return c.now().Sub(s.at), true
}

// Forget drops a device that no longer exists.
func (c *Contacts) Forget(device string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.seen, device)
	delete(c.fresh, device)
}

// Fresh returns what was heard of here since the last call, or everything known when all is set.
func (c *Contacts) Fresh(all bool) []Contact {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []Contact
	for d, s := range c.seen {
		if all || c.fresh[d] {
			out = append(out, Contact{Device: d, Session: s.session, AgeMillis: uint64(max(c.now().Sub(s.at), 0) / time.Millisecond)})
		}
	}
	clear(c.fresh)
	return out
}

// Merge takes another member's word; of two contacts the later one stays.
func (c *Contacts) Merge(list []Contact) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	for _, m := range list {
		if m.AgeMillis > uint64(maxContactAge/time.Millisecond) {
			continue
		}
		at := now.Add(-time.Duration(m.AgeMillis) * time.Millisecond)
		if s, ok := c.seen[m.Device]; !ok || at.After(s.at) {
			c.seen[m.Device] = contact{m.Session, at}
		}
	}
}
