package cluster

import (
	"errors"
	"fmt"
	"testing"

	"github.com/drover-fleet/drover/consensus"
)

// move gives a member another address while it is down, told to the group before or after.
func move(t *testing.T, c *Cluster, name, addr string, before bool) {
	t.Helper()
	ctx, cancel := c.timeout()
	defer cancel()
	m := c.Members[name]
	id := m.Node.Status().ID
	tell := func() {
		t.Helper()
		got, err := c.Any().Node.UpdateMember(ctx, consensus.Member{ID: id, PeerAddr: addr})
		if err != nil || got.PeerAddr != addr || got.APIAddr != "api."+name+":1" || got.Name != name {
			t.Fatalf("update = %+v, %v; want %s at %s with its old API address", got, err, name, addr)
		}
	}
	if len(c.order) == 1 || before {
		tell()
	}
	c.Stop(name)
	m.Addr = addr
	if len(c.order) > 1 && !before {
		tell()
	}
	c.Up(name)
}

func TestLeadershipAddressesAndMembersChangeInGroupsOfOneThreeAndFive(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 3, 5} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			c := Start(t, size, Options{})
			ctx, cancel := c.timeout()
			defer cancel()
			write(t, c, c.Leader(), "first")
			for i, name := range append([]string(nil), c.order...) {
				target := c.Members[name]
				if err := c.Any().Node.TransferLeader(ctx, target.Node.Status().ID); err != nil {
					t.Fatalf("transfer to %s: %v", name, err)
				}
				write(t, c, c.Leader(), "led by "+name)
				move(t, c, name, fmt.Sprintf("%s.moved:%d", name, i), i%2 == 0)
				write(t, c, target, "from the new address of "+name)
				c.WaitVoters(size)
			}
			for left := size; left > 1; left-- {
				leader := c.Leader()
				if err := c.Followers(leader)[0].Node.RemoveMember(ctx, leader.Node.Status().ID); err != nil {
					t.Fatalf("remove the leader %s: %v", leader.Name, err)
				}
				c.Stop(leader.Name)
				write(t, c, c.Leader(), fmt.Sprintf("with %d left", left-1))
			}
			if got, want := len(c.Leader().lines()), 1+2*size+size-1; got != want {
				t.Errorf("lines = %d, want %d", got, want)
			}
			if err := c.Leader().Node.RemoveMember(ctx, c.Leader().Node.Status().ID); !errors.Is(err, consensus.ErrLastVoter) {
				t.Errorf("remove the last: %v, want %v", err, consensus.ErrLastVoter)
			}
		})
	}
}

func TestChangesThatCannotBeAreRefusedAtOnce(t *testing.T) {
	t.Parallel()
	c := Start(t, 3, Options{})
	ctx, cancel := c.timeout()
	defer cancel()
	n := c.Followers(c.Leader())[0].Node
	if _, err := n.UpdateMember(ctx, consensus.Member{Name: "h9", PeerAddr: "x:1"}); !errors.Is(err, consensus.ErrUnknown) {
		t.Errorf("update of nobody: %v, want %v", err, consensus.ErrUnknown)
	}
	taken := c.Members["h2"].Addr
	if _, err := n.UpdateMember(ctx, consensus.Member{Name: "h1", PeerAddr: taken}); !errors.Is(err, consensus.ErrAddrTaken) {
		t.Errorf("update to %s: %v, want %v", taken, err, consensus.ErrAddrTaken)
	}
	ghost, err := n.AddMember(ctx, consensus.Member{Name: "ghost", PeerAddr: "nowhere:1"})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.TransferLeader(ctx, ghost.ID); !errors.Is(err, consensus.ErrLearner) {
		t.Errorf("transfer to a learner: %v, want %v", err, consensus.ErrLearner)
	}
	if err := n.TransferLeader(ctx, 12345); !errors.Is(err, consensus.ErrUnknown) {
		t.Errorf("transfer to nobody: %v, want %v", err, consensus.ErrUnknown)
	}
}
