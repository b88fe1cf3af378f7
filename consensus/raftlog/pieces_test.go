package raftlog

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"go.etcd.io/bbolt"
	pb "go.etcd.io/raft/v3/raftpb"
)

// TestEntriesOfAnySizeAreReadAsTheyWere has sizes around the ends of pieces and pages.
func TestEntriesOfAnySizeAreReadAsTheyWere(t *testing.T) {
	path := create(t)
	l := open(t, path)
	rng := rand.New(rand.NewPCG(1, 1))
	var want [][]byte
	for _, size := range []int{0, 1, pieceBytes - 40, pieceBytes, pieceBytes + 1, 4095, 4096, 4 * pieceBytes, 300_000, tailBytes + 1} {
		for around := max(0, size-16); around <= size; around++ {
			data := make([]byte, around)
			for i := range data {
				data[i] = byte(rng.Uint32())
			}
			want = append(want, data)
			if size > 100_000 {
				break
			}
		}
	}
	var all []*pb.Entry
	for i, data := range want {
		all = append(all, &pb.Entry{Index: new(uint64(i) + 2), Term: new(uint64(1)), Data: data})
	}
	if err := l.Append(Batch{Entries: all}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		got, err := l.read(2, uint64(len(want))+2, 1<<40)
		if err != nil || len(got) != len(want) {
			t.Fatalf("got %d entries, %v, want %d", len(got), err, len(want))
		}
		for i, e := range got {
			if !bytes.Equal(e.GetData(), want[i]) {
				t.Errorf("entry %d of %d bytes is read as another of %d", i+2, len(want[i]), len(e.GetData()))
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		l = open(t, path)
	}
}

func TestAnAppendWritesLittleBesideItsEntries(t *testing.T) {
	l := open(t, create(t))
	l.db.NoSync = true // what is counted are pages
	before, total := l.db.Stats().TxStats.PageAlloc, 0
	for i := range uint64(300) {
		e := &pb.Entry{Index: new(i + 2), Term: new(uint64(1)), Data: make([]byte, 30_000)}
		if err := l.Append(Batch{Entries: []*pb.Entry{e}}); err != nil {
			t.Fatal(err)
		}
		total += len(e.GetData())
	}
	if wrote := l.db.Stats().TxStats.PageAlloc - before; wrote > int64(total)*18/10 {
		t.Errorf("wrote %d bytes of pages for %d of entries", wrote, total)
	}
}

func TestOnlyWhatAMemberVouchesForIsUrgent(t *testing.T) {
	hard := func(term, vote, commit uint64) *pb.HardState {
		return &pb.HardState{Term: new(term), Vote: new(vote), Commit: new(commit)}
	}
	for what, c := range map[string]struct {
		b    Batch
		want bool
	}{
		"nothing":        {Batch{}, false},
		"a commit index": {Batch{Hard: hard(3, 7, 99)}, false},
		"a membership":   {Batch{Conf: &Conf{Index: 5}}, false},
		"a compaction":   {Batch{Compact: 4}, false},
		"a term":         {Batch{Hard: hard(4, 7, 9)}, true},
		"a vote":         {Batch{Hard: hard(3, 8, 9)}, true},
		"an entry":       {Batch{Entries: entries(3, 10, 10)}, true},
		"a record":       {Batch{Records: []Record{{ID: 7}}}, true},
	} {
		if got := c.b.Urgent(hard(3, 7, 9)); got != c.want {
			t.Errorf("%s: urgent %v, want %v", what, got, c.want)
		}
	}
}

func TestAMissingPieceIsAnErrorNotAnEntry(t *testing.T) {
	path := create(t)
	l := open(t, path)
	big := &pb.Entry{Index: new(uint64(2)), Term: new(uint64(1)), Data: make([]byte, 10_000)}
	if err := l.Append(Batch{Entries: append([]*pb.Entry{big}, entries(1, 3, 3)...)}); err != nil {
		t.Fatal(err)
	}
	for _, piece := range []int{10, 4} {
		err := l.db.Update(func(tx *bbolt.Tx) error { return tx.Bucket(bucketLog).Delete(pieceKey(2, piece)) })
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.read(2, 4, 1<<30); !errors.Is(err, errPieces) {
			t.Errorf("without piece %d: got %v, want %v", piece, err, errPieces)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); !errors.Is(err, errPieces) {
		t.Errorf("opened again: got %v, want %v", err, errPieces)
	}
}
