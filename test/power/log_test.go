package power

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/drover-fleet/drover/consensus/raftlog"
)

// step changes a log; the same step does the same to any log with the same contents.
type step func(*raftlog.Log) error

// TestLogSurvivesPowerCuts: after each cut raft.db holds the steps that were acknowledged, and of the one under way all or nothing.
func TestLogSurvivesPowerCuts(t *testing.T) {
	seed := testSeed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	b, dir := newBoard(t), memDir(t)
	var life *logLife
	steps := 0
	for cut := range *cuts {
		if cut%cutsOfALife == 0 {
			if life != nil {
				life.close()
			}
			b.wipe()
			life = newLogLife(t, rng, filepath.Join(dir, fmt.Sprint("copy-", cut)))
		}
		b.plugIn(1+rng.IntN(120), rng.Uint64())
		steps += life.live(b)
		b.pull()
		if t.Failed() {
			t.Fatalf("after cut %d", cut)
		}
	}
	b.plugIn(1<<30, 0)
	if l := life.start(b); l != nil {
		_ = l.Close()
	}
	b.pull()
	life.close()
	t.Logf("%d cuts, %d steps acknowledged, all kept", *cuts, steps)
}

// logLife is one life of a member's log beside a copy that loses no power.
type logLife struct {
	t    *testing.T
	rng  *rand.Rand
	copy *raftlog.Log
	made bool // Create was acknowledged
	// under is the step that the power cut off; the copy has not made it yet.
	under step
}

var (
	firstSeed = raftlog.Seed{
		Begin: raftlog.EntryID{Index: 1, Term: 1}, Conf: raftlog.Conf{Index: 1, State: &pb.ConfState{Voters: []uint64{7}}, Members: []byte("h1")},
	}
	identity = raftlog.Identity{ID: 7, Name: "h1"}
)

func newLogLife(t *testing.T, rng *rand.Rand, path string) *logLife {
	t.Helper()
	if err := raftlog.Create(path, identity, &firstSeed, raftlog.Conf{}); err != nil {
		t.Fatal(err)
	}
	l, err := raftlog.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return &logLife{t: t, rng: rng, copy: l}
}

func (y *logLife) close() {
	if err := y.copy.Close(); err != nil {
		y.t.Fatal(err)
	}
}

// start makes the file if it was not made, opens it and compares. It returns nil if the power went.
func (y *logLife) start(b *board) *raftlog.Log {
	y.t.Helper()
	if !y.made {
		err := raftlog.Create(b.path("raft.db"), identity, &firstSeed, raftlog.Conf{})
		if errors.Is(err, raftlog.ErrNotEmpty) {
			err = nil // it stood before the power went, though nobody was told
		}
		if !b.must("create", err) {
			return nil
		}
		y.made = true
	}
	l, err := raftlog.Open(b.path("raft.db"))
	if !b.must("start", err) {
		return nil
	}
	got := y.digest(l)
	if got == y.digest(y.copy) {
		y.under = nil
		return l
	}
	if y.under != nil {
		if err := y.under(y.copy); err != nil {
			y.t.Fatal(err)
		}
		y.under = nil
	}
	if want := y.digest(y.copy); got != want {
		y.t.Errorf("got a log of %s, want %s", got, want)
	}
	return l
}

func (y *logLife) live(b *board) (steps int) {
	y.t.Helper()
	l := y.start(b)
	if l == nil {
		return 0
	}
	for !y.t.Failed() {
		s := y.choose()
		if !b.must("step", s(l)) {
			y.under = s
			break
		}
		if err := s(y.copy); err != nil {
			y.t.Fatal(err)
		}
		steps++
	}
	if err := l.Close(); err != nil {
		y.t.Error(err)
	}
	return steps
}

// choose draws a step that fits the copy as it stands.
func (y *logLife) choose() step {
	m := y.copy.Meta()
	last, err := y.copy.LastIndex()
	if err != nil {
		y.t.Fatal(err)
	}
	switch n := y.rng.IntN(20); {
	case m.Pending != nil && n < 2:
		return (*raftlog.Log).DropInstall
	case m.Pending != nil:
		return func(l *raftlog.Log) error { return l.FinishInstall(nil) }
	case n == 0:
		s := raftlog.Seed{Begin: raftlog.EntryID{Index: last + 100, Term: m.Hard.GetTerm()}, Conf: m.Conf}
		return func(l *raftlog.Log) error { return l.BeginInstall(s) }
	case n == 1:
		id := raftlog.Identity{ID: y.rng.Uint64() >> 1, Name: "h1", Generation: m.Identity.Generation + 1}
		return func(l *raftlog.Log) error { return l.Reset(id, []byte("h1,h2")) }
	}
	batch := y.batch(m, last)
	return func(l *raftlog.Log) error { return l.Append(batch) }
}

func (y *logLife) batch(m raftlog.Meta, last uint64) raftlog.Batch {
	term := max(1, m.Hard.GetTerm())
	var b raftlog.Batch
	from := last + 1
	if last > m.Begin.Index && y.rng.IntN(5) == 0 { // another leader's entries take the place of the newest
		term++
		from -= y.rng.Uint64N(min(last-m.Begin.Index, 8)) + 1
		from = max(from, m.Begin.Index+1)
	}
	for i := range y.rng.Uint64N(6) {
		data := make([]byte, 1+y.rng.IntN(6000))
		for j := range data {
			data[j] = byte(y.rng.Uint32())
		}
		b.Entries = append(b.Entries, &pb.Entry{Index: new(from + i), Term: new(term), Data: data})
	}
	b.Hard = &pb.HardState{Term: new(term), Vote: new(y.rng.Uint64N(3)), Commit: new(max(m.Begin.Index, m.Hard.GetCommit()))}
	if y.rng.IntN(4) == 0 {
		b.Records = []raftlog.Record{{ID: 9, Term: term, Index: last}}
	}
	if len(b.Entries) == 0 && last > m.Begin.Index && y.rng.IntN(2) == 0 {
		b.Compact = m.Begin.Index + 1 + y.rng.Uint64N(last-m.Begin.Index)
	}
	return b
}

// digest is everything that the log holds.
func (y *logLife) digest(l *raftlog.Log) string {
	y.t.Helper()
	m := l.Meta()
	last, err := l.LastIndex()
	if err != nil {
		y.t.Fatal(err)
	}
	h := sha256.New()
	for i := m.Begin.Index + 1; i <= last; i++ {
		e, err := l.Entries(i, i+1, 0)
		if err != nil {
			y.t.Fatalf("entry %d of %d to %d: %v", i, m.Begin.Index+1, last, err)
		}
		raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(e[0])
		if err != nil {
			y.t.Fatal(err)
		}
		_, _ = h.Write(raw)
	}
	pending := "none"
	if p := m.Pending; p != nil {
		pending = fmt.Sprintf("%v conf %d %v %q", p.Begin, p.Conf.Index, pb.EnsureConfState(p.Conf.State), p.Conf.Members)
	}
	return fmt.Sprintf("entries %d to %d (%x) identity %v hard %v conf %d %v %q records %v pending %v",
		m.Begin.Index+1, last, h.Sum(nil)[:8], m.Identity, m.Hard, m.Conf.Index, pb.EnsureConfState(m.Conf.State), m.Conf.Members, m.Records, pending)
}
