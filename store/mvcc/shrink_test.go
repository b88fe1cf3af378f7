package mvcc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/drover-fleet/drover/store"
)

// TestFileOfChurnShrinksWhileReadAndWatched: the file is taken down to its live data, and nobody who reads, watches or writes
// sees anything but equal contents.
func TestFileOfChurnShrinksWhileReadAndWatched(t *testing.T) {
	b := newBench(t)
	for i := range 200 {
		b.write(put(fmt.Sprint("k/", i%10), strings.Repeat("x", 100_000+i)))
	}
	b.must(&store.Command{Compact: b.s.Revision()})
	w, err := b.s.Watch(t.Context(), store.WatchRequest{End: "\xff"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	b.checkpoint()
	held, err := b.s.begin() // as a reader that takes its time
	if err != nil {
		t.Fatal(err)
	}
	want := b.all(0)
	applied, hash := b.s.Hash()
	done := make(chan error, 1)
	var sizes Sizes
	go func() {
		var err error
		sizes, err = b.s.CompactFile(t.Context())
		done <- err
	}()
	// Writing goes on, though the reader of the old file is still there.
	for swapped := false; !swapped; runtime.Gosched() {
		b.s.mu.RLock()
		swapped = b.s.db != held.tx.DB()
		b.s.mu.RUnlock()
	}
	gotApplied, gotHash := b.s.Hash()
	if gotApplied != applied || gotHash != hash || b.all(0) != want {
		t.Errorf("contents changed with the file")
	}
	r := b.write(put("k/new", "1"))
	if n, err := w.Next(t.Context()); err != nil || n.Revision != r.Revision {
		t.Errorf("watcher: got %d, %v, want %d", n.Revision, err, r.Revision)
	}
	held.close()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if sizes.After >= sizes.Before/2 {
		t.Errorf("got %d bytes after %d, want less than half", sizes.After, sizes.Before)
	}
	if err := b.s.Verify(t.Context()); err != nil {
		t.Error(err)
	}
	b.checkpoint()
	path := b.s.path
	if err := b.s.Close(); err != nil {
		t.Fatal(err)
	}
	s := openAt(t, path)
	if s.Revision() != r.Revision {
		t.Errorf("reopened at %d, want %d", s.Revision(), r.Revision)
	}
	if err := s.Verify(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestCutShortCompactionOfTheFileLeavesTheOldOne(t *testing.T) {
	b := newBench(t)
	b.write(put("a", "1"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.s.CompactFile(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want canceled", err)
	}
	if _, err := os.Stat(b.s.path + shrinkSuffix); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the unfinished file is there still: %v", err)
	}
	b.write(put("b", "2"))
	if got := b.all(0); got != "a=1 b=2" {
		t.Errorf("got %s", got)
	}
}
