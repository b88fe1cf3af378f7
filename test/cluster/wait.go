package cluster

import (
	"bytes"
	"context"
	"io"
	"time"
)

// patience bounds every wait unless a test has more of it: far above what anything takes on a busy machine.
const patience = 20 * time.Second

func (c *Cluster) timeout() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), c.opts.Patience)
}

// Until polls until the condition holds, and ends the test with what if it does not in time.
func (c *Cluster) Until(what string, condition func() bool) {
	c.t.Helper()
	deadline := time.NewTimer(c.opts.Patience)
	defer deadline.Stop()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for !condition() {
		select {
		case <-poll.C:
		case <-deadline.C:
			for _, name := range c.order {
				if m := c.Members[name]; m.Node != nil {
					c.t.Logf("%s: %+v", name, m.Node.Status())
				}
			}
			c.t.Fatalf("not in %v: %s", c.opts.Patience, what)
		}
	}
}

// Any returns a member that runs.
func (c *Cluster) Any() *Member {
	c.t.Helper()
	for _, name := range c.order {
		if m := c.Members[name]; m.Node != nil {
			return m
		}
	}
	c.t.Fatal("no member runs")
	return nil
}

// Leader waits for a member that leads, other than those named.
func (c *Cluster) Leader(not ...string) *Member {
	c.t.Helper()
	var found *Member
	c.Until("a leader", func() bool {
		best := uint64(0)
		for _, name := range c.order {
			m := c.Members[name]
			if m.Node == nil || contains(not, name) {
				continue
			}
			if term, leads := m.Node.Leadership(); leads && term > best {
				best, found = term, m
			}
		}
		return best > 0
	})
	return found
}

// Followers lists the running members that are not the one given, in order.
func (c *Cluster) Followers(leader *Member) []*Member {
	var out []*Member
	for _, name := range c.order {
		if m := c.Members[name]; m.Node != nil && m != leader {
			out = append(out, m)
		}
	}
	return out
}

// Addrs lists the addresses of all members but one.
func (c *Cluster) Addrs(but string) []string {
	var out []string
	for _, name := range c.order {
		if name != but {
			out = append(out, c.Members[name].Addr)
		}
	}
	return out
}

// WaitVoters waits until every running member knows of so many voters and no learner.
func (c *Cluster) WaitVoters(n int) {
	c.t.Helper()
	c.Until("voters", func() bool {
		for _, name := range c.order {
			m := c.Members[name]
			if m.Node == nil {
				continue
			}
			s := m.Node.Status()
			if len(s.Members) != n || s.Fenced != "" || s.Leader == 0 {
				return false
			}
			for _, o := range s.Members {
				if o.Learner {
					return false
				}
			}
		}
		return true
	})
}

// WaitEqual waits until every running member has applied what the one that is furthest had committed when it was
// called, and then compares the contents.
func (c *Cluster) WaitEqual() {
	c.t.Helper()
	var target uint64
	for _, name := range c.order {
		if m := c.Members[name]; m.Node != nil {
			target = max(target, m.Node.Status().Committed)
		}
	}
	c.Until("all members have applied the same", func() bool {
		for _, name := range c.order {
			if m := c.Members[name]; m.Node != nil && m.Node.Status().Applied < target {
				return false
			}
		}
		return true
	})
	c.Until("equal contents", func() bool {
		var first []byte
		var index uint64
		for i, m := range c.Followers(nil) {
			at, contents := c.contents(m)
			if i == 0 {
				first, index = contents, at
			}
			if at != index {
				return false // one is still applying
			}
			if !bytes.Equal(first, contents) {
				c.t.Fatalf("%s differs at entry %d:\n got %q\nwant %q", m.Name, at, contents, first)
			}
		}
		return true
	})
}

func (c *Cluster) contents(m *Member) (uint64, []byte) {
	c.t.Helper()
	index, r, err := m.Machine.Snapshot()
	if err != nil {
		c.t.Fatalf("snapshot of %s: %v", m.Name, err)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		c.t.Fatalf("snapshot of %s: %v", m.Name, err)
	}
	if err := r.Close(); err != nil {
		c.t.Fatal(err)
	}
	return index, data
}

func contains(list []string, s string) bool {
	for _, v := range list {
		if v == s {
			return true
		}
	}
	return false
}
