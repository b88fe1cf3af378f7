package mvcc

import (
	"fmt"
	"strings"
	"testing"

	"github.com/drover-fleet/drover/store"
)

// TestAReaderKeepsItsStateWhateverGoesOn holds a state while its versions are compacted away, checkpoints come and the file is
// put in another's place.
func TestAReaderKeepsItsStateWhateverGoesOn(t *testing.T) {
	b := newBench(t)
	b.write(put("a", "1"))
	inMemory, err := b.s.begin()
	if err != nil {
		t.Fatal(err)
	}
	b.checkpoint()
	inFile, err := b.s.begin()
	if err != nil {
		t.Fatal(err)
	}
	b.write(put("a", "2"))
	b.must(&store.Command{Compact: b.s.Revision()})
	for _, then := range []func(){
		func() {}, b.checkpoint, func() { b.write(put("a", "3")) }, b.checkpoint,
	} {
		then()
		for what, at := range map[string]*reading{"in memory": inMemory, "in the file": inFile} {
			if kv, err := readKV(at.view(bucketRev), rev(1)); err != nil || string(kv.Value) != "1" {
				t.Errorf("state taken while it was %s: got %v, %v, want 1", what, kv, err)
			}
		}
	}
	inMemory.close()
	inFile.close()
	wantEqual(t, "versions in the file", b.count(bucketRev), 2)
}

// TestACheckpointChangesNothingThatIsRead reads through file, layer under way and newest layer, in every state that a checkpoint
// passes.
func TestACheckpointChangesNothingThatIsRead(t *testing.T) {
	b := newBench(t)
	var want []string
	look := func(when string) {
		t.Helper()
		for i, at := range want {
			if got := b.all(rev(uint64(i) + 1)); got != at {
				t.Errorf("%s, at %d: got %q, want %q", when, i+1, got, at)
			}
		}
		_, raw := b.snapshot()
		wantEqual(t, when+": bytes of a copy", len(raw) > 0, true)
		copied := openAt(t, t.TempDir()+"/copy")
		if err := copied.Restore(b.s.Applied(), strings.NewReader(string(raw))); err != nil {
			t.Errorf("%s: %v", when, err)
		}
		compareHashes(t, b.s, copied)
	}
	write := func(ops ...store.Op) {
		b.write(ops...)
		want = append(want, b.all(0))
	}
	write(put("a", "1"))
	write(put("b", "1"))
	look("in memory")
	b.checkpoint()
	look("in the file")
	write(del("a"))
	write(put("c", "2"))
	look("over the file")
	f := b.s.freeze()
	look("at the beginning of a checkpoint")
	write(put("a", "3"))
	write(del("c"))
	look("while a checkpoint is under way")
	if err := b.s.commit(f); err != nil {
		t.Fatal(err)
	}
	look("after its commit")
	if err := b.s.write(f); err != nil { // once more, which is harmless
		t.Fatal(err)
	}
	look("after it")
	if got, want := b.s.Synced(), f.state.applied; got != want || got >= b.s.Applied() {
		t.Errorf("synced up to %d of %d applied, want %d: what was applied meanwhile is in no file", got, b.s.Applied(), want)
	}
	b.checkpoint()
	look("in the file again")
}

// TestApplyGoesOnThroughAFewCheckpointsAndThenWaits for a disk that does not keep up.
func TestApplyGoesOnThroughAFewCheckpointsAndThenWaits(t *testing.T) {
	began, release := make(chan int, 9), make(chan struct{})
	s, err := Open(t.TempDir()+"/state", Options{CheckpointBytes: 10_000, Checkpoint: func(bytes int) func(error) {
		began <- bytes
		<-release
		return func(error) {}
	}})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{T: t, s: s, term: 1}
	b.must(&store.Command{NewEpoch: &store.Epoch{Number: 1, ID: "one"}})
	size := func() int { return s.state().fresh.size }
	for i := 0; size() < 39_000 && i < 1000; i++ {
		b.write(put(fmt.Sprint("k", i), strings.Repeat("x", 300)))
	}
	if len(began) != 1 {
		t.Fatalf("%d checkpoints began, want one", len(began))
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 10 {
			b.write(put(fmt.Sprint("more", i), strings.Repeat("x", 300)))
		}
	}()
	release <- struct{}{}
	close(release)
	<-done
	b.checkpoint()
	wantEqual(t, "synced", s.Synced(), s.Applied())
	if n := len(began); n < 2 {
		t.Errorf("%d checkpoints began, want another", n)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
