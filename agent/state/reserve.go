package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ReserveSize is what a Reserve keeps, in bytes: enough to write what an ordinary device keeps once more.
const ReserveSize = 1 << 20

// Reserve keeps space on the disk for the agent's own writes: without it the order to remove what fills the disk could not be
// stored. A File gives it up for a write that finds no space, and takes it again after a write that did. Not safe for
// concurrent use.
type Reserve struct{ path string }

// NewReserve names the file in dir. Nothing is taken yet.
func NewReserve(dir string) *Reserve { return &Reserve{filepath.Join(dir, "reserve")} }

// take makes the file, with real blocks, unless it is there. There is no harm in failing: a full disk is why.
func (r *Reserve) take() error {
	if st, err := os.Stat(r.path); err == nil && st.Size() == ReserveSize {
		return nil
	}
	f, err := os.OpenFile(r.path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	err = unix.Fallocate(int(f.Fd()), 0, 0, ReserveSize)
	if errors.Is(err, unix.EOPNOTSUPP) {
		_, err = f.WriteAt(make([]byte, ReserveSize), 0)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(fmt.Errorf("reserve: %w", err), os.Remove(r.path))
	}
	return nil
}

// give frees the space and tells whether there was any.
func (r *Reserve) give() bool { return os.Remove(r.path) == nil }

func noSpace(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// fill writes path, with the reserve's space if there is no other.
func (f *File) fill(path string, b []byte) error {
	err := writeSynced(path, b)
	if f.reserve == nil {
		return err
	}
	if noSpace(err) && f.reserve.give() {
		err = writeSynced(path, b)
	}
	return err
}

// refill takes the reserve again after a save.
func (f *File) refill() {
	if f.reserve == nil {
		return
	}
	_ = f.reserve.take() // no space now: the next save tries again
}
