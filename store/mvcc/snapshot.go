package mvcc

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/drover-fleet/drover/store"
)

// The stream of a snapshot, which equal contents make equal byte for byte:
//
//	magic
//	for each bucket: frameBucket, name; for each pair in key order: framePair, key, value (uvarint lengths)
//	frameEnd
//	SHA-256 of all before
const (
	snapshotMagic = "drover-snapshot/1\n"

	frameEnd    = 0
	frameBucket = 1
	framePair   = 2

	// No pair is larger: a journal record with its diff, or a version with its value, and room for their heads.
	maxPairKey   = 2 * store.MaxKeyBytes
	maxPairValue = store.MaxValueBytes + 16*store.MaxKeyBytes
)

// snapshot is an open copy. A goroutine of its own spools it to an unnamed file beside the state, so that however slowly
// it is read, the transaction that it is taken from is short.
type snapshot struct {
	owner   *Store
	aborted atomic.Pointer[error]
	done    chan struct{} // spooling has ended; file and err are set

	file *os.File
	err  error
	in   *bufio.Reader
}

// Snapshot opens a consistent copy as of the last applied index. Applying goes on meanwhile. The copy survives a Restore
// of the store once it is spooled; before that, reading it fails. Close frees it, and may be called at any time.
func (s *Store) Snapshot() (uint64, io.ReadCloser, error) {
	s.applyMu.Lock()
	defer s.applyMu.Unlock()
	at, err := s.begin()
	if err != nil {
		return 0, nil, err
	}
	file, err := spoolFile(s.path)
	if err != nil {
		at.close()
		return 0, nil, fmt.Errorf("snapshot: %w", err)
	}
	snap := &snapshot{owner: s, done: make(chan struct{}), file: file}
	s.snapshots[snap] = struct{}{}
	go snap.spool(at)
	return at.now.applied, snap, nil
}

// spoolFile makes a file without a name: it is gone whatever happens to us.
func spoolFile(statePath string) (*os.File, error) {
	f, err := os.CreateTemp(filepath.Dir(statePath), filepath.Base(statePath)+".spool-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// spool runs to its end once started; an abort shortens it.
func (p *snapshot) spool(at *reading) {
	defer close(p.done)
	out := bufio.NewWriterSize(p.file, 1<<16)
	p.err = writeSnapshot(at, out, func() error {
		if err := p.aborted.Load(); err != nil {
			return *err
		}
		return nil
	})
	at.close()
	if p.err == nil {
		p.err = out.Flush()
	}
	if p.err == nil {
		_, p.err = p.file.Seek(0, io.SeekStart)
	}
	p.in = bufio.NewReaderSize(p.file, 1<<16)
}

func (p *snapshot) Read(b []byte) (int, error) {
	<-p.done
	if p.err != nil {
		return 0, fmt.Errorf("snapshot: %w", p.err)
	}
	return p.in.Read(b)
}

func (p *snapshot) Close() error {
	p.abort(store.ErrClosed)
	p.owner.applyMu.Lock()
	delete(p.owner.snapshots, p)
	p.owner.applyMu.Unlock()
	if err := p.file.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("close snapshot: %w", err)
	}
	return nil
}

// abort returns when the snapshot holds no transaction any more.
func (p *snapshot) abort(err error) {
	p.aborted.CompareAndSwap(nil, &err)
	<-p.done
}

// abortSnapshots runs under applyMu.
func (s *Store) abortSnapshots() {
	for p := range s.snapshots {
		p.abort(store.ErrClosed)
	}
}

func writeSnapshot(at *reading, w io.Writer, stop func() error) error {
	digest := sha256.New()
	out := io.MultiWriter(w, digest)
	if _, err := io.WriteString(out, snapshotMagic); err != nil {
		return err
	}
	var head []byte
	for _, name := range allBuckets() {
		head = appendString(append(head[:0], frameBucket), name.String())
		if _, err := out.Write(head); err != nil {
			return err
		}
		pairs := 0
		err := at.view(name).forEach(func(k, v []byte) error {
			if pairs++; pairs%checkEvery == 0 {
				if err := stop(); err != nil {
					return err
				}
			}
			head = appendString(append(head[:0], framePair), k)
			head = binary.AppendUvarint(head, uint64(len(v)))
			if _, err := out.Write(head); err != nil {
				return err
			}
			_, err := out.Write(v)
			return err
		})
		if err != nil {
			return err
		}
	}
	if err := stop(); err != nil {
		return err
	}
	if _, err := out.Write([]byte{frameEnd}); err != nil {
		return err
	}
	_, err := w.Write(digest.Sum(nil))
	return err
}

var errSnapshot = errors.New("snapshot is damaged")

// snapshotReader takes frames off a stream. Nothing is allocated beyond the bounds of a pair.
type snapshotReader struct {
	in     *bufio.Reader
	digest hash.Hash
	one    [1]byte
}

func newSnapshotReader(r io.Reader) *snapshotReader {
	return &snapshotReader{in: bufio.NewReaderSize(r, 1<<16), digest: sha256.New()}
}

func damaged(what string, err error) error {
	if err == nil {
		return fmt.Errorf("%w: %s", errSnapshot, what)
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("%w: %s: %w", errSnapshot, what, err)
}

// ReadByte is for binary.ReadUvarint, and keeps the digest.
func (r *snapshotReader) ReadByte() (byte, error) {
	b, err := r.in.ReadByte()
	if err == nil {
		r.one[0] = b
		r.digest.Write(r.one[:])
	}
	return b, err
}

func (r *snapshotReader) full(b []byte) error {
	_, err := io.ReadFull(r.in, b)
	r.digest.Write(b)
	return err
}

func (r *snapshotReader) bytes(what string, most int) ([]byte, error) {
	n, err := binary.ReadUvarint(r)
	if err != nil {
		return nil, damaged(what, err)
	}
	if n > uint64(most) {
		return nil, damaged(fmt.Sprintf("%s of %d bytes, at most %d are possible", what, n, most), nil)
	}
	b := make([]byte, n)
	if err := r.full(b); err != nil {
		return nil, damaged(what, err)
	}
	return b, nil
}

func (r *snapshotReader) magic() error {
	b := make([]byte, len(snapshotMagic))
	if err := r.full(b); err != nil {
		return damaged("magic", err)
	}
	if string(b) != snapshotMagic {
		return damaged("it does not begin as one", nil)
	}
	return nil
}

// end checks the digest and that nothing follows it.
func (r *snapshotReader) end() error {
	want := r.digest.Sum(nil)
	got := make([]byte, len(want))
	if _, err := io.ReadFull(r.in, got); err != nil {
		return damaged("checksum", err)
	}
	if string(got) != string(want) {
		return damaged("checksum differs", nil)
	}
	switch _, err := r.in.ReadByte(); {
	case err == nil:
		return damaged("bytes follow its end", nil)
	case !errors.Is(err, io.EOF):
		return damaged("end", err)
	}
	return nil
}
