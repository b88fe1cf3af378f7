package kv

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/drover-fleet/drover/store"
)

// Protocol is the name in the TLS handshake (ALPN).
const Protocol = "drover-kv/1"

const (
	headBytes = 12
	idAndKind = 9
	// maxFrame holds the largest command, and the largest answer: a read stops short of it.
	maxFrame = store.MaxCommandBytes + 1<<20
	// writeTime is how long the other side may take nothing.
	writeTime = 15 * time.Second
	ioBuffer  = 32 << 10
)

// kind says what a frame is. Requests are below 64.
type kind byte

const (
	kindPropose kind = 1
	kindRange   kind = 2
	kindWatch   kind = 3
	kindCancel  kind = 4 // ends a watch, or forgets another request

	kindResult  kind = 64
	kindRead    kind = 65
	kindStarted kind = 66
	kindBatch   kind = 67
	kindFailed  kind = 68 // ends any request
)

type frame struct {
	id   uint64
	kind kind
	body []byte
}

var errFrame = errors.New("malformed frame")

// readFrame checks the length before it allocates.
func readFrame(r io.Reader) (frame, error) {
	var head [headBytes + 1]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return frame{}, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n < idAndKind || n > maxFrame {
		return frame{}, fmt.Errorf("%w: %d bytes, want %d to %d", errFrame, n, idAndKind, maxFrame)
	}
	f := frame{id: binary.BigEndian.Uint64(head[4:]), kind: kind(head[headBytes]), body: make([]byte, n-idAndKind)}
	_, err := io.ReadFull(r, f.body)
	return f, err
}

// outbox writes frames in the order of put, all that wait in one go. It is bounded by what may be under way on the connection,
// and, for watches, by room.
type outbox struct {
	conn  net.Conn
	ready chan struct{} // one slot
	gone  chan struct{} // closed when run ends

	mu    sync.Mutex // guards below
	queue []frame
	bytes int
	space chan struct{} // closed and replaced when the queue was taken
}

func newOutbox(conn net.Conn) *outbox {
	return &outbox{conn: conn, ready: make(chan struct{}, 1), gone: make(chan struct{}), space: make(chan struct{})}
}

func (o *outbox) put(f frame) {
	o.mu.Lock()
	o.queue = append(o.queue, f)
	o.bytes += len(f.body)
	o.mu.Unlock()
	select {
	case o.ready <- struct{}{}:
	default:
	}
}

// maxWaiting is how many bytes of events may wait on one connection before watchers are held back; their own bounded buffers
// fill then.
const maxWaiting = 4 << 20

// room returns when there is room for another event, or the connection has ended.
func (o *outbox) room() {
	for {
		o.mu.Lock()
		full, space := o.bytes > maxWaiting, o.space
		o.mu.Unlock()
		if !full {
			return
		}
		select {
		case <-space:
		case <-o.gone:
			return
		}
	}
}

func (o *outbox) take() []frame {
	o.mu.Lock()
	defer o.mu.Unlock()
	q := o.queue
	o.queue, o.bytes = nil, 0
	close(o.space)
	o.space = make(chan struct{})
	return q
}

// run writes until the connection fails or stop is closed.
func (o *outbox) run(stop <-chan struct{}) error {
	defer close(o.gone)
	w := bufio.NewWriterSize(o.conn, ioBuffer)
	for {
		select {
		case <-o.ready:
		case <-stop:
			return nil
		}
		for q := o.take(); len(q) > 0; q = o.take() {
			if err := o.conn.SetWriteDeadline(time.Now().Add(writeTime)); err != nil {
				return err
			}
			for _, f := range q {
				if err := writeFrame(w, f); err != nil {
					return err
				}
			}
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
}

func writeFrame(w *bufio.Writer, f frame) error {
	var head [headBytes + 1]byte
	binary.BigEndian.PutUint32(head[:], uint32(len(f.body)+idAndKind))
	binary.BigEndian.PutUint64(head[4:], f.id)
	head[headBytes] = byte(f.kind)
	if _, err := w.Write(head[:]); err != nil {
		return err
	}
	_, err := w.Write(f.body)
	return err
}

type modes struct {
	enc cbor.EncMode
	dec cbor.DecMode
}

// codec is built once; the modes are immutable.
var codec = sync.OnceValues(func() (modes, error) {
	enc, err := cbor.CoreDetEncOptions().EncMode()
	if err != nil {
		return modes{}, err
	}
	dec, err := cbor.DecOptions{
		IndefLength: cbor.IndefLengthForbidden, TagsMd: cbor.TagsForbidden, UTF8: cbor.UTF8RejectInvalid,
		MaxNestedLevels: 8, MaxArrayElements: store.MaxOps, MaxMapPairs: 64,
	}.DecMode()
	return modes{enc, dec}, err
})

func encode(v any) ([]byte, error) {
	m, err := codec()
	if err != nil {
		return nil, err
	}
	return m.enc.Marshal(v)
}

func decode(b []byte, into any) error {
	m, err := codec()
	if err != nil {
		return err
	}
	if err := m.dec.Unmarshal(b, into); err != nil {
		return fmt.Errorf("%w: %w", errFrame, err)
	}
	return nil
}
