package peer

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/drover-fleet/drover/consensus"
)

// idleRounds is how many signs of life in a row, with nothing else to say, end a stream: the member is gone or quiet,
// and the next frame opens a new one.
const idleRounds = 60

// outLink is the outgoing stream to one member.
type outLink struct {
	to    consensus.Member
	ready chan struct{} // one slot: something waits

	mu    sync.Mutex // guards below
	queue [][]byte
	bytes int
	id    uint64 // the member's newest id, for reports
}

// Send implements consensus.Transport. When the queue is full the new frame is dropped, so order holds.
func (t *Transport) Send(to consensus.Member, frame []byte) {
	t.mu.Lock()
	if t.group == nil {
		t.mu.Unlock()
		return
	}
	key := linkKey{to.Name, to.PeerAddr}
	l := t.links[key]
	if l == nil {
		l = &outLink{to: to, ready: make(chan struct{}, 1)}
		t.links[key] = l
		ctx, h := t.ctx, t.handler
		t.group.Go(func() { t.runLink(ctx, key, l, h) })
	}
	// The link cannot end between here and put: it ends under t.mu.
	full := !l.put(to.ID, frame, t.cfg.QueueBytes)
	h := t.handler
	t.mu.Unlock()
	if full {
		h.Unreachable(to.ID, 1)
	}
}

func (l *outLink) put(id uint64, frame []byte, limit int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.id = id
	if l.bytes+len(frame) > limit {
		return false
	}
	l.queue = append(l.queue, frame)
	l.bytes += len(frame)
	select {
	case l.ready <- struct{}{}:
	default:
	}
	return true
}

func (l *outLink) take() (frames [][]byte, id uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	frames, l.queue, l.bytes = l.queue, nil, 0
	return frames, l.id
}

// runLink dials when something waits, and again after a failure with growing pauses.
func (t *Transport) runLink(ctx context.Context, key linkKey, l *outLink, h consensus.Handler) {
	var pause backoff
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.ready:
		}
		conn, err := t.dial(ctx, l.to, kindFrames)
		if err == nil {
			pause = backoff{}
			var idle bool
			if idle, err = t.pump(ctx, l, conn); idle {
				if t.end(key, l) {
					return
				}
				continue
			}
		}
		if ctx.Err() != nil {
			return
		}
		t.cfg.Logger.Debug("stream to member", "member", l.to.Name, "err", err)
		lost, id := l.take() // stale by the time the next attempt succeeds: raft repeats what matters
		h.Unreachable(id, len(lost))
		if pause.wait(ctx, t.cfg.BackoffMax) != nil {
			return
		}
	}
}

// end removes an idle link unless something came in meanwhile.
func (t *Transport) end(key linkKey, l *outLink) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) > 0 {
		select {
		case l.ready <- struct{}{}:
		default:
		}
		return false
	}
	if t.links[key] == l {
		delete(t.links, key)
	}
	return true
}

// pump writes what waits until the stream fails or has been idle for long.
func (t *Transport) pump(ctx context.Context, l *outLink, conn net.Conn) (idle bool, err error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	gone := watchEnd(conn)
	defer func() {
		_ = conn.Close()
		<-gone
	}()
	alive := time.NewTicker(t.cfg.AliveEvery)
	defer alive.Stop()
	w := bufio.NewWriterSize(conn, 64<<10)
	for quiet := 0; ; {
		frames, _ := l.take()
		if len(frames) > 0 {
			quiet = 0
			if err := t.write(conn, w, frames); err != nil {
				return false, err
			}
			continue
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-gone:
			return false, errClosedByPeer
		case <-l.ready:
		case <-alive.C:
			if quiet++; quiet > idleRounds {
				return true, nil
			}
			if err := t.write(conn, w, [][]byte{nil}); err != nil {
				return false, err
			}
		}
	}
}

var errClosedByPeer = errors.New("closed by the receiver")

// watchEnd closes its channel when the receiver hangs up: it never sends anything, so a read ends only then.
func watchEnd(conn net.Conn) <-chan struct{} {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		var b [1]byte
		_, _ = conn.Read(b[:])
	}()
	return gone
}

func (t *Transport) write(conn net.Conn, w *bufio.Writer, frames [][]byte) error {
	for _, f := range frames {
		if err := conn.SetWriteDeadline(time.Now().Add(t.cfg.WriteTimeout)); err != nil {
			return err
		}
		if _, err := w.Write(binary.BigEndian.AppendUint32(nil, uint32(len(f)))); err != nil {
			return err
		}
		if _, err := w.Write(f); err != nil {
			return err
		}
	}
	return w.Flush()
}
