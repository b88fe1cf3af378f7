package backup

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Info is a backup that was read to its end and found whole.
type Info struct {
	Header Header            `json:"header"`
	Bytes  int64             `json:"bytes"` // of the state's own snapshot
	SHA256 [sha256.Size]byte `json:"-"`
}

// Save copies a backup from a stream to a new file, readable by its owner alone. The file has its name only once it is whole, checked
// and synced; an existing one is never replaced (fs.ErrExist).
func Save(path string, r io.Reader) (info Info, err error) {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			err = fs.ErrExist
		}
		return info, fmt.Errorf("save to %s: %w", path, err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-")
	if err != nil {
		return info, fmt.Errorf("save to %s: %w", path, err)
	}
	defer func() { _ = os.Remove(f.Name()) }() // gone or linked to its name
	info, err = check(io.TeeReader(r, f))
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return info, fmt.Errorf("save to %s: %w", path, err)
	}
	if err := os.Link(f.Name(), path); err != nil { // unlike a rename it refuses a name that came up meanwhile
		return info, fmt.Errorf("save to %s: %w", path, err)
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return info, fmt.Errorf("save to %s: %w", path, err)
	}
	return info, errors.Join(d.Sync(), d.Close())
}

// Check reads a file to its end.
func Check(path string) (Info, error) {
	f, err := os.Open(path)
	if err != nil {
		return Info{}, err
	}
	defer f.Close()
	info, err := check(f)
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return info, err
}

func check(r io.Reader) (Info, error) {
	b, err := NewReader(r)
	if err != nil {
		return Info{}, err
	}
	if _, err := io.Copy(io.Discard, b); err != nil {
		return Info{Header: b.Header}, err
	}
	return Info{Header: b.Header, Bytes: b.Size(), SHA256: b.Sum()}, nil
}
