package peer

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"time"

	"github.com/drover-fleet/drover/consensus"
)

// magic starts every connection; its last byte is the version.
const magic = "DRVPEER\x01"

const (
	kindFrames = 1
	kindStream = 2
)

// errHandshake is how strangers and scanners end, as often as they like.
var errHandshake = errors.New("handshake")

var errFrameSize = errors.New("frame is larger than its limit")

// dial opens a verified connection of one kind to a member. A certificate of another member is refused: an address may
// have been given to someone else.
func (t *Transport) dial(ctx context.Context, to consensus.Member, kind byte) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, t.cfg.DialTimeout)
	defer cancel()
	cfg, err := t.cfg.ClientTLS()
	if err != nil {
		return nil, fmt.Errorf("client certificate: %w", err)
	}
	if cfg.ServerName == "" {
		cfg = cfg.Clone()
		cfg.ServerName = to.Name
	}
	var dialer net.Dialer // resolves the name now, tries every address it has, IPv4 and IPv6
	raw, err := dialer.DialContext(ctx, "tcp", to.PeerAddr)
	if err != nil {
		return nil, err
	}
	conn := tls.Client(raw, cfg)
	if err := t.greet(ctx, conn, to, kind); err != nil {
		return nil, errors.Join(err, ignoreClosed(raw.Close()))
	}
	return conn, nil
}

func (t *Transport) greet(ctx context.Context, conn *tls.Conn, to consensus.Member, kind byte) error {
	if err := conn.HandshakeContext(ctx); err != nil {
		return fmt.Errorf("handshake: %w", err)
	}
	name, err := t.cfg.PeerName(conn.ConnectionState())
	if err != nil {
		return fmt.Errorf("certificate of %s: %w", to.PeerAddr, err)
	}
	if name != to.Name {
		return fmt.Errorf("%s is %q, not %q", to.PeerAddr, name, to.Name)
	}
	if err := conn.SetWriteDeadline(time.Now().Add(t.cfg.WriteTimeout)); err != nil {
		return err
	}
	if _, err = conn.Write(append([]byte(magic), kind)); err != nil {
		return err
	}
	return clearDeadline(conn)
}

// clearDeadline ends the deadlines of the greeting: those of what follows are for its kind to set.
func clearDeadline(conn net.Conn) error { return conn.SetDeadline(time.Time{}) }

// serve handles one accepted connection until it ends.
func (t *Transport) serve(ctx context.Context, raw net.Conn, h consensus.Handler) {
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	defer stop()
	defer func() { _ = raw.Close() }()
	err := t.serveConn(ctx, raw, h)
	switch {
	case err == nil || ctx.Err() != nil:
	case errors.Is(err, errHandshake):
		t.cfg.Logger.Debug("connection refused", "from", raw.RemoteAddr().String(), "err", err)
	case !errors.Is(err, io.EOF):
		t.cfg.Logger.Info("connection from member ended", "from", raw.RemoteAddr().String(), "err", err)
	}
}

func (t *Transport) serveConn(ctx context.Context, raw net.Conn, h consensus.Handler) error {
	cfg, err := t.cfg.ServerTLS()
	if err != nil {
		return fmt.Errorf("server certificate: %w", err)
	}
	conn := tls.Server(raw, cfg)
	if err := raw.SetDeadline(time.Now().Add(t.cfg.DialTimeout)); err != nil {
		return err
	}
	if err := conn.HandshakeContext(ctx); err != nil {
		return fmt.Errorf("%w: %w", errHandshake, err)
	}
	state := conn.ConnectionState()
	if len(state.VerifiedChains) == 0 {
		return errors.New("no verified client certificate")
	}
	name, err := t.cfg.PeerName(state)
	if err != nil {
		return fmt.Errorf("client certificate: %w", err)
	}
	if err := t.cfg.Verify(name); err != nil {
		return fmt.Errorf("member %q: %w", name, err)
	}
	if !t.door.prove(raw, name) {
		return fmt.Errorf("member %q has %d connections already", name, t.cfg.PerMember)
	}
	defer t.door.leave(name)
	greeting := make([]byte, len(magic)+1)
	if _, err := io.ReadFull(conn, greeting); err != nil {
		return err
	}
	if string(greeting[:len(magic)]) != magic {
		return fmt.Errorf("member %q does not speak this protocol", name)
	}
	switch kind := greeting[len(magic)]; kind {
	case kindFrames:
		return t.receiveFrames(conn, name, h)
	case kindStream:
		return t.serveStream(ctx, conn, name, h)
	default:
		return fmt.Errorf("member %q opened a stream of unknown kind %d", name, kind)
	}
}

func (t *Transport) receiveFrames(conn net.Conn, name string, h consensus.Handler) error {
	for {
		frame, err := readBlock(conn, consensus.MaxFrame, t.cfg.ReadTimeout)
		if err != nil {
			return err
		}
		if len(frame) > 0 {
			h.Receive(name, frame)
		}
	}
}

// readBlock reads one length and that many bytes. The length is checked before anything is allocated.
func readBlock(conn net.Conn, limit int, timeout time.Duration) ([]byte, error) {
	if err := conn.SetReadDeadline(time.Now().Add(timeout)); err != nil {
		return nil, err
	}
	var head [4]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if uint64(size) > uint64(limit) {
		return nil, fmt.Errorf("%w: %d bytes, limit %d", errFrameSize, size, limit)
	}
	block := make([]byte, size)
	if _, err := io.ReadFull(conn, block); err != nil {
		return nil, err
	}
	return block, nil
}

// backoff grows from 20 ms to a cap; each wait is a random part of it.
type backoff struct{ attempts int }

func (b *backoff) wait(ctx context.Context, limit time.Duration) error {
	d := min(20*time.Millisecond<<min(b.attempts, 10), limit)
	b.attempts++
	timer := time.NewTimer(rand.N(d) + 1)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
