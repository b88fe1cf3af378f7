package power

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/drover-fleet/drover/consensus/raftlog"
	"github.com/drover-fleet/drover/store/mvcc"
)

// member is a hub member's two files as consensus drives them: an entry is acknowledged once it is in the log, and applied in memory;
// a checkpoint takes the state file along now and then, and the log is cut behind it.
type member struct {
	*script
	b     *board
	log   *raftlog.Log
	state *mvcc.Store
	made  bool
	acked uint64 // last entry acknowledged, in all lives
}

// TestLogAndStateTogetherSurvivePowerCuts: after each cut the newest checkpoint and the log after it come to everything that was
// acknowledged, and to the contents of a member that lost no power.
func TestLogAndStateTogetherSurvivePowerCuts(t *testing.T) {
	seed := testSeed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	b, dir := newBoard(t), memDir(t)
	var m *member
	acked, cutLogs, replayed := uint64(0), 0, uint64(0)
	for cut := range *cuts {
		if cut%cutsOfALife == 0 {
			if m != nil {
				acked += m.acked
				m.close()
			}
			b.wipe()
			m = &member{script: newScript(t, filepath.Join(dir), rng), b: b}
		}
		b.plugIn(1+rng.IntN(200), rng.Uint64())
		if n, on := m.begin(); on {
			replayed += n
			cutLogs += m.work()
		}
		m.end()
		b.pull()
		if t.Failed() {
			t.Fatalf("after cut %d", cut)
		}
	}
	b.plugIn(1<<30, 0) // the last life ends in peace
	_, _ = m.begin()
	m.end()
	b.pull()
	m.close()
	t.Logf("%d cuts, %d entries acknowledged, all kept; %d replayed; the log was cut %d times", *cuts, acked+m.acked, replayed, cutLogs)
	if *cuts >= 20 && (replayed == 0 || cutLogs == 0) {
		t.Error("no start had to replay, or no log was cut: this showed nothing")
	}
}

// begin opens both files, replays the log and compares; on is false when the power went.
func (m *member) begin() (replayed uint64, on bool) {
	m.t.Helper()
	if !m.made {
		err := raftlog.Create(m.b.path("raft.db"), identity, &raftlog.Seed{Begin: raftlog.EntryID{Index: 0, Term: 0}, Conf: firstSeed.Conf}, raftlog.Conf{})
		if !errors.Is(err, raftlog.ErrNotEmpty) && !m.b.must("create", err) {
			return 0, false
		}
		m.made = true
	}
	var err error
	if m.log, err = raftlog.Open(m.b.path("raft.db")); !m.b.must("open the log", err) {
		return 0, false
	}
	if m.state, err = mvcc.Open(m.b.path("state"), mvcc.Options{Inline: true, CheckpointBytes: 64 << 10}); !m.b.must("open the state", err) {
		return 0, false
	}
	last, err := m.log.LastIndex()
	first, errFirst := m.log.FirstIndex()
	if err := errors.Join(err, errFirst); err != nil {
		m.t.Fatal(err)
	}
	from := m.state.Applied() + 1
	if last < m.acked || from < first {
		m.t.Errorf("the log holds %d to %d, want all from %d to the acknowledged %d", first, last, from, m.acked)
		return 0, false
	}
	for index := from; index <= last; index++ {
		if !m.apply(index) {
			return 0, false
		}
	}
	m.acked = last // what was not acknowledged may be there all the same
	if applied, hash := m.state.Hash(); applied != last || hash != m.hashes[last] {
		m.t.Errorf("contents at %d differ from those at %d of the member that lost no power", applied, last)
	}
	return last + 1 - from, true
}

// apply applies what the log holds at index.
func (m *member) apply(index uint64) (on bool) {
	m.t.Helper()
	entries, err := m.log.Entries(index, index+1, 1<<30)
	if err != nil || len(entries) != 1 || string(entries[0].GetData()) != fmt.Sprint(index) {
		m.t.Fatalf("entry %d of the log: got %v, %v", index, entries, err)
	}
	_, err = m.state.Apply([]mvcc.Entry{m.entry(index)})
	return m.b.must("apply", err)
}

// work goes on until the power does not; it returns how often the log was cut.
func (m *member) work() (cutLogs int) {
	m.t.Helper()
	for !m.t.Failed() {
		batch := raftlog.Batch{Hard: &pb.HardState{Term: new(uint64(1)), Vote: new(uint64(7)), Commit: new(m.acked)}}
		for i := range uint64(1 + m.rng.IntN(4)) {
			index := m.acked + 1 + i
			_ = m.entry(index) // the copy has it first
			batch.Entries = append(batch.Entries, &pb.Entry{Index: new(index), Term: new(uint64(1)), Data: fmt.Append(nil, index)})
		}
		first, err := m.log.FirstIndex()
		if err != nil {
			m.t.Fatal(err)
		}
		if synced := m.state.Synced(); synced >= first+5 && m.rng.IntN(4) == 0 {
			batch.Compact = synced
			cutLogs++
		}
		if !m.b.must("append", m.log.Append(batch)) {
			return cutLogs
		}
		for range batch.Entries {
			m.acked++
			if !m.apply(m.acked) {
				return cutLogs
			}
		}
		var errs error
		switch m.rng.IntN(24) {
		case 0:
			_, errs = m.state.CompactFile(m.t.Context())
		case 1, 2:
			errs = m.state.Checkpoint()
		}
		if !m.b.must("upkeep", errs) {
			return cutLogs
		}
	}
	return cutLogs
}

func (m *member) end() {
	m.t.Helper()
	var errs error
	if m.log != nil {
		errs = m.log.Close()
	}
	if m.state != nil {
		errs = errors.Join(errs, m.state.Close())
	}
	m.log, m.state = nil, nil
	if errs != nil {
		m.t.Error(errs)
	}
}
