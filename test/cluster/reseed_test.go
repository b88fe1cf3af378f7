package cluster

import (
	"testing"
)

// damage makes a ledger differ from all others, as a fault in applying would.
func (l *Ledger) damage() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines[len(l.lines)-1] += " damaged"
}

// F39: a member that is told that its contents differ takes part in nothing until it has been given them again, whether it leads or
// not, and as often as it happens.
func TestDivergedMemberGivesItsCopyUpAndIsSeededAgain(t *testing.T) {
	t.Parallel()
	c := Start(t, 3, Options{})
	writeMany(t, c, c.Leader(), "early", 10)
	c.WaitEqual()
	victim := c.Followers(c.Leader())[0]
	for range 2 {
		old := victim.Node.Status().ID
		victim.Machine.(*Ledger).damage()
		if err := victim.Node.Reseed(); err != nil {
			t.Fatal(err)
		}
		c.Until("a new id", func() bool { return victim.Node.Status().ID != old })
		c.WaitVoters(3)
		write(t, c, victim, "after")
		c.WaitEqual()
	}
	leader := c.Leader()
	old := leader.Node.Status().ID
	leader.Machine.(*Ledger).damage()
	if err := leader.Node.Reseed(); err != nil {
		t.Fatal(err)
	}
	c.Until("a new id of what led", func() bool { return leader.Node.Status().ID != old })
	c.WaitVoters(3)
	write(t, c, c.Leader(), "last")
	c.WaitEqual()
	if got := len(leader.lines()); got != 13 {
		t.Errorf("got %d lines, want 13", got)
	}
}

func TestLoneMemberGivesNothingUp(t *testing.T) {
	t.Parallel()
	c := Start(t, 1, Options{})
	write(t, c, c.Leader(), "early")
	if err := c.Leader().Node.Reseed(); err != nil {
		t.Fatal(err)
	}
	write(t, c, c.Leader(), "last")
}
