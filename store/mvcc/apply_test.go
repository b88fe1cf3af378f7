package mvcc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/drover-fleet/drover/store"
)

// bench drives one store by hand: each command becomes an entry of its own.
type bench struct {
	*testing.T
	s    *Store
	term uint64
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{T: t, s: openAt(t, filepath.Join(t.TempDir(), "state")), term: 5}
	b.must(&store.Command{NewEpoch: &store.Epoch{Number: 1, ID: "first"}})
	return b
}

func (b *bench) do(c *store.Command) store.Result {
	b.Helper()
	index := b.s.Applied() + 1
	g := encoded(c, index, 0)
	return applied(b.T, b.s, []Entry{{Index: index, Term: b.term, Commands: [][]byte{g.raw}}})[0][0]
}

func (b *bench) must(c *store.Command) store.Result {
	b.Helper()
	r := b.do(c)
	if r.Err != nil {
		b.Fatal(r.Err)
	}
	return r
}

func put(key, value string) store.Op {
	return store.Op{Type: store.OpPut, Key: key, Value: []byte(value)}
}

func del(key string) store.Op { return store.Op{Type: store.OpDelete, Key: key} }

func (b *bench) write(ops ...store.Op) store.Result {
	b.Helper()
	return b.must(&store.Command{Ops: ops})
}

// all renders the store at a revision.
func (b *bench) all(r store.Revision) string {
	b.Helper()
	got, err := b.s.Range(b.Context(), store.RangeRequest{End: "\xff", Revision: r})
	if err != nil {
		b.Fatal(err)
	}
	var out []string
	for _, kv := range got.KVs {
		out = append(out, fmt.Sprintf("%s=%s", kv.Key, kv.Value))
	}
	return strings.Join(out, " ")
}

func rev(counter uint64) store.Revision { return store.MakeRevision(1, counter) }

func wantErr(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: got error %v, want %v", what, got, want)
	}
}

func wantEqual[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestAStoreWithoutEpochRefusesWrites(t *testing.T) {
	b := &bench{T: t, s: openAt(t, filepath.Join(t.TempDir(), "state")), term: 1}
	wantErr(t, "write", b.do(&store.Command{Ops: []store.Op{put("a", "1")}}).Err, store.ErrNoEpoch)
	b.must(&store.Command{NewEpoch: &store.Epoch{Number: 1, ID: "mine"}})
	wantErr(t, "second identity", b.do(&store.Command{NewEpoch: &store.Epoch{Number: 1, ID: "other"}}).Err, store.ErrEpochNotHigher)
	wantEqual(t, "epoch", b.s.Epoch(), store.Epoch{Number: 1, ID: "mine"})
	wantEqual(t, "first revision", b.write(put("a", "1")).Revision, rev(1))
}

func TestASetIsDoneWholeOrNotAtAll(t *testing.T) {
	b := newBench(t)
	b.write(put("a", "1"))
	r := b.do(&store.Command{
		If:  []store.Precondition{{Key: "a", ModRevision: rev(1)}, {Key: "b", Exists: true}},
		Ops: []store.Op{put("a", "2"), put("c", "2")},
	})
	var conflict *store.ConflictError
	if !errors.As(r.Err, &conflict) || *conflict != (store.ConflictError{Key: "b"}) {
		t.Errorf("got error %v, want a conflict on b, which is absent", r.Err)
	}
	wantEqual(t, "contents", b.all(0), "a=1")
	wantEqual(t, "revision", r.Revision, rev(1))
}

func TestNothingIsReadInsideASet(t *testing.T) {
	b := newBench(t)
	b.write(put("a", "1"), put("b", "1"))
	b.write(put("a", "2"), del("b"), put("c", "2"))
	for r, want := range map[store.Revision]string{
		rev(1): "a=1 b=1", rev(2): "a=1 b=1", rev(3): "a=2 c=2", rev(4): "a=2 c=2", rev(5): "a=2 c=2",
	} {
		wantEqual(t, fmt.Sprintf("contents at %d", r.Counter()), b.all(r), want)
	}
	got, err := b.s.Range(t.Context(), store.RangeRequest{Start: "a", Revision: rev(3)})
	if err != nil || got.Revision != rev(5) {
		t.Errorf("got revision %v, %v of a read inside a set, want that of its end %d", got, err, rev(5))
	}
}

func TestAWatchFromInsideASetGetsTheWholeSet(t *testing.T) {
	b := newBench(t)
	b.write(put("a", "1"))
	b.write(put("a", "2"), put("b", "2"), put("c", "2"))
	w, err := b.s.Watch(t.Context(), store.WatchRequest{End: "\xff", From: rev(3)})
	if err != nil {
		t.Fatal(err)
	}
	got, err := w.Next(t.Context())
	if err != nil || len(got.Events) != 3 || got.Revision != rev(4) {
		t.Errorf("got %v, %v, want the three events of the set that ends at %d", got, err, rev(4))
	}
}

func TestWritesThatChangeNothingTakeNoRevision(t *testing.T) {
	b := newBench(t)
	b.write(put("a", "1"))
	r := b.write(put("a", "1"), del("x"), put("b", "1"), put("b", "1"))
	compare(t, "revisions", r.Revisions, []store.Revision{0, 0, rev(2), 0})
	wantEqual(t, "revision", r.Revision, rev(2))
}

func TestARetryGetsTheAnswerOfTheFirst(t *testing.T) {
	b := newBench(t)
	b.write(put("taken", "1"))
	good := store.Command{Writer: "w", Sequence: 1, Ops: []store.Op{put("a", "1"), del("x"), put("b", "1")}}
	first := b.must(&good)
	b.write(put("a", "2"))
	retry := b.must(&good)
	first.Repeat = true
	compare(t, "retry", retry, first)
	wantEqual(t, "contents", b.all(0), "a=2 b=1 taken=1")

	// A refusal is an answer too: were the late duplicate applied, its sender would have been told a lie.
	bad := store.Command{Writer: "w", Sequence: 2, If: []store.Precondition{{Key: "taken"}}, Ops: []store.Op{put("a", "3")}}
	refused := b.do(&bad)
	b.write(del("taken"))
	again := b.do(&bad)
	refused.Repeat = true
	compare(t, "conflict of the retry", *again.Err.(*store.ConflictError), *refused.Err.(*store.ConflictError)) //nolint:errorlint // the test is about what it is
	wantEqual(t, "revision of the retry", again.Revision, refused.Revision)
	wantEqual(t, "contents", b.all(0), "a=2 b=1")

	old := b.must(&good)
	if !old.Repeat || old.Revisions != nil {
		t.Errorf("got %+v for a sequence long past, want a repeat without revisions", old)
	}
}

func TestRememberedSequencesOutliveAReopen(t *testing.T) {
	b := newBench(t)
	c := store.Command{Writer: "w", Sequence: 7, Ops: []store.Op{put("a", "1")}}
	first := b.must(&c)
	b.reopen()
	first.Repeat = true
	compare(t, "retry", b.must(&c), first)
}

func TestTheWriterSilentLongestIsForgotten(t *testing.T) {
	b := newBench(t)
	b.s.writers.max = 2
	say := func(writer string, sequence uint64) store.Result {
		return b.must(&store.Command{Writer: writer, Sequence: sequence, Ops: []store.Op{put("k", fmt.Sprint(writer, sequence))}})
	}
	say("a", 1)
	say("b", 1)
	say("a", 2)
	say("c", 1)
	b.reopen()
	wantEqual(t, "a repeats", say("a", 2).Repeat, true)
	wantEqual(t, "c repeats", say("c", 1).Repeat, true)
	wantEqual(t, "b repeats", say("b", 1).Repeat, false)
}

func TestATermIsCheckedAtApplyAgainstItsEntry(t *testing.T) {
	b := newBench(t)
	c := store.Command{Term: 5, Writer: "w", Sequence: 1, Ops: []store.Op{put("a", "1")}}
	first := b.must(&c)
	b.term = 6
	late := store.Command{Term: 5, Ops: []store.Op{put("a", "2")}}
	wantErr(t, "write of the last term", b.do(&late).Err, store.ErrStaleTerm)
	wantEqual(t, "contents", b.all(0), "a=1")
	// Applied in time, asked again late: it must not be called refused.
	first.Repeat = true
	compare(t, "late retry", b.must(&c), first)
}

func TestMalformedCommandsAreResults(t *testing.T) {
	b := newBench(t)
	newer := encoded(&store.Command{Ops: []store.Op{put("a", "1")}}, 2, 0).raw
	newer = []byte(strings.Replace(string(newer), "\x01\x01", "\x01\x02", 1)) // the level
	index := b.s.Applied() + 1
	r := applied(t, b.s, []Entry{{Index: index, Term: 5, Commands: [][]byte{nil, []byte("x"), newer}}})[0]
	wantErr(t, "empty", r[0].Err, store.ErrBadCommand)
	wantErr(t, "garbage", r[1].Err, store.ErrBadCommand)
	wantErr(t, "newer level", r[2].Err, store.ErrUnknownLevel)
	wantEqual(t, "applied", b.s.Applied(), index)
}

func TestEntriesOutOfOrderApplyNothing(t *testing.T) {
	b := newBench(t)
	b.write(put("a", "1"))
	before, hash := b.s.Hash()
	raw := [][]byte{encoded(&store.Command{Writer: "w", Sequence: 1, Ops: []store.Op{put("a", "2")}}, 9, 0).raw}
	for what, entries := range map[string][]Entry{
		"repeated": {{Index: before, Term: 5, Commands: raw}},
		"gap":      {{Index: before + 1, Term: 5, Commands: raw}, {Index: before + 3, Term: 5}},
		"old term": {{Index: before + 1, Term: 5, Commands: raw}, {Index: before + 2, Term: 4}},
	} {
		if _, err := b.s.Apply(entries); !errors.Is(err, errOrder) {
			t.Errorf("%s: got %v, want %v", what, err, errOrder)
		}
	}
	after, hash2 := b.s.Hash()
	if before != after || hash != hash2 {
		t.Errorf("got contents %x at %d, want those before %x at %d", hash2, after, hash, before)
	}
	r := applied(t, b.s, []Entry{{Index: before + 1, Term: 5, Commands: raw}})
	wantEqual(t, "sequence of what was rolled back is a repeat", r[0][0].Repeat, false)
}

func TestCompactionKeepsWhatIsVisible(t *testing.T) {
	b := newBench(t)
	b.write(put("a", "1"), put("b", "1"), put("c", "1")) // 1-3
	b.write(put("a", "2"), del("b"))                     // 4-5
	b.write(put("a", "3"), put("d", "3"))                // 6-7
	b.must(&store.Command{Compact: rev(6)})
	wantEqual(t, "compacted: inside a set it is rounded down", b.s.Compacted(), rev(5))
	wantEqual(t, "at 5", b.all(rev(5)), "a=2 c=1")
	wantEqual(t, "newest", b.all(0), "a=3 c=1 d=3")
	_, err := b.s.Range(t.Context(), store.RangeRequest{Start: "a", Revision: rev(4)})
	wantErr(t, "read at 4", err, store.ErrCompacted)
	_, err = b.s.Watch(t.Context(), store.WatchRequest{Start: "a", From: rev(5)})
	wantErr(t, "watch from 5", err, store.ErrCompacted)
	wantErr(t, "compact what is not there yet", b.do(&store.Command{Compact: rev(8)}).Err, store.ErrAhead)
	b.must(&store.Command{Compact: rev(2)}) // again, and lower: nothing
	wantEqual(t, "compacted", b.s.Compacted(), rev(5))
	wantEqual(t, "records on disk", b.count(bucketRev), 4) // a=2 c=1 a=3 d=3
}

// count checkpoints, and counts the pairs of a bucket in the file.
func (b *bench) count(in bucket) (n int) {
	b.Helper()
	b.checkpoint()
	err := b.s.db.View(func(tx *bolt.Tx) error {
		return in.of(tx).ForEach(func(_, _ []byte) error { n++; return nil })
	})
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// reopen closes the store after a checkpoint, and opens it again.
func (b *bench) reopen() {
	b.Helper()
	b.checkpoint()
	if err := b.s.Close(); err != nil {
		b.Fatal(err)
	}
	b.s = openAt(b.T, b.s.path)
}

func (b *bench) checkpoint() {
	b.Helper()
	if err := b.s.Checkpoint(); err != nil {
		b.Fatal(err)
	}
}

func TestTheJournalOutlivesKeyAndCompaction(t *testing.T) {
	b := newBench(t)
	b.write(put("a", "1"))
	b.write(del("a"))
	b.must(&store.Command{Compact: rev(2)})
	wantEqual(t, "versions of anything on disk", b.count(bucketRev), 0)
	b.write(put("a", "2"))
	wantEqual(t, "chains of forgotten keys", b.count(bucketHead), 0)
	got, err := b.s.RecordsOf("a", 10)
	if err != nil {
		t.Fatal(err)
	}
	var revisions []store.Revision
	for _, r := range got {
		revisions = append(revisions, r.Revision)
	}
	compare(t, "revisions of the records", revisions, []store.Revision{rev(3), rev(2), rev(1)})
}

func TestRecordsOfARequestAreFoundAcrossWindows(t *testing.T) {
	b := newBench(t)
	many := &store.Command{RequestID: "many"}
	for i := range 1<<windowBits + 10 {
		many.Ops = append(many.Ops, put(fmt.Sprint("k", i), "1"))
	}
	b.must(&store.Command{RequestID: "twice", Ops: []store.Op{put("a", "1"), put("b", "1")}})
	b.must(many)
	b.must(&store.Command{RequestID: "once", Ops: []store.Op{put("a", "2")}})
	b.must(&store.Command{RequestID: "twice", Ops: []store.Op{put("a", "3")}})
	last := b.s.Revision()
	for id, want := range map[string][]store.Revision{
		"twice": {rev(1), rev(2), last}, "once": {last - 1}, "many": {rev(3), rev(4), rev(5)}, "never": nil,
	} {
		got, err := b.s.RecordsByRequest(id, 3)
		if err != nil {
			t.Fatal(err)
		}
		var revisions []store.Revision
		for _, r := range got {
			revisions = append(revisions, r.Revision)
		}
		compare(t, "revisions of request "+id, revisions, want)
	}
}

func TestANewEpochIsAboveAllRevisionsBefore(t *testing.T) {
	b := newBench(t)
	b.write(put("a", "1"))
	w, err := b.s.Watch(t.Context(), store.WatchRequest{Start: "a", From: rev(1)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.must(&store.Command{NewEpoch: &store.Epoch{Number: 3, ID: "restored"}})
	_, err = w.Next(t.Context())
	wantErr(t, "watcher of the epoch before", err, store.ErrOtherEpoch)
	_, err = b.s.Range(t.Context(), store.RangeRequest{Start: "a", Revision: rev(1)})
	wantErr(t, "read in the epoch before", err, store.ErrOtherEpoch)
	_, err = b.s.Watch(t.Context(), store.WatchRequest{Start: "a", From: store.MakeRevision(4, 1)})
	wantErr(t, "watch in an epoch to come", err, store.ErrOtherEpoch)
	_, err = b.s.Watch(t.Context(), store.WatchRequest{Start: "a", From: store.MakeRevision(3, 2)})
	wantErr(t, "watch ahead", err, store.ErrAhead)
	wantEqual(t, "contents", b.all(0), "a=1")
	wantEqual(t, "next revision", b.write(put("a", "2")).Revision, store.MakeRevision(3, 1))
}

func TestOneProcessAtATimeHasTheFile(t *testing.T) {
	b := newBench(t)
	_, err := Open(b.s.path, Options{LockTimeout: 10 * time.Millisecond})
	for _, want := range []string{b.s.path, fmt.Sprintf("process %d", os.Getpid())} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want one that names %q", err, want)
		}
	}
}

func TestAnotherProgramsFileIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(func(tx *bolt.Tx) error { _, err := tx.CreateBucket([]byte("key")); return err }); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err := Open(path, Options{}); err == nil || !strings.Contains(err.Error(), "not a Drover state file") {
		t.Errorf("got %v, %v, want an error that says whose file it is not", s, err)
	}
}

func TestVerifyFindsWhatTheDiskChanged(t *testing.T) {
	b := newBench(t)
	b.write(put("a", "1"))
	b.checkpoint()
	if err := b.s.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
	err := b.s.db.Update(func(tx *bolt.Tx) error {
		bucket := bucketRev.of(tx)
		raw := append([]byte(nil), bucket.Get(revKey(rev(1)))...)
		raw[len(raw)-1] ^= 1
		return bucket.Put(revKey(rev(1)), raw)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.s.Verify(t.Context()); err == nil {
		t.Error("got no error for a flipped bit")
	}
}

func TestAFileWithAHoleInItsHistoryIsRefused(t *testing.T) {
	b := newBench(t)
	b.write(put("a", "1"))
	b.write(put("a", "2"), put("b", "2"))
	b.checkpoint()
	torn := encodeRecord(rev(2), &record{set: span{rev(2), rev(2)}, key: "a", create: rev(1), version: 2})
	for what, spoil := range map[string]func(revs *bolt.Bucket) error{
		"without 1":          func(revs *bolt.Bucket) error { return revs.Delete(revKey(rev(1))) },
		"without 2":          func(revs *bolt.Bucket) error { return revs.Delete(revKey(rev(2))) },
		"without the newest": func(revs *bolt.Bucket) error { return revs.Delete(revKey(rev(3))) },
		"a set torn apart":   func(revs *bolt.Bucket) error { return revs.Put(revKey(rev(2)), torn) },
		"no record":          func(revs *bolt.Bucket) error { return revs.Put(revKey(rev(2)), []byte{9}) },
	} {
		err := b.s.db.Update(func(tx *bolt.Tx) error {
			if err := spoil(bucketRev.of(tx)); err != nil {
				return err
			}
			s, err := loadMeta(bucketMeta.of(tx))
			if err != nil {
				return err
			}
			return s.loadKeys(bucketRev.of(tx)) // its error rolls the damage back
		})
		wantErr(t, what, err, errRecord)
	}
}

func TestARangeConditionSeesEveryWriteSince(t *testing.T) {
	b := newBench(t)
	b.write(put("k/a", "1"), put("k/b", "1"), put("l/a", "1"))
	read := b.s.Revision()
	guarded := func(key string) store.Result {
		return b.do(&store.Command{If: []store.Precondition{{Key: "k/", End: "k0", ModRevision: read}}, Ops: []store.Op{put(key, fmt.Sprint(b.s.Revision()))}})
	}
	b.write(put("l/a", "2"), put("k", "outside"), put("k0", "outside"))
	if r := guarded("x"); r.Err != nil {
		t.Fatalf("after writes beside the range: got %v, want none", r.Err)
	}
	for _, op := range []store.Op{put("k/c", "new"), put("k/a", "2"), del("k/b")} {
		read = b.s.Revision()
		if r := guarded("x"); r.Err != nil {
			t.Fatalf("before the write of %s: got %v, want none", op.Key, r.Err)
		}
		read = b.s.Revision() // the write is the very next one
		b.write(op)
		var c *store.ConflictError
		if r := guarded("x"); !errors.As(r.Err, &c) || c.Key != op.Key {
			t.Errorf("after the write of %s: got %v, want a conflict that names it", op.Key, r.Err)
		}
	}
}
