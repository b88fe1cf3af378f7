package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/google/uuid"

	"github.com/drover-fleet/drover/consensus"
	"github.com/drover-fleet/drover/hub/enroll"
	"github.com/drover-fleet/drover/hub/registry"
	"github.com/drover-fleet/drover/store"
	"github.com/drover-fleet/drover/store/mvcc"
)

// What is done on a directory while no member runs on it. Both a restore and a reset end in another history: a higher epoch, in a
// group of one member with an identity of its own.

// An epoch's number is also a coarse time, so that two restores of one backup, neither of which knows of the other, get different
// numbers, and the later one the higher. It counts steps of two minutes since the start of 2026. A clock that is behind costs only that;
// one that is ahead is not followed past epochLast, which leaves room for a million restores and keeps revisions below 2^63.
const (
	epochUnit = 2 * time.Minute
	epochLast = 1<<23 - 1<<20
)

func epochZero() time.Time { return time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC) }

// nextEpoch is above the numbers given.
func nextEpoch(now time.Time, above ...uint32) uint32 {
	next := uint32(1)
	if n := now.Sub(epochZero()) / epochUnit; n > 0 {
		next = uint32(min(int64(n), epochLast))
	}
	for _, n := range above {
		next = max(next, n+1)
	}
	return next
}

// Turn is how the hub's history goes on in another epoch.
type Turn struct {
	ClusterID     string         `json:"clusterID"`
	Epoch         uint32         `json:"epoch"`
	EpochID       string         `json:"epochID"`
	Revision      store.Revision `json:"revision,string"` // the last of that epoch that is kept
	NextEpoch     uint32         `json:"nextEpoch"`
	NextEpochID   string         `json:"nextEpochID"`
	FirstRevision store.Revision `json:"firstRevision,string"` // of the next epoch
	Index         uint64         `json:"index"`                // entry at which the new group's log begins
	Devices       int            `json:"devices"`
	Workloads     int            `json:"workloads"`
	JoinTokens    int            `json:"joinTokens"` // used up or not
}

// turnOver makes the state in dir that of a new group of one member, in a new epoch. term must be above that of every entry in it.
func turnOver(ctx context.Context, dir string, id Identity, s *mvcc.Store, sealer *registry.Sealer, term uint64, above uint32) (Turn, error) {
	before := s.Epoch()
	if before.Number == 0 {
		return Turn{}, errors.New("it holds no state of a hub yet: there is nothing to go on from")
	}
	authority, err := enroll.Open(ctx, enroll.Options{Records: held{s}, Sealer: sealer})
	if err != nil {
		return Turn{}, fmt.Errorf("the CA's key does not open: is %s that of this hub? %w", fileSealing, err)
	}
	t := Turn{
		ClusterID: authority.ClusterID(), Epoch: before.Number, EpochID: before.ID, Revision: s.Revision(),
		NextEpoch: nextEpoch(time.Now(), before.Number, above), NextEpochID: uuid.NewString(), Index: s.Applied() + 1,
	}
	if err := t.count(ctx, s); err != nil {
		return t, err
	}
	t.FirstRevision = store.MakeRevision(t.NextEpoch, 0)
	cmd, err := store.EncodeCommand(&store.Command{
		Level: store.FormatLevel, Actor: "hub:" + id.Name, RequestID: uuid.NewString(), Time: time.Now().UnixNano(),
		NewEpoch: &store.Epoch{Number: t.NextEpoch, ID: t.NextEpochID},
	})
	if err != nil {
		return t, err
	}
	results, err := s.Apply([]mvcc.Entry{{Index: t.Index, Term: term, Commands: [][]byte{cmd}}})
	if err == nil {
		err = results[0][0].Err
	}
	if err != nil {
		return t, fmt.Errorf("begin epoch %d: %w", t.NextEpoch, err)
	}
	if err := s.Checkpoint(); err != nil { // the log begins after it: nothing else holds what was applied
		return t, err
	}
	return t, consensus.BootstrapAt(consensus.Config{Dir: dir, Self: id.member()}, t.Index, term)
}

func (t *Turn) count(ctx context.Context, s *mvcc.Store) error {
	for prefix, n := range map[string]*int{"devices/": &t.Devices, "workloads/": &t.Workloads, "jointokens/": &t.JoinTokens} {
		res, err := s.Range(ctx, store.RangeRequest{Start: prefix, End: store.PrefixEnd(prefix), Limit: 1})
		if err != nil {
			return err
		}
		*n = res.Count
	}
	return nil
}

// held reads records of a state that no member runs on.
type held struct{ s *mvcc.Store }

func (r held) Read(ctx context.Context, key string) ([]byte, bool, error) {
	res, err := r.s.Range(ctx, store.RangeRequest{Start: key})
	if err != nil || len(res.KVs) == 0 {
		return nil, false, err
	}
	return res.KVs[0].Value, true, nil
}

func (held) Create(context.Context, map[string][]byte) error {
	return errors.New("it holds no CA: the hub was never founded")
}

func (held) Put(context.Context, string, []byte) error {
	return errors.New("nothing is written to a state that no member runs on")
}

// copyFile copies a file that nobody has open for writing.
func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.Sync(), out.Close()); err != nil {
		return fmt.Errorf("copy %s: %w", from, err)
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
