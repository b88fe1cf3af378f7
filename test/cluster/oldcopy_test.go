package cluster

import (
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	pb "go.etcd.io/raft/v3/raftpb"
)

func containsText(err error, s string) bool { return err != nil && strings.Contains(err.Error(), s) }

// voteWatch finds votes, of both kinds, and acknowledgements by the address and id they come from.
type voteWatch struct {
	mu   sync.Mutex
	said map[uint64]int
}

func watchVotes(c *Cluster, addr string) *voteWatch {
	w := &voteWatch{said: map[uint64]int{}}
	c.Net.Tap(func(from, _ string, frame []byte) {
		if from != addr || len(frame) == 0 || frame[0] != 1 {
			return
		}
		m := &pb.Message{}
		if proto.Unmarshal(frame[1:], m) != nil {
			return
		}
		w.mu.Lock()
		w.said[m.GetFrom()]++ // any raft message at all: an old copy has nothing to say
		w.mu.Unlock()
	})
	return w
}

func (w *voteWatch) by(id uint64) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.said[id]
}

// F35: a member restarted from an old copy of its directory says nothing under its old id, is given the state again
// under a new one, and ends with equal contents.
func TestOldCopyOfADirectoryGetsNoVoteAndIsSeededAgain(t *testing.T) {
	t.Parallel()
	for _, tune := range []struct {
		name string
		opts Options
	}{{"log at hand", Options{}}, {"log compacted", Options{Tune: small}}} {
		t.Run(tune.name, func(t *testing.T) {
			c := Start(t, 3, tune.opts)
			leader := c.Leader()
			victim := c.Followers(leader)[0]
			writeMany(t, c, leader, "early", 10)
			c.WaitEqual()
			c.Stop(victim.Name)
			copied := c.CopyDir(victim.Name)
			c.Up(victim.Name)
			c.WaitVoters(3)
			writeMany(t, c, c.Leader(), "late", 40)
			c.WaitEqual()
			oldID := victim.Node.Status().ID
			c.Stop(victim.Name)
			c.RestoreDir(victim.Name, copied)
			watch := watchVotes(c, victim.Addr)
			c.Up(victim.Name)
			c.Until("a new id", func() bool { return victim.Node.Status().ID != oldID })
			c.WaitVoters(3)
			write(t, c, victim, "last")
			c.WaitEqual()
			if n := watch.by(oldID); n != 0 {
				t.Errorf("the old copy sent %d raft messages as %x, want none", n, oldID)
			}
			if got := len(victim.lines()); got != 51 {
				t.Errorf("lines = %d, want 51", got)
			}
		})
	}
}

// With the third member away the one that knows better is alone, so nobody leads until the third is back; above all,
// the old copy and the third do not make a majority that has forgotten.
func TestOldCopyWithAThirdMemberCutLosesNothing(t *testing.T) {
	t.Parallel()
	c := Start(t, 3, Options{})
	leader := c.Leader()
	victim, third := c.Followers(leader)[0], c.Followers(leader)[1]
	writeMany(t, c, leader, "early", 10)
	c.WaitEqual()
	c.Stop(victim.Name)
	copied := c.CopyDir(victim.Name)
	c.Up(victim.Name)
	c.WaitVoters(3)
	leader = c.Leader()
	if leader == third { // the one that is cut must not be the one that leads
		ctx, cancel := c.timeout()
		defer cancel()
		next := c.Followers(third)[0]
		if err := third.Node.TransferLeader(ctx, next.Node.Status().ID); err != nil {
			t.Fatal(err)
		}
		leader = c.Leader(third.Name)
	}
	keeper := leader
	if keeper == victim {
		for _, m := range c.Followers(victim) {
			if m != third {
				keeper = m
			}
		}
	}
	c.Net.Isolate(third.Addr, c.Addrs(third.Name)...)
	writeMany(t, c, leader, "late", 20)
	c.Until("both have it", func() bool { return len(keeper.lines()) == 30 && len(victim.lines()) == 30 })
	oldID := victim.Node.Status().ID
	c.Stop(victim.Name)
	c.RestoreDir(victim.Name, copied)
	watch := watchVotes(c, victim.Addr)
	c.Up(victim.Name)
	c.Until("the old copy is found out", func() bool { return strings.Contains(victim.Node.Status().Fenced, "old copy") })
	// The third can now reach the old copy alone: still no majority.
	c.Net.Mend(third.Addr, victim.Addr)
	c.Net.Mend(victim.Addr, third.Addr)
	c.Until("the third looks for a leader", func() bool { return third.Node.Status().Leader == 0 })
	if n := watch.by(oldID); n != 0 {
		t.Errorf("the old copy sent %d raft messages as %x, want none", n, oldID)
	}
	c.Net.MendAll()
	c.WaitVoters(3)
	write(t, c, third, "last")
	c.WaitEqual()
	if got := len(victim.lines()); got != 31 {
		t.Errorf("lines = %d, want 31", got)
	}
	if victim.Node.Status().ID == oldID {
		t.Error("the old copy kept its id")
	}
}

// The records survive on disk: the old copy is found out also when everyone was restarted.
func TestOldCopyIsFoundOutAfterTheWholeGroupWasDown(t *testing.T) {
	t.Parallel()
	c := Start(t, 3, Options{})
	victim := c.Followers(c.Leader())[0]
	writeMany(t, c, c.Leader(), "early", 10)
	c.WaitEqual()
	c.Stop(victim.Name)
	copied := c.CopyDir(victim.Name)
	c.Up(victim.Name)
	c.WaitVoters(3)
	writeMany(t, c, c.Leader(), "late", 40)
	c.WaitEqual()
	oldID := victim.Node.Status().ID
	for _, name := range []string{"h1", "h2", "h3"} {
		c.Kill(name)
	}
	c.RestoreDir(victim.Name, copied)
	for _, name := range []string{"h1", "h2", "h3"} {
		c.Up(name)
	}
	c.Until("a new id", func() bool { return victim.Node.Status().ID != oldID })
	c.WaitVoters(3)
	c.WaitEqual()
	if got := len(victim.lines()); got != 50 {
		t.Errorf("lines = %d, want 50", got)
	}
}

// A copy of the whole directory of a member that never missed anything is not an old copy.
func TestHonestRestartIsNeverTakenForAnOldCopy(t *testing.T) {
	t.Parallel()
	c := Start(t, 3, Options{})
	ids := map[string]uint64{}
	for name, m := range c.Members {
		ids[name] = m.Node.Status().ID
	}
	for round, name := range []string{"h1", "h2", "h3", "h1", "h2", "h3"} {
		writeMany(t, c, c.Leader(), strings.Repeat("x", round+1), 5)
		c.Kill(name)
		writeMany(t, c, c.Leader(name), strings.Repeat("y", round+1), 5)
		c.Up(name)
		c.WaitVoters(3)
	}
	c.WaitEqual()
	for name, m := range c.Members {
		if got := m.Node.Status().ID; got != ids[name] {
			t.Errorf("%s goes by %x, want still %x", name, got, ids[name])
		}
	}
}
