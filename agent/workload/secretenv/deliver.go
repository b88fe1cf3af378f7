package secretenv

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// MakeFIFO makes the pipe at path, unless it is there. Its directory is closed to everyone but root, since the pipe itself
// must be readable by any user of the container.
func MakeFIFO(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if err := unix.Mkfifo(path, 0o644); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make pipe %s: %w", path, err)
	}
	return os.Chmod(path, 0o644) // umask
}

// Deliver writes the variables into the pipe at path once a process waits for them. When waiting reports false and nobody
// waits, there is nobody to deliver to: delivered before, or ended. It reports whether it delivered.
func Deliver(ctx context.Context, path string, vars []Var, waiting func(context.Context) (bool, error)) (bool, error) {
	frame, err := encode(vars)
	if err != nil {
		return false, err
	}
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		// Asked before the attempt: if the process stopped waiting in between, it has what it needs.
		wait, err := waiting(ctx)
		if err != nil {
			return false, err
		}
		done, err := try(path, frame)
		if done || err != nil {
			return done, err
		}
		if !wait {
			return false, nil
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return false, fmt.Errorf("nobody took the secret variables: %w", ctx.Err())
		}
	}
}

// try delivers if somebody has the pipe open for reading.
func try(path string, frame []byte) (bool, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ENXIO) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("open pipe: %w", err)
	}
	defer f.Close()
	if err := f.SetWriteDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return false, fmt.Errorf("pipe: %w", err)
	}
	if _, err := f.Write(frame); errors.Is(err, unix.EPIPE) {
		return false, nil // it ended, or had a whole frame from an earlier life of the agent
	} else if err != nil {
		return false, fmt.Errorf("write to pipe: %w", err)
	}
	return true, nil
}
