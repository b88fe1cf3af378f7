package logfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

// Options select a part of a log.
type Options struct {
	Follow   bool
	Tail     int64 // lines from the end; negative: all
	Previous bool
}

// Open reads a container's log. With Follow the reader goes on, over rotations and restarts of the container, until ctx ends; a
// read then gives io.EOF. A container that wrote nothing yet has an empty log.
func (d Dir) Open(ctx context.Context, uid, name string, o Options) (io.ReadCloser, error) {
	path := d.Path(uid, name)
	if o.Previous {
		path, o.Follow = previous(path), false
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) && o.Previous {
		return nil, fmt.Errorf("container %s has no log of an earlier run", name)
	}
	r := &reader{ctx: ctx, path: path, follow: o.Follow}
	if err := r.open(o.Tail); err != nil {
		return nil, err
	}
	return r, nil
}

type reader struct {
	ctx    context.Context
	path   string
	follow bool
	older  *os.File // rotated part, read first
	f      *os.File // nil: not there yet
	at     int64
}

// open places the reader tail lines before the end.
func (r *reader) open(tail int64) error {
	var err error
	if r.f, err = openIfThere(r.path); err != nil {
		return err
	}
	if r.older, err = openIfThere(rotated(r.path)); err != nil {
		return err
	}
	if tail < 0 {
		return nil
	}
	left := tail
	if r.f != nil {
		if r.at, left, err = seekLines(r.f, tail); err != nil {
			return err
		}
	}
	if r.older == nil {
		return nil
	}
	if left == 0 {
		err = r.older.Close()
		r.older = nil
		return err
	}
	_, _, err = seekLines(r.older, left)
	return err
}

func openIfThere(path string) (*os.File, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	return f, nil
}

// seekLines places f so that n lines follow, and gives the offset and how many lines were not found.
func seekLines(f *os.File, n int64) (at, left int64, err error) {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil || n == 0 {
		return size, 0, err
	}
	buf := make([]byte, 32<<10)
	end := size
	for end > 0 {
		k := min(int64(len(buf)), end)
		if _, err := f.ReadAt(buf[:k], end-k); err != nil {
			return 0, 0, fmt.Errorf("log: %w", err)
		}
		for i := k - 1; i >= 0; i-- {
			if buf[i] != '\n' || end-k+i == size-1 {
				continue
			}
			if n--; n == 0 {
				at = end - k + i + 1
				_, err = f.Seek(at, io.SeekStart)
				return at, 0, err
			}
		}
		end -= k
	}
	if size > 0 {
		n--
	}
	_, err = f.Seek(0, io.SeekStart)
	return 0, max(n, 0), err
}

const followPause = 250 * time.Millisecond

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	for {
		if r.ctx.Err() != nil {
			return 0, io.EOF
		}
		n, err := r.once(p)
		if n > 0 || err != nil && !errors.Is(err, io.EOF) {
			return n, err
		}
		if !r.follow {
			return 0, io.EOF
		}
		if err := r.turn(); err != nil {
			return 0, err
		}
		t := time.NewTimer(followPause)
		select {
		case <-t.C:
		case <-r.ctx.Done():
			t.Stop()
			return 0, io.EOF
		}
	}
}

func (r *reader) once(p []byte) (int, error) {
	if r.older != nil {
		n, err := r.older.Read(p)
		if n > 0 || err != nil && !errors.Is(err, io.EOF) {
			return n, err
		}
		_ = r.older.Close()
		r.older = nil
	}
	if r.f == nil {
		return 0, io.EOF
	}
	n, err := r.f.Read(p)
	r.at += int64(n)
	return n, err
}

// turn finds out whether the file was emptied (rotation) or replaced (a new run).
func (r *reader) turn() error {
	now, err := os.Stat(r.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("log: %w", err)
	}
	if r.f != nil {
		st, err := r.f.Stat()
		if err != nil {
			return fmt.Errorf("log: %w", err)
		}
		if os.SameFile(st, now) {
			if now.Size() < r.at {
				r.at, err = r.f.Seek(0, io.SeekStart)
			}
			return err
		}
		_ = r.f.Close()
	}
	r.at = 0
	r.f, err = openIfThere(r.path)
	return err
}

// Close implements io.Closer.
func (r *reader) Close() error {
	var errs []error
	for _, f := range []*os.File{r.older, r.f} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}
