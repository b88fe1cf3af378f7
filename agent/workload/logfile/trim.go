package logfile

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// What logs leave free of their disk: a twentieth, within bounds. A log that meets a full disk is lost from then on, and its
// container stands still once it has written some more.
const (
	leastFree = 1 << 20
	mostFree  = 64 << 20
	share     = 20
	// keptTail is what stays of a log that is cut, in bytes.
	keptTail = 64 << 10
)

// free asks the disk.
func free(dir string) (free, all int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, 0, err
	}
	return int64(st.Bavail) * int64(st.Bsize), int64(st.Blocks) * int64(st.Bsize), nil //nolint:unconvert // Bsize is 32 bits wide on some platforms
}

// trim makes room when the disk is short of it: first go the logs of earlier runs and rotated parts, the largest first, then the
// beginnings of the others.
func (d Dir) trim() error {
	ask := d.Free
	if ask == nil {
		ask = free
	}
	short := func() (bool, error) {
		left, all, err := ask(d.Root)
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil // no log yet
		}
		if err != nil {
			return false, fmt.Errorf("trim logs: %w", err)
		}
		return left < min(max(all/share, leastFree), mostFree), nil
	}
	if yes, err := short(); !yes || err != nil {
		return err
	}
	old, live, err := d.bySize()
	if err != nil {
		return err
	}
	for i, path := range slices.Concat(old, live) {
		if i < len(old) {
			err = os.Remove(path)
		} else {
			err = cut(path)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("trim logs: %w", err)
		}
		if yes, err := short(); !yes || err != nil {
			return err
		}
	}
	return nil
}

// bySize lists what nobody writes to any more, and what containers write to, the largest first.
func (d Dir) bySize() (old, live []string, err error) {
	paths, err := filepath.Glob(filepath.Join(d.Root, "*", "*.log*"))
	if err != nil {
		return nil, nil, err
	}
	sizes := map[string]int64{}
	for _, p := range paths {
		st, err := os.Stat(p)
		switch {
		case err != nil:
		case strings.HasSuffix(p, ".log") && !strings.HasSuffix(p, ".prev.log"):
			live, sizes[p] = append(live, p), st.Size()
		default:
			old, sizes[p] = append(old, p), st.Size()
		}
	}
	larger := func(a, b string) int { return cmp.Compare(sizes[b], sizes[a]) }
	slices.SortStableFunc(old, larger)
	slices.SortStableFunc(live, larger)
	return old, live, nil
}

// cut keeps the end of a log that its container goes on appending to.
func cut(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || st.Size() <= keptTail {
		return err
	}
	tail := make([]byte, keptTail)
	n, err := f.ReadAt(tail, st.Size()-keptTail)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err = f.Write(tail[:n])
	return err
}
