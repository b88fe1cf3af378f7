package consensus

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"
)

// partCopy is what a receiver has of a copy. It outlives connections, not the process.
type partCopy struct {
	offer  offer
	file   *os.File
	sums   []copyID
	have   []bool
	left   int   // chunks missing
	moved  int64 // bytes received, over all connections
	began  time.Time
	parked time.Time // when the last connection ended
}

var errWriteCopy = errors.New("write the received copy")

func newPartCopy(dir string, o offer) (*partCopy, error) {
	f, err := os.CreateTemp(dir, incomingPrefix)
	if err != nil {
		return nil, fmt.Errorf("receive snapshot: %w", err)
	}
	n := o.chunks()
	return &partCopy{offer: o, file: f, sums: make([]copyID, n), have: make([]bool, n), left: n, began: time.Now()}, nil
}

// offset is how far the copy is here without a gap, in bytes.
func (p *partCopy) offset() int64 {
	n := p.next(0)
	return min(int64(n)*chunkBytes, p.offer.Size)
}

// next is the first missing chunk from n on, or the number of chunks.
func (p *partCopy) next(n int) int {
	for n < len(p.have) && p.have[n] {
		n++
	}
	return n
}

// drop forgets the copy.
func (p *partCopy) drop() error {
	return errors.Join(p.file.Close(), os.Remove(p.file.Name()))
}

// fill asks for what is missing until nothing is. The file need not be durable: until it is installed it can be sent again.
func (p *partCopy) fill(s *stream) error {
	w := window{size: 2, sent: map[int]time.Time{}}
	cursor, failed := 0, map[int]int{}
	buf := make([]byte, 4+sha256.Size+chunkBytes)
	for p.left > 0 {
		for len(w.sent) < w.size {
			if cursor = p.next(cursor); cursor == len(p.have) {
				break
			}
			if err := w.want(s, cursor); err != nil {
				return err
			}
			cursor++
		}
		number, ok, err := p.take(s, buf, w.sent)
		if err != nil {
			return err
		}
		w.arrived(number)
		if ok {
			continue
		}
		if failed[number]++; failed[number] > maxRepeat {
			return fmt.Errorf("chunk %d: %w", number, errDamaged)
		}
		if err := w.want(s, number); err != nil {
			return err
		}
	}
	if identify(p.sums) != p.offer.ID {
		return fmt.Errorf("the whole of it: %w", errDamaged)
	}
	return nil
}

// take receives one of the chunks that are wanted; ok is false if it is damaged.
func (p *partCopy) take(s *stream, buf []byte, wanted map[int]time.Time) (number int, ok bool, err error) {
	kind, body, err := s.receive(len(buf), buf)
	if err != nil {
		return 0, false, err
	}
	if kind != kindChunk || len(body) <= 4+sha256.Size {
		return 0, false, fmt.Errorf("%w: kind %d of %d bytes for a chunk", errProtocol, kind, len(body))
	}
	number = int(binary.BigEndian.Uint32(body))
	if _, asked := wanted[number]; !asked {
		return 0, false, fmt.Errorf("%w: chunk %d, which nobody asked for", errProtocol, number)
	}
	sum, data := copyID(body[4:4+sha256.Size]), body[4+sha256.Size:]
	off := int64(number) * chunkBytes
	p.moved += int64(len(data))
	if int64(len(data)) != min(chunkBytes, p.offer.Size-off) || sha256.Sum256(data) != sum {
		return number, false, nil
	}
	if _, err := p.file.WriteAt(data, off); err != nil {
		return 0, false, fmt.Errorf("%w: %w", errWriteCopy, err)
	}
	p.sums[number], p.have[number] = sum, true
	p.left--
	return number, true, nil
}

// window is how many chunks are asked for ahead. It grows while they come at once and shrinks while they queue on the way, so
// that heartbeats, which share the link, do not wait behind them.
type window struct {
	size int
	sent map[int]time.Time // wanted and not arrived
}

// Chunks should be on their way for no less than soon and no more than late. Two keep a link busy; on one where they take very
// long, one at a time does.
const (
	soonChunk     = 50 * time.Millisecond
	lateChunk     = 200 * time.Millisecond
	veryLateChunk = time.Second
)

func (w *window) want(s *stream, number int) error {
	w.sent[number] = time.Now()
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], uint32(number))
	return s.send(kindWant, b[:])
}

func (w *window) arrived(number int) {
	switch took := time.Since(w.sent[number]); {
	case took < soonChunk:
		w.size = min(w.size+1, maxWants)
	case took > veryLateChunk:
		w.size = 1
	case took > lateChunk:
		w.size = max(w.size-1, 2)
	}
	delete(w.sent, number)
}
