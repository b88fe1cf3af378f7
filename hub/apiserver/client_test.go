package apiserver_test

import (
	"context"
	"net"
	"testing"

	"github.com/drover-fleet/drover/client/clienttest"
)

func loopback() []net.IP { return []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback} }

// TestRemoteIsAClient runs over TLS what runs on the registry in process.
func TestRemoteIsAClient(t *testing.T) {
	clienttest.Run(t, func(t *testing.T) clienttest.Env {
		h := startHub(t, nil)
		return clienttest.Env{
			Client: h.remote("alice"), Other: h.remote("bob"), Hub: h.own(),
			Compact: func(ctx context.Context) error { return h.backend.Compact(ctx, h.backend.Revision()) },
		}
	})
}
