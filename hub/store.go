package hub

import (
	"context"
	"crypto/tls"
	"net/http"

	"github.com/drover-fleet/drover/hub/kv"
)

// storeProtocol serves the store itself to members, on the port of the API.
func (h *Hub) storeProtocol(ctx context.Context) map[string]func(*http.Server, *tls.Conn, http.Handler) {
	return map[string]func(*http.Server, *tls.Conn, http.Handler){
		kv.Protocol: func(_ *http.Server, conn *tls.Conn, _ http.Handler) {
			if err := h.kv.Serve(ctx, conn); err != nil {
				h.log.Debug("store connection ended", "from", conn.RemoteAddr().String(), "err", err)
			}
		},
	}
}

// webProtocols have to be said once there are others: net/http would leave out HTTP/2.
func webProtocols() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetHTTP2(true)
	return p
}
