package cluster

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/drover-fleet/drover/consensus"
	"github.com/drover-fleet/drover/consensus/raftlog"
)

// I1: commands acknowledged while the leader dies are there afterwards, once each as consensus is concerned: a caller
// that is told "ambiguous" does not repeat here, so no command may be applied twice.
func TestLeaderDeathLosesNoAcknowledgedCommandAndAppliesNoneTwice(t *testing.T) {
	t.Parallel()
	c := Start(t, 3, Options{})
	leader := c.Leader()
	survivors := c.Followers(leader)
	var mu sync.Mutex
	acked := map[string]bool{}
	started := make(chan struct{}, 200)
	var group sync.WaitGroup
	for i := range 200 {
		group.Go(func() {
			cmd := fmt.Sprintf("c-%d", i)
			started <- struct{}{}
			_, err := survivors[i%2].Node.Propose(t.Context(), []byte(cmd))
			switch {
			case err == nil:
				mu.Lock()
				acked[cmd] = true
				mu.Unlock()
			case errors.Is(err, consensus.ErrAmbiguous), errors.Is(err, consensus.ErrNoLeader):
			default:
				t.Errorf("propose %s: %v", cmd, err)
			}
		})
		if i == 100 {
			for range 50 {
				<-started
			}
			c.Kill(leader.Name)
		}
	}
	group.Wait()
	c.Up(leader.Name)
	write(t, c, survivors[0], "last")
	c.WaitEqual()
	got := count(survivors[0].lines())
	for cmd := range acked {
		if got[cmd] != 1 {
			t.Errorf("acknowledged %q is applied %d times, want once", cmd, got[cmd])
		}
	}
	for cmd, n := range got {
		if n > 1 {
			t.Errorf("%q is applied %d times", cmd, n)
		}
	}
}

// With the real tick the first write after the leader's death is acknowledged well within 3 s.
func TestLeaderDeathIsOverInThreeSeconds(t *testing.T) {
	t.Parallel()
	c := Start(t, 3, Options{Tick: 50 * time.Millisecond})
	var worst time.Duration
	for round := range 3 {
		leader := c.Leader()
		survivor := c.Followers(leader)[0]
		c.Kill(leader.Name)
		began := time.Now()
		write(t, c, survivor, fmt.Sprintf("after-%d", round))
		worst = max(worst, time.Since(began))
		c.Up(leader.Name)
		c.WaitVoters(3)
	}
	t.Logf("worst of three: %v", worst)
	if worst > 3*time.Second {
		t.Errorf("worst = %v, want under 3 s", worst)
	}
}

func TestWholeGroupKilledAtOnceElectsAgainAndKeepsEverything(t *testing.T) {
	t.Parallel()
	c := Start(t, 3, Options{})
	writeMany(t, c, c.Leader(), "kept", 30)
	for _, name := range []string{"h1", "h2", "h3"} {
		c.Kill(name)
	}
	for _, name := range []string{"h1", "h2", "h3"} {
		c.Up(name)
	}
	write(t, c, c.Leader(), "after")
	c.WaitEqual()
	if got := len(c.Any().lines()); got != 31 {
		t.Errorf("lines = %d, want 31", got)
	}
}

func TestTwoOfThreeStartWithoutTheThird(t *testing.T) {
	t.Parallel()
	c := Start(t, 3, Options{})
	writeMany(t, c, c.Leader(), "kept", 5)
	for _, name := range []string{"h1", "h2", "h3"} {
		c.Kill(name)
	}
	c.Up("h2")
	c.Up("h3")
	write(t, c, c.Leader(), "after")
	c.Up("h1")
	c.WaitVoters(3)
	c.WaitEqual()
}

func TestSingleMemberRestartsByItself(t *testing.T) {
	t.Parallel()
	c := Start(t, 1, Options{})
	writeMany(t, c, c.Any(), "a", 3)
	c.Kill("h1")
	c.Up("h1")
	writeMany(t, c, c.Any(), "b", 3)
	if got := len(c.Any().lines()); got != 6 {
		t.Errorf("lines = %d, want 6", got)
	}
}

// small makes logs short, so that who is away for a while needs a snapshot.
func small(cfg *consensus.Config) {
	cfg.KeepEntries, cfg.CompactInterval = 20, 10
}

func TestF37MemberThatIsBehindTheLogIsGivenASnapshot(t *testing.T) {
	t.Parallel()
	c := Start(t, 3, Options{Tune: small})
	leader := c.Leader()
	away := c.Followers(leader)[0]
	c.Stop(away.Name)
	writeMany(t, c, leader, "w", 150)
	c.Until("the log is cut short", func() bool { return leader.Node.Status().Entries <= 2*20+10 })
	c.Up(away.Name)
	c.WaitVoters(3)
	c.WaitEqual()
	if away.Machine.(*Ledger).Entries() > 60 {
		t.Errorf("%d entries were replayed, want a snapshot", away.Machine.(*Ledger).Entries())
	}
	c.Kill(away.Name)
	c.Up(away.Name)
	c.WaitEqual()
}

// A snapshot that breaks off is sent again when the link is back.
func TestF37BrokenSnapshotIsSentAgain(t *testing.T) {
	t.Parallel()
	c := Start(t, 3, Options{Tune: small})
	leader := c.Leader()
	away := c.Followers(leader)[0]
	c.Stop(away.Name)
	writeMany(t, c, leader, "w", 150)
	reads := make(chan struct{}, 1)
	c.Net.Tap(func(from, to string, frame []byte) {
		if frame == nil && to == away.Addr {
			select {
			case reads <- struct{}{}:
			default:
			}
		}
	})
	for _, a := range c.Addrs(away.Name) {
		c.Net.Cut(away.Addr, a) // it hears and cannot acknowledge
	}
	c.Up(away.Name)
	c.Net.Isolate(away.Addr, c.Addrs(away.Name)...)
	c.Net.MendAll()
	<-reads
	c.Net.Isolate(away.Addr, c.Addrs(away.Name)...)
	c.Net.MendAll()
	c.WaitVoters(3)
	c.WaitEqual()
}

// A crash between the machine's restore and the log's is made up for at the next start, whichever came first.
func TestCrashWhileInstallingASnapshotIsRecovered(t *testing.T) {
	t.Parallel()
	for _, restored := range []bool{false, true} {
		t.Run(fmt.Sprintf("machine restored %v", restored), func(t *testing.T) {
			c := Start(t, 3, Options{Tune: small})
			leader := c.Leader()
			away := c.Followers(leader)[0]
			c.Stop(away.Name)
			writeMany(t, c, leader, "w", 150)
			index, image, err := leader.Machine.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			pretendInstall(t, away, leader, index)
			if restored {
				machine, err := OpenLedger(away.Dir)
				if err != nil {
					t.Fatal(err)
				}
				if err := errors.Join(machine.Restore(index, image), machine.Close()); err != nil {
					t.Fatal(err)
				}
			}
			c.Up(away.Name)
			writeMany(t, c, leader, "later", 5)
			c.WaitVoters(3)
			c.WaitEqual()
		})
	}
}

// pretendInstall leaves raft.db as a crash in the middle of an installation does.
func pretendInstall(t *testing.T, away, leader *Member, index uint64) {
	t.Helper()
	log, err := raftlog.Open(filepath.Join(away.Dir, "raft.db"))
	if err != nil {
		t.Fatal(err)
	}
	seed := raftlog.Seed{Begin: raftlog.EntryID{Index: index, Term: leader.Node.Status().Term}, Conf: log.Meta().Conf}
	seed.Conf.Index = max(seed.Conf.Index, index)
	if err := errors.Join(log.BeginInstall(seed), log.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestSecondProcessOnTheDirectoryIsRefusedByName(t *testing.T) {
	t.Parallel()
	c := Start(t, 1, Options{})
	path := filepath.Join(c.Any().Dir, "raft.db")
	_, err := raftlog.Open(path)
	if !errors.Is(err, raftlog.ErrLocked) || !containsText(err, path) {
		t.Errorf("second open: %v, want %v with the path", err, raftlog.ErrLocked)
	}
}
