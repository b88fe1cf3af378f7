package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/drover-fleet/drover/client/backup"
	"github.com/drover-fleet/drover/hub/registry"
	"github.com/drover-fleet/drover/store"
	"github.com/drover-fleet/drover/store/mvcc"
)

// fileRestoring lies in a directory while a restore is under way: what is there without a member.json is the restore's own then.
const fileRestoring = "restoring"

// maxKeyFile bounds a file of sealing keys, in bytes.
const maxKeyFile = 16 << 10

// Restore says what a restore makes and what is lost by it, done or not.
type Restore struct {
	Turn
	Member string        `json:"member"`
	From   backup.Header `json:"from"`
	Bytes  int64         `json:"bytes"` // of the state in the backup
}

// RestoreOptions of RestoreBackup. File, Key and Identity are required.
type RestoreOptions struct {
	File, Key  string // the backup, and the sealing key that goes with it
	Identity   Identity
	AboveEpoch uint32 // the new epoch's number is above it
	DryRun     bool
}

// RestoreBackup makes an empty directory that of the first member of a hub that goes on from a backup, in a new epoch. It may be repeated
// until it has succeeded once. A dry run does the same in a folder beside it, and removes it.
func RestoreBackup(ctx context.Context, path string, o RestoreOptions) (r Restore, err error) {
	if err := o.Identity.Validate(); err != nil {
		return r, err
	}
	if o.DryRun {
		if exists(path) {
			if err := dir(path).check("snapshot restore", dir(path).restoreKeeps()); err != nil {
				return r, err
			}
		}
		aside, err := os.MkdirTemp(filepath.Dir(filepath.Clean(path)), ".restore-dry-run-")
		if err != nil {
			return r, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(aside)) }()
		return dir(aside).restore(ctx, o)
	}
	d := dir(path)
	lock, err := d.prepare("snapshot restore", d.restoreKeeps()...)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := d.write(fileRestoring, []byte("a restore is under way; repeat it if it was cut off\n")); err != nil {
		return r, err
	}
	for _, name := range restoreFiles() {
		if err := os.Remove(d.path(name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return r, err
		}
	}
	if r, err = d.restore(ctx, o); err != nil {
		return r, err
	}
	id := o.Identity
	id.ClusterID = r.ClusterID
	if err := d.saveIdentity(id); err != nil {
		return r, err
	}
	if err := errors.Join(os.Remove(d.path(fileRestoring)), d.sync()); err != nil {
		return r, err
	}
	return r, d.noteForced(id.Name, "restore", fmt.Sprintf("from a backup of %s at %s, in epoch %d", r.From.Member, r.From.Time.UTC().Format(time.RFC3339), r.NextEpoch))
}

func restoreFiles() []string {
	return []string{fileSealing, fileLog, fileState, fileState + ".restore", fileState + ".new", fileState + ".shrink"}
}

// restoreKeeps are the files that an earlier restore may have left: only where it said so.
func (d dir) restoreKeeps() []string {
	if !exists(d.path(fileRestoring)) {
		return nil
	}
	return append(restoreFiles(), fileRestoring)
}

// restore makes everything but what says that the directory is a member's.
func (d dir) restore(ctx context.Context, o RestoreOptions) (r Restore, err error) {
	r.Member = o.Identity.Name
	sealer, err := d.installKey(o.Key)
	if err != nil {
		return r, err
	}
	f, err := os.Open(o.File)
	if err != nil {
		return r, err
	}
	defer f.Close()
	in, err := backup.NewReader(f)
	if err != nil {
		return r, fmt.Errorf("%s: %w", o.File, err)
	}
	r.From = in.Header
	s, err := mvcc.Open(d.path(fileState), mvcc.Options{})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := s.Restore(in.Header.Index, in); err != nil {
		return r, fmt.Errorf("%s: %w", o.File, err)
	}
	if _, err := io.Copy(io.Discard, in); err != nil { // its own checksum stands after the state's end
		return r, fmt.Errorf("%s: %w", o.File, err)
	}
	r.Bytes = in.Size()
	if e := s.Epoch(); e.Number != in.Header.Epoch || e.ID != in.Header.EpochID || uint64(s.Revision()) != in.Header.Revision {
		return r, fmt.Errorf("%s: %w: its header is of revision %d and the state in it of %d", o.File, backup.ErrDamaged, in.Header.Revision, s.Revision())
	}
	if err := canOpen(ctx, s, sealer); err != nil {
		return r, fmt.Errorf("%s: %w", o.File, err)
	}
	r.Turn, err = turnOver(ctx, string(d), o.Identity, s, sealer, in.Header.Term+1, o.AboveEpoch)
	if err == nil && r.ClusterID != in.Header.ClusterID {
		err = fmt.Errorf("%s: %w: its header is of cluster %s and the state in it of %s", o.File, backup.ErrDamaged, in.Header.ClusterID, r.ClusterID)
	}
	return r, err
}

// canOpen demands a key for every value that stands in a backup: a hub that starts without one would find out object by object.
func canOpen(ctx context.Context, s store.Reader, sealer *registry.Sealer) error {
	counts, err := registry.SealedValues(ctx, s)
	if err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(counts)) {
		if !sealer.Has(id) {
			return fmt.Errorf("%d values in the backup are sealed by the key %s, and the key file has only %s: give the file that drover-hub key export wrote when the backup was taken",
				counts[id], id, strings.Join(sealer.IDs(), ", "))
		}
	}
	return nil
}

func (d dir) installKey(file string) (*registry.Sealer, error) {
	text, err := readSmall(file, maxKeyFile)
	if err != nil {
		return nil, fmt.Errorf("sealing key: %w", err)
	}
	sealer, err := registry.InstallSealer(d.path(fileSealing), text)
	if err != nil {
		return nil, fmt.Errorf("sealing key %s: %w", file, err)
	}
	return sealer, nil
}

func readSmall(file string, most int64) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(b)) > most {
		err = fmt.Errorf("%s is larger than %d bytes: it is another file", file, most)
	}
	return b, err
}

// ExportKey copies the sealing key of a member to a new file that only its owner can read. With it and a backup a hub is restored; whoever
// has both can read its secrets. Nothing of it is printed.
func ExportKey(path, file string) error {
	d := dir(path)
	if _, err := d.loadIdentity(); err != nil {
		return err
	}
	if exists(file) {
		return fmt.Errorf("%s exists already and is not replaced: name another file", file)
	}
	sealer, err := registry.OpenSealer(d.path(fileSealing))
	if err != nil {
		return err
	}
	_, err = registry.InstallSealer(file, sealer.Export())
	return err
}
