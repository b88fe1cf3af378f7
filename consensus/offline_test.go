package consensus

import (
	"errors"
	"io"
	"path/filepath"
	"slices"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/drover-fleet/drover/consensus/raftlog"
)

// replayed is a machine that notes what it is given.
type replayed struct {
	indexes  []uint64
	commands []string
}

func (m *replayed) Apply(entries []Entry) ([][]any, error) {
	for _, e := range entries {
		m.indexes = append(m.indexes, e.Index)
		for _, c := range e.Commands {
			m.commands = append(m.commands, string(c))
		}
	}
	return make([][]any, len(entries)), nil
}
func (m *replayed) Synced() uint64                           { return 0 }
func (m *replayed) Snapshot() (uint64, io.ReadCloser, error) { return 0, nil, errors.ErrUnsupported }
func (m *replayed) Restore(uint64, io.Reader) error          { return errors.ErrUnsupported }

// logOf makes the raft.db of one member of three that begins after an entry, holds entries up to last and knows commit as committed.
// Entry 7, where there is one, changes the membership; each other entry has one command, its index as a letter.
func logOf(t *testing.T, begin, last, commit uint64) string {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, logFile)
	members := []Member{{ID: 1, Name: "h1", PeerAddr: "a:1"}, {ID: 2, Name: "h2", PeerAddr: "b:1"}, {ID: 3, Name: "h3", PeerAddr: "c:1"}}
	seed := raftlog.Seed{
		Begin: raftlog.EntryID{Index: begin, Term: 2},
		Conf:  raftlog.Conf{Index: begin, State: &pb.ConfState{Voters: []uint64{1, 2, 3}}, Members: encodeMembers(members)},
	}
	if err := raftlog.Create(path, raftlog.Identity{ID: 1, Name: "h1"}, &seed, raftlog.Conf{}); err != nil {
		t.Fatal(err)
	}
	l, err := raftlog.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	b := raftlog.Batch{Hard: &pb.HardState{Term: new(uint64(4)), Vote: new(uint64(1)), Commit: new(commit)}}
	for i := begin + 1; i <= last; i++ {
		e := &pb.Entry{Index: new(i), Term: new(uint64(3)), Data: encodeEnvelope(9, []proposal{{id: i, data: []byte{'a' + byte(i)}}})}
		if i == 7 {
			e.Type, e.Data = pb.EntryConfChangeV2.Enum(), nil
		}
		b.Entries = append(b.Entries, e)
	}
	if err := errors.Join(l.Append(b), l.Close()); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestF40ReplayGivesTheMachineAllThatTheLogHolds(t *testing.T) {
	dir := logOf(t, 4, 9, 6)
	s, err := ReadLog(dir)
	if err != nil || s.First != 5 || s.Last != 9 || s.Committed != 6 || s.Term != 4 || len(s.Members) != 3 || s.Learner {
		t.Fatalf("log: got %+v (%v), want entries 5 to 9 of term 4, 6 committed, 3 members", s, err)
	}
	for _, tt := range []struct {
		applied uint64
		indexes []uint64
		want    string
	}{
		{4, []uint64{5, 6, 7, 8, 9}, "fgij"}, // nothing is committed after 6 as far as the log knows, and all is kept
		{6, []uint64{7, 8, 9}, "ij"},
		{9, nil, ""},
		{12, nil, ""}, // the log is an old copy
	} {
		var m replayed
		r, err := Replay(dir, &m, tt.applied)
		got := ""
		for _, c := range m.commands {
			got += c
		}
		if err != nil || !slices.Equal(m.indexes, tt.indexes) || got != tt.want || r.Commands != len(tt.want) {
			t.Errorf("machine at %d: got entries %v with %q, %d commands (%v), want %v with %q", tt.applied, m.indexes, got, r.Commands, err, tt.indexes, tt.want)
		}
	}
	if _, err := Replay(dir, &replayed{}, 3); !errors.Is(err, ErrGap) {
		t.Errorf("machine at 3 and a log from 5 on: got %v, want %v", err, ErrGap)
	}
	if again, err := ReadLog(dir); err != nil || again.Last != s.Last || again.Term != s.Term || again.Committed != s.Committed {
		t.Errorf("after the replays: got %+v (%v), want the log as it was, %+v", again, err, s)
	}
}

func TestF40LogBeforeAnInstalledCopyIsNotReplayed(t *testing.T) {
	dir := logOf(t, 4, 9, 9)
	l, err := raftlog.Open(filepath.Join(dir, logFile))
	if err != nil {
		t.Fatal(err)
	}
	seed := raftlog.Seed{Begin: raftlog.EntryID{Index: 6, Term: 3}, Conf: l.Meta().Conf}
	if err := errors.Join(l.BeginInstall(seed), l.Close()); err != nil {
		t.Fatal(err)
	}
	for applied, want := range map[uint64]int{6: 0, 5: 4} {
		var m replayed
		if _, err := Replay(dir, &m, applied); err != nil || len(m.indexes) != want {
			t.Errorf("a copy of entry 6 was being installed, the machine is at %d: got entries %v (%v), want %d", applied, m.indexes, err, want)
		}
	}
}

func TestF40NewGroupKnowsNobodyOfTheOld(t *testing.T) {
	old := logOf(t, 4, 9, 9)
	dir := t.TempDir()
	if err := BootstrapAt(Config{Dir: dir, Self: Member{Name: "h1", PeerAddr: "a:1"}}, 10, 5); err != nil {
		t.Fatal(err)
	}
	was, errOld := ReadLog(old)
	is, err := ReadLog(dir)
	if err := errors.Join(errOld, err); err != nil {
		t.Fatal(err)
	}
	if is.ID == was.ID || len(is.Members) != 1 || is.Members[0].ID != is.ID || is.First != 11 || is.Last != 10 || is.Committed != 10 || is.Term != 5 {
		t.Errorf("got %+v, want a group of one under another id than %x that begins after entry 10 of term 5", is, was.ID)
	}
	if err := BootstrapAt(Config{Dir: dir, Self: Member{Name: "h1", PeerAddr: "a:1"}}, 10, 5); !errors.Is(err, ErrNotEmpty) {
		t.Errorf("over a log: got %v, want %v", err, ErrNotEmpty)
	}
}
