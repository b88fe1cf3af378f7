package consensus

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/fxamacker/cbor/v2"
)

// A copy of the state goes to another member in chunks, which the receiver asks for:
//
//	sender                               receiver
//	offer: identity, size, header  -->   what it has of this identity it keeps; anything else it drops
//	                               <--   want: number of a chunk, again and again, a few ahead
//	chunk: number, sha256, bytes   -->   a chunk that does not match is wanted again
//	                               <--   verdict: taken, or why not
//
// An offer without an identity asks whether a copy would be taken at all, before one is made. A connection that breaks costs
// what was on its way. Each message is a byte of kind, be32 length and that many bytes.

const (
	kindOffer   = 1
	kindWant    = 2 // be32 number
	kindChunk   = 3 // be32 number, sha256, bytes
	kindVerdict = 4
)

const (
	// chunkBytes is the size of every chunk but the last. At 10 kB/s one takes 6 s.
	chunkBytes = 64 << 10
	// maxWants bounds the chunks that are on their way. The receiver asks for as few as keep the link busy.
	maxWants  = 16
	maxOffer  = 1 << 20 // bytes: a few members' names and addresses
	maxRepeat = 3       // times a chunk is wanted again before the copy counts as damaged where it is kept
)

// copyID names a copy by its contents: the hash of all chunks' hashes.
type copyID [sha256.Size]byte

// offer is what a sender has.
type offer struct {
	Header []byte `cbor:"1,keyasint"` // snapshotHeader
	ID     copyID `cbor:"2,keyasint"` // zero: there is no copy yet
	Size   int64  `cbor:"3,keyasint"` // bytes
}

func (o offer) chunks() int { return int((o.Size + chunkBytes - 1) / chunkBytes) }

// verdict ends a transfer.
type verdict struct {
	Reason string `cbor:"1,keyasint,omitempty"` // empty: taken
	Again  bool   `cbor:"2,keyasint,omitempty"` // it may be offered again in a moment
}

// How a transfer fails.
var (
	errBusyReceiving = errors.New("another snapshot is being received")
	errRefused       = errors.New("refused by the receiver")
	errNotNow        = errors.New("not taken now")
	errProtocol      = errors.New("snapshot stream: unexpected message")
	errDamaged       = errors.New("a chunk does not match its checksum, again and again")
)

func (v verdict) err() error {
	switch {
	case v.Reason == "":
		return nil
	case v.Again:
		return fmt.Errorf("%w: %q", errNotNow, v.Reason)
	}
	return fmt.Errorf("%w: %q", errRefused, v.Reason)
}

// verdictOn is what the sender is told of an error here.
func verdictOn(err error) verdict {
	if err == nil {
		return verdict{}
	}
	reason := err.Error()
	return verdict{Reason: reason[:min(len(reason), 1024)], Again: errors.Is(err, errBusyReceiving) || errors.Is(err, ErrStopped)}
}

// stream is one connection of a transfer. It is closed when nothing has moved on it for a while, in whichever direction, and
// when its context ends.
type stream struct {
	rw    io.ReadWriteCloser
	idle  time.Duration
	timer *time.Timer
	stop  func() bool
	head  [5]byte // of reading
}

func newStream(ctx context.Context, rw io.ReadWriteCloser, idle time.Duration) *stream {
	shut := func() { _ = rw.Close() }
	return &stream{rw: rw, idle: idle, timer: time.AfterFunc(idle, shut), stop: context.AfterFunc(ctx, shut)}
}

// Close ends both directions. It is harmless to repeat.
func (s *stream) Close() error {
	s.timer.Stop()
	s.stop()
	return s.rw.Close()
}

func (s *stream) Read(b []byte) (int, error) {
	n, err := s.rw.Read(b)
	if n > 0 {
		s.timer.Reset(s.idle)
	}
	return n, err
}

// Write hands on small pieces, so that a slow link shows that it moves.
func (s *stream) Write(b []byte) (int, error) {
	const piece = 16 << 10
	for done := 0; ; {
		n, err := s.rw.Write(b[done:min(done+piece, len(b))])
		done += n
		if err != nil || done >= len(b) {
			return done, err
		}
		s.timer.Reset(s.idle)
	}
}

func (s *stream) send(kind byte, parts ...[]byte) error {
	size := 0
	for _, p := range parts {
		size += len(p)
	}
	b := make([]byte, 0, 5+size)
	b = binary.BigEndian.AppendUint32(append(b, kind), uint32(size))
	for _, p := range parts {
		b = append(b, p...)
	}
	_, err := s.Write(b)
	return err
}

func (s *stream) sendCBOR(kind byte, v any) error {
	body, err := cbor.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode message of kind %d: %w", kind, err)
	}
	return s.send(kind, body)
}

// receive reads one message into buf or, if that is too small, memory of its own. The length is checked first.
func (s *stream) receive(limit int, buf []byte) (kind byte, body []byte, err error) {
	if _, err := io.ReadFull(s, s.head[:]); err != nil {
		return 0, nil, err
	}
	size := binary.BigEndian.Uint32(s.head[1:])
	if uint64(size) > uint64(limit) {
		return 0, nil, fmt.Errorf("%w: %d bytes, limit %d", errProtocol, size, limit)
	}
	if int(size) > len(buf) {
		buf = make([]byte, size)
	}
	body = buf[:size]
	if _, err := io.ReadFull(s, body); err != nil {
		return 0, nil, err
	}
	return s.head[0], body, nil
}

func decodeVerdict(body []byte) error {
	var v verdict
	if err := decodeStrict(body, &v); err != nil {
		return fmt.Errorf("%w: verdict: %w", errProtocol, err)
	}
	return v.err()
}
