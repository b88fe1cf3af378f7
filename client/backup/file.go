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
	info, err = copyTo(f, r)
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

// copyTo tells a disk that fails from a backup that is damaged.
func copyTo(w io.Writer, r io.Reader) (Info, error) {
	to := &target{w: w}
	info, err := check(io.TeeReader(r, to))
	if to.err != nil {
		err = to.err
	}
	return info, err
}

// target remembers that writing failed: a reader cannot tell it from a stream that broke.
type target struct {
	w   io.Writer
	err error
}

func (t *target) Write(b []byte) (int, error) {
	n, err := t.w.Write(b)
	t.err = errors.Join(t.err, err)
	return n, err
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
