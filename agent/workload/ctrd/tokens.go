package ctrd

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-fleet/drover/agent/workload"
	"github.com/drover-fleet/drover/api/wire"
)

// A volume with tokens is a file system in memory of its own, mounted at Run/NAMESPACE/UID/VOLUME:
//
//	files/   what containers see, read-only
//	about/   what each file was asked for as, and until when it is good; one file for each, named by a hash of its path
//
// It is gone after a reboot, and it is never swapped out where the kernel can be told so (tmpfs with noswap, from Linux 6.4); elsewhere
// it is ramfs, which is never swapped either and has no size: nobody but the agent writes to it.
const (
	tokenSize = "1m" // of one volume
	maxAbout  = 4 << 10
	dirFiles  = "files"
	dirAbout  = "about"
	newFile   = "new"
)

// about is what is kept beside a file with a token.
type about struct {
	Path   string              `cbor:"1,keyasint"`
	Terms  workload.TokenTerms `cbor:"2,keyasint"`
	BootID string              `cbor:"3,keyasint"`
	Renew  time.Duration       `cbor:"4,keyasint"`
	Until  time.Duration       `cbor:"5,keyasint"`
}

func aboutName(p string) string {
	sum := sha256.Sum256([]byte(p))
	return path.Join(dirAbout, hex.EncodeToString(sum[:16]))
}

func (d *Driver) tokenRoot() string             { return filepath.Join(d.cfg.Run, Namespace(d.cfg.Device)) }
func (d *Driver) tokenDirs(uid string) string   { return filepath.Join(d.tokenRoot(), uid) }
func (d *Driver) tokenDir(uid, v string) string { return filepath.Join(d.tokenDirs(uid), v) }

// tokenVolume makes the memory ready and gives the directory that containers see.
func (d *Driver) tokenVolume(uid, volume string) (string, error) {
	dir := d.tokenDir(uid, volume)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("token volume: %w", err)
	}
	mounted, err := ownMemory(dir)
	if err == nil && !mounted {
		err = mountMemory(dir)
	}
	if err != nil {
		return "", fmt.Errorf("token volume %s: %w", dir, err)
	}
	for name, mode := range map[string]fs.FileMode{dirFiles: 0o755, dirAbout: 0o700} {
		sub := filepath.Join(dir, name)
		if err := os.Mkdir(sub, mode); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", fmt.Errorf("token volume: %w", err)
		}
		if err := os.Chmod(sub, mode); err != nil { // umask
			return "", fmt.Errorf("token volume: %w", err)
		}
	}
	return filepath.Join(dir, dirFiles), nil
}

// ownMemory tells whether dir is a file system in memory of its own.
func ownMemory(dir string) (bool, error) {
	var at, above unix.Stat_t
	var kind unix.Statfs_t
	if err := errors.Join(unix.Lstat(dir, &at), unix.Lstat(filepath.Dir(dir), &above), unix.Statfs(dir, &kind)); err != nil {
		return false, err
	}
	if at.Dev == above.Dev {
		return false, nil
	}
	if t := int64(kind.Type); t != unix.TMPFS_MAGIC && t != unix.RAMFS_MAGIC { //nolint:unconvert // 32 bits wide on 32-bit boards
		return false, fmt.Errorf("something else is mounted there (file system type %#x)", t)
	}
	return true, nil
}

func mountMemory(dir string) error {
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	err := unix.Mount("drover-tokens", dir, "tmpfs", flags, "mode=0700,noswap,size="+tokenSize)
	if errors.Is(err, unix.EINVAL) {
		err = unix.Mount("drover-tokens", dir, "ramfs", flags, "mode=0700")
	}
	if err != nil {
		return fmt.Errorf("mount memory: %w", err)
	}
	return nil
}

// PutToken implements workload.Tokens.
func (d *Driver) PutToken(_ context.Context, t workload.HeldToken, text []byte) error {
	if _, err := d.tokenVolume(t.UID, t.Volume); err != nil {
		return err
	}
	a, err := wire.Encode(about{t.Path, t.Terms, t.BootID, t.Renew, t.Until})
	if err != nil {
		return err
	}
	r, err := os.OpenRoot(d.tokenDir(t.UID, t.Volume))
	if err != nil {
		return fmt.Errorf("token volume: %w", err)
	}
	defer func() { _ = r.Close() }() // a directory
	file := path.Join(dirFiles, t.Path)
	if err := r.MkdirAll(path.Dir(file), 0o755); err != nil {
		return fmt.Errorf("token volume: %w", err)
	}
	// The file first: one that is newer than what stands beside it is only renewed early.
	if err := replace(r, aboutName(t.Path)+newFile, file, text, fs.FileMode(t.Terms.Mode)); err != nil {
		return err
	}
	return replace(r, aboutName(t.Path)+newFile, aboutName(t.Path), a, 0o600)
}

// replace writes a file under another name, and gives it its own in one step. It needs no sync: what the power takes is all of it.
func replace(r *os.Root, temp, name string, data []byte, mode fs.FileMode) error {
	err := r.WriteFile(temp, data, 0o600)
	if err == nil {
		err = r.Chmod(temp, mode&fs.ModePerm) // umask
	}
	if err == nil {
		err = r.Rename(temp, name)
	}
	if err != nil {
		return fmt.Errorf("token volume: %w", errors.Join(err, removed(r.Remove(temp))))
	}
	return nil
}

func removed(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// TokenFiles implements workload.Tokens. What cannot be read is left out, and so asked for anew.
func (d *Driver) TokenFiles(context.Context) ([]workload.HeldToken, error) {
	uids, err := os.ReadDir(d.tokenRoot())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("token files: %w", err)
	}
	var out []workload.HeldToken
	for _, u := range uids {
		volumes, err := os.ReadDir(d.tokenDirs(u.Name()))
		if err != nil {
			return nil, fmt.Errorf("token files: %w", err)
		}
		for _, v := range volumes {
			out = append(out, d.heldTokens(u.Name(), v.Name())...)
		}
	}
	return out, nil
}

func (d *Driver) heldTokens(uid, volume string) []workload.HeldToken {
	r, err := os.OpenRoot(d.tokenDir(uid, volume))
	if err != nil {
		return nil
	}
	defer func() { _ = r.Close() }() // a directory
	names, err := fs.ReadDir(r.FS(), dirAbout)
	if err != nil {
		return nil // nothing is mounted
	}
	var out []workload.HeldToken
	for _, n := range names {
		name := path.Join(dirAbout, n.Name())
		var a about
		b, err := r.ReadFile(name)
		if err != nil || wire.Decode(b, maxAbout, &a) != nil || aboutName(a.Path) != name {
			continue
		}
		if _, err := r.Stat(path.Join(dirFiles, a.Path)); err == nil {
			out = append(out, workload.HeldToken{TokenID: workload.TokenID{UID: uid, Volume: volume, Path: a.Path},
				Terms: a.Terms, BootID: a.BootID, Renew: a.Renew, Until: a.Until})
		}
	}
	return out
}

// DropToken implements workload.Tokens. The memory goes with the last file.
func (d *Driver) DropToken(_ context.Context, id workload.TokenID) error {
	dir := d.tokenDir(id.UID, id.Volume)
	r, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("token volume: %w", err)
	}
	err = errors.Join(removed(r.Remove(path.Join(dirFiles, id.Path))), removed(r.Remove(aboutName(id.Path))))
	left, _ := fs.ReadDir(r.FS(), dirAbout) // not there: nothing is left
	if err = errors.Join(err, r.Close()); err != nil {
		return fmt.Errorf("drop token: %w", err)
	}
	if len(left) > 0 {
		return nil
	}
	return d.dropTokenVolume(dir)
}

// dropTokenVolume gives the memory back. Containers that still see it keep it until they end.
func (d *Driver) dropTokenVolume(dir string) error {
	if mounted, err := ownMemory(dir); err != nil || mounted {
		if err == nil {
			err = unix.Unmount(dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		}
		if err != nil {
			return fmt.Errorf("token volume %s: %w", dir, err)
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("token volume: %w", err)
	}
	return removed(ignoreFull(os.Remove(filepath.Dir(dir))))
}

// ignoreFull: another volume of the assignment is there.
func ignoreFull(err error) error {
	if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) {
		return nil
	}
	return err
}

// forgetTokens removes all of an assignment.
func (d *Driver) forgetTokens(uid string) error {
	volumes, err := os.ReadDir(d.tokenDirs(uid))
	if err != nil {
		return removed(err)
	}
	var errs []error
	for _, v := range volumes {
		errs = append(errs, d.dropTokenVolume(d.tokenDir(uid, v.Name())))
	}
	return errors.Join(errs...)
}
