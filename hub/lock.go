package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// fileLock is held by whoever works on the directory. It holds the number of the process, for messages only.
const fileLock = "lock"

const (
	lockWait  = 3 * time.Second // enough for the overlap of a service's restart
	lockRetry = 50 * time.Millisecond
)

// lock makes this process the only one on the directory until the file is closed. The kernel lets go when a process dies.
func (d dir) lock(wait time.Duration) (io.Closer, error) {
	f, err := os.OpenFile(d.path(fileLock), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock directory: %w", err)
	}
	if err := flock(f, wait); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = ErrInUse
		}
		err = fmt.Errorf("%w: %s is in use by %s, and was for %s; two processes cannot work on one directory: end that one first", err, d, holder(f), wait)
		return nil, errors.Join(err, f.Close())
	}
	// Without room on the disk the message to others is less precise; the lock holds all the same.
	if err := f.Truncate(0); err == nil {
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())), 0)
	}
	return f, nil
}

func flock(f *os.File, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	tick := time.NewTicker(lockRetry)
	defer tick.Stop()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return err
		}
	}
}

func holder(f *os.File) string {
	var b [16]byte
	n, err := f.ReadAt(b[:], 0)
	if err != nil && !errors.Is(err, io.EOF) || n == 0 {
		return "another process"
	}
	pid := strings.TrimSpace(string(b[:n]))
	name, err := os.ReadFile("/proc/" + pid + "/comm")
	if err != nil {
		return "process " + pid
	}
	return fmt.Sprintf("process %s (%s)", pid, strings.TrimSpace(string(name)))
}
