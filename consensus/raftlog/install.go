package raftlog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"
	pb "go.etcd.io/raft/v3/raftpb"
)

// ErrNotEmpty means that the file already belongs to a member.
var ErrNotEmpty = errors.New("directory already belongs to a member")

// NewSuffix is added to the name of a file while it is made.
const NewSuffix = ".new"

// Create prepares a new file for the member id. With a seed the log begins there; without one it is empty and the
// member must be given a snapshot. It refuses a file that holds anything. The file is made aside and renamed, so that neither a
// full disk nor a crash leaves half of one.
func Create(path string, id Identity, seed *Seed, conf Conf) error {
	if err := refuseUsed(path); err != nil {
		return err
	}
	if seed == nil {
		seed = &Seed{Conf: conf}
	}
	aside := path + NewSuffix
	if err := os.Remove(aside); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("create %s: %w", path, err)
	}
	err := fill(aside, id, *seed)
	if err == nil {
		err = os.Rename(aside, path)
	}
	if err != nil {
		_ = os.Remove(aside) // what stays is removed by the next attempt
		return fmt.Errorf("create %s: %w", path, err)
	}
	return syncDir(filepath.Dir(path))
}

func refuseUsed(path string) error {
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	l, err := Open(path)
	if err != nil {
		return err
	}
	if m := l.Meta(); m.Identity.ID != 0 {
		err = fmt.Errorf("%s: %w (%q, id %x)", path, ErrNotEmpty, m.Identity.Name, m.Identity.ID)
	}
	return errors.Join(err, l.Close())
}

func fill(path string, id Identity, seed Seed) error {
	l, err := Open(path)
	if err != nil {
		return err
	}
	err = l.rewrite(id, seed, &pb.HardState{Term: new(seed.Begin.Term), Commit: new(seed.Begin.Index)})
	return errors.Join(err, l.Close())
}

// SetIdentity replaces the identity.
func (l *Log) SetIdentity(id Identity) error {
	err := l.db.Update(func(tx *bbolt.Tx) error { return putCBOR(tx.Bucket(bucketMeta), keyIdentity, id) })
	if err != nil {
		return fmt.Errorf("write %s: %w", l.path, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.meta.Identity = id
	return nil
}

// Reset forgets the log, the term, the vote and all records, and starts over empty as id with the members as hints.
func (l *Log) Reset(id Identity, members []byte) error {
	return l.rewrite(id, Seed{Conf: Conf{Members: members}}, &pb.HardState{})
}

// BeginInstall notes that the state machine is about to be replaced by the state at the seed. It comes before the
// machine's own restore, FinishInstall after it. A crash in between leaves Meta().Pending set: whoever opens the file
// finishes if the machine has reached the seed's index, and calls DropInstall if not.
func (l *Log) BeginInstall(s Seed) error {
	conf, err := s.Conf.pack()
	if err != nil {
		return err
	}
	err = l.db.Update(func(tx *bbolt.Tx) error {
		return putCBOR(tx.Bucket(bucketMeta), keyPending, seedCBOR{Begin: s.Begin, Conf: conf})
	})
	if err != nil {
		return fmt.Errorf("write %s: %w", l.path, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.meta.Pending = &s
	return nil
}

// FinishInstall makes the log begin at the pending seed. hard may be nil: then term and vote stay and the commit index
// is raised to the seed.
func (l *Log) FinishInstall(hard *pb.HardState) error {
	m := l.Meta()
	if m.Pending == nil {
		return fmt.Errorf("%s: no installation to finish", l.path)
	}
	if hard == nil {
		hard = &pb.HardState{Term: new(max(m.Hard.GetTerm(), m.Pending.Begin.Term)), Vote: new(m.Hard.GetVote())}
		if hard.GetTerm() != m.Hard.GetTerm() {
			hard.Vote = new(uint64(0))
		}
	}
	// The log ends at the seed now, so a higher commit index would point at nothing.
	hard = &pb.HardState{Term: new(hard.GetTerm()), Vote: new(hard.GetVote()), Commit: new(m.Pending.Begin.Index)}
	return l.rewriteKeeping(m.Identity, *m.Pending, hard, m.Records)
}

// DropInstall forgets a pending installation whose restore never happened.
func (l *Log) DropInstall() error {
	err := l.db.Update(func(tx *bbolt.Tx) error { return tx.Bucket(bucketMeta).Delete(keyPending) })
	if err != nil {
		return fmt.Errorf("write %s: %w", l.path, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.meta.Pending = nil
	return nil
}

func (l *Log) rewrite(id Identity, s Seed, hard *pb.HardState) error {
	return l.rewriteKeeping(id, s, hard, nil)
}

// rewriteKeeping replaces everything in one transaction.
func (l *Log) rewriteKeeping(id Identity, s Seed, hard *pb.HardState, records []Record) error {
	err := l.db.Update(func(tx *bbolt.Tx) error {
		if err := tx.DeleteBucket(bucketLog); err != nil {
			return err
		}
		if _, err := tx.CreateBucket(bucketLog); err != nil {
			return err
		}
		meta := tx.Bucket(bucketMeta)
		return errors.Join(
			meta.Delete(keyPending),
			putCBOR(meta, keyIdentity, id),
			putCBOR(meta, keyBegin, s.Begin),
			putCBOR(meta, keyRecords, records),
			putHard(meta, hard),
			putConf(meta, s.Conf),
		)
	})
	if err != nil {
		return fmt.Errorf("write %s: %w", l.path, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.meta = Meta{Identity: id, Hard: hard, Conf: s.Conf, Begin: s.Begin, Records: records}
	l.last, l.tail, l.size = s.Begin.Index, nil, 0
	return nil
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	return errors.Join(d.Sync(), d.Close())
}
