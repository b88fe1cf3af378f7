package links

import (
	"net"
	"strings"
	"sync"
	"testing"
)

// proxy forwards TCP until it is frozen: then bytes stop both ways and nobody is told.
type proxy struct {
	url    string
	mu     sync.Mutex
	frozen bool
	conns  []net.Conn
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	check(t, err)
	p := &proxy{url: "https://" + ln.Addr().String()}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			up, err := (&net.Dialer{}).Dial("tcp", strings.TrimPrefix(target, "https://"))
			if err != nil {
				_ = c.Close()
				continue
			}
			p.mu.Lock()
			p.conns = append(p.conns, c, up)
			p.mu.Unlock()
			wg.Go(func() { p.copy(c, up) })
			wg.Go(func() { p.copy(up, c) })
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		p.mu.Lock()
		for _, c := range p.conns {
			_ = c.Close()
		}
		p.mu.Unlock()
		wg.Wait()
	})
	return p
}

func (p *proxy) freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen = true
}

func (p *proxy) copy(to, from net.Conn) {
	buf := make([]byte, 16<<10)
	for {
		n, err := from.Read(buf)
		p.mu.Lock()
		frozen := p.frozen
		p.mu.Unlock()
		if frozen {
			if err != nil {
				return // the other side is never told
			}
			continue
		}
		if _, werr := to.Write(buf[:n]); werr != nil || err != nil {
			_ = to.Close()
			return
		}
	}
}
