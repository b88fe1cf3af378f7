package raftlog

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

func create(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "raft.db")
	seed := Seed{Begin: EntryID{Index: 1, Term: 1}, Conf: Conf{Index: 1, State: &pb.ConfState{Voters: []uint64{7}}}}
	if err := Create(path, Identity{ID: 7, Name: "h1"}, &seed, Conf{}); err != nil {
		t.Fatal(err)
	}
	return path
}

func open(t *testing.T, path string) *Log {
	t.Helper()
	l, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func entries(term, from, to uint64) []*pb.Entry {
	var out []*pb.Entry
	for i := from; i <= to; i++ {
		out = append(out, &pb.Entry{Index: new(i), Term: new(term), Data: fmt.Appendf(nil, "%d/%d", term, i)})
	}
	return out
}

// dump is what a log holds, as text.
func dump(t *testing.T, l *Log) []string {
	t.Helper()
	first, _ := l.FirstIndex()
	last, _ := l.LastIndex()
	out := []string{}
	for i := first; i <= last; i++ {
		e, err := l.Entries(i, i+1, 0)
		if err != nil {
			t.Fatalf("entry %d: %v", i, err)
		}
		term, err := l.Term(i)
		if err != nil || term != e[0].GetTerm() {
			t.Fatalf("term of %d = %d, %v; want %d", i, term, err, e[0].GetTerm())
		}
		out = append(out, string(e[0].GetData()))
	}
	return out
}

func TestAppendSurvivesReopenAndReplacesAConflictingSuffix(t *testing.T) {
	path := create(t)
	l := open(t, path)
	hard := &pb.HardState{Term: new(uint64(3)), Vote: new(uint64(7)), Commit: new(uint64(2))}
	b := Batch{Entries: entries(2, 2, 6), Records: []Record{{ID: 7, Term: 2, Index: 6}}}
	b.Merge(Batch{Entries: entries(3, 5, 5), Hard: hard})
	for _, batch := range []Batch{b, {Entries: entries(3, 6, 7)}, {Entries: entries(4, 7, 8)}} {
		if err := l.Append(batch); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"2/2", "2/3", "2/4", "3/5", "3/6", "4/7", "4/8"}
	if diff := cmp.Diff(want, dump(t, l)); diff != "" {
		t.Errorf("before reopen (-want +got):\n%s", diff)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = open(t, path)
	if diff := cmp.Diff(want, dump(t, l)); diff != "" {
		t.Errorf("after reopen (-want +got):\n%s", diff)
	}
	m := l.Meta()
	if m.Hard.GetTerm() != 3 || m.Hard.GetVote() != 7 || m.Identity.ID != 7 || m.Records[0].Index != 6 {
		t.Errorf("meta = %+v, want what was written", m)
	}
}

func TestGapInTheLogIsRefused(t *testing.T) {
	l := open(t, create(t))
	if err := l.Append(Batch{Entries: entries(1, 5, 6)}); err == nil {
		t.Error("append of 5 after 1 succeeded")
	}
	if last, _ := l.LastIndex(); last != 1 {
		t.Errorf("last = %d, want 1", last)
	}
}

func TestCompactionDropsAndRemembersTheTermBeforeTheFirst(t *testing.T) {
	path := create(t)
	l := open(t, path)
	if err := l.Append(Batch{Entries: entries(2, 2, 10)}); err != nil {
		t.Fatal(err)
	}
	if err := l.Append(Batch{Compact: 6}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if diff := cmp.Diff([]string{"2/7", "2/8", "2/9", "2/10"}, dump(t, l)); diff != "" {
			t.Errorf("entries (-want +got):\n%s", diff)
		}
		if term, err := l.Term(6); term != 2 || err != nil {
			t.Errorf("term before the first = %d, %v; want 2", term, err)
		}
		if _, err := l.Term(5); !errors.Is(err, raft.ErrCompacted) {
			t.Errorf("term of a dropped entry: %v, want %v", err, raft.ErrCompacted)
		}
		if _, err := l.Entries(6, 8, 100); !errors.Is(err, raft.ErrCompacted) {
			t.Errorf("dropped entry: %v, want %v", err, raft.ErrCompacted)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		l = open(t, path)
	}
}

func TestEntriesOutsideMemoryAreReadFromTheFile(t *testing.T) {
	l := open(t, create(t))
	big := entries(2, 2, 11)
	for _, e := range big {
		e.Data = make([]byte, 1<<20)
	}
	if err := l.Append(Batch{Entries: big}); err != nil {
		t.Fatal(err)
	}
	if l.tail[0].GetIndex() == 2 {
		t.Fatal("everything is in memory; the test shows nothing")
	}
	for _, limit := range []uint64{0, 5 << 19, 1 << 30} {
		got, err := l.Entries(2, 12, limit)
		if err != nil {
			t.Fatal(err)
		}
		want := map[uint64]int{0: 1, 5 << 19: 2, 1 << 30: 10}[limit]
		if len(got) != want || got[0].GetIndex() != 2 {
			t.Errorf("limit %d: %d entries from %d, want %d from 2", limit, len(got), got[0].GetIndex(), want)
		}
	}
}

func TestInstallIsNotedBeforeAndDoneInOneStep(t *testing.T) {
	path := create(t)
	l := open(t, path)
	if err := l.Append(Batch{Entries: entries(2, 2, 5), Hard: &pb.HardState{Term: new(uint64(4)), Vote: new(uint64(9))}}); err != nil {
		t.Fatal(err)
	}
	seed := Seed{Begin: EntryID{Index: 40, Term: 4}, Conf: Conf{Index: 41, State: &pb.ConfState{Voters: []uint64{7, 9}}}}
	if err := errors.Join(l.BeginInstall(seed), l.Close()); err != nil {
		t.Fatal(err)
	}
	l = open(t, path)
	if p := l.Meta().Pending; p == nil || p.Begin != seed.Begin {
		t.Fatalf("pending = %+v, want %+v", p, seed.Begin)
	}
	if err := errors.Join(l.FinishInstall(nil), l.Close()); err != nil {
		t.Fatal(err)
	}
	l = open(t, path)
	m := l.Meta()
	first, _ := l.FirstIndex()
	if m.Pending != nil || first != 41 || m.Conf.Index != 41 || m.Hard.GetCommit() != 40 || m.Hard.GetVote() != 9 {
		t.Errorf("meta = %+v with first %d, want a log that begins at 41 with the vote kept", m, first)
	}
}

func TestResetForgetsEverythingButTheNewIdentity(t *testing.T) {
	l := open(t, create(t))
	if err := l.Append(Batch{Entries: entries(2, 2, 5), Records: []Record{{ID: 7, Term: 2, Index: 5}}}); err != nil {
		t.Fatal(err)
	}
	if err := l.Reset(Identity{ID: 8, Name: "h1", Generation: 1}, []byte("hints")); err != nil {
		t.Fatal(err)
	}
	m := l.Meta()
	last, _ := l.LastIndex()
	if m.Identity.ID != 8 || last != 0 || len(m.Records) != 0 || m.Hard.GetTerm() != 0 || string(m.Conf.Members) != "hints" {
		t.Errorf("meta = %+v, last = %d; want an empty log of id 8", m, last)
	}
}

func TestCreateRefusesADirectoryThatIsTaken(t *testing.T) {
	path := create(t)
	err := Create(path, Identity{ID: 9, Name: "h2"}, nil, Conf{})
	if !errors.Is(err, ErrNotEmpty) {
		t.Errorf("create: %v, want %v", err, ErrNotEmpty)
	}
}

func TestAFileOfSomethingElseIsRefusedAndNotTouched(t *testing.T) {
	path := filepath.Join(t.TempDir(), "raft.db")
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucket([]byte("photos"))
		return err
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if l, err := Open(path); err == nil || !strings.Contains(err.Error(), `no Raft log: it holds "photos"`) {
		t.Errorf("got %v, %v; want a refusal that names what is there", l, err)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the file was changed (%v)", err)
	}
}
