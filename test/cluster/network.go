package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/drover-fleet/drover/consensus"
)

// ErrCut is what a stream meets on a cut or absent link.
var ErrCut = errors.New("link is cut")

// Network joins ports by address.
type Network struct {
	mu    sync.Mutex // guards below
	ports map[string]*Port
	links map[link]*linkState
	seen  func(from, to string, frame []byte)
	spoil func(from, to string, b []byte) // may change what streams carry
}

type link struct{ from, to string } // addresses

type linkState struct {
	cut  bool
	hold bool
	held [][]byte
	open map[*streamEnd]bool // streams of which this link carries one direction
}

// NewNetwork makes a network in which every link is whole.
func NewNetwork() *Network {
	return &Network{ports: map[string]*Port{}, links: map[link]*linkState{}}
}

// Port is one member's end. It implements consensus.Transport.
type Port struct {
	net  *Network
	name string
	addr string

	mu      sync.Mutex // guards below
	handler consensus.Handler
	ctx     context.Context // of the present Run
	serving *sync.WaitGroup
}

// Port makes the end of the member with a name (its certificate's, as it were) at an address. A later port at the same
// address takes the place of the earlier one.
func (n *Network) Port(name, addr string) *Port { return &Port{net: n, name: name, addr: addr} }

// Run implements consensus.Transport.
func (p *Port) Run(ctx context.Context, h consensus.Handler) error {
	var serving sync.WaitGroup
	p.mu.Lock()
	p.handler, p.ctx, p.serving = h, ctx, &serving
	p.mu.Unlock()
	p.net.mu.Lock()
	p.net.ports[p.addr] = p
	p.net.mu.Unlock()
	<-ctx.Done()
	p.net.mu.Lock()
	if p.net.ports[p.addr] == p {
		delete(p.net.ports, p.addr)
	}
	p.net.mu.Unlock()
	p.mu.Lock()
	p.handler = nil
	p.mu.Unlock()
	serving.Wait()
	return ctx.Err()
}

// Send implements consensus.Transport: the frame is delivered before it returns, or lost, or held.
func (p *Port) Send(to consensus.Member, frame []byte) {
	target, ok := p.net.route(p.addr, to.PeerAddr, frame)
	if ok && target != nil {
		target.deliver(p.name, frame)
	}
}

func (p *Port) deliver(name string, frame []byte) {
	p.mu.Lock()
	h := p.handler
	p.mu.Unlock()
	if h != nil {
		h.Receive(name, bytes.Clone(frame))
	}
}

// route finds the receiver; ok is false when the frame stays here.
func (n *Network) route(from, to string, frame []byte) (target *Port, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.seen != nil {
		n.seen(from, to, frame)
	}
	if l := n.links[link{from, to}]; l != nil {
		if l.cut {
			return nil, false
		}
		if l.hold {
			l.held = append(l.held, bytes.Clone(frame))
			return nil, false
		}
	}
	return n.ports[to], true
}

// Stream implements consensus.Transport. A cut of either direction breaks it at once, as a firewall that resets does.
func (p *Port) Stream(_ context.Context, to consensus.Member) (io.ReadWriteCloser, error) {
	target, ok := p.net.route(p.addr, to.PeerAddr, nil)
	if _, back := p.net.route(to.PeerAddr, p.addr, nil); !ok || !back || target == nil {
		return nil, fmt.Errorf("stream to %s: %w", to.Name, ErrCut)
	}
	near, far := net.Pipe()
	a := &streamEnd{Conn: near, net: p.net, from: p.addr, to: to.PeerAddr}
	b := &streamEnd{Conn: far, net: p.net, from: to.PeerAddr, to: p.addr}
	p.net.join(a, b)
	if !target.serve(p.name, b) {
		_ = a.Close()
		return nil, fmt.Errorf("stream to %s: %w", to.Name, ErrCut)
	}
	return a, nil
}

// serve hands a stream to the handler, if one runs.
func (p *Port) serve(name string, s *streamEnd) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.handler == nil {
		return false
	}
	h, ctx := p.handler, p.ctx
	p.serving.Go(func() {
		h.ServeStream(ctx, name, s)
		_ = s.Close()
	})
	return true
}

// streamEnd is one end of a stream; Close ends both.
type streamEnd struct {
	net.Conn
	net      *Network
	from, to string
}

// Write shows what passes to Tap as a nil frame, and to Spoil.
func (s *streamEnd) Write(b []byte) (int, error) {
	if _, ok := s.net.route(s.from, s.to, nil); !ok {
		_ = s.Close()
		return 0, ErrCut
	}
	return s.Conn.Write(s.net.spoiled(s.from, s.to, b))
}

// Close ends the stream, on the other end too.
func (s *streamEnd) Close() error {
	s.net.mu.Lock()
	if l := s.net.links[link{s.from, s.to}]; l != nil {
		delete(l.open, s)
	}
	s.net.mu.Unlock()
	return s.Conn.Close()
}

func (n *Network) join(ends ...*streamEnd) {
	for _, e := range ends {
		n.set(e.from, e.to, func(l *linkState) {
			if l.open == nil {
				l.open = map[*streamEnd]bool{}
			}
			l.open[e] = true
		})
	}
}

// Break ends the streams between two addresses, and leaves the way open for new ones.
func (n *Network) Break(a, b string) {
	var ends []*streamEnd
	for _, k := range []link{{a, b}, {b, a}} {
		n.set(k.from, k.to, func(l *linkState) {
			for e := range l.open {
				ends = append(ends, e)
			}
		})
	}
	for _, e := range ends {
		_ = e.Close()
	}
}

// Spoil lets f change what streams carry, in place; nil ends it.
func (n *Network) Spoil(f func(from, to string, b []byte)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.spoil = f
}

func (n *Network) spoiled(from, to string, b []byte) []byte {
	n.mu.Lock()
	f := n.spoil
	n.mu.Unlock()
	if f == nil {
		return b
	}
	b = bytes.Clone(b)
	f(from, to, b)
	return b
}

// Cut loses everything from one address to another from now on; the other direction is left alone.
func (n *Network) Cut(from, to string) {
	n.set(from, to, func(l *linkState) { l.cut = true })
	n.Break(from, to)
}

// Mend ends Cut.
func (n *Network) Mend(from, to string) { n.set(from, to, func(l *linkState) { l.cut = false }) }

// Hold keeps everything from one address to another until Release.
func (n *Network) Hold(from, to string) { n.set(from, to, func(l *linkState) { l.hold = true }) }

// Release delivers what was held, in order, and ends Hold. It returns how many frames there were.
func (n *Network) Release(from, to string) int {
	delivered := 0
	for {
		n.mu.Lock()
		l := n.links[link{from, to}]
		if l == nil || len(l.held) == 0 {
			if l != nil {
				l.hold = false
			}
			n.mu.Unlock()
			return delivered
		}
		frames, target := l.held, n.ports[to]
		source := n.ports[from]
		l.held = nil
		n.mu.Unlock()
		delivered += len(frames)
		for _, f := range frames {
			if target != nil && source != nil {
				target.deliver(source.name, f)
			}
		}
	}
}

// Isolate cuts every link of an address, both ways, among the addresses given.
func (n *Network) Isolate(addr string, others ...string) {
	for _, o := range others {
		n.Cut(addr, o)
		n.Cut(o, addr)
	}
}

// MendAll makes every link whole; what is held stays held.
func (n *Network) MendAll() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range n.links {
		l.cut = false
	}
}

// Tap calls f for each frame that is sent, lost or not; nil ends it. What streams carry appears as nil frames.
func (n *Network) Tap(f func(from, to string, frame []byte)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.seen = f
}

func (n *Network) set(from, to string, f func(*linkState)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.links[link{from, to}]
	if l == nil {
		l = &linkState{}
		n.links[link{from, to}] = l
	}
	f(l)
}
