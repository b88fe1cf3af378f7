package backup

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"
)

const (
	magic = "drover-backup/1\n"
	// MaxHeader bounds the header's line, in bytes.
	MaxHeader = 64 << 10
	maxChunk  = 64 << 10
)

// ErrDamaged is wrapped by every error about the bytes of a backup.
var ErrDamaged = errors.New("this is no whole backup of a hub")

// Header says what a backup is of.
type Header struct {
	ClusterID string    `json:"clusterID"`
	Epoch     uint32    `json:"epoch"`
	EpochID   string    `json:"epochID"`
	Revision  uint64    `json:"revision"` // newest in it
	Index     uint64    `json:"index"`    // of the log's entry as of which it holds
	Term      uint64    `json:"term"`     // not below that of the entry
	Member    string    `json:"member"`   // that it was taken from
	Members   []Member  `json:"members"`  // of the hub at the time
	Version   string    `json:"version"`  // of Drover
	Time      time.Time `json:"time"`     // by the member's clock
}

// Member is one member of the hub that the backup is of.
type Member struct {
	Name string `json:"name"`
	API  string `json:"api"`
	Peer string `json:"peer"`
}

func (h *Header) validate() error {
	if h.ClusterID == "" || h.EpochID == "" || h.Epoch == 0 || h.Index == 0 || h.Term == 0 {
		return fmt.Errorf("%w: its header lacks cluster, epoch, index or term", ErrDamaged)
	}
	return nil
}

// Write writes a backup of the state that body holds.
func Write(w io.Writer, h Header, body io.Reader) error {
	line, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("backup header: %w", err)
	}
	if len(line) >= MaxHeader {
		return fmt.Errorf("backup header of %d bytes, at most %d are allowed", len(line), MaxHeader)
	}
	digest := sha256.New()
	out := io.MultiWriter(w, digest)
	if _, err := out.Write(append(append([]byte(magic), line...), '\n')); err != nil {
		return err
	}
	chunk := make([]byte, 4+maxChunk)
	for {
		n, err := io.ReadFull(body, chunk[4:])
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return err
		}
		binary.BigEndian.PutUint32(chunk, uint32(n))
		if _, err := out.Write(chunk[:4+n]); err != nil {
			return err
		}
		if n == 0 {
			break
		}
		if err != nil { // the last chunk; its end follows
			_, err := out.Write([]byte{0, 0, 0, 0})
			if err != nil {
				return err
			}
			break
		}
	}
	_, err = w.Write(digest.Sum(nil))
	return err
}

// Reader reads the state out of a backup. It ends with io.EOF only when everything was there and the checksum is right; a caller
// that stops before has verified nothing.
type Reader struct {
	Header Header

	in     *bufio.Reader
	digest hash.Hash
	left   int // bytes of the present chunk
	size   int64
	sum    [sha256.Size]byte
	err    error // what the next Read returns once left is 0
}

// NewReader reads the header.
func NewReader(r io.Reader) (*Reader, error) {
	b := &Reader{in: bufio.NewReaderSize(r, MaxHeader), digest: sha256.New()}
	head := make([]byte, len(magic))
	if _, err := io.ReadFull(b.in, head); err != nil || string(head) != magic {
		return nil, fmt.Errorf("%w: it does not begin as one", ErrDamaged)
	}
	line, err := b.in.ReadSlice('\n')
	if err != nil {
		return nil, fmt.Errorf("%w: header: %w", ErrDamaged, cut(err))
	}
	b.digest.Write(head)
	b.digest.Write(line)
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&b.Header); err != nil {
		return nil, fmt.Errorf("%w: header: %w", ErrDamaged, err)
	}
	return b, b.Header.validate()
}

// Read reads the state's own bytes.
func (b *Reader) Read(p []byte) (int, error) {
	if b.left == 0 && b.err == nil {
		b.err = b.next()
	}
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.in.Read(p[:min(len(p), b.left)])
	b.digest.Write(p[:n])
	b.left -= n
	b.size += int64(n)
	if err != nil {
		b.err = fmt.Errorf("%w: %w", ErrDamaged, cut(err))
		return n, b.err
	}
	return n, nil
}

// next begins a chunk, or ends the backup.
func (b *Reader) next() error {
	var head [4]byte
	if _, err := io.ReadFull(b.in, head[:]); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, cut(err))
	}
	b.digest.Write(head[:])
	n := binary.BigEndian.Uint32(head[:])
	switch {
	case n > maxChunk:
		return fmt.Errorf("%w: a chunk of %d bytes, at most %d are possible", ErrDamaged, n, maxChunk)
	case n > 0:
		b.left = int(n)
		return nil
	}
	want := b.digest.Sum(nil)
	if _, err := io.ReadFull(b.in, b.sum[:]); err != nil {
		return fmt.Errorf("%w: checksum: %w", ErrDamaged, cut(err))
	}
	if !bytes.Equal(want, b.sum[:]) {
		return fmt.Errorf("%w: its checksum differs", ErrDamaged)
	}
	if _, err := b.in.ReadByte(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: bytes follow its end", ErrDamaged)
	}
	return io.EOF
}

// Sum is the checksum over all before it, once Read has returned io.EOF.
func (b *Reader) Sum() [sha256.Size]byte { return b.sum }

// Size is how many bytes of the state were read.
func (b *Reader) Size() int64 { return b.size }

// cut says of an early end that it is one.
func cut(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
