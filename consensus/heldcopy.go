package consensus

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// heldCopy is a copy of the machine that a sender keeps while the transfer lives: a file without a name, gone with the process.
type heldCopy struct {
	offer offer
	index uint64
	file  *os.File
	sums  []copyID // of chunks
}

// holdCopy reads a copy to its end. The file is as large as the copy, which is at most limit bytes.
func holdCopy(dir string, index uint64, header []byte, r io.Reader, limit int64) (*heldCopy, error) {
	f, err := os.CreateTemp(dir, outgoingPrefix)
	if err != nil {
		return nil, fmt.Errorf("keep copy: %w", err)
	}
	c := &heldCopy{offer: offer{Header: header}, index: index, file: f}
	err = os.Remove(f.Name())
	if err == nil {
		err = c.fill(r, limit)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("keep copy: %w", err), f.Close())
	}
	return c, nil
}

func (c *heldCopy) fill(r io.Reader, limit int64) error {
	chunk := make([]byte, chunkBytes)
	for {
		n, err := io.ReadFull(r, chunk)
		if n > 0 {
			c.sums = append(c.sums, sha256.Sum256(chunk[:n]))
			c.offer.Size += int64(n)
			if c.offer.Size > limit {
				return fmt.Errorf("larger than the limit of %d bytes", limit)
			}
			if _, err := c.file.Write(chunk[:n]); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
			c.offer.ID = identify(c.sums)
			return nil
		case err != nil:
			return err
		}
	}
}

func (c *heldCopy) chunk(number uint32, buf []byte) ([]byte, error) {
	off := int64(number) * chunkBytes
	data := buf[:min(chunkBytes, c.offer.Size-off)]
	if _, err := c.file.ReadAt(data, off); err != nil {
		return nil, fmt.Errorf("%w: %w", errSource, err)
	}
	return data, nil
}

func (c *heldCopy) Close() error { return c.file.Close() }

var errSource = errors.New("read the copy to send")

// identify names a copy. The number of chunks goes into it, so that no copy is another's beginning.
func identify(sums []copyID) copyID {
	h := sha256.New()
	fmt.Fprintf(h, "drover copy of %d chunks\n", len(sums))
	for _, s := range sums {
		h.Write(s[:])
	}
	return copyID(h.Sum(nil))
}

// pacer bounds the bytes per second of all transfers of a member.
type pacer struct {
	rate int64 // bytes per second

	mu   sync.Mutex // guards next
	next time.Time  // when the bytes that were let through so far have had their time
}

// wait returns when n more bytes may go.
func (p *pacer) wait(ctx context.Context, n int) error {
	p.mu.Lock()
	now := time.Now()
	if p.next.Before(now) {
		p.next = now
	}
	due := p.next
	p.next = p.next.Add(time.Duration(float64(n) / float64(p.rate) * float64(time.Second)))
	p.mu.Unlock()
	return pause(ctx, due.Sub(now))
}

// pause waits for d, or for ctx and returns its error.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

func ignoreEnd(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
