package sim

import (
	"context"
	"io"
	"time"

	"github.com/drover-fleet/drover/consensus"
)

// network carries messages between names. A message is lost if its way is cut when it is sent or when it arrives.
type network struct {
	w       *world
	cuts    map[way]int // how many faults cut it
	arrived map[way]time.Duration

	loss, double float64 // probability of each message
	disorder     bool    // messages may overtake each other; without it they arrive in the order of sending
	slow         time.Duration
}

type way struct{ from, to string }

func newNetwork(w *world) *network {
	return &network{w: w, cuts: map[way]int{}, arrived: map[way]time.Duration{}}
}

// cut cuts one direction and returns what mends it.
func (n *network) cut(from, to string) (mend func()) {
	n.cuts[way{from, to}]++
	return func() { n.cuts[way{from, to}]-- }
}

// open tells whether messages pass. Clients and devices have a way to every member unless it is cut.
func (n *network) open(from, to string) bool { return n.cuts[way{from, to}] == 0 }

// send delivers a message some time later, perhaps, or twice.
func (n *network) send(from, to string, deliver func()) {
	if !n.open(from, to) || n.w.chance(n.loss) {
		return
	}
	n.later(from, to, deliver)
	if n.double > 0 && n.w.chance(n.double) {
		n.later(from, to, deliver)
	}
}

func (n *network) later(from, to string, deliver func()) {
	d := 200*time.Microsecond + n.w.about(300*time.Microsecond) + n.slow
	if n.disorder {
		d += n.w.about(20 * time.Millisecond)
	}
	at := n.w.now + d
	if k := (way{from, to}); !n.disorder {
		at = max(at, n.arrived[k])
		n.arrived[k] = at
	}
	n.w.after(at-n.w.now, func() {
		if n.open(from, to) {
			deliver()
		}
	})
}

// port is a member's end. Only Send is used: snapshots are carried by the member itself.
type port struct{ m *member }

// Run implements consensus.Transport.
func (p port) Run(ctx context.Context, _ consensus.Handler) error { <-ctx.Done(); return nil }

// Stream implements consensus.Transport.
func (p port) Stream(context.Context, consensus.Member) (io.ReadWriteCloser, error) {
	panic("sim: snapshots do not go over the port")
}

// Send implements consensus.Transport.
func (p port) Send(to consensus.Member, frame []byte) {
	m := p.m
	m.w.net.send(m.name, to.Name, func() {
		peer := m.w.member(to.Name)
		if peer == nil || !peer.up {
			return // a frame of a sender that died meanwhile does arrive
		}
		m.w.trace.note(m.w.now, to.Name, frame)
		peer.node.Receive(m.name, frame)
		peer.step(0)
	})
}
