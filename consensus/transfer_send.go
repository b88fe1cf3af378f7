package consensus

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
)

// ask tells whether the receiver would take a copy.
func ask(s *stream, header []byte) error {
	if err := s.sendCBOR(kindOffer, offer{Header: header}); err != nil {
		return err
	}
	kind, body, err := s.receive(maxOffer, nil)
	if err != nil {
		return err
	}
	if kind != kindVerdict {
		return fmt.Errorf("%w: kind %d for an answer", errProtocol, kind)
	}
	return decodeVerdict(body)
}

// sent is what one connection did.
type sent struct {
	offset int64 // bytes the receiver had before; -1 if it did not come to say so
	moved  int64 // bytes of chunks
}

// sendCopy offers the copy and sends the chunks that the receiver wants, until it gives its verdict. It closes the stream.
func sendCopy(ctx context.Context, s *stream, c *heldCopy, pace *pacer, note func(sent)) (err error) {
	if err := s.sendCBOR(kindOffer, c.offer); err != nil {
		return errors.Join(err, ignoreEnd(s.Close()))
	}
	wants, end := make(chan uint32, maxWants), make(chan error, 1)
	quit := make(chan struct{})
	go func() { end <- readWants(s, c.offer.chunks(), wants, quit) }()
	defer func() {
		close(quit)
		_ = s.Close()
		if e := <-end; err == nil || errors.Is(e, errRefused) || errors.Is(e, errNotNow) { // a reason says more than a broken stream
			err = e
		}
	}()
	at := sent{offset: -1}
	buf := make([]byte, chunkBytes)
	for {
		var number uint32
		select {
		case number = <-wants:
		case e := <-end:
			end <- e // for the deferred end
			return e
		}
		if at.offset < 0 {
			at.offset = int64(number) * chunkBytes
		}
		data, err := c.chunk(number, buf)
		if err != nil {
			return err
		}
		if err := pace.wait(ctx, len(data)); err != nil {
			return err
		}
		var head [4]byte
		binary.BigEndian.PutUint32(head[:], number)
		if err := s.send(kindChunk, head[:], c.sums[number][:], data); err != nil {
			return err
		}
		at.moved = int64(len(data))
		note(at)
	}
}

// readWants hands on what the receiver wants until it gives its verdict.
func readWants(s *stream, chunks int, wants chan<- uint32, quit <-chan struct{}) error {
	for {
		kind, body, err := s.receive(maxOffer, nil)
		if err != nil {
			return err
		}
		switch {
		case kind == kindVerdict:
			return decodeVerdict(body)
		case kind != kindWant || len(body) != 4:
			return fmt.Errorf("%w: kind %d of %d bytes", errProtocol, kind, len(body))
		}
		number := binary.BigEndian.Uint32(body)
		if int64(number) >= int64(chunks) {
			return fmt.Errorf("%w: chunk %d of %d", errProtocol, number, chunks)
		}
		select {
		case wants <- number:
		case <-quit:
			return nil
		}
	}
}
