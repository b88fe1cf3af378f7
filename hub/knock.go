package hub

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/drover-fleet/drover/api/wire"
)

// A new hub is not founded where one is missed. Members dial a member that is away every second, and devices look for their hub as long
// as they live, so whoever lost a directory (a disk that is not mounted, a wrong path) hears them knock before anything is made. They
// greet by the name that they look for, and are told nothing.

// ErrHubExists refuses to found a new hub where members or devices of another one call.
var ErrHubExists = errors.New("there seems to be a hub already")

const (
	listenForKnocks = 3 * time.Second // members dial at least every second or so
	knockTime       = time.Second     // for one greeting
)

var errKnock = errors.New("not served")

// RefuseMissed listens on a member's two ports for a while and returns ErrHubExists when members or devices of a hub call there. It is
// for a directory that is about to found a new hub.
func RefuseMissed(ctx context.Context, id Identity, listenAPI, listenPeer string) error {
	if err := id.Validate(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, listenForKnocks)
	defer cancel()
	var mu sync.Mutex
	var found error // guarded by mu
	knocked := func(who string) func(net.Addr) {
		return func(from net.Addr) {
			mu.Lock()
			defer mu.Unlock()
			if found == nil {
				found = fmt.Errorf("%w: %s calls at %s from %s. If this member's directory was lost, join again (--join), or restore a backup "+
					"(drover-hub snapshot restore); is the right disk mounted? --force-new founds a new hub all the same, which none of them will follow",
					ErrHubExists, who, id.Name, from)
			}
			cancel()
		}
	}
	doors := []struct {
		addr string
		name func(string) bool // that the caller looks for
		tell func(net.Addr)
	}{
		{orElse(listenAPI, id.API), func(sni string) bool { return sni == wire.HubServerName }, knocked("a device or member of a hub")},
		{orElse(listenPeer, id.Peer), func(string) bool { return true }, knocked("a member of a hub")},
	}
	var wg sync.WaitGroup
	for _, door := range doors {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", door.addr)
		if err != nil {
			cancel()
			wg.Wait()
			return fmt.Errorf("listen for an existing hub: %w", err)
		}
		stop := context.AfterFunc(ctx, func() { _ = l.Close() })
		defer stop()
		wg.Go(func() { answerDoor(l, &wg, door.name, door.tell) })
	}
	wg.Wait()
	if parent := context.Cause(ctx); found == nil && !errors.Is(parent, context.DeadlineExceeded) {
		return parent // told to end
	}
	return found
}

// answerDoor ends when the listener is closed.
func answerDoor(l net.Listener, wg *sync.WaitGroup, name func(string) bool, tell func(net.Addr)) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		wg.Go(func() {
			defer conn.Close()
			if conn.SetDeadline(time.Now().Add(knockTime)) != nil {
				return
			}
			_ = tls.Server(conn, &tls.Config{MinVersion: tls.VersionTLS13, GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
				if name(h.ServerName) {
					tell(conn.RemoteAddr())
				}
				return nil, errKnock
			}}).Handshake()
		})
	}
}

// InitUnlessMissed is Init after nobody was heard to miss the member.
func InitUnlessMissed(ctx context.Context, path string, id Identity, listenAPI, listenPeer string) error {
	if exists(path) {
		if err := dir(path).check("--init", []string{fileSealing, fileLog}); err != nil {
			return err // before anybody waits
		}
	}
	if err := RefuseMissed(ctx, id, listenAPI, listenPeer); err != nil {
		return err
	}
	return Init(path, id)
}
