package logfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// DefaultLimit is the size at which a file is rotated, in bytes: with three files a container stays near 20 MiB.
const DefaultLimit = 6 << 20

// Dir holds the logs of all containers: one directory for each assignment.
type Dir struct {
	Root  string
	Limit int64 // bytes of one file; 0: DefaultLimit
	// Free tells how many bytes the disk has left and in all; nil: asked of the disk.
	Free func(dir string) (free, all int64, err error)
}

func (d Dir) limit() int64 {
	if d.Limit <= 0 {
		return DefaultLimit
	}
	return d.Limit
}

// Path is where the container's shim appends to.
func (d Dir) Path(uid, name string) string { return filepath.Join(d.Root, uid, name+".log") }

func rotated(path string) string  { return path + ".1" }
func previous(path string) string { return strings.TrimSuffix(path, ".log") + ".prev.log" }

// Begin makes room for a new run: what is there becomes the previous run's log.
func (d Dir) Begin(uid, name string) error {
	p := d.Path(uid, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
		return fmt.Errorf("log: %w", err)
	}
	st, err := os.Stat(p)
	if errors.Is(err, fs.ErrNotExist) || err == nil && st.Size() == 0 {
		return nil
	}
	if err := os.Rename(p, previous(p)); err != nil {
		return fmt.Errorf("log: %w", err)
	}
	if err := os.Remove(rotated(p)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("log: %w", err)
	}
	return nil
}

// Forget deletes the logs of an assignment.
func (d Dir) Forget(uid string) error {
	if uid == "" || strings.ContainsAny(uid, "/\x00") || uid == "." || uid == ".." {
		return fmt.Errorf("log: %q is not a uid", uid)
	}
	return os.RemoveAll(filepath.Join(d.Root, uid))
}

// Rotate looks at every log once and rotates what is too large.
func (d Dir) Rotate() error {
	paths, err := filepath.Glob(filepath.Join(d.Root, "*", "*.log"))
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range paths {
		if st, err := os.Stat(p); err == nil && st.Size() > d.limit() && !strings.HasSuffix(p, ".prev.log") {
			errs = append(errs, d.rotate(p))
		}
	}
	return errors.Join(append(errs, d.trim())...)
}

// rotate keeps the last Limit bytes in NAME.log.1 and empties NAME.log.
func (d Dir) rotate(path string) error {
	in, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("rotate log: %w", err)
	}
	defer in.Close()
	st, err := in.Stat()
	if err == nil {
		_, err = in.Seek(max(st.Size()-d.limit(), 0), io.SeekStart)
	}
	if err != nil {
		return fmt.Errorf("rotate log: %w", err)
	}
	out, err := os.OpenFile(rotated(path)+".tmp", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("rotate log: %w", err)
	}
	_, err = io.Copy(out, io.LimitReader(in, 2*d.limit())) // bounded: the container may write on
	err = errors.Join(err, out.Close())
	if err == nil {
		err = os.Rename(rotated(path)+".tmp", rotated(path))
	}
	// Emptied even when the copy failed: a full disk is why this matters.
	if err := errors.Join(err, in.Truncate(0)); err != nil {
		return fmt.Errorf("rotate log: %w", err)
	}
	return nil
}
