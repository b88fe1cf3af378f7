package peer

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"net"
	"time"

	"github.com/drover-fleet/drover/consensus"
)

const chunkBytes = 64 << 10

// How a transfer fails.
var (
	errChecksum = errors.New("snapshot does not match its checksum")
	errRefused  = errors.New("refused by the receiver")
	errSource   = errors.New("read the copy to send")
)

// SendSnapshot implements consensus.Transport. It gives up when nothing moves for a while, not after a fixed time.
func (t *Transport) SendSnapshot(ctx context.Context, to consensus.Member, header []byte, body io.Reader) error {
	conn, err := t.dial(ctx, to, kindSnapshot)
	if err != nil {
		return fmt.Errorf("snapshot to %s: %w", to.Name, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	defer func() { _ = conn.Close() }()
	err = t.writeSnapshot(conn, header, body)
	if errors.Is(err, errSource) {
		return fmt.Errorf("snapshot to %s: %w", to.Name, err)
	}
	// A receiver that refuses stops reading, so the write fails first; its reason says more.
	verdict := readVerdict(conn, t.cfg.ReadTimeout)
	if err == nil || errors.Is(verdict, errRefused) {
		err = verdict
	}
	if err != nil {
		return fmt.Errorf("snapshot to %s: %w", to.Name, err)
	}
	return nil
}

func (t *Transport) writeSnapshot(conn net.Conn, header []byte, body io.Reader) error {
	w := bufio.NewWriterSize(conn, chunkBytes+4)
	if err := t.write(conn, w, [][]byte{header}); err != nil {
		return err
	}
	sum, total := sha256.New(), uint64(0)
	chunk := make([]byte, chunkBytes)
	for {
		n, err := io.ReadFull(body, chunk)
		if n > 0 {
			sum.Write(chunk[:n])
			total += uint64(n)
			if err := t.write(conn, w, [][]byte{chunk[:n]}); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("%w: %w", errSource, err)
		}
	}
	trailer := binary.BigEndian.AppendUint64(make([]byte, 4, 4+8+sha256.Size), total)
	if err := conn.SetWriteDeadline(time.Now().Add(t.cfg.WriteTimeout)); err != nil {
		return err
	}
	_, err := conn.Write(sum.Sum(trailer))
	return err
}

func readVerdict(conn net.Conn, timeout time.Duration) error {
	if err := conn.SetReadDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	var head [1]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return fmt.Errorf("wait for the receiver: %w", err)
	}
	if head[0] == 0 {
		return nil
	}
	var size [2]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return errRefused
	}
	reason := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(conn, reason); err != nil {
		return errRefused
	}
	return fmt.Errorf("%w: %q", errRefused, reason)
}

func (t *Transport) receiveSnapshot(ctx context.Context, conn net.Conn, name string, h consensus.Handler) error {
	header, err := readBlock(conn, maxHeader, t.cfg.ReadTimeout)
	if err != nil {
		return err
	}
	err = h.ReceiveSnapshot(ctx, name, header, &snapshotReader{conn: conn, timeout: t.cfg.ReadTimeout, sum: sha256.New()})
	if e := conn.SetWriteDeadline(time.Now().Add(t.cfg.WriteTimeout)); e != nil {
		return errors.Join(err, e)
	}
	if err == nil {
		_, err := conn.Write([]byte{0})
		return err
	}
	reason := err.Error()
	reason = reason[:min(len(reason), 1024)]
	verdict := binary.BigEndian.AppendUint16([]byte{1}, uint16(len(reason)))
	if _, e := conn.Write(append(verdict, reason...)); e != nil {
		return errors.Join(err, e)
	}
	// Take in some of what is on its way: closing with unread bytes would reset the connection and lose the reason.
	if e := conn.SetReadDeadline(time.Now().Add(time.Second)); e != nil {
		return errors.Join(err, e)
	}
	_, _ = io.CopyN(io.Discard, conn, 16*chunkBytes)
	return err
}

// snapshotReader yields the chunks and checks the trailer before it says io.EOF.
type snapshotReader struct {
	conn    net.Conn
	timeout time.Duration
	rest    []byte // of the present chunk
	sum     hash.Hash
	total   uint64
	err     error // sticky
}

func (r *snapshotReader) Read(b []byte) (int, error) {
	for len(r.rest) == 0 && r.err == nil {
		r.rest, r.err = r.next()
	}
	if r.err != nil {
		return 0, r.err
	}
	n := copy(b, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func (r *snapshotReader) next() ([]byte, error) {
	chunk, err := readBlock(r.conn, chunkBytes, r.timeout)
	if errors.Is(err, io.EOF) {
		return nil, io.ErrUnexpectedEOF // only the trailer ends a copy
	}
	if err != nil {
		return nil, err
	}
	if len(chunk) > 0 {
		r.sum.Write(chunk)
		r.total += uint64(len(chunk))
		return chunk, nil
	}
	var trailer [8 + sha256.Size]byte
	if _, err := io.ReadFull(r.conn, trailer[:]); err != nil {
		return nil, fmt.Errorf("read trailer: %w", io.ErrUnexpectedEOF)
	}
	if binary.BigEndian.Uint64(trailer[:]) != r.total || string(trailer[8:]) != string(r.sum.Sum(nil)) {
		return nil, errChecksum
	}
	return nil, io.EOF
}
