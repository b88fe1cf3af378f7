package peer

import (
	"context"
	"fmt"
	"io"
	"net"

	"github.com/drover-fleet/drover/consensus"
)

// Stream implements consensus.Transport: a connection of its own, so that what it carries does not stand in the way of frames.
func (t *Transport) Stream(ctx context.Context, to consensus.Member) (io.ReadWriteCloser, error) {
	conn, err := t.dial(ctx, to, kindStream)
	if err != nil {
		return nil, fmt.Errorf("stream to %s: %w", to.Name, err)
	}
	return conn, nil
}

// serveStream leaves deadlines to the handler, which knows what it waits for.
func (t *Transport) serveStream(ctx context.Context, conn net.Conn, name string, h consensus.Handler) error {
	if err := clearDeadline(conn); err != nil {
		return err
	}
	h.ServeStream(ctx, name, conn)
	return nil
}
