package cluster

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Proxy stands before a member's port as the only way to it, and carries so many bytes a second, or none.
type Proxy struct {
	listener net.Listener
	target   string
	carried  atomic.Int64 // bytes to the member

	mu    sync.Mutex // guards below
	rate  int64      // bytes per second in each direction, 0 = as many as go
	cut   bool
	conns map[net.Conn]bool
	due   [2]time.Time // by direction: when what was let through has had its time
}

// NewProxy listens on loopback for who wants to reach target. Run serves it.
func NewProxy(target string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return &Proxy{listener: l, target: target, conns: map[net.Conn]bool{}}, nil
}

// Addr is where the member is to be reached.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Rate bounds both directions, each for all connections together, in bytes per second.
func (p *Proxy) Rate(bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rate = bytes
}

// Carried is how many bytes went to the member.
func (p *Proxy) Carried() int64 { return p.carried.Load() }

// Cut breaks all connections and lets none through until Mend.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
	for c := range p.conns {
		_ = c.Close()
	}
}

// Mend ends Cut.
func (p *Proxy) Mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = false
}

// Run serves until ctx ends, and returns when every connection has ended.
func (p *Proxy) Run(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	defer p.Cut()
	stop := context.AfterFunc(ctx, func() { _ = p.listener.Close() })
	defer stop()
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return ctx.Err()
			}
			return err
		}
		group.Go(func() { p.serve(ctx, conn) })
	}
}

func (p *Proxy) serve(ctx context.Context, near net.Conn) {
	defer p.forget(near)
	if !p.keep(near) {
		return
	}
	far, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.target)
	if err != nil {
		return
	}
	defer p.forget(far)
	if !p.keep(far) {
		return
	}
	var group sync.WaitGroup
	pass := func(direction int, to, from net.Conn, count *atomic.Int64) {
		p.pass(ctx, direction, to, from, count)
		_ = to.Close()
		_ = from.Close()
	}
	group.Go(func() { pass(0, far, near, &p.carried) })
	pass(1, near, far, new(atomic.Int64))
	group.Wait()
}

// keep notes a connection unless the way is cut. Its buffers are small, so that what is on its way is in the proxy.
func (p *Proxy) keep(c net.Conn) bool {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetReadBuffer(32 << 10)
		_ = tcp.SetWriteBuffer(32 << 10)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut {
		return false
	}
	p.conns[c] = true
	return true
}

func (p *Proxy) forget(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
	_ = c.Close()
}

func (p *Proxy) pass(ctx context.Context, direction int, to, from net.Conn, count *atomic.Int64) {
	buf := make([]byte, 8<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if p.wait(ctx, direction, n) != nil {
				return
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
			count.Add(int64(n))
		}
		if err != nil {
			return
		}
	}
}

// wait lets n bytes through when their time has come.
func (p *Proxy) wait(ctx context.Context, direction, n int) error {
	p.mu.Lock()
	if p.rate == 0 {
		p.mu.Unlock()
		return ctx.Err()
	}
	now := time.Now()
	due := &p.due[direction]
	if due.Before(now) {
		*due = now
	}
	*due = due.Add(time.Duration(float64(n) / float64(p.rate) * float64(time.Second)))
	left := due.Sub(now)
	p.mu.Unlock()
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
