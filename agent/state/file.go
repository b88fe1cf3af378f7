package state

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Layout of a file: magic (8 bytes), payload length (8 bytes, big endian), SHA-256 of the payload (32 bytes), payload.
const (
	magic      = "DROVER\x00\x01"
	headerSize = 8 + 8 + sha256.Size
	keptBad    = 4 // files set aside per name, the oldest is overwritten
)

// Origin says which copy a Load returned.
type Origin int

// The origins, best first.
const (
	None     Origin = iota // no readable copy
	Current                // the file itself
	Unplaced               // a complete temporary file whose rename was lost: as new as the file itself would be
	Previous               // the copy before the last save
)

func (o Origin) String() string {
	return [...]string{"none", "current", "unplaced", "previous"}[o]
}

// Loaded is what a Load found.
type Loaded struct {
	Payload  []byte // nil when Origin is None
	Origin   Origin
	Problems []error // one for each copy that was bad, with where it was set aside
}

// Lost says that there was something and none of it could be read: unlike a file that never was.
func (l Loaded) Lost() bool { return l.Origin == None && len(l.Problems) > 0 }

// File is one crash-safe file and its previous good copy, NAME.prev. Not safe for concurrent use.
type File struct {
	path    string
	max     int64
	saved   []byte // payload of the current file when known to be good
	current bool   // saved is valid
	reserve *Reserve
}

// NewFile names a file whose payload is at most limit bytes. Nothing is read yet.
func NewFile(dir, name string, limit int64) *File {
	return &File{path: filepath.Join(dir, name), max: limit}
}

// With makes the file use a reserve, which several files may share.
func (f *File) With(r *Reserve) *File {
	f.reserve = r
	return f
}

// Load reads the newest good copy. Bad copies are renamed to NAME.bad-N. It fails only when the directory itself cannot be
// used; a bad file is no error.
func (f *File) Load() (Loaded, error) {
	var out Loaded
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		return out, fmt.Errorf("state directory: %w", err)
	}
	for _, c := range []struct {
		path   string
		origin Origin
	}{{f.path, Current}, {f.path + ".tmp", Unplaced}, {f.path + ".prev", Previous}} {
		p, err := f.read(c.path)
		switch {
		case err == nil:
			out.Payload, out.Origin = p, c.origin
			f.saved, f.current = p, c.origin == Current
			if c.origin == Unplaced { // before the next save overwrites it
				f.current = os.Rename(c.path, f.path) == nil && syncDir(filepath.Dir(f.path)) == nil
			}
			return out, nil
		case errors.Is(err, fs.ErrNotExist):
		case c.origin == Unplaced: // a save that never finished; nothing was promised about it
			_ = os.Remove(c.path)
		default:
			out.Problems = append(out.Problems, fmt.Errorf("%w; %s", err, f.setAside(c.path)))
		}
	}
	return out, nil
}

// Save makes payload the current copy and the one before it the previous copy. It returns once both are on disk. A payload
// equal to the current copy writes nothing.
func (f *File) Save(payload []byte) error {
	if f.current && bytes.Equal(payload, f.saved) {
		return nil
	}
	return f.write(payload)
}

// Rotate writes payload even when it equals the current copy, so that current and previous are both of it.
func (f *File) Rotate(payload []byte) error { return f.write(payload) }

func (f *File) write(payload []byte) error {
	if int64(len(payload)) > f.max {
		return fmt.Errorf("save %s: %d bytes, the limit is %d", filepath.Base(f.path), len(payload), f.max)
	}
	tmp := f.path + ".tmp"
	if err := f.fill(tmp, frame(payload)); err != nil {
		_ = os.Remove(tmp) // gives the space back; what is current stays
		return fmt.Errorf("save %s: %w", filepath.Base(f.path), err)
	}
	if f.current {
		// Between the two renames only NAME.tmp and NAME.prev exist; Load knows.
		if err := os.Rename(f.path, f.path+".prev"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("keep previous %s: %w", filepath.Base(f.path), err)
		}
	}
	if err := os.Rename(tmp, f.path); err != nil {
		return fmt.Errorf("save %s: %w", filepath.Base(f.path), err)
	}
	if err := syncDir(filepath.Dir(f.path)); err != nil {
		return fmt.Errorf("save %s: %w", filepath.Base(f.path), err)
	}
	f.saved, f.current = bytes.Clone(payload), true
	f.refill()
	return nil
}

// LoadPrevious reads the previous copy alone. A missing or bad one is nil.
func (f *File) LoadPrevious() []byte {
	p, err := f.read(f.path + ".prev")
	if err != nil {
		return nil
	}
	return p
}

func (f *File) read(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, f.max+headerSize+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", filepath.Base(path), err)
	}
	p, err := unframe(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	return p, nil
}

// setAside renames a bad file so that a person can look at it, keeping at most keptBad of them.
func (f *File) setAside(path string) string {
	slot, oldest := 0, int64(1<<62)
	for i := range keptBad {
		st, err := os.Stat(f.badName(i))
		if err != nil {
			slot = i
			break
		}
		if t := st.ModTime().UnixNano(); t < oldest {
			slot, oldest = i, t
		}
	}
	to := f.badName(slot)
	if err := os.Rename(path, to); err == nil {
		return "set aside as " + filepath.Base(to)
	}
	if err := os.Remove(path); err != nil {
		return "left where it is, since the disk cannot be written"
	}
	return "removed, since it could not be set aside"
}

func (f *File) badName(i int) string { return fmt.Sprintf("%s.bad-%d", f.path, i) }

func frame(payload []byte) []byte {
	b := make([]byte, 0, headerSize+len(payload))
	b = append(b, magic...)
	b = binary.BigEndian.AppendUint64(b, uint64(len(payload)))
	sum := sha256.Sum256(payload)
	b = append(b, sum[:]...)
	return append(b, payload...)
}

func unframe(b []byte) ([]byte, error) {
	if len(b) < headerSize {
		return nil, fmt.Errorf("torn: %d bytes, a header alone has %d", len(b), headerSize)
	}
	if string(b[:8]) != magic {
		return nil, errors.New("not a Drover state file: wrong magic")
	}
	n, p := binary.BigEndian.Uint64(b[8:16]), b[headerSize:]
	if n != uint64(len(p)) {
		return nil, fmt.Errorf("torn: %d bytes of payload, the header says %d", len(p), n)
	}
	if sum := sha256.Sum256(p); !bytes.Equal(sum[:], b[16:headerSize]) {
		return nil, errors.New("checksum does not match")
	}
	return p, nil
}

func writeSynced(path string, b []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(b)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
