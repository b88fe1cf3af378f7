package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/drover-fleet/drover/consensus"
)

// ErrCut is what a snapshot meets on a cut or absent link.
var ErrCut = errors.New("link is cut")

// Network joins ports by address.
type Network struct {
	mu    sync.Mutex // guards below
	ports map[string]*Port
	links map[link]*linkState
	seen  func(from, to string, frame []byte)
}

type link struct{ from, to string } // addresses

type linkState struct {
	cut  bool
	hold bool
	held [][]byte
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

	mu      sync.Mutex // guards handler
	handler consensus.Handler
}

// Port makes the end of the member with a name (its certificate's, as it were) at an address. A later port at the same
// address takes the place of the earlier one.
func (n *Network) Port(name, addr string) *Port { return &Port{net: n, name: name, addr: addr} }

// Run implements consensus.Transport.
func (p *Port) Run(ctx context.Context, h consensus.Handler) error {
	p.mu.Lock()
	p.handler = h
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

// SendSnapshot implements consensus.Transport. A cut on the way takes effect at the next read.
func (p *Port) SendSnapshot(ctx context.Context, to consensus.Member, header []byte, body io.Reader) error {
	target, ok := p.net.route(p.addr, to.PeerAddr, nil)
	if !ok || target == nil {
		return fmt.Errorf("snapshot to %s: %w", to.Name, ErrCut)
	}
	target.mu.Lock()
	h := target.handler
	target.mu.Unlock()
	if h == nil {
		return fmt.Errorf("snapshot to %s: %w", to.Name, ErrCut)
	}
	return h.ReceiveSnapshot(ctx, p.name, bytes.Clone(header), cuttable{p: p, to: to.PeerAddr, r: body})
}

type cuttable struct {
	p  *Port
	to string
	r  io.Reader
}

func (c cuttable) Read(b []byte) (int, error) {
	if target, ok := c.p.net.route(c.p.addr, c.to, nil); !ok || target == nil {
		return 0, ErrCut
	}
	return c.r.Read(b)
}

// Cut loses everything from one address to another from now on; the other direction is left alone.
func (n *Network) Cut(from, to string) { n.set(from, to, func(l *linkState) { l.cut = true }) }

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

// Tap calls f for each frame that is sent, lost or not; nil ends it. A snapshot's reads appear as nil frames.
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
