package chaos

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/drover-fleet/drover/test/lab"
)

// outside is the place that clients are at: the network namespace of this process.
const outside = ""

// gate lets bytes of one direction through, or holds them back. What is held goes on when the gate opens, as TCP would send it again.
type gate struct {
	mu   sync.Mutex
	open chan struct{} // closed while bytes pass
}

func newGate() *gate {
	g := &gate{open: make(chan struct{})}
	close(g.open)
	return g
}

func (g *gate) set(open bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.open:
		if !open {
			g.open = make(chan struct{})
		}
	default:
		if open {
			close(g.open)
		}
	}
}

func (g *gate) wait(ctx context.Context) error {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	select {
	case <-open:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// network is all cables between places, which are names of network namespaces.
type network struct {
	gates  map[[2]string]*gate // by from and to
	cables []*cable
}

func newNetwork(places []string) *network {
	n := &network{gates: map[[2]string]*gate{}}
	for _, from := range places {
		for _, to := range places {
			if from != to {
				n.gates[[2]string{from, to}] = newGate()
			}
		}
	}
	return n
}

// add makes the address of a program at one place reachable from another, under the same address.
func (n *network) add(from, to, addr string) error {
	w := &cable{from: from, to: to, addr: addr, forth: n.gates[[2]string{from, to}], back: n.gates[[2]string{to, from}], conns: map[net.Conn]struct{}{}}
	w.ctx, w.stop = context.WithCancel(context.Background())
	err := lab.InNetns(from, func() (err error) {
		w.listener, err = (&net.ListenConfig{}).Listen(w.ctx, "tcp", addr)
		return err
	})
	if err != nil {
		return fmt.Errorf("cable from %q to %q: %w", from, to, err)
	}
	n.cables = append(n.cables, w)
	w.running.Go(w.accept)
	return nil
}

// lose holds back everything that goes from one place to another, or lets it pass again.
func (n *network) lose(from, to string, lost bool) { n.gates[[2]string{from, to}].set(!lost) }

// heal lets everything pass.
func (n *network) heal() {
	for _, g := range n.gates {
		g.set(true)
	}
}

func (n *network) close() {
	for _, w := range n.cables {
		w.close()
	}
}

// cable carries TCP connections from one place to another.
type cable struct {
	from, to, addr string
	forth, back    *gate
	listener       net.Listener
	ctx            context.Context //nolint:containedctx // the cable's life, which its goroutines share
	stop           context.CancelFunc
	running        sync.WaitGroup

	mu    sync.Mutex // guards conns
	conns map[net.Conn]struct{}
}

func (w *cable) accept() {
	for {
		near, err := w.listener.Accept()
		if err != nil {
			return
		}
		if !w.keep(near) {
			return
		}
		w.running.Go(func() { w.carry(near) })
	}
}

// carry joins an accepted connection with one to the program itself, once a handshake would get through.
func (w *cable) carry(near net.Conn) {
	defer w.forget(near)
	if w.forth.wait(w.ctx) != nil || w.back.wait(w.ctx) != nil {
		return
	}
	var far net.Conn
	err := lab.InNetns(w.to, func() (err error) {
		far, err = (&net.Dialer{}).DialContext(w.ctx, "tcp", w.addr)
		return err
	})
	if err != nil {
		return // nobody listens: the near end is closed, as if refused
	}
	defer w.forget(far)
	if !w.keep(far) {
		return
	}
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	var both sync.WaitGroup
	both.Go(func() { pump(ctx, far, near, w.forth); cancel(); closeBoth(near, far) })
	both.Go(func() { pump(ctx, near, far, w.back); cancel(); closeBoth(near, far) })
	both.Wait()
}

func closeBoth(a, b net.Conn) {
	_ = a.Close() // the other side may have closed it before
	_ = b.Close()
}

// pump copies until either end has gone.
func pump(ctx context.Context, to, from net.Conn, g *gate) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if g.wait(ctx) != nil {
				return
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (w *cable) keep(c net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx.Err() != nil {
		_ = c.Close()
		return false
	}
	w.conns[c] = struct{}{}
	return true
}

func (w *cable) forget(c net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.conns, c)
	_ = c.Close()
}

func (w *cable) close() {
	w.mu.Lock()
	w.stop()
	err := w.listener.Close()
	for c := range w.conns {
		err = errors.Join(err, c.Close())
	}
	w.mu.Unlock()
	_ = err // each is being thrown away
	w.running.Wait()
}
