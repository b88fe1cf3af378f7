package lab

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

const netnsDir = "/run/netns"

// AddNetns makes a network namespace with nothing but its own loopback; it may be there already.
func AddNetns(name string) error {
	if _, err := os.Stat(filepath.Join(netnsDir, name)); err != nil {
		if out, err := exec.Command("ip", "netns", "add", name).CombinedOutput(); err != nil {
			return fmt.Errorf("ip netns add %s: %w: %s", name, err, out)
		}
	}
	if out, err := exec.Command("ip", "-n", name, "link", "set", "lo", "up").CombinedOutput(); err != nil {
		return fmt.Errorf("raise loopback of %s: %w: %s", name, err, out)
	}
	return nil
}

// DeleteNetns removes a network namespace that AddNetns made; none is fine.
func DeleteNetns(name string) error {
	if _, err := os.Stat(filepath.Join(netnsDir, name)); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if out, err := exec.Command("ip", "netns", "delete", name).CombinedOutput(); err != nil {
		return fmt.Errorf("ip netns delete %s: %w: %s", name, err, out)
	}
	return nil
}

// InNetns runs f in the named network namespace: the process's own when the name is empty. What f listens on or dials stays there.
func InNetns(name string, f func() error) error { return inNetns(name, f) }

// inNetns runs f on a thread that stands in the named network namespace. What f starts or opens stays there.
func inNetns(name string, f func() error) error {
	if name == "" {
		return f()
	}
	result := make(chan error, 1)
	go func() {
		// The thread is never unlocked when it cannot be brought home: the runtime then ends it with the goroutine.
		runtime.LockOSThread()
		result <- func() error {
			home, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				return fmt.Errorf("open own network namespace: %w", err)
			}
			defer unix.Close(home)
			there, err := unix.Open(filepath.Join(netnsDir, name), unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				return fmt.Errorf("open network namespace %s: %w", name, err)
			}
			defer unix.Close(there)
			if err := unix.Setns(there, unix.CLONE_NEWNET); err != nil {
				return fmt.Errorf("enter network namespace %s: %w", name, err)
			}
			err = f()
			if unix.Setns(home, unix.CLONE_NEWNET) == nil {
				runtime.UnlockOSThread()
			}
			return err
		}()
	}()
	return <-result
}

// Link carries TCP connections from one address inside a network namespace to the same address outside, and can be cut.
// It is how a device without any other network reaches the hub and the registry.
type Link struct {
	netns, addr string

	mu       sync.Mutex // guards what follows
	listener net.Listener
	conns    map[net.Conn]struct{}
	wg       sync.WaitGroup
}

// NewLink returns a link that is cut until Mend.
func NewLink(netns, addr string) *Link {
	return &Link{netns: netns, addr: addr, conns: map[net.Conn]struct{}{}}
}

// Mend opens the link; an open one stays as it is.
func (l *Link) Mend() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listener != nil {
		return nil
	}
	err := inNetns(l.netns, func() (err error) {
		l.listener, err = net.Listen("tcp", l.addr)
		return err
	})
	if err != nil {
		return fmt.Errorf("open link of %s to %s: %w", l.netns, l.addr, err)
	}
	l.wg.Add(1)
	go l.accept(l.listener)
	return nil
}

// Cut closes the link and every connection on it, and waits until all that carried them has ended.
func (l *Link) Cut() {
	l.mu.Lock()
	if l.listener != nil {
		l.listener.Close()
		l.listener = nil
	}
	for c := range l.conns {
		c.Close()
	}
	l.mu.Unlock()
	l.wg.Wait()
}

func (l *Link) accept(from net.Listener) {
	defer l.wg.Done()
	for {
		inside, err := from.Accept()
		if err != nil {
			return
		}
		outside, err := net.Dial("tcp", l.addr)
		if err != nil {
			inside.Close()
			continue
		}
		if !l.keep(from, inside, outside) {
			return
		}
		l.wg.Add(2)
		go l.carry(inside, outside)
		go l.carry(outside, inside)
	}
}

// keep remembers the two ends, unless the link was cut meanwhile.
func (l *Link) keep(from net.Listener, ends ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range ends {
		if l.listener != from {
			c.Close()
			continue
		}
		l.conns[c] = struct{}{}
	}
	return l.listener == from
}

func (l *Link) carry(to, from net.Conn) {
	defer l.wg.Done()
	_, _ = io.Copy(to, from) // either end may go at any time: that is what a link does
	to.Close()
	from.Close()
	l.mu.Lock()
	delete(l.conns, to)
	delete(l.conns, from)
	l.mu.Unlock()
}
