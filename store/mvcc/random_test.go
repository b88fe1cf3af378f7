package mvcc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/drover-fleet/drover/store"
)

// testSeed is DROVER_SEED, or a new one; the log of a failed test says it.
func testSeed(t *testing.T) uint64 {
	t.Helper()
	seed := rand.Uint64()
	if s := os.Getenv("DROVER_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("replay with DROVER_SEED=%d", seed)
	return seed
}

func openAt(t *testing.T, path string) *Store { return openWith(t, path, Options{}) }

// openSmall has a checkpoint for every few entries.
func openSmall(t *testing.T, path string) *Store {
	return openWith(t, path, Options{CheckpointBytes: 8 << 10})
}

func openWith(t *testing.T, path string, o Options) *Store {
	t.Helper()
	s, err := Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// sameErrors compares the errors of results by what callers branch on.
var sameErrors = cmp.Comparer(func(a, b error) bool {
	var x, y *store.ConflictError
	if errors.As(a, &x) && errors.As(b, &y) {
		return *x == *y
	}
	return errors.Is(a, b) || errors.Is(b, a)
})

func compare(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), sameErrors); diff != "" {
		t.Fatalf("%s differs from the model (-want +got):\n%s", what, diff)
	}
}

func applied(t *testing.T, s *Store, entries []Entry) [][]store.Result {
	t.Helper()
	r, err := s.Apply(entries)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// checkReads compares reads at the newest and at random revisions, good ones and bad ones.
func checkReads(t *testing.T, s *Store, m *model, rng *rand.Rand) {
	t.Helper()
	if s.Revision() != m.rev || s.Compacted() != m.compacted || s.Epoch() != m.epoch {
		t.Fatalf("got revision %d compacted %d epoch %v, want %d %d %v",
			s.Revision(), s.Compacted(), s.Epoch(), m.rev, m.compacted, m.epoch)
	}
	requests := []store.RangeRequest{{End: "\xff"}}
	for range 6 {
		r := store.RangeRequest{Start: randomKey(rng), Limit: rng.IntN(4)}
		if rng.IntN(3) > 0 {
			r.Start, r.End = r.Start[:2], store.PrefixEnd(r.Start[:2])
		}
		r.Revision = m.rev + 2 - store.Revision(rng.Uint64N(min(uint64(m.rev), 60)+1))
		requests = append(requests, r)
	}
	for _, r := range requests {
		got, err := s.Range(t.Context(), r)
		want, wantErr := m.read(r)
		if !errors.Is(err, wantErr) {
			t.Fatalf("range %+v: got error %v, want %v", r, err, wantErr)
		}
		compare(t, fmt.Sprintf("range %+v", r), got, want)
	}
}

func checkJournal(t *testing.T, s *Store, m *model, rng *rand.Rand) {
	t.Helper()
	key := randomKey(rng)
	limit := 1 + rng.IntN(30)
	got, err := s.RecordsOf(key, limit)
	if err != nil {
		t.Fatal(err)
	}
	want := m.where(func(r store.Record) bool { return r.Key == key })
	slices.Reverse(want)
	compare(t, "records of "+key, got, want[:min(limit, len(want))])
	if len(m.records) == 0 {
		return
	}
	some := m.records[rng.IntN(len(m.records))]
	one, ok, err := s.Record(some.Revision)
	if err != nil || !ok {
		t.Fatalf("record %d: ok %v, err %v", some.Revision, ok, err)
	}
	compare(t, "record", one, some)
	if got, err = s.RecordsByRequest(some.RequestID, limit); err != nil {
		t.Fatal(err)
	}
	want = m.where(func(r store.Record) bool { return r.RequestID == some.RequestID })
	compare(t, "records by request", got, want[:min(limit, len(want))])
	if some.Cause.Revision == 0 {
		return
	}
	if got, err = s.RecordsByCause(some.Cause.Revision, limit); err != nil {
		t.Fatal(err)
	}
	want = m.where(func(r store.Record) bool { return r.Cause.Revision == some.Cause.Revision })
	compare(t, "records by cause", got, want[:min(limit, len(want))])
}

// follower is a watcher and what it has got so far.
type follower struct {
	w          store.Watcher
	from       store.Revision
	start, end string
	got        int
	position   store.Revision // all before has been delivered; a watcher that is behind needs history from here
}

func follow(t *testing.T, s *Store, m *model, rng *rand.Rand) *follower {
	t.Helper()
	f := &follower{from: m.rev + 1 - store.Revision(rng.Uint64N(uint64(m.rev-m.compacted)+1)), end: "\xff"}
	if rng.IntN(3) == 0 {
		f.start = randomKey(rng)
		f.end = f.start + "\x00" // neither point nor prefix
	} else if rng.IntN(2) == 0 {
		f.start = randomKey(rng)[:2]
		f.end = store.PrefixEnd(f.start)
	}
	f.position = f.from
	var err error
	f.w, err = s.Watch(t.Context(), store.WatchRequest{Start: f.start, End: f.end, From: f.from, Progress: true})
	if err != nil {
		t.Fatalf("watch from %d of %d..%d: %v", f.from, m.compacted, m.rev, err)
	}
	return f
}

// read takes up to most of what is due; false means that the watcher has ended, as it must where history went.
func (f *follower) read(t *testing.T, m *model, most int) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	due := m.watch(f.from, f.start, f.end)
	for ; f.got < len(due) && most > 0; most-- {
		b, err := f.w.Next(ctx)
		switch {
		case err == nil:
			compare(t, fmt.Sprintf("batch %d of watch %q..%q from %d", f.got, f.start, f.end, f.from), b, due[f.got])
			f.got++
			f.position = b.Revision + 1
		case m.epoch.Number != f.from.Epoch() && errors.Is(err, store.ErrOtherEpoch),
			f.position <= m.compacted && errors.Is(err, store.ErrCompacted):
			return false
		default:
			t.Fatalf("watch from %d ended with %v", f.from, err)
		}
	}
	if f.got < len(due) || most == 0 {
		return true
	}
	if m.epoch.Number != f.from.Epoch() {
		if b, err := f.w.Next(ctx); !errors.Is(err, store.ErrOtherEpoch) {
			t.Fatalf("got %v, %v from a watcher of an epoch that is over, want ErrOtherEpoch", b, err)
		}
		return false
	}
	return true
}

// TestRandomOperationsAgreeWithTheModel also shows that contents follow from the entries alone: the second store gets
// them in other groups, the third by snapshots now and then.
func TestRandomOperationsAgreeWithTheModel(t *testing.T) {
	seed := testSeed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	path := filepath.Join(dir, "state")
	s, other, copied := openSmall(t, path), openAt(t, filepath.Join(dir, "other")), openAt(t, filepath.Join(dir, "copied"))
	m := newModel()
	var log, waiting, behind []Entry // all, and those not yet applied to other and copied
	var followers []*follower
	for index := uint64(1); index <= 200; {
		var entries []Entry
		var want [][]store.Result
		for range 1 + rng.IntN(4) {
			e, commands := entryFor(seed, index, m)
			var results []store.Result
			for _, g := range commands {
				results = append(results, m.apply(g.command, e.Term))
			}
			entries, want = append(entries, e), append(want, results)
			index++
		}
		compare(t, fmt.Sprintf("results up to entry %d", index-1), applied(t, s, entries), want)
		log, waiting, behind = append(log, entries...), append(waiting, entries...), append(behind, entries...)

		checkReads(t, s, m, rng)
		checkJournal(t, s, m, rng)
		followers = slices.DeleteFunc(followers, func(f *follower) bool { return !f.read(t, m, rng.IntN(20)) })
		if len(followers) < 12 {
			followers = append(followers, follow(t, s, m, rng))
		}
		switch rng.IntN(12) {
		case 0:
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			for _, f := range followers {
				if _, err := f.w.Next(t.Context()); !errors.Is(err, store.ErrClosed) && !errors.Is(err, store.ErrOtherEpoch) {
					t.Fatalf("watcher of a closed store got %v, want ErrClosed", err)
				}
			}
			followers = nil
			s = openSmall(t, path) // as of its newest checkpoint
			applied(t, s, log[s.Applied():])
		case 6:
			if err := s.Checkpoint(); err != nil {
				t.Fatal(err)
			}
		case 1, 2:
			applied(t, other, waiting)
			waiting = nil
			compareHashes(t, s, other)
		case 3:
			copyTo(t, s, copied)
			behind = nil
			compareHashes(t, s, copied)
			checkReads(t, copied, m, rng)
			checkJournal(t, copied, m, rng)
		case 4, 5:
			applied(t, copied, behind)
			behind = nil
			compareHashes(t, s, copied)
		}
	}
	for _, f := range followers {
		for f.read(t, m, 1000) && f.got < len(m.watch(f.from, f.start, f.end)) {
		}
	}
	for _, each := range []*Store{s, copied} {
		if err := each.Checkpoint(); err != nil {
			t.Fatal(err)
		}
		if err := each.Verify(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func compareHashes(t *testing.T, a, b *Store) {
	t.Helper()
	i, x := a.Hash()
	j, y := b.Hash()
	if i != j || x != y {
		t.Fatalf("contents differ: hash %x at %d and %x at %d", x, i, y, j)
	}
}

func copyTo(t *testing.T, from, to *Store) {
	t.Helper()
	index, r, err := from.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := to.Restore(index, r); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, r); err != nil {
		t.Fatal(err)
	}
}
