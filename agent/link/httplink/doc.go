// Package httplink reaches hub members over HTTPS: HTTP/1.1, TLS 1.3, mutual authentication, long-polls.
//
// It promises: only members whose certificate chains to the pinned roots and names drover:hubs are spoken to, whatever their
// address; a clock that is behind never fails a handshake; the client certificate is asked for at each handshake, so a renewed one
// needs no restart; nothing larger than its cap is read; TCP keep-alive is off, since liveness is judged by the answers that
// come; each Conn has connections of its own, which Close drops, and names are resolved at each dial.
package httplink
