package power

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/drover-fleet/drover/consensus/raftlog"
	"github.com/drover-fleet/drover/store"
	"github.com/drover-fleet/drover/store/mvcc"
)

// smallDisk is a data directory of 64 MiB.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := memDir(t)
	if err := syscall.Mount("drover-power", dir, "tmpfs", 0, "size=64m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// ballast takes all the room there is but so many bytes, and returns how to give it back.
func ballast(t *testing.T, dir string, leave int64) (free func()) {
	t.Helper()
	path := filepath.Join(dir, "ballast")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		t.Fatal(err)
	}
	room := int64(fs.Bavail) * fs.Bsize                                              //nolint:gosec // a small disk
	if err := syscall.Fallocate(int(f.Fd()), 0, 0, max(room-leave, 1)); err != nil { //nolint:gosec // a descriptor
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

func noSpace(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("%s on a full disk: got %v, want it to say that no space is left", what, err)
	}
}

// TestF29StateOnAFullDiskStartsAgainOnceThereIsRoom fills the disk at every kind of write: what was checkpointed stands, what fails says
// why, the store serves reads meanwhile and goes on after a restart.
func TestF29StateOnAFullDiskStartsAgainOnceThereIsRoom(t *testing.T) {
	rng := rand.New(rand.NewPCG(testSeed(t), 0))
	dir := smallDisk(t)
	path := filepath.Join(dir, "state")
	full := func(what string, leave int64, do func() error) {
		t.Helper()
		free := ballast(t, dir, leave)
		noSpace(t, what, do())
		free()
	}
	full("making the file", 4<<10, func() error {
		s, err := mvcc.Open(path, mvcc.Options{})
		if err == nil {
			_ = s.Close()
		}
		return err
	})
	w := newScript(t, memDir(t), rng)
	defer w.close()
	s := reopen(t, nil, path)
	apply := func() error {
		if _, err := s.Apply([]mvcc.Entry{w.entry(s.Applied() + 1)}); err != nil {
			return err
		}
		return s.Checkpoint()
	}
	for range 4 {
		full("applying", int64(rng.IntN(3))<<12, func() error {
			for {
				if err := apply(); err != nil {
					return err
				}
			}
		})
		matches(t, w, s) // it serves reads, and takes nothing more
		noSpace(t, "after a checkpoint that failed, applying", apply())
		s = reopen(t, s, path)
		matches(t, w, s)
		for range 20 {
			if err := apply(); err != nil {
				t.Fatalf("with room again: %v", err)
			}
		}
		full("compacting the file", 64<<10, func() error {
			_, err := s.CompactFile(t.Context())
			return err
		})
		matches(t, w, s)
		full("a snapshot", 16<<10, func() error {
			_, r, err := s.Snapshot()
			if err != nil {
				return err
			}
			_, err = io.Copy(io.Discard, r)
			return errors.Join(err, r.Close())
		})
		index, copied := snapshot(t, s)
		full("restoring", 64<<10, func() error { return s.Restore(index, bytes.NewReader(copied)) })
		matches(t, w, s)
		if err := apply(); err != nil {
			t.Fatalf("with room again: %v", err)
		}
		if _, err := s.CompactFile(t.Context()); err != nil {
			t.Fatalf("with room again: %v", err)
		}
	}
	s = reopen(t, s, path)
	matches(t, w, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(left) != 1 {
		t.Errorf("got %v left in the directory, %v, want the state alone", left, err)
	}
}

func snapshot(t *testing.T, s *mvcc.Store) (uint64, []byte) {
	t.Helper()
	index, r, err := s.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
	return index, b
}

func reopen(t *testing.T, s *mvcc.Store, path string) *mvcc.Store {
	t.Helper()
	if s != nil {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	s, err := mvcc.Open(path, mvcc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func matches(t *testing.T, w *script, s *mvcc.Store) {
	t.Helper()
	if applied, hash := s.Hash(); hash != w.hashes[applied] {
		t.Errorf("contents at index %d differ", applied)
	}
	if err := s.Verify(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := s.Range(t.Context(), store.RangeRequest{End: "\xff"}); err != nil {
		t.Errorf("reading: %v", err)
	}
}

// TestF29LogOnAFullDiskStartsAgainOnceThereIsRoom: nothing acknowledged is lost, and nothing that failed is half there.
func TestF29LogOnAFullDiskStartsAgainOnceThereIsRoom(t *testing.T) {
	dir := smallDisk(t)
	path := filepath.Join(dir, "raft.db")
	free := ballast(t, dir, 4<<10)
	noSpace(t, "making the log", raftlog.Create(path, identity, &firstSeed, raftlog.Conf{}))
	free()
	if err := raftlog.Create(path, identity, &firstSeed, raftlog.Conf{}); err != nil {
		t.Fatal(err)
	}
	last := uint64(1)
	for round := range 4 {
		l, err := raftlog.Open(path)
		if err != nil {
			t.Fatalf("start %d: %v", round, err)
		}
		if got, _ := l.LastIndex(); got != last {
			t.Fatalf("start %d: got a log up to %d, want %d", round, got, last)
		}
		free := ballast(t, dir, int64(round)<<22)
		for err = nil; err == nil; {
			e := &pb.Entry{Index: new(last + 1), Term: new(uint64(1)), Data: make([]byte, 100_000)}
			if err = l.Append(raftlog.Batch{Entries: []*pb.Entry{e}}); err == nil {
				last++
			}
		}
		noSpace(t, "appending", err)
		if round%2 == 0 { // freed before it is started again, or after
			free()
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if round%2 == 1 {
			if l, err = raftlog.Open(path); err != nil {
				t.Errorf("start on a full disk: %v", err)
			} else if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			free()
		}
	}
	if last < 50 {
		t.Errorf("got %d entries in 64 MiB, want many", last)
	}
}

// TestF31FileStaysNearItsLiveDataUnderChurn: 200,000 rounds of put and delete with a reader held open most of the time, then one
// compaction of the file.
func TestF31FileStaysNearItsLiveDataUnderChurn(t *testing.T) {
	dir := memDir(t)
	path := filepath.Join(dir, "state")
	s := reopen(t, nil, path)
	index := uint64(0)
	command := func(c *store.Command) []byte {
		c.Level, c.Actor, c.RequestID = store.FormatLevel, "device:pi", fmt.Sprint(index)
		raw, err := store.EncodeCommand(c)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	apply := func(commands ...[]byte) {
		index++
		if _, err := s.Apply([]mvcc.Entry{{Index: index, Term: 1, Commands: commands}}); err != nil {
			t.Fatal(err)
		}
	}
	apply(command(&store.Command{NewEpoch: &store.Epoch{Number: 1, ID: "churn"}}))
	for i := range 4000 { // live data
		apply(command(&store.Command{Ops: []store.Op{{Type: store.OpPut, Key: fmt.Sprintf("live/%05d", i), Value: make([]byte, 2000)}}}))
	}
	_, held, err := s.Snapshot() // a reader, whose transaction ends once it is spooled
	if err != nil {
		t.Fatal(err)
	}
	const rounds, together = 200_000, 100
	for i := 0; i < rounds; i += together {
		var commands [][]byte
		for j := range together {
			key := fmt.Sprintf("churn/%d", (i+j)%500)
			commands = append(commands,
				command(&store.Command{Ops: []store.Op{{Type: store.OpPut, Key: key, Value: make([]byte, 200)}}}),
				command(&store.Command{Ops: []store.Op{{Type: store.OpDelete, Key: key}}}))
		}
		apply(commands...)
		if i%(10*together) == 0 {
			apply(command(&store.Command{Compact: s.Revision()}))
			trimAll(t, s, apply, command)
		}
	}
	apply(command(&store.Command{Compact: s.Revision()}))
	trimAll(t, s, apply, command)
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	sizes, err := s.CompactFile(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	u := s.Usage()
	if live := int64(u.Data + u.Journal); sizes.After > 3*live { //nolint:gosec // small
		t.Errorf("got a file of %d bytes (%d before) for %d bytes of live data, want at most three times as much", sizes.After, sizes.Before, live)
	}
	t.Logf("file %d bytes before and %d after, live data %d, journal %d", sizes.Before, sizes.After, u.Data, u.Journal)
	s = reopen(t, s, path)
	if err := errors.Join(s.Verify(t.Context()), s.Close()); err != nil {
		t.Error(err)
	}
}

// trimAll keeps the journal at a MiB beyond what must stay.
func trimAll(t *testing.T, s *mvcc.Store, apply func(...[]byte), command func(*store.Command) []byte) {
	t.Helper()
	for s.Usage().Journal > 2<<20 {
		before := s.Usage().Journal
		trim, err := s.PlanTrim(t.Context(), mvcc.TrimRule{MaxBytes: 1 << 20, Most: 20_000})
		if err != nil {
			t.Fatal(err)
		}
		if trim == nil {
			return
		}
		apply(command(&store.Command{Trim: trim}))
		if s.Usage().Journal >= before {
			t.Fatalf("a trim freed nothing")
		}
	}
}
