package raftlog

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"go.etcd.io/bbolt"
	pb "go.etcd.io/raft/v3/raftpb"
)

// TestWhatTheDiskHasChangedIsNeverTakenForAnEntry: a bit of a command flips in the file while no process has it open.
func TestWhatTheDiskHasChangedIsNeverTakenForAnEntry(t *testing.T) {
	path := create(t)
	l := open(t, path)
	const said = "replicas: 1 and nothing else"
	if err := l.Append(Batch{Entries: []*pb.Entry{{Index: new(uint64(2)), Term: new(uint64(1)), Data: []byte(said)}}}); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(file, []byte(said)); n == 0 {
		t.Fatal("the entry is not in the file")
	}
	if err := os.WriteFile(path, bytes.ReplaceAll(file, []byte(said), []byte("replicas: 3 and nothing else")), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err = Open(path)
	if !errors.Is(err, errDamaged) {
		t.Errorf("open: got %v, want %v", err, errDamaged)
	}
	if err == nil {
		_ = l.Close()
	}
}

func TestNoByteOfTermVoteAndMembershipChangesUnnoticed(t *testing.T) {
	path := create(t)
	l := open(t, path)
	if err := l.Append(Batch{Hard: &pb.HardState{Term: new(uint64(7)), Vote: new(uint64(3)), Commit: new(uint64(1))}}); err != nil {
		t.Fatal(err)
	}
	for _, key := range [][]byte{keyIdentity, keyHard, keyConf, keyBegin} {
		err := l.db.Update(func(tx *bbolt.Tx) error {
			b := tx.Bucket(bucketMeta)
			whole := bytes.Clone(b.Get(key))
			if len(whole) == 0 {
				t.Fatalf("%s is not kept", key)
			}
			for i := range whole {
				damaged := bytes.Clone(whole)
				damaged[i] ^= 0x04
				if err := b.Put(key, damaged); err != nil {
					return err
				}
				if _, err := readMeta(b); !errors.Is(err, errDamaged) {
					t.Errorf("%s, byte %d: got %v, want %v", key, i, err, errDamaged)
				}
			}
			return b.Put(key, whole)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
