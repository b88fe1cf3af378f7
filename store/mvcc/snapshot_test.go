package mvcc

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/drover-fleet/drover/store"
)

func (b *bench) snapshot() (uint64, []byte) {
	b.Helper()
	index, r, err := b.s.Snapshot()
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	raw, err := io.ReadAll(r)
	if err != nil {
		b.Fatal(err)
	}
	return index, raw
}

func TestEqualContentsMakeEqualSnapshots(t *testing.T) {
	b := newBench(t)
	b.write(put("a", "1"), put("b", "1"))
	b.write(del("a"))
	index, raw := b.snapshot()
	to := &bench{T: t, s: openAt(t, filepath.Join(t.TempDir(), "state"))}
	if err := to.s.Restore(index, bytes.NewReader(raw)); err != nil {
		t.Fatal(err)
	}
	if _, again := to.snapshot(); !bytes.Equal(raw, again) {
		t.Errorf("got %d bytes from the copy, want the same %d", len(again), len(raw))
	}
	if err := to.s.Close(); err != nil {
		t.Fatal(err)
	}
	to.s = openAt(t, to.s.path)
	compareHashes(t, b.s, to.s)
}

// resealed gives a snapshot that was changed the checksum that fits.
func resealed(raw []byte) []byte {
	body := raw[:len(raw)-sha256.Size]
	sum := sha256.Sum256(body)
	return append(bytes.Clone(body), sum[:]...)
}

func TestADamagedSnapshotChangesNothing(t *testing.T) {
	b := newBench(t)
	b.write(put("a", "value of a"), put("b", "1"))
	index, raw := b.snapshot()
	to := newBench(t)
	to.write(put("mine", "1"))
	_, before := to.s.Hash()
	rng := rand.New(rand.NewPCG(testSeed(t), 2))
	try := func(what string, index uint64, raw []byte) {
		if err := to.s.Restore(index, bytes.NewReader(raw)); !errors.Is(err, errSnapshot) {
			t.Errorf("%s: got error %v, want %v", what, err, errSnapshot)
		}
	}
	try("empty", index, nil)
	try("other index", index+1, raw)
	try("right checksum, other value", index, resealed(bytes.Replace(raw, []byte("value of a"), []byte("VALUE of a"), 1)))
	try("more after its end", index, append(bytes.Clone(raw), 0))
	for range 30 {
		n := rng.IntN(len(raw))
		try(fmt.Sprintf("cut at %d", n), index, raw[:n])
		flipped := bytes.Clone(raw)
		flipped[n] ^= byte(1 << rng.IntN(8))
		try(fmt.Sprintf("flipped at %d", n), index, flipped)
	}
	if _, after := to.s.Hash(); after != before {
		t.Errorf("got hash %x, want that of before %x", after, before)
	}
	to.write(put("mine", "2"))
	if _, err := os.Stat(to.s.path + restoreSuffix); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v for the file aside, want it gone", err)
	}
}

func TestARestoreEndsWatchersAndFailsUnreadSnapshotsNotReaders(t *testing.T) {
	b := newBench(t)
	b.write(put("a", "1"))
	index, raw := b.snapshot()
	w, err := b.s.Watch(t.Context(), store.WatchRequest{Start: "a"})
	if err != nil {
		t.Fatal(err)
	}
	_, open, err := b.s.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if err := b.s.Restore(index, bytes.NewReader(raw)); err != nil {
		t.Fatal(err)
	}
	_, err = w.Next(t.Context())
	wantErr(t, "watcher", err, store.ErrCompacted)
	// Either it was spooled in time and is whole, or it says that it is not.
	if got, err := io.ReadAll(open); err == nil && !bytes.Equal(got, raw) || err != nil && !errors.Is(err, store.ErrClosed) {
		t.Errorf("got %d bytes and %v from a snapshot across a restore, want all %d or ErrClosed", len(got), err, len(raw))
	}
	if err := open.Close(); err != nil {
		t.Error(err)
	}

	other := newBench(t)
	other.must(&store.Command{NewEpoch: &store.Epoch{Number: 2, ID: "second"}})
	index, raw = other.snapshot()
	if w, err = b.s.Watch(t.Context(), store.WatchRequest{Start: "a"}); err != nil {
		t.Fatal(err)
	}
	if err := b.s.Restore(index, bytes.NewReader(raw)); err != nil {
		t.Fatal(err)
	}
	_, err = w.Next(t.Context())
	wantErr(t, "watcher across epochs", err, store.ErrOtherEpoch)
}

// TestAnUnreadSnapshotHoldsUpNothing writes more than the file has room for, which bbolt can only map once no transaction
// is open.
func TestAnUnreadSnapshotHoldsUpNothing(t *testing.T) {
	b := newBench(t)
	b.write(put("a", "1"))
	index, r, err := b.s.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	for i := range 8 {
		b.write(put(fmt.Sprint("big", i), strings.Repeat(fmt.Sprint(i), store.MaxValueBytes)))
	}
	to := openAt(t, filepath.Join(t.TempDir(), "state"))
	if err := to.Restore(index, r); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	got, err := to.Range(t.Context(), store.RangeRequest{End: "\xff"})
	if err != nil || got.Count != 1 {
		t.Errorf("got %v, %v, want only what was there when the snapshot was opened", got, err)
	}
}

func TestAClosedStoreSaysSo(t *testing.T) {
	b := newBench(t)
	_, r, err := b.s.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := b.s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	_, err = b.s.Range(t.Context(), store.RangeRequest{Start: "a"})
	wantErr(t, "range", err, store.ErrClosed)
	_, err = b.s.Watch(t.Context(), store.WatchRequest{Start: "a"})
	wantErr(t, "watch", err, store.ErrClosed)
	_, err = b.s.Apply([]Entry{{Index: 2, Term: 9}})
	wantErr(t, "apply", err, store.ErrClosed)
	_, _, err = b.s.Snapshot()
	wantErr(t, "snapshot", err, store.ErrClosed)
	wantErr(t, "restore", b.s.Restore(1, strings.NewReader("")), store.ErrClosed)
}

// TestReadersAndWatchersSeeWholeSetsWhileWritesGoOn: each set writes one value to every key, so two values in one read or
// batch would be half a set.
func TestReadersAndWatchersSeeWholeSetsWhileWritesGoOn(t *testing.T) {
	b := newBench(t)
	const sets, keys = 60, 5
	write := func(n int) {
		var ops []store.Op
		for k := range keys {
			ops = append(ops, put(fmt.Sprint("k/", k), fmt.Sprint(n)))
		}
		b.write(ops...)
	}
	write(0)
	ctx, stop := context.WithCancel(t.Context())
	var others sync.WaitGroup
	for range 2 {
		others.Go(func() {
			for ctx.Err() == nil {
				got, err := b.s.Range(t.Context(), store.RangeRequest{Start: "k/", End: "k0"})
				if err != nil || !uniform(got.KVs, keys) {
					t.Errorf("got %v, %v, want %d equal values", got, err, keys)
					return
				}
			}
		})
	}
	others.Go(func() {
		for ctx.Err() == nil {
			index, r, err := b.s.Snapshot()
			if err != nil {
				t.Error(err)
				return
			}
			if n, err := io.Copy(io.Discard, r); err != nil {
				t.Errorf("snapshot at %d after %d bytes: %v", index, n, err)
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	var watchers sync.WaitGroup
	for range 4 {
		w, err := b.s.Watch(ctx, store.WatchRequest{Start: "k/", End: "k0", From: rev(1)})
		if err != nil {
			t.Fatal(err)
		}
		watchers.Go(func() {
			for n := range sets {
				batch, err := w.Next(ctx)
				var kvs []store.KV
				for _, e := range batch.Events {
					kvs = append(kvs, e.KV)
				}
				if err != nil || !uniform(kvs, keys) || string(kvs[0].Value) != fmt.Sprint(n) {
					t.Errorf("batch %d: got %v, %v", n, batch, err)
					return
				}
			}
		})
	}
	for n := 1; n < sets; n++ {
		write(n)
	}
	watchers.Wait()
	b.must(&store.Command{Compact: b.s.Revision()}) // under the readers' feet
	write(sets)
	stop()
	others.Wait()
}

func uniform(kvs []store.KV, n int) bool {
	for _, kv := range kvs {
		if string(kv.Value) != string(kvs[0].Value) {
			return false
		}
	}
	return len(kvs) == n
}

func closeNow(t testing.TB, s *Store) {
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// FuzzRestore gives the input a right checksum, so that what lies behind it is reached too.
func FuzzRestore(f *testing.F) {
	s, err := Open(filepath.Join(f.TempDir(), "state"), Options{})
	if err != nil {
		f.Fatal(err)
	}
	defer closeNow(f, s)
	m := newModel()
	for index := uint64(1); index < 12; index++ {
		e, commands := entryFor(1, index, m)
		for _, g := range commands {
			m.apply(g.command, e.Term)
		}
		if _, err := s.Apply([]Entry{e}); err != nil {
			f.Fatal(err)
		}
	}
	_, r, err := s.Snapshot()
	if err != nil {
		f.Fatal(err)
	}
	raw, err := io.ReadAll(r)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw[:len(raw)-sha256.Size])
	f.Add([]byte(snapshotMagic))
	f.Fuzz(func(t *testing.T, body []byte) {
		sum := sha256.Sum256(body)
		db, now, _, err := s.restoreAside(11, io.MultiReader(bytes.NewReader(body), bytes.NewReader(sum[:])))
		if err != nil {
			return
		}
		// What was let in can be used.
		to := &Store{path: s.path, db: db, now: now}
		if _, err := to.Range(t.Context(), store.RangeRequest{End: "\xff"}); err != nil {
			t.Error(err)
		}
		if err := to.Verify(t.Context()); err != nil {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
}

func BenchmarkApply(b *testing.B) {
	for _, batch := range []int{1, 100} {
		b.Run(fmt.Sprint(batch, " commands in a call"), func(b *testing.B) {
			s, err := Open(filepath.Join(b.TempDir(), "state"), Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer closeNow(b, s)
			first := encoded(&store.Command{NewEpoch: &store.Epoch{Number: 1, ID: "bench"}}, 1, 0).raw
			if _, err := s.Apply([]Entry{{Index: 1, Term: 1, Commands: [][]byte{first}}}); err != nil {
				b.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(1, 1))
			index := uint64(1)
			for b.Loop() {
				index++
				e := Entry{Index: index, Term: 1}
				for i := range batch {
					op := put(fmt.Sprint("bench/", rng.IntN(100_000)), fmt.Sprintf("%0256d", index))
					e.Commands = append(e.Commands, encoded(&store.Command{Ops: []store.Op{op}}, index, i).raw)
				}
				if _, err := s.Apply([]Entry{e}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N*batch)/b.Elapsed().Seconds(), "commands/s")
		})
	}
}

func BenchmarkRange(b *testing.B) {
	s, err := Open(filepath.Join(b.TempDir(), "state"), Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer closeNow(b, s)
	c := &store.Command{}
	for i := range 10_000 {
		c.Ops = append(c.Ops, put(fmt.Sprintf("bench/%05d", i), fmt.Sprintf("%0256d", i)))
	}
	raw := [][]byte{
		encoded(&store.Command{NewEpoch: &store.Epoch{Number: 1, ID: "bench"}}, 1, 0).raw, encoded(c, 1, 1).raw,
	}
	if _, err := s.Apply([]Entry{{Index: 1, Term: 1, Commands: raw}}); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		got, err := s.Range(b.Context(), store.RangeRequest{Start: "bench/05", End: "bench/06"})
		if err != nil || len(got.KVs) != 1000 {
			b.Fatal(got, err)
		}
	}
}
