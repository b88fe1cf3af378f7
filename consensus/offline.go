package consensus

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/drover-fleet/drover/consensus/raftlog"
)

// This file is for whoever holds a directory while no member runs on it: rescue and inspection.

// LogState is what a raft.db says.
type LogState struct {
	ID        uint64
	Name      string
	Term      uint64
	Committed uint64 // known to be; the others may have known more
	First     uint64 // of the entries kept; one above Last when there are none
	Last      uint64
	Members   []Member // empty: it was never given the state
	Learner   bool     // the log's owner, as of its membership
	// Installing is the index of a copy of the state whose installation had begun; 0 is none.
	Installing uint64
}

// ReadLog reads the raft.db of a directory. It waits a few seconds at most for another process that holds it.
func ReadLog(dir string) (LogState, error) {
	l, err := openExisting(dir)
	if err != nil {
		return LogState{}, err
	}
	s, err := logState(l)
	return s, errors.Join(err, l.Close())
}

func openExisting(dir string) (*raftlog.Log, error) {
	path := filepath.Join(dir, logFile)
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("read log: %w", err)
	}
	return raftlog.Open(path)
}

func logState(l *raftlog.Log) (LogState, error) {
	m := l.Meta()
	if m.Identity.ID == 0 {
		return LogState{}, fmt.Errorf("%s: %w", l.Path(), ErrNoIdentity)
	}
	members, err := decodeMembers(m.Conf.Members)
	if err != nil {
		return LogState{}, fmt.Errorf("%s: %w", l.Path(), err)
	}
	s := LogState{
		ID: m.Identity.ID, Name: m.Identity.Name, Term: m.Hard.GetTerm(), Committed: m.Hard.GetCommit(), First: m.Begin.Index + 1,
	}
	if len(m.Conf.State.GetVoters()) > 0 {
		s.Members = members
	}
	for _, member := range s.Members {
		s.Learner = s.Learner || member.ID == s.ID && member.Learner
	}
	if m.Pending != nil {
		s.Installing = m.Pending.Begin.Index
	}
	s.Last, err = l.LastIndex()
	return s, err
}

// Replayed is what Replay gave the machine.
type Replayed struct {
	From, To uint64 // entries, both ends included; none when From is above To
	Commands int
}

// ErrGap means that entries between the machine and the log are gone.
var ErrGap = errors.New("entries between the state and the log are gone")

// Replay gives a machine every entry of the directory's log after the one that it has applied: also those of which the log does not
// know that they are committed. It changes nothing in the directory.
func Replay(dir string, m Machine, applied uint64) (r Replayed, err error) {
	l, err := openExisting(dir)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	s, err := logState(l)
	if err != nil {
		return r, err
	}
	r = Replayed{From: applied + 1, To: s.Last}
	if s.Installing != 0 && applied >= s.Installing {
		r.To = applied // the log is of the time before the copy that the machine holds
	}
	if r.From < s.First && s.First > 2 {
		return r, fmt.Errorf("%w: the state is at entry %d and %s begins at %d", ErrGap, applied, l.Path(), s.First)
	}
	n := Node{cfg: Config{Machine: m}}
	for next := max(r.From, s.First); next <= r.To; {
		entries, err := l.Entries(next, r.To+1, maxBatch)
		if err != nil {
			return r, fmt.Errorf("replay: %w", err)
		}
		batch := make([]Entry, 0, len(entries))
		for _, e := range entries {
			entry, _, err := n.open(e)
			if err != nil {
				return r, fmt.Errorf("replay: %w", err)
			}
			r.Commands += len(entry.Commands)
			batch = append(batch, entry)
		}
		if _, err := m.Apply(batch); err != nil {
			return r, fmt.Errorf("replay entries %d to %d: %w", next, batch[len(batch)-1].Index, err)
		}
		next = batch[len(batch)-1].Index + 1
	}
	return r, nil
}

// BootstrapAt makes the directory that of the only member of a new group whose machine is at an entry of another group. The group has
// an identity of its own: whoever knew this member before does not know it any more, neither to vote for nor to follow.
func BootstrapAt(cfg Config, index, term uint64) error {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return fmt.Errorf("bootstrap: %w", err)
	}
	if index == 0 || term == 0 || index == math.MaxUint64 || term == math.MaxUint64 {
		return fmt.Errorf("bootstrap at entry %d of term %d: there is no such entry", index, term)
	}
	id, err := randomID()
	if err != nil {
		return err
	}
	self := cfg.Self
	self.ID, self.Learner = id, false
	seed := raftlog.Seed{
		Begin: raftlog.EntryID{Index: index, Term: term},
		Conf:  raftlog.Conf{Index: index, State: &pb.ConfState{Voters: []uint64{id}}, Members: encodeMembers([]Member{self})},
	}
	identity := raftlog.Identity{ID: id, Name: self.Name}
	if err := raftlog.Create(filepath.Join(cfg.Dir, logFile), identity, &seed, raftlog.Conf{}); err != nil {
		return fmt.Errorf("bootstrap: %w", err)
	}
	return nil
}
