package audit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client/auditlog"
)

// open opens a log that the test closes.
func open(t *testing.T, cfg Config) *Log {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	cfg.Member = "h1"
	l, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func records(t *testing.T, dir string) []auditlog.Record {
	t.Helper()
	found, err := auditlog.Newest(t.Context(), dir, auditlog.Query{}, 1<<20, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	var out []auditlog.Record
	for _, line := range found.Lines {
		r, err := auditlog.Decode(line)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

// sound fails unless the chain of a directory holds, and returns what it comes to.
func sound(t *testing.T, dir string) auditlog.Report {
	t.Helper()
	r, err := auditlog.Verify(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Faults) > 0 {
		t.Fatalf("got faults %q, want none", r.Faults)
	}
	return r
}

func TestF59TheSequenceHasNoGapAcrossRestartsAndRotation(t *testing.T) {
	dir := t.TempDir()
	var wrote uint64
	for start := range 3 {
		l := open(t, Config{Dir: dir, FileBytes: LeastFileBytes, Keep: 100})
		var group sync.WaitGroup
		for w := range 8 {
			group.Go(func() {
				for i := range 50 {
					r := auditlog.Record{RequestID: fmt.Sprintf("%d-%d-%d", start, w, i), Actor: "user:alice", Verb: "create", Path: strings.Repeat("p", 200)}
					if err := l.Receipt(t.Context(), r); err != nil {
						t.Errorf("receipt: %v", err)
					}
					l.Outcome(r)
				}
			})
		}
		group.Wait()
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		wrote += 8*50*2 + 2 // and a start and a stop
	}
	r := sound(t, dir)
	if r.Records != wrote || r.First != 1 || r.Last != wrote || r.Files < 3 {
		t.Errorf("got %d records from %d to %d in %d files, want %d from 1 in several", r.Records, r.First, r.Last, r.Files, wrote)
	}
}

func TestRotationKeepsTheNewestFilesAndTheChainFromThere(t *testing.T) {
	dir := t.TempDir()
	l := open(t, Config{Dir: dir, FileBytes: LeastFileBytes, Keep: 2})
	for range 1000 {
		l.Outcome(auditlog.Record{Actor: "user:alice", Path: strings.Repeat("p", 300)})
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if r := sound(t, dir); r.Files != 2 || r.First < 2 || r.Last != 1002 {
		t.Errorf("got %d files with records %d to %d, want 2 that end with 1002", r.Files, r.First, r.Last)
	}
}

func TestATornLastLineIsCutAndTheCutIsOnRecord(t *testing.T) {
	dir := t.TempDir()
	l := open(t, Config{Dir: dir})
	if err := l.Receipt(t.Context(), auditlog.Record{RequestID: "one", Actor: "user:alice"}); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for _, torn := range []string{`{"seq":4,"prev":"`, "\x00\x00\x00\n\x00", strings.Repeat("x", 3*auditlog.MaxLine)} {
		path := filepath.Join(dir, auditlog.FileName(1))
		f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, werr := f.WriteString(torn)
		if err := errors.Join(werr, f.Close()); err != nil {
			t.Fatal(err)
		}
		if err := open(t, Config{Dir: dir}).Close(); err != nil {
			t.Fatal(err)
		}
		sound(t, dir)
		all := records(t, dir)
		start := all[len(all)-2]
		if start.Verb != "start" || start.Cut == nil || start.Cut.Bytes != int64(len(torn)) || start.Cut.Broken != "" {
			t.Errorf("got %+v with cut %+v, want a start that tells of %d bytes", start, start.Cut, len(torn))
		}
	}
	if all := records(t, dir); all[3].RequestID != "one" && all[4].RequestID != "one" {
		t.Errorf("no outcome tells that request one was cut short: %+v", all)
	}
}

func TestARequestWhoseOutcomeWasLostIsToldAtTheStart(t *testing.T) {
	dir := t.TempDir()
	l := open(t, Config{Dir: dir})
	for _, id := range []string{"done", "lost"} {
		if err := l.Receipt(t.Context(), auditlog.Record{RequestID: id}); err != nil {
			t.Fatal(err)
		}
	}
	l.Outcome(auditlog.Record{RequestID: "done", Code: 201})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := open(t, Config{Dir: dir}).Close(); err != nil {
		t.Fatal(err)
	}
	outcomes := map[string][]string{}
	for _, r := range records(t, dir) {
		if r.Stage == auditlog.Outcome {
			outcomes[r.RequestID] = append(outcomes[r.RequestID], r.Reason)
		}
	}
	if len(outcomes["done"]) != 1 || len(outcomes["lost"]) != 1 || outcomes["lost"][0] != auditlog.ReasonCut {
		t.Errorf("got %v, want one outcome of each, of lost %q", outcomes, auditlog.ReasonCut)
	}
}

func TestAChangedLineIsFoundAndTheLogGoesOnInANewFile(t *testing.T) {
	dir := t.TempDir()
	l := open(t, Config{Dir: dir})
	for range 3 {
		if err := l.Receipt(t.Context(), auditlog.Record{Actor: "user:mallory"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, auditlog.FileName(1))
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(b), "mallory", "alice42", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := open(t, Config{Dir: dir}).Close(); err != nil {
		t.Fatal(err)
	}
	r, err := auditlog.Verify(t.Context(), dir)
	if err != nil || len(r.Faults) != 1 || !strings.Contains(r.Faults[0], "record 3") || r.Files != 2 {
		t.Errorf("got %q in %d files, %v; want one fault at record 3, and a second file", r.Faults, r.Files, err)
	}
	all := records(t, dir)
	if start := all[len(all)-2]; start.Cut == nil || start.Cut.Broken == "" {
		t.Errorf("got %+v, want a start that tells of the broken chain", start)
	}
}

// TestARenamedFileIsNotWrittenOver: the number that the log goes on with is that of a file that is there already.
func TestARenamedFileIsNotWrittenOver(t *testing.T) {
	dir := t.TempDir()
	l := open(t, Config{Dir: dir})
	if err := l.Receipt(t.Context(), auditlog.Record{Actor: "user:mallory"}); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	next := records(t, dir)[2].Seq + 1
	path := filepath.Join(dir, auditlog.FileName(next))
	if err := os.Rename(filepath.Join(dir, auditlog.FileName(1)), path); err != nil {
		t.Fatal(err)
	}
	if err := open(t, Config{Dir: dir}).Close(); err != nil {
		t.Fatal(err)
	}
	kept, err := os.ReadFile(path + ".aside-1")
	if err != nil || !strings.Contains(string(kept), "user:mallory") {
		t.Errorf("got %q, %v; want the renamed file's records", kept, err)
	}
	if start := records(t, dir)[0]; start.Cut == nil || start.Cut.Broken == "" || start.Seq != next {
		t.Errorf("got %+v, want a start with number %d that tells of the broken chain", start, next)
	}
}

// TestAnIdThatIsUsedTwiceHidesNoLostOutcome: clients choose the ids of their requests.
func TestAnIdThatIsUsedTwiceHidesNoLostOutcome(t *testing.T) {
	dir := t.TempDir()
	l := open(t, Config{Dir: dir})
	for range 2 {
		if err := l.Receipt(t.Context(), auditlog.Record{RequestID: "twice"}); err != nil {
			t.Fatal(err)
		}
	}
	l.Outcome(auditlog.Record{RequestID: "twice", Code: 201})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := open(t, Config{Dir: dir}).Close(); err != nil {
		t.Fatal(err)
	}
	var reasons []string
	for _, r := range records(t, dir) {
		if r.Stage == auditlog.Outcome {
			reasons = append(reasons, r.Reason)
		}
	}
	if want := []string{"", auditlog.ReasonCut}; !slices.Equal(reasons, want) {
		t.Errorf("got outcomes %q, want %q", reasons, want)
	}
}

// faulty is a disk that fails on demand.
type faulty struct {
	osDisk
	write, sync, dir atomic.Pointer[error]
	room             atomic.Int64 // bytes that may be written while limited
	limited          atomic.Bool
	reserved         atomic.Bool
}

type faultyFile struct {
	file
	d *faulty
}

func (d *faulty) open(path string, create bool) (file, error) {
	f, err := d.osDisk.open(path, create)
	if err != nil {
		return nil, err
	}
	return faultyFile{f, d}, nil
}

func (d *faulty) reserve(path string, bytes int64) error {
	if d.limited.Load() && d.room.Load() < bytes {
		return unix.ENOSPC
	}
	d.reserved.Store(true)
	d.room.Add(-bytes)
	return d.osDisk.reserve(path, 1)
}

func (d *faulty) remove(path string) error {
	if filepath.Base(path) == fileReserve && d.reserved.Swap(false) {
		d.room.Add(reserveBytes)
	}
	return d.osDisk.remove(path)
}

func (d *faulty) syncDir(path string) error {
	if err := d.dir.Load(); err != nil {
		return *err
	}
	return d.osDisk.syncDir(path)
}

func (f faultyFile) Write(b []byte) (int, error) {
	if err := f.d.write.Load(); err != nil {
		n, _ := f.file.Write(b[:len(b)/2]) // half of it reaches the disk
		return n, *err
	}
	if f.d.limited.Load() && f.d.room.Add(-int64(len(b))) < 0 {
		f.d.room.Add(int64(len(b)))
		n, _ := f.file.Write(b[:len(b)/2])
		return n, unix.ENOSPC
	}
	return f.file.Write(b)
}

func (f faultyFile) Sync() error {
	if err := f.d.sync.Load(); err != nil {
		return *err
	}
	return f.file.Sync()
}

func TestF59AFullDiskRefusesWritesAndTheGapIsOnRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &faulty{}
		dir := t.TempDir()
		l := open(t, Config{Dir: dir, disk: d})
		underway := auditlog.Record{RequestID: "under way"}
		if err := l.Receipt(t.Context(), underway); err != nil {
			t.Fatal(err)
		}
		d.room.Store(0)
		d.limited.Store(true)
		l.Outcome(underway) // by the reserve
		synctest.Wait()
		if err := l.Health().Err; err != nil {
			t.Fatalf("the outcome of what was under way: got %v, want it in the reserve", err)
		}
		err := l.Receipt(t.Context(), auditlog.Record{RequestID: "refused"})
		if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "audit") || strings.Contains(err.Error(), "refused\"") {
			t.Fatalf("got %v, want Unavailable that names the audit", err)
		}
		d.limited.Store(false)
		time.Sleep(2 * reserveAgain)
		l.Outcome(auditlog.Record{RequestID: "after"}) // notices that there is room
		synctest.Wait()
		if err := l.Receipt(t.Context(), auditlog.Record{RequestID: "again"}); err != nil {
			t.Fatalf("with room again: %v", err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		sound(t, dir)
		var seen []string
		for _, r := range records(t, dir) {
			if r.Gap != nil {
				seen = append(seen, fmt.Sprintf("gap of %d", r.Gap.Count))
			} else if r.RequestID != "" {
				seen = append(seen, string(r.Stage)+" "+r.RequestID)
			}
		}
		want := "receipt under way, outcome under way, gap of 1, outcome after, receipt again"
		if got := strings.Join(seen, ", "); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
}

func TestF59ABrokenDiskRefusesOrRecordsTheGapByPolicy(t *testing.T) {
	for _, policy := range []OnFailure{Refuse, RecordGap} {
		for _, what := range []string{"write", "sync"} {
			d := &faulty{}
			dir := t.TempDir()
			l := open(t, Config{Dir: dir, disk: d, OnFailure: policy})
			eio := error(unix.EIO)
			at := &d.write
			if what == "sync" {
				at = &d.sync
			}
			at.Store(&eio)
			for range 5 {
				err := l.Receipt(t.Context(), auditlog.Record{RequestID: "lost"})
				if refused := fault.Is(err, fault.Unavailable); refused != (policy == Refuse) {
					t.Errorf("%s, %s fails: got %v", policy, what, err)
				}
			}
			at.Store(nil)
			if err := l.Receipt(t.Context(), auditlog.Record{RequestID: "good"}); err != nil {
				t.Errorf("%s, after %s failed: %v", policy, what, err)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			if r := sound(t, dir); r.Lost != 5 || r.Gaps != 1 {
				t.Errorf("%s, %s: got %d lost in %d gaps, want 5 in 1", policy, what, r.Lost, r.Gaps)
			}
		}
	}
}

// A file that a crash could lose by its name holds no receipt, however often it is asked to.
func TestF59AReceiptWaitsForTheDirectoryOfItsFile(t *testing.T) {
	d := &faulty{}
	eio := error(unix.EIO)
	d.dir.Store(&eio)
	dir := t.TempDir()
	l := open(t, Config{Dir: dir, disk: d})
	for range 2 {
		if err := l.Receipt(t.Context(), auditlog.Record{RequestID: "lost"}); !fault.Is(err, fault.Unavailable) {
			t.Errorf("while the directory cannot be synced: got %v, want Unavailable", err)
		}
	}
	d.dir.Store(nil)
	if err := l.Receipt(t.Context(), auditlog.Record{RequestID: "good"}); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if r := sound(t, dir); r.Lost != 3 || r.Gaps != 1 {
		t.Errorf("got %d lost in %d gaps, want the start and 2 receipts in 1", r.Lost, r.Gaps)
	}
}

func TestReceiptsThatWaitTogetherAreSyncedTogether(t *testing.T) {
	var synced, recorded atomic.Int64
	l := open(t, Config{Observe: func(n int, sync bool, _ time.Duration, _ error) {
		if sync {
			synced.Add(1)
			recorded.Add(int64(n))
		}
	}})
	start := make(chan struct{})
	var group sync.WaitGroup
	const writers, each = 64, 20
	for range writers {
		group.Go(func() {
			<-start
			for range each {
				if err := l.Receipt(context.Background(), auditlog.Record{}); err != nil {
					t.Errorf("receipt: %v", err)
				}
			}
		})
	}
	close(start)
	group.Wait()
	if n := synced.Load(); n > writers*each/2 {
		t.Errorf("got %d syncs for %d receipts of %d writers, want them shared", n, recorded.Load(), writers)
	}
}

func TestAFloodOfRefusalsIsCountedAndPushesNothingOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		l := open(t, Config{Dir: dir})
		deny := func(actor string) { l.Outcome(auditlog.Record{Actor: actor, Code: 403, Decision: auditlog.Deny}) }
		for range 5000 {
			deny("device:stolen")
		}
		deny("user:bob")
		time.Sleep(floodWindow)
		deny("device:stolen")
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		kept, omitted, bob := 0, uint64(0), 0
		for _, r := range records(t, dir) {
			if r.Actor == "device:stolen" {
				kept, omitted = kept+1, omitted+r.Omitted
			}
			if r.Actor == "user:bob" {
				bob++
			}
		}
		if kept != floodRecords+1 || omitted != 5000-floodRecords || bob != 1 {
			t.Errorf("got %d kept, %d counted, %d of somebody else; want %d, %d and 1", kept, omitted, bob, floodRecords+1, 5000-floodRecords)
		}
	})
}
