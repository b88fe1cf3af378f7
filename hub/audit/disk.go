package audit

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// disk is what a log asks of the file system; tests have one that fails.
type disk interface {
	open(path string, create bool) (file, error) // for appending; create: it must be new
	reserve(path string, bytes int64) error
	remove(path string) error
	setAside(path string) error // renames a file that must not be written to, or written over
	syncDir(path string) error
}

type file interface {
	io.WriteCloser
	Sync() error
	Truncate(size int64) error
}

type osDisk struct{}

func (osDisk) open(path string, create bool) (file, error) {
	flags := os.O_WRONLY | os.O_APPEND
	if create {
		flags |= os.O_CREATE | os.O_EXCL
	}
	return os.OpenFile(path, flags, 0o600)
}

// reserve makes a file that takes up the bytes. File systems that cannot allocate are written to.
func (osDisk) reserve(path string, bytes int64) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			_ = os.Remove(path)
		}
	}()
	err = unix.Fallocate(int(f.Fd()), 0, 0, bytes)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		_, err = f.Write(make([]byte, bytes))
	}
	if err != nil {
		return fmt.Errorf("reserve %d bytes: %w", bytes, err)
	}
	return nil
}

func (osDisk) remove(path string) error { return os.Remove(path) }

func (osDisk) setAside(path string) error {
	for n := 1; ; n++ {
		to := fmt.Sprintf("%s.aside-%d", path, n)
		err := os.Link(path, to) // unlike a rename it takes no other file's place
		if errors.Is(err, os.ErrExist) {
			continue
		}
		if err != nil {
			return err
		}
		return os.Remove(path)
	}
}

func (osDisk) syncDir(path string) error {
	d, err := os.Open(filepath.Clean(path))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
