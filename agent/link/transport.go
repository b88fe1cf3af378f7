package link

import (
	"context"
	"io"

	"github.com/drover-fleet/drover/api/wire"
)

// Transport reaches hub members in one way.
type Transport interface {
	// Open prepares to speak with one member. It does no I/O: names are resolved and connections are made anew by the first
	// exchange of each Conn.
	Open(endpoint string) (Conn, error)
}

// Conn exchanges messages with one hub member. Its methods may be called at once from several goroutines and obey their ctx.
// Errors have the classes of api/fault; what never reached a hub is fault.Unreachable.
type Conn interface {
	Hello(ctx context.Context, m wire.Hello) (wire.HelloReply, error)
	Poll(ctx context.Context, m wire.Poll) (wire.PollReply, error)
	Bodies(ctx context.Context, m wire.BodiesRequest) (wire.BodiesReply, error)
	Report(ctx context.Context, m wire.Report) (wire.ReportReply, error)
	Token(ctx context.Context, m wire.TokenRequest) (wire.TokenReply, error)
	// Stream sends r until it ends, ctx ends, or the hub hangs up.
	Stream(ctx context.Context, id string, r io.Reader) error
	// Close drops every connection.
	Close()
}
