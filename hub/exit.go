package hub

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/consensus/raftlog"
)

// Exit codes of drover-hub besides those of the classes of api/fault. A supervisor should start again after none of them but ExitInUse and ExitDiskFull.
const (
	ExitInUse       = 10 // another process works on the directory
	ExitWrongDir    = 11 // the directory is no member's, or another's
	ExitDiskFull    = 12
	ExitHistoryOver = 13 // the hub goes on in a later history
	ExitHubExists   = 14 // a new hub was to be founded where one seems to be
)

// Errors that callers branch on.
var (
	ErrInUse    = errors.New("the directory is in use")
	ErrWrongDir = errors.New("wrong directory")
)

// ExitCode is what a process that worked on a member's directory exits with.
func ExitCode(err error) int {
	switch {
	case errors.Is(err, ErrInUse), errors.Is(err, raftlog.ErrLocked):
		return ExitInUse
	case errors.Is(err, ErrWrongDir):
		return ExitWrongDir
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return ExitDiskFull
	case errors.Is(err, ErrHistoryOver):
		return ExitHistoryOver
	case errors.Is(err, ErrHubExists):
		return ExitHubExists
	}
	return fault.ExitCode(err)
}

// Advice is what to do about an error, where its own message cannot say; "" is nothing.
func Advice(err error) string {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return "the disk is full: nothing that was acknowledged is lost. Make room on it and start again; drover-hub doctor shows how much is needed"
	}
	return ""
}

func (d dir) notDirectory() error {
	return fmt.Errorf("%w: %s is a file, or below one: name the directory of a member", ErrWrongDir, d)
}

// notMember says what a directory without a member.json is instead.
func (d dir) notMember() error {
	entries, err := os.ReadDir(string(d))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %s does not exist: is its disk mounted? --init founds a new hub there, --join joins one", ErrWrongDir, d)
	case err != nil:
		return fmt.Errorf("read directory: %w", err)
	}
	var files []string
	for _, e := range entries {
		switch e.Name() {
		case fileLock, "lost+found":
		case fileRestoring:
			return fmt.Errorf("%w: a restore into %s was cut off: repeat it (drover-hub snapshot restore)", ErrWrongDir, d)
		default:
			files = append(files, e.Name())
		}
	}
	switch {
	case len(files) == 0:
		return fmt.Errorf("%w: %s is empty, so it belongs to no hub member: is its disk mounted? --init founds a new hub, --join joins one", ErrWrongDir, d)
	case exists(d.path(fileLog)) || exists(d.path(fileState)):
		return fmt.Errorf("%w: %s belongs to no hub member yet: it holds %s but no %s. If --init or --join was cut off, repeat it", ErrWrongDir, d, few(files), fileMember)
	}
	return fmt.Errorf("%w: %s belongs to no hub member yet: it holds %s. --init founds a new hub, --join joins one, both in an empty directory", ErrWrongDir, d, few(files))
}

func few(names []string) string {
	if len(names) > 3 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:3], ", "), len(names)-3)
	}
	return strings.Join(names, ", ")
}
