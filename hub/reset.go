package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/drover-fleet/drover/client/backup"
	"github.com/drover-fleet/drover/consensus"
	"github.com/drover-fleet/drover/hub/registry"
	"github.com/drover-fleet/drover/hub/replica"
	"github.com/drover-fleet/drover/store/mvcc"
)

// A reset makes the new files aside, notes in fileReset that they are whole, and only then puts them in the place of the old: one that
// is cut off is undone by the next start before the note, and finished by it after.
const (
	folderReset = "reset.new"     // where the new raft.db and state are made
	fileReset   = "reset.json"    // the note
	folderOld   = "before-reset-" // and the new epoch's number: the files as they were
)

// resetMargin is how many bytes a reset needs besides a copy of the state.
const resetMargin = 16 << 20

// Reset says what a reset from a survivor keeps and drops, done or not.
type Reset struct {
	Turn
	Member    string          `json:"member"`
	Dropped   []backup.Member `json:"dropped"`
	StateAt   uint64          `json:"stateAt"`   // entry that the file state was at
	Replayed  uint64          `json:"replayed"`  // entries that the log had after it
	Commands  int             `json:"commands"`  // in them
	Committed uint64          `json:"committed"` // entry up to which the log knows that a majority had them
	Unproven  uint64          `json:"unproven"`  // entries after that, which are kept as well
	Learner   bool            `json:"learner"`   // it was still catching up
	Removed   bool            `json:"removed"`   // it had been taken out of the hub: it lacks whatever was written since
	Old       string          `json:"old"`       // where the files as they were are kept
}

// ResetOptions of ResetFromSurvivor.
type ResetOptions struct {
	DryRun     bool
	AboveEpoch uint32 // the new epoch's number is above it
}

// ResetFromSurvivor makes the member of a directory the only one of a new group with everything that it holds: what its state has, and
// every entry of its log. It is for a hub that has lost its majority for good. The cluster's CA, and with it the identity of the fleet, stays.
// Nothing in the directory changes before everything is made; a dry run makes everything and then throws it away.
func ResetFromSurvivor(ctx context.Context, path string, o ResetOptions) (r Reset, err error) {
	d := dir(path)
	id, err := d.loadIdentity()
	if err != nil {
		return r, err
	}
	lock, err := d.lock(lockWait)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := d.removeUnfinished(); err != nil {
		return r, err
	}
	log, err := d.survivor(id)
	if err != nil {
		return r, err
	}
	r = Reset{Member: id.Name, Committed: log.Committed, Learner: log.Learner, Removed: true}
	for _, m := range log.Members {
		if m.ID == log.ID {
			r.Removed = false
		} else {
			r.Dropped = append(r.Dropped, backup.Member{Name: m.Name, API: m.APIAddr, Peer: m.PeerAddr})
		}
	}
	if err := d.roomForReset(); err != nil {
		return r, err
	}
	if err := d.makeReset(ctx, id, log, o, &r); err != nil || o.DryRun {
		return r, errors.Join(err, os.RemoveAll(d.path(folderReset)))
	}
	note, err := json.Marshal(r.Turn)
	if err != nil {
		return r, err
	}
	if err := d.write(fileReset, note); err != nil {
		return r, err
	}
	if err := d.finishReset(); err != nil {
		return r, err
	}
	return r, d.noteForced(id.Name, "reset-from-survivor", fmt.Sprintf("goes on alone in epoch %d; %d members dropped", r.NextEpoch, len(r.Dropped)))
}

// survivor reads the log and refuses what cannot go on alone.
func (d dir) survivor(id Identity) (consensus.LogState, error) {
	if err := errors.Join(soundFile(d.path(fileLog)), soundFile(d.path(fileState))); err != nil {
		return consensus.LogState{}, fmt.Errorf("%w: it cannot be the survivor. Use another member, or a backup (drover-hub snapshot restore)", err)
	}
	log, err := consensus.ReadLog(string(d))
	switch {
	case err != nil:
		return log, err
	case log.Name != id.Name:
		return log, fmt.Errorf("%s belongs to member %q, not %q: is it a file of another directory?", d.path(fileLog), log.Name, id.Name)
	case len(log.Members) == 0:
		return log, fmt.Errorf("member %s was never given the hub's state: it cannot be the survivor. Use another member, or a backup (drover-hub snapshot restore)", id.Name)
	case len(log.Members) == 1 && log.Members[0].ID == log.ID:
		return log, fmt.Errorf("member %s is the only one of its group already: start it as it is", id.Name)
	}
	return log, nil
}

func (d dir) roomForReset() error {
	need := sizeOf(d.path(fileState)) + resetMargin
	if free, size := room(string(d)); size > 0 && free < need {
		return fmt.Errorf("%s: a reset needs %d MiB free beside the present files, and there are %d MiB: %w",
			d, (need+1<<20-1)>>20, free>>20, syscall.ENOSPC)
	}
	return nil
}

func (d dir) makeReset(ctx context.Context, id Identity, log consensus.LogState, o ResetOptions, r *Reset) (err error) {
	if err := os.Mkdir(d.path(folderReset), 0o700); err != nil {
		return err
	}
	aside := dir(d.path(folderReset))
	if err := copyFile(d.path(fileState), aside.path(fileState)); err != nil {
		return err
	}
	sealer, err := registry.OpenSealer(d.path(fileSealing))
	if err != nil {
		return err
	}
	s, err := mvcc.Open(aside.path(fileState), mvcc.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	r.StateAt = s.Applied()
	played, err := consensus.Replay(string(d), replica.Machine{Store: s}, s.Applied())
	if err != nil {
		return err
	}
	r.Replayed, r.Commands = s.Applied()-r.StateAt, played.Commands
	if s.Applied() > max(log.Committed, r.StateAt) {
		r.Unproven = s.Applied() - max(log.Committed, r.StateAt)
	}
	term := log.Term + 1
	if r.StateAt > log.Last {
		term += 1 << 32 // raft.db is older than the state, whose term is not known; terms are plenty
	}
	if r.Turn, err = turnOver(ctx, string(aside), id, s, sealer, term, o.AboveEpoch); err != nil {
		return err
	}
	r.Old = d.path(fmt.Sprintf("%s%d", folderOld, r.NextEpoch))
	return nil
}

// finishReset puts files that are noted to be whole into their places. Each step may be found done.
func (d dir) finishReset() error {
	note, err := d.read(fileReset)
	if err != nil {
		return fmt.Errorf("finish a reset: %w", err)
	}
	var t struct {
		NextEpoch uint32 `json:"nextEpoch"`
	}
	if err := json.Unmarshal(note, &t); err != nil {
		return fmt.Errorf("finish a reset: read %s: %w", d.path(fileReset), err)
	}
	old, aside := dir(d.path(fmt.Sprintf("%s%d", folderOld, t.NextEpoch))), dir(d.path(folderReset))
	if err := os.MkdirAll(string(old), 0o700); err != nil {
		return fmt.Errorf("finish a reset: %w", err)
	}
	for _, name := range []string{fileLog, fileState} {
		if !exists(aside.path(name)) {
			continue // it is in its place
		}
		if !exists(old.path(name)) {
			if err := os.Rename(d.path(name), old.path(name)); err != nil {
				return fmt.Errorf("finish a reset: %w", err)
			}
		}
		if err := os.Rename(aside.path(name), d.path(name)); err != nil {
			return fmt.Errorf("finish a reset: %w", err)
		}
	}
	if err := errors.Join(old.sync(), d.sync()); err != nil {
		return fmt.Errorf("finish a reset: %w", err)
	}
	return errors.Join(os.Remove(d.path(fileReset)), os.RemoveAll(string(aside)), d.sync())
}
