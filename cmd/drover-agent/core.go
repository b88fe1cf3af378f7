package main

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// keepMemory has the kernel write no core file of this process, whatever the limits of whoever starts it and wherever cores go to: its memory
// holds secrets in clear. It also keeps other processes of the same user from reading it.
func keepMemory() error {
	err := errors.Join(
		unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0),
		unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}),
	)
	if err != nil {
		return fmt.Errorf("keep memory out of core files: %w", err)
	}
	return nil
}
