package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/drover-fleet/drover/consensus"
)

// F36: a joiner that never comes does not keep others from joining, and can be taken out again.
func TestF36DeadJoinerBlocksNobodyAndIsRemoved(t *testing.T) {
	t.Parallel()
	c := Start(t, 1, Options{Tune: func(cfg *consensus.Config) { cfg.LearnerTicks = 100 }})
	ctx, cancel := c.timeout()
	defer cancel()
	if _, err := c.Any().Node.AddMember(ctx, consensus.Member{Name: "ghost", PeerAddr: "nowhere:1"}); err != nil {
		t.Fatal(err)
	}
	c.Join("h2")
	c.Join("h3")
	c.WaitVoters(3) // the ghost has been removed by then: it made no progress
	writeMany(t, c, c.Leader(), "w", 3)
	c.WaitEqual()
}

// prepare adds a member to the group and makes its directory, without starting it.
func prepare(ctx context.Context, c *Cluster, m *Member) error {
	added, err := c.Any().Node.AddMember(ctx, consensus.Member{Name: m.Name, PeerAddr: m.Addr, APIAddr: "api." + m.Name + ":1"})
	if err != nil {
		return err
	}
	return consensus.Join(c.base(m), added.ID, c.Any().Node.Members())
}

// F36: a joiner that crashes at any step comes in when it is started again, and the group writes on without it meanwhile.
func TestF36JoinerThatCrashesAtAnyStepComesInAfterAll(t *testing.T) {
	t.Parallel()
	steps := []struct {
		name  string
		crash func(t *testing.T, ctx context.Context, c *Cluster, m *Member, record *transfers) error
	}{
		{"added, and no directory made", func(t *testing.T, ctx context.Context, c *Cluster, m *Member, _ *transfers) error {
			first, err := c.Any().Node.AddMember(ctx, consensus.Member{Name: m.Name, PeerAddr: m.Addr})
			if err != nil {
				return err
			}
			again, err := c.Any().Node.AddMember(ctx, consensus.Member{Name: m.Name, PeerAddr: m.Addr})
			if err != nil || again.ID != first.ID {
				t.Errorf("added again as %x, %v; want %x", again.ID, err, first.ID)
			}
			return errors.Join(err, consensus.Join(c.base(m), again.ID, c.Any().Node.Members()))
		}},
		{"directory made, and made again", func(_ *testing.T, ctx context.Context, c *Cluster, m *Member, _ *transfers) error {
			return errors.Join(prepare(ctx, c, m), consensus.Discard(m.Dir), prepare(ctx, c, m))
		}},
		{"started, and nothing heard", func(_ *testing.T, ctx context.Context, c *Cluster, m *Member, _ *transfers) error {
			err := prepare(ctx, c, m)
			c.Net.Isolate(m.Addr, c.Addrs(m.Name)...)
			c.Up(m.Name)
			c.Kill(m.Name)
			c.Net.MendAll()
			return err
		}},
		{"in the middle of the copy", func(_ *testing.T, ctx context.Context, c *Cluster, m *Member, _ *transfers) error {
			if err := prepare(ctx, c, m); err != nil {
				return err
			}
			passing := make(chan struct{})
			begun := sync.OnceFunc(func() { close(passing) })
			c.Net.Spoil(func(_, to string, b []byte) {
				if to == m.Addr && len(b) > 10_000 {
					begun()
				}
			})
			c.Up(m.Name)
			<-passing
			c.Kill(m.Name)
			c.Net.Spoil(nil)
			return nil
		}},
		{"copy received", func(_ *testing.T, ctx context.Context, c *Cluster, m *Member, record *transfers) error {
			err := prepare(ctx, c, m)
			c.Up(m.Name)
			c.Until("the copy is there", func() bool { return len(record.of(m.Name, consensus.TransferEnded)) > 0 })
			c.Kill(m.Name)
			return err
		}},
		{"made a voter", func(_ *testing.T, ctx context.Context, c *Cluster, m *Member, _ *transfers) error {
			err := prepare(ctx, c, m)
			c.Up(m.Name)
			c.WaitVoters(3)
			c.Kill(m.Name)
			return err
		}},
	}
	for _, step := range steps {
		t.Run(step.name, func(t *testing.T) {
			t.Parallel()
			var record transfers
			c := Start(t, 2, Options{Tune: record.observe})
			big := strings.Repeat("x", 100_000)
			for i := range 5 {
				write(t, c, c.Leader(), fmt.Sprint(i, big))
			}
			record.forget()
			ctx, cancel := c.timeout()
			defer cancel()
			m := c.add("h3")
			if err := step.crash(t, ctx, c, m, &record); err != nil {
				t.Fatal(err)
			}
			writeMany(t, c, c.Leader(), "while it is down", 5)
			c.Up(m.Name)
			c.WaitVoters(3)
			write(t, c, m, "through it")
			c.WaitEqual()
		})
	}
}

// F36: two that join at the same moment, through the same member, both come in.
func TestF36TwoJoinAtOnce(t *testing.T) {
	t.Parallel()
	c := Start(t, 1, Options{})
	write(t, c, c.Any(), "before")
	ctx, cancel := c.timeout()
	defer cancel()
	joiners := []*Member{c.add("h2"), c.add("h3")}
	errs := make(chan error, len(joiners))
	for _, m := range joiners {
		go func() { errs <- prepare(ctx, c, m) }()
	}
	if err := errors.Join(<-errs, <-errs); err != nil {
		t.Fatal(err)
	}
	for _, m := range joiners {
		c.Up(m.Name)
	}
	c.WaitVoters(3)
	write(t, c, joiners[1], "after")
	c.WaitEqual()
}

// F36: a member that never started can be removed, by any member.
func TestF36MemberThatNeverStartedCanBeRemoved(t *testing.T) {
	t.Parallel()
	c := Start(t, 3, Options{})
	ctx, cancel := c.timeout()
	defer cancel()
	follower := c.Followers(c.Leader())[0]
	ghost, err := follower.Node.AddMember(ctx, consensus.Member{Name: "ghost", PeerAddr: "nowhere:1"})
	if err != nil {
		t.Fatal(err)
	}
	if err := follower.Node.RemoveMember(ctx, ghost.ID); err != nil {
		t.Errorf("remove: %v", err)
	}
	c.WaitVoters(3)
	write(t, c, follower, "after")
}

// F36: while a member comes in, as many failures are survived as before: it has no vote before it has the state.
func TestF36AddingAMemberNeverLowersFaultTolerance(t *testing.T) {
	t.Parallel()
	for size := 1; size <= 3; size++ {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			c := Start(t, size, Options{})
			ctx, cancel := c.timeout()
			defer cancel()
			m := c.add("late")
			if err := prepare(ctx, c, m); err != nil {
				t.Fatal(err)
			}
			c.Net.Isolate(m.Addr, c.Addrs(m.Name)...)
			c.Up(m.Name)
			leader := c.Leader()
			for range (size - 1) / 2 { // as many as a group of this size survives
				c.Stop(c.Followers(leader)[0].Name)
				leader = c.Leader()
			}
			writeMany(t, c, leader, "without it", 5)
			for _, o := range leader.Node.Members() {
				if o.Name == m.Name && !o.Learner {
					t.Error("it was given a vote before it had the state")
				}
			}
			for _, name := range c.order {
				if c.Members[name].Node == nil {
					c.Up(name)
				}
			}
			c.Net.MendAll()
			c.WaitVoters(size + 1)
			c.WaitEqual()
		})
	}
}
