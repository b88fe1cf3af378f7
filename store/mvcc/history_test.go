package mvcc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/drover-fleet/drover/store"
	"github.com/drover-fleet/drover/store/watch"
)

// past writes a little of everything: keys that come, change, go and come again, and sets that do several of these at once. It
// returns what was written as a watcher of everything from the beginning must see it.
func (b *bench) past() []store.Batch {
	b.Helper()
	var out []store.Batch
	for _, ops := range [][]store.Op{
		{put("a", "1")},
		{put("b", "1"), put("c", "1"), put("d", "1")},
		{del("a")},
		{put("a", "2"), del("b")},
		{put("c", "2")},
		{del("c"), del("d")},
		{put("b", "3"), put("c", "3")},
		{del("c")},
	} {
		res := b.write(ops...)
		batch := store.Batch{Revision: res.Revision}
		for i, op := range ops {
			batch.Events = append(batch.Events, store.Event{Type: op.Type, KV: store.KV{Key: op.Key, Value: op.Value, ModRevision: res.Revisions[i]}})
		}
		out = append(out, batch)
	}
	return out
}

// TestAWatchFromAnyRevisionAfterAnyCompactionIsWholeOrRefused tries them all: whatever was compacted, a watch that begins gets every
// event from where it begins, deletions and the rest of the set that it begins in included; where one would be missing it is
// refused.
func TestAWatchFromAnyRevisionAfterAnyCompactionIsWholeOrRefused(t *testing.T) {
	for compact := uint64(0); compact <= 13; compact++ {
		b := newBench(t)
		want := b.past()
		wantEqual(t, "revision", b.s.Revision(), rev(13))
		if compact > 0 {
			b.must(&store.Command{Compact: rev(compact)})
		}
		oldest := b.s.Compacted() // rounded down to the end of a set
		for from := uint64(1); from <= 14; from++ {
			what := fmt.Sprintf("compacted to %d of 13, watch from %d", compact, from)
			w, err := b.s.Watch(t.Context(), store.WatchRequest{End: "\xff", From: rev(from)})
			if rev(from) <= oldest {
				wantErr(t, what, err, store.ErrCompacted)
				continue
			}
			if err != nil {
				t.Errorf("%s: %v", what, err)
				continue
			}
			for _, due := range want {
				if due.Revision < rev(from) {
					continue
				}
				got, err := w.Next(t.Context())
				if err != nil || got.Revision != due.Revision || events(got) != events(due) {
					t.Errorf("%s: got %s, %v, want %s", what, events(got), err, events(due))
					break
				}
			}
			w.Close()
		}
	}
}

func events(b store.Batch) string {
	out := fmt.Sprint(b.Revision.Counter(), ":")
	for _, e := range b.Events {
		out += fmt.Sprintf(" %d %s=%s@%d", e.Type, e.KV.Key, e.KV.Value, e.KV.ModRevision.Counter())
	}
	return out
}

// TestRevisionStaysWhenWhatHadItIsCompacted: the newest write deleted the last key, and no record of it is left. The store goes on
// from its revision all the same, and so does one that is opened again.
func TestRevisionStaysWhenWhatHadItIsCompacted(t *testing.T) {
	b := newBench(t)
	b.write(put("a", "1"))
	b.write(del("a"))
	b.must(&store.Command{Compact: rev(2)})
	wantEqual(t, "revision after the compaction", b.s.Revision(), rev(2))
	path := b.s.path
	if err := errors.Join(b.s.Checkpoint(), b.s.Close()); err != nil {
		t.Fatal(err)
	}
	b.s = openAt(t, path)
	wantEqual(t, "revision once opened again", b.s.Revision(), rev(2))
	wantEqual(t, "records kept", b.count(bucketRev), 0)
	wantEqual(t, "revision of the next write", b.write(put("b", "1")).Revision, rev(3))
}

// TestAWatcherOvertakenByACompactionIsToldAndSkipsNothing: it has read a part of the past when the rest of it goes.
func TestAWatcherOvertakenByACompactionIsToldAndSkipsNothing(t *testing.T) {
	s, err := Open(filepath.Join(t.TempDir(), "state"), Options{Watch: watch.Options{MaxEvents: 1}}) // a page of the past is one set
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	b := &bench{T: t, s: s, term: 5}
	b.must(&store.Command{NewEpoch: &store.Epoch{Number: 1, ID: "first"}})
	b.past()
	w, err := b.s.Watch(t.Context(), store.WatchRequest{End: "\xff", From: rev(1)})
	if err != nil {
		t.Fatal(err)
	}
	first, err := w.Next(t.Context())
	if err != nil || first.Revision != rev(1) {
		t.Fatalf("got %s, %v, want the first write", events(first), err)
	}
	b.must(&store.Command{Compact: rev(13)})
	last := first.Revision
	for {
		next, err := w.Next(t.Context())
		if errors.Is(err, store.ErrCompacted) {
			return
		}
		if err != nil || next.Events[0].KV.ModRevision != last+1 {
			t.Fatalf("after %d: got %s, %v, want the next revision, or to be told that it is gone", last.Counter(), events(next), err)
		}
		last = next.Revision
	}
}

// TestFileCompactionRestoreAndCheckpointsAtOnceLeaveOneWholeFile: each replaces the file, or writes to it. Whoever comes first, the
// contents are those of the log, in memory and once opened again.
func TestFileCompactionRestoreAndCheckpointsAtOnceLeaveOneWholeFile(t *testing.T) {
	b := newBench(t)
	b.past()
	index, r, err := b.s.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	image, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
	want := b.all(0)
	const times = 8
	var all sync.WaitGroup
	try := func(what string, do func() error) {
		all.Go(func() {
			for range times {
				if err := do(); err != nil {
					t.Errorf("%s: %v", what, err)
				}
			}
		})
	}
	try("compact the file", func() error { _, err := b.s.CompactFile(t.Context()); return err })
	try("checkpoint", b.s.Checkpoint)
	try("restore", func() error { return b.s.Restore(index, bytes.NewReader(image)) })
	try("read", func() error {
		got, err := b.s.Range(t.Context(), store.RangeRequest{End: "\xff"})
		if err == nil && len(got.KVs) != 2 {
			err = fmt.Errorf("got %d keys, want 2", len(got.KVs))
		}
		return err
	})
	all.Wait()
	b.write(put("z", "after"))
	want += " z=after"
	wantEqual(t, "contents", b.all(0), want)
	path := b.s.path
	if err := errors.Join(b.s.Checkpoint(), b.s.Verify(t.Context()), b.s.Close()); err != nil {
		t.Fatal(err)
	}
	b.s = openAt(t, path)
	wantEqual(t, "contents once opened again", b.all(0), want)
	left, err := filepath.Glob(path + "*")
	if err != nil || len(left) != 1 {
		t.Errorf("got %v, %v beside the state, want it alone", left, err)
	}
}

// TestAMarkComesAfterAllThatItMarks: watchers catch up, go live and fall behind while others write and marks are due at every
// moment. A mark is never below where a watcher stands, and never ahead of an event that is still to come.
func TestAMarkComesAfterAllThatItMarks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := Open(filepath.Join(t.TempDir(), "state"), Options{Inline: true})
		if err != nil {
			t.Fatal(err)
		}
		b := &bench{T: t, s: s, term: 5}
		defer func() { _ = s.Close() }()
		b.must(&store.Command{NewEpoch: &store.Epoch{Number: 1, ID: "first"}})
		const writes = 400
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var readers sync.WaitGroup
		for from := range uint64(8) {
			w, err := s.Watch(ctx, store.WatchRequest{Start: "mine", From: []store.Revision{0, rev(1)}[from%2], Progress: true})
			if err != nil {
				t.Fatal(err)
			}
			readers.Go(func() {
				reached, seen := store.Revision(0), 0
				for {
					got, err := w.Next(ctx)
					if err != nil {
						if seen != writes/4 && ctx.Err() != nil {
							t.Errorf("watcher %d: got %d events, want %d", from, seen, writes/4)
						}
						return
					}
					if got.Revision < reached || len(got.Events) > 0 && got.Events[0].KV.ModRevision <= reached {
						t.Errorf("watcher %d: got %s after revision %d was marked or seen", from, events(got), reached.Counter())
					}
					reached = got.Revision
					seen += len(got.Events)
				}
			})
		}
		for i := range writes {
			s.Progress()
			key := "other"
			if i%4 == 3 {
				key = "mine"
			}
			b.write(put(key, fmt.Sprint(i)))
			s.Progress()
		}
		synctest.Wait()
		cancel()
		readers.Wait()
	})
}
