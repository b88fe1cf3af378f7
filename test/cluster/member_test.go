package cluster

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/drover-fleet/drover/consensus"
)

func (m *Member) lines() []string { return m.Machine.(*Ledger).Lines() }

// write proposes through a member until it is acknowledged, and fails the test if that is impossible.
func write(t *testing.T, c *Cluster, m *Member, cmd string) {
	t.Helper()
	ctx, cancel := c.timeout()
	defer cancel()
	for {
		_, err := m.Node.Propose(ctx, []byte(cmd))
		switch {
		case err == nil:
			return
		case errors.Is(err, consensus.ErrAmbiguous), errors.Is(err, consensus.ErrNoLeader), errors.Is(err, consensus.ErrBusy):
		default:
			t.Fatalf("propose %q through %s: %v", cmd, m.Name, err)
		}
	}
}

func writeMany(t *testing.T, c *Cluster, m *Member, prefix string, n int) {
	t.Helper()
	for i := range n {
		write(t, c, m, fmt.Sprintf("%s-%d", prefix, i))
	}
}

func count(lines []string) map[string]int {
	out := map[string]int{}
	for _, l := range lines {
		out[l]++
	}
	return out
}

func TestGroupGrowsFromOneToThreeAndLearnersAreMadeVoters(t *testing.T) {
	t.Parallel()
	c := New(t, Options{})
	h1 := c.Bootstrap("h1")
	writeMany(t, c, h1, "one", 5)
	c.Join("h2")
	c.WaitVoters(2)
	writeMany(t, c, c.Members["h2"], "two", 5)
	c.Join("h3")
	c.WaitVoters(3)
	writeMany(t, c, c.Members["h3"], "three", 5)
	c.WaitEqual()
	if got := len(h1.lines()); got != 15 {
		t.Errorf("lines = %d, want 15", got)
	}
	for _, m := range c.Members["h3"].Node.Members() {
		if m.APIAddr != "api."+m.Name+":1" || m.PeerAddr != m.Name+".peer:1" {
			t.Errorf("member = %+v, want its own addresses", m)
		}
	}
}

func TestAddMemberIsIdempotentByNameAndAddress(t *testing.T) {
	t.Parallel()
	c := Start(t, 1, Options{})
	ctx, cancel := c.timeout()
	defer cancel()
	n := c.Members["h1"].Node
	m := consensus.Member{Name: "h2", PeerAddr: "h2.peer:1"}
	first, err := n.AddMember(ctx, m)
	if err != nil {
		t.Fatal(err)
	}
	second, err := n.AddMember(ctx, m)
	if err != nil || second.ID != first.ID || !second.Learner {
		t.Errorf("second add = %+v, %v; want learner %x again", second, err, first.ID)
	}
	m.PeerAddr = "elsewhere:1"
	if _, err := n.AddMember(ctx, m); !errors.Is(err, consensus.ErrNameTaken) {
		t.Errorf("add at another address: %v, want %v", err, consensus.ErrNameTaken)
	}
	if err := n.RemoveMember(ctx, first.ID); err != nil {
		t.Errorf("remove a member that never started: %v", err)
	}
	if got := len(n.Members()); got != 1 {
		t.Errorf("members = %d, want 1", got)
	}
	if err := n.RemoveMember(ctx, n.Status().ID); !errors.Is(err, consensus.ErrLastVoter) {
		t.Errorf("remove the last voter: %v, want %v", err, consensus.ErrLastVoter)
	}
}

func TestRemovedLeaderHandsOverFirst(t *testing.T) {
	t.Parallel()
	c := Start(t, 3, Options{})
	old := c.Leader()
	ctx, cancel := c.timeout()
	defer cancel()
	id := old.Node.Status().ID
	if err := c.Followers(old)[0].Node.RemoveMember(ctx, id); err != nil {
		t.Fatalf("remove leader: %v", err)
	}
	next := c.Leader(old.Name)
	write(t, c, next, "after")
	if got := len(next.Node.Members()); got != 2 {
		t.Errorf("members = %d, want 2", got)
	}
	c.Until("the removed member knows", func() bool { return old.Node.Status().Fenced != "" })
	if _, err := old.Node.Propose(ctx, []byte("x")); err == nil {
		t.Error("a removed member proposed")
	}
}

func TestTransferMovesLeadership(t *testing.T) {
	t.Parallel()
	c := Start(t, 3, Options{})
	old := c.Leader()
	target := c.Followers(old)[1]
	changed := target.Node.LeadershipChanged()
	ctx, cancel := c.timeout()
	defer cancel()
	if err := old.Node.TransferLeader(ctx, target.Node.Status().ID); err != nil {
		t.Fatalf("transfer: %v", err)
	}
	select {
	case <-changed:
	case <-ctx.Done():
		t.Fatal("no signal of the new leadership")
	}
	if got := c.Leader(); got != target {
		t.Errorf("leader = %s, want %s", got.Name, target.Name)
	}
}

func TestAnyMemberAnswersItsOwnProposalsAfterApplyingThem(t *testing.T) {
	t.Parallel()
	c := Start(t, 3, Options{})
	leader := c.Leader()
	for _, m := range append(c.Followers(leader), leader) {
		got, err := m.Node.Propose(context.Background(), []byte("from "+m.Name))
		if err != nil {
			t.Fatalf("propose through %s: %v", m.Name, err)
		}
		lines := m.lines()
		if want := len(lines); got != want || lines[want-1] != "from "+m.Name {
			t.Errorf("%s: result = %v with lines %q, want the place of its own line", m.Name, got, lines)
		}
	}
}
