package fair

import (
	"container/list"
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
)

// ConnLimits bound a member's connections. A zero field takes its default.
type ConnLimits struct {
	Total      int // all; default 16,384
	Handshakes int // that have not finished their handshake; default 1024
	FromSource int // the same from one address; default 256
	Strangers  int // finished, without a certificate: enrollment, bearer tokens; default 4096
	OfSource   int // the same from one address; default 1024
	OfIdentity int // of one person or member; default 2048
	OfDevice   int // of one device; default 32
}

func (l ConnLimits) withDefaults() ConnLimits {
	def := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	def(&l.Total, 16<<10)
	def(&l.Handshakes, 1024)
	def(&l.FromSource, 256)
	def(&l.Strangers, 4096)
	def(&l.OfSource, 1024)
	def(&l.OfIdentity, 2048)
	def(&l.OfDevice, 32)
	return l
}

// Reasons of refused connections.
const (
	ReasonConnections   = "connections"    // more than the member takes in all
	ReasonHandshakes    = "handshakes"     // gave way to a newer one before its handshake was done
	ReasonSlowHandshake = "slow_handshake" // did not finish its handshake in time
	ReasonSlowHeader    = "slow_header"    // sent no whole request in time
	ReasonStrangers     = "strangers"      // too many without a certificate
	ReasonOfIdentity    = "of_identity"    // too many of one person, member or device
)

// Refusal is a connection that was refused.
type Refusal struct {
	Reason   string
	Source   string // address
	Identity string // as far as it has shown one
}

// Listener counts connections. Accept is the server's; Known must be called when a handshake is done, and State must be the server's
// ConnState.
type Listener struct {
	net.Listener
	limits  ConnLimits
	refused func(Refusal)

	mu       sync.Mutex // guards below
	total    int
	pending  *list.List            // of *conn that have not finished their handshake, oldest first
	bySource map[string]*list.List // the same by source
	strange  *list.List            // of *conn without a certificate, oldest first
	strangeOf,
	identity map[string]int
}

// Listen wraps a listener. refused may be nil; it must not block.
func Listen(l net.Listener, limits ConnLimits, refused func(Refusal)) *Listener {
	if refused == nil {
		refused = func(Refusal) {}
	}
	return &Listener{
		Listener: l, limits: limits.withDefaults(), refused: refused,
		pending: list.New(), bySource: map[string]*list.List{}, strange: list.New(), strangeOf: map[string]int{}, identity: map[string]int{},
	}
}

// conn is one connection. Its fields are guarded by its listener's mu, save those that say otherwise.
type conn struct {
	net.Conn
	l      *Listener
	source string

	timedOut atomic.Bool // a read ended by a deadline
	served   atomic.Bool // the request under way has reached the handler
	idle     atomic.Bool // between two requests

	at, atSource *list.Element // in pending and bySource, or in strange
	known        bool          // the handshake is done
	busy         bool          // a request is under way
	name         string        // identity; "" = none
	gone         bool
}

// Accept returns the next connection that there is room for.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &conn{Conn: raw, l: l, source: hostOf(raw.RemoteAddr())}
		if victims, ok := l.admit(c); ok {
			for _, v := range victims {
				l.end(v, ReasonHandshakes)
			}
			return c, nil
		}
		_ = raw.Close()
		l.refused(Refusal{Reason: ReasonConnections, Source: raw.RemoteAddr().String()})
	}
}

func hostOf(a net.Addr) string {
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	return host
}

// admit makes room for a connection; the victims are to be ended.
func (l *Listener) admit(c *conn) (victims []*conn, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	mine := l.bySource[c.source]
	if mine == nil {
		mine = list.New()
		l.bySource[c.source] = mine
	}
	drop := func(of *list.List) {
		v, is := of.Front().Value.(*conn)
		if is {
			l.forgetLocked(v)
			victims = append(victims, v)
		}
	}
	for mine.Len() >= l.limits.FromSource {
		drop(mine)
	}
	for l.pending.Len() > 0 && (l.pending.Len() >= l.limits.Handshakes || l.total >= l.limits.Total) {
		drop(l.pending)
	}
	if l.total >= l.limits.Total {
		if v := l.idleStrangerLocked(""); v != nil {
			l.forgetLocked(v)
			victims = append(victims, v)
		}
	}
	if l.total >= l.limits.Total {
		if mine.Len() == 0 {
			delete(l.bySource, c.source)
		}
		return victims, false
	}
	l.total++
	l.bySource[c.source] = mine // forgetting the last of them has dropped it
	c.at, c.atSource = l.pending.PushBack(c), mine.PushBack(c)
	return victims, true
}

// idleStrangerLocked is the oldest connection without a certificate and without a request under way, of a source or of all.
func (l *Listener) idleStrangerLocked(source string) *conn {
	for e := l.strange.Front(); e != nil; e = e.Next() {
		if c, ok := e.Value.(*conn); ok && !c.busy && (source == "" || c.source == source) {
			return c
		}
	}
	return nil
}

// forgetLocked takes a connection out of all counts.
func (l *Listener) forgetLocked(c *conn) {
	if c.gone {
		return
	}
	c.gone = true
	l.total--
	l.leaveLocked(c)
	if c.name != "" {
		if l.identity[c.name]--; l.identity[c.name] == 0 {
			delete(l.identity, c.name)
		}
	}
}

// leaveLocked takes it out of the lists that it is in.
func (l *Listener) leaveLocked(c *conn) {
	switch {
	case c.at == nil:
		return
	case !c.known:
		l.pending.Remove(c.at)
		if mine := l.bySource[c.source]; mine != nil {
			mine.Remove(c.atSource)
			if mine.Len() == 0 {
				delete(l.bySource, c.source)
			}
		}
	default:
		l.strange.Remove(c.at)
		if l.strangeOf[c.source]--; l.strangeOf[c.source] == 0 {
			delete(l.strangeOf, c.source)
		}
	}
	c.at, c.atSource = nil, nil
}

func (l *Listener) end(c *conn, reason string) {
	_ = c.Conn.Close()
	l.refused(Refusal{Reason: reason, Source: c.RemoteAddr().String(), Identity: c.name})
}

// Known notes that a connection's handshake is done, and who it is; "" = it has shown no certificate. A connection beyond the bounds is
// closed. device tells a device from a person or a member.
func (l *Listener) Known(raw net.Conn, identity string, device bool) {
	c, ok := raw.(*conn)
	if !ok {
		return
	}
	if victim, reason := l.settle(c, identity, device); victim != nil {
		l.end(victim, reason)
	}
}

func (l *Listener) settle(c *conn, identity string, device bool) (victim *conn, reason string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.gone || c.known {
		return nil, ""
	}
	l.leaveLocked(c)
	c.known, c.name = true, identity
	if identity != "" {
		l.identity[identity]++
		most := l.limits.OfIdentity
		if device {
			most = l.limits.OfDevice
		}
		if l.identity[identity] > most {
			l.forgetLocked(c)
			return c, ReasonOfIdentity
		}
		return nil, ""
	}
	if l.strangeOf[c.source] >= l.limits.OfSource {
		victim = l.idleStrangerLocked(c.source)
	} else if l.strange.Len() >= l.limits.Strangers {
		victim = l.idleStrangerLocked("")
	}
	crowded := l.strangeOf[c.source] >= l.limits.OfSource || l.strange.Len() >= l.limits.Strangers
	if crowded && victim == nil {
		l.forgetLocked(c)
		return c, ReasonStrangers
	}
	if victim != nil {
		l.forgetLocked(victim)
	}
	c.at = l.strange.PushBack(c)
	l.strangeOf[c.source]++
	return victim, ReasonStrangers
}

// State follows what the server does with a connection; it is http.Server.ConnState.
func (l *Listener) State(raw net.Conn, s http.ConnState) {
	if t, ok := raw.(interface{ NetConn() net.Conn }); ok {
		raw = t.NetConn()
	}
	c, ok := raw.(*conn)
	if !ok {
		return
	}
	switch s {
	case http.StateActive: // some of a request was read
		c.idle.Store(false)
		c.setBusy(true)
	case http.StateIdle:
		c.idle.Store(true)
		c.served.Store(false)
		c.setBusy(false)
	case http.StateClosed:
		if c.timedOut.Load() && !c.served.Load() && !c.idle.Load() {
			c.slow()
		}
	}
}

type connKey struct{}

// Context lets a request be joined to its connection; it is http.Server.ConnContext.
func (l *Listener) Context(ctx context.Context, raw net.Conn) context.Context {
	if t, ok := raw.(interface{ NetConn() net.Conn }); ok {
		raw = t.NetConn()
	}
	return context.WithValue(ctx, connKey{}, raw)
}

// Served notes that a request has reached its handler, by the request's context.
func Served(ctx context.Context) {
	if c, ok := ctx.Value(connKey{}).(*conn); ok {
		c.served.Store(true)
	}
}

func (c *conn) setBusy(is bool) {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	c.busy = is
}

func (c *conn) slow() {
	c.l.mu.Lock()
	r := Refusal{Reason: ReasonSlowHeader, Source: c.RemoteAddr().String(), Identity: c.name}
	if !c.known {
		r.Reason = ReasonSlowHandshake
	}
	c.l.mu.Unlock()
	c.l.refused(r)
}

// Read notes whether a deadline ended it.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		c.timedOut.Store(true)
	}
	return n, err
}

// Close closes the connection and takes it out of all counts.
func (c *conn) Close() error {
	c.l.mu.Lock()
	c.l.forgetLocked(c)
	c.l.mu.Unlock()
	return c.Conn.Close()
}

// ConnLoad is how many connections there are, by how far they are known.
type ConnLoad struct{ Handshaking, Strangers, Known int }

// Load returns how many connections there are now.
func (l *Listener) Load() ConnLoad {
	l.mu.Lock()
	defer l.mu.Unlock()
	return ConnLoad{l.pending.Len(), l.strange.Len(), l.total - l.pending.Len() - l.strange.Len()}
}
