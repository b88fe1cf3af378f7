package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/drover-fleet/drover/consensus"
)

// F38: a leader that can send but not hear steps down, so that the others get one that can commit.
func TestF38DeafLeaderStepsDown(t *testing.T) {
	t.Parallel()
	c := Start(t, 3, Options{})
	old := c.Leader()
	for _, a := range c.Addrs(old.Name) {
		c.Net.Cut(a, old.Addr)
	}
	c.Until("the deaf leader stops leading", func() bool {
		_, leads := old.Node.Leadership()
		return !leads
	})
	next := c.Leader(old.Name)
	write(t, c, next, "after")
	c.Net.MendAll()
	c.WaitEqual()
}

// F38: a leader that can hear but not send is replaced, and follows when it can be heard again.
func TestF38MuteLeaderIsReplaced(t *testing.T) {
	t.Parallel()
	c := Start(t, 3, Options{})
	old := c.Leader()
	for _, a := range c.Addrs(old.Name) {
		c.Net.Cut(old.Addr, a)
	}
	next := c.Leader(old.Name)
	write(t, c, next, "after")
	c.Net.MendAll()
	c.WaitEqual()
}

// F38: the term does not grow while a member is cut off, and its return disturbs nobody.
func TestF38IsolatedMemberDoesNotRaiseTheTerm(t *testing.T) {
	t.Parallel()
	for _, deaf := range []bool{false, true} {
		t.Run(fmt.Sprintf("deaf only %v", deaf), func(t *testing.T) {
			c := Start(t, 3, Options{Tick: 40 * time.Millisecond}) // slow, so that load alone never unseats a leader
			leader := c.Leader()
			away := c.Followers(leader)[0]
			before := away.Node.Status().Term
			for _, a := range c.Addrs(away.Name) {
				c.Net.Cut(a, away.Addr)
				if !deaf {
					c.Net.Cut(away.Addr, a)
				}
			}
			c.Until("the isolated member misses its leader", func() bool { return away.Node.Status().Leader == 0 })
			// Five election time-outs alone, counted by what the others do meanwhile.
			for i := range 50 {
				write(t, c, leader, fmt.Sprintf("meanwhile-%d", i))
				if got := away.Node.Status().Term; got != before {
					t.Fatalf("term grew to %d while isolated, want %d", got, before)
				}
			}
			c.Net.MendAll()
			c.WaitEqual()
			c.Until("the member follows again", func() bool { return away.Node.Status().Leader != 0 })
			if got := c.Leader().Node.Status(); got.Term != before {
				t.Errorf("term after the return = %d, want %d as before", got.Term, before)
			}
		})
	}
}

// F38: a cut between two members while both see the third leaves a working group.
func TestF38CutBetweenTwoOfThreeLeavesALeaderThatCommits(t *testing.T) {
	t.Parallel()
	c := Start(t, 3, Options{})
	leader := c.Leader()
	other := c.Followers(leader)[0]
	c.Net.Isolate(leader.Addr, other.Addr)
	for i := range 20 {
		write(t, c, c.Followers(leader)[1], fmt.Sprintf("m-%d", i))
	}
	c.Net.MendAll()
	c.WaitEqual()
}

// I1: a read through a partitioned old leader never returns without what was acknowledged elsewhere.
func TestF38PartitionedOldLeaderAnswersNoReadFromThePast(t *testing.T) {
	t.Parallel()
	c := Start(t, 3, Options{})
	old := c.Leader()
	write(t, c, old, "before")
	c.Net.Isolate(old.Addr, c.Addrs(old.Name)...)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	answered := make(chan error, 1)
	read := func() error { return old.Node.ReadIndex(ctx) }
	next := c.Leader(old.Name)
	write(t, c, next, "during")
	go func() { answered <- read() }()
	if err := <-answered; !errors.Is(err, consensus.ErrNoLeader) {
		t.Fatalf("read on the cut off leader: %v with lines %q, want %v", err, old.lines(), consensus.ErrNoLeader)
	}
	c.Net.MendAll()
	c.Until("a read succeeds", func() bool { return read() == nil })
	if count(old.lines())["during"] != 1 {
		t.Errorf("lines = %q after a read, want \"during\" among them", old.lines())
	}
}

func TestReadSeesEveryWriteAcknowledgedBeforeIt(t *testing.T) {
	t.Parallel()
	c := Start(t, 3, Options{})
	leader := c.Leader()
	for i := range 20 {
		cmd := fmt.Sprintf("w-%d", i)
		write(t, c, c.Followers(nil)[i%3], cmd)
		for _, m := range c.Followers(nil) {
			if err := m.Node.ReadIndex(t.Context()); err != nil {
				t.Fatalf("read on %s: %v", m.Name, err)
			}
			if count(m.lines())[cmd] != 1 {
				t.Fatalf("%s read without %q; leader %s", m.Name, cmd, leader.Name)
			}
		}
	}
}

// Held frames arrive late, after others took over; nothing they say may undo what was decided since.
func TestLateFramesOfAnOldLeaderChangeNothing(t *testing.T) {
	t.Parallel()
	c := Start(t, 3, Options{})
	old := c.Leader()
	for _, a := range c.Addrs(old.Name) {
		c.Net.Hold(old.Addr, a)
	}
	lost := make(chan error, 1)
	go func() {
		_, err := old.Node.Propose(t.Context(), []byte("lost"))
		lost <- err
	}()
	next := c.Leader(old.Name)
	writeMany(t, c, next, "kept", 10)
	if err := <-lost; !errors.Is(err, consensus.ErrAmbiguous) {
		t.Errorf("proposal of the old leader: %v, want %v", err, consensus.ErrAmbiguous)
	}
	released := 0
	for _, a := range c.Addrs(old.Name) {
		released += c.Net.Release(old.Addr, a)
	}
	if released == 0 {
		t.Error("no frame was held")
	}
	c.WaitEqual()
	if got := count(next.lines()); got["kept-0"] != 1 || got["kept-9"] != 1 {
		t.Errorf("lines = %v, want kept-0 to kept-9", got)
	}
}

// Commands that wait while the loop and the disk are busy share an entry.
func TestWaitingCommandsShareEntries(t *testing.T) {
	t.Parallel()
	c := Start(t, 3, Options{})
	m := c.Followers(c.Leader())[0]
	before := m.Machine.(*Ledger).Entries()
	const commands = 1000
	var group sync.WaitGroup
	for i := range commands {
		group.Go(func() { write(t, c, m, fmt.Sprintf("b-%d", i)) })
	}
	group.Wait()
	entries := m.Machine.(*Ledger).Entries() - before
	if entries >= commands/2 {
		t.Errorf("%d commands took %d entries, want far fewer", commands, entries)
	}
	for cmd, n := range count(m.lines()) {
		if n != 1 {
			t.Errorf("%q applied %d times, want once", cmd, n)
		}
	}
}

func TestTooMuchWaitingIsRefused(t *testing.T) {
	t.Parallel()
	c := Start(t, 1, Options{Tune: func(cfg *consensus.Config) { cfg.MaxPendingBytes = 1000; cfg.MaxCommand = 2000 }})
	_, err := c.Any().Node.Propose(t.Context(), make([]byte, 1500))
	if !errors.Is(err, consensus.ErrBusy) {
		t.Errorf("propose beyond what may wait: %v, want %v", err, consensus.ErrBusy)
	}
	if _, err := c.Any().Node.Propose(t.Context(), make([]byte, 3000)); !errors.Is(err, consensus.ErrTooLarge) {
		t.Errorf("propose beyond the size of a command: %v, want %v", err, consensus.ErrTooLarge)
	}
}

func TestGroupWithoutMajorityRefusesInBoundedTime(t *testing.T) {
	t.Parallel()
	c := Start(t, 3, Options{})
	leader := c.Leader()
	for _, m := range c.Followers(leader) {
		c.Stop(m.Name)
	}
	c.Until("the leader steps down", func() bool { return leader.Node.Status().Leader == 0 })
	started := time.Now()
	if _, err := leader.Node.Propose(t.Context(), []byte("x")); !errors.Is(err, consensus.ErrNoLeader) {
		t.Errorf("propose: %v, want %v", err, consensus.ErrNoLeader)
	}
	if took := time.Since(started); took > 10*time.Second {
		t.Errorf("refusal took %v, want about 60 ticks of 10 ms", took)
	}
}
