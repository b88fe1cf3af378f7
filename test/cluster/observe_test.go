package cluster

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drover-fleet/drover/consensus"
)

// seen is what one member's observer was told.
type seen struct {
	mu       sync.Mutex
	syncs    int
	entries  int
	applied  int // commands
	proposed int
	trips    map[string]int
	lost     map[string]int
	leader   uint64
	led      []string
}

func (s *seen) do(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *seen) observer() *consensus.Observer {
	return &consensus.Observer{
		LogSynced: func(took time.Duration, entries int, bytes int64) {
			s.do(func() {
				s.syncs++
				s.entries += entries
				if took <= 0 || (entries > 0) != (bytes > 0) {
					s.led = append(s.led, fmt.Sprintf("a sync of %v with %d entries of %d bytes", took, entries, bytes))
				}
			})
		},
		Applied:       func(_ time.Duration, _, commands int) { s.do(func() { s.applied += commands }) },
		Proposed:      func(commands int, _ int64) { s.do(func() { s.proposed += commands }) },
		LeaderChanged: func(_, leader uint64) { s.do(func() { s.leader = leader }) },
		Led:           func(_ uint64, leads bool) { s.do(func() { s.led = append(s.led, fmt.Sprint(leads)) }) },
		RoundTrip:     func(member string, _ time.Duration) { s.do(func() { s.trips[member]++ }) },
		FramesLost:    func(member string, frames int) { s.do(func() { s.lost[member] += frames }) },
	}
}

func TestObserverIsToldWhatAMemberDoes(t *testing.T) {
	t.Parallel()
	by := map[string]*seen{}
	c := Start(t, 3, Options{Tune: func(cfg *consensus.Config) {
		s := &seen{trips: map[string]int{}, lost: map[string]int{}}
		by[cfg.Self.Name] = s
		cfg.Observer = s.observer()
	}})
	leader := c.Leader()
	follower := c.Followers(leader)[0]
	writeMany(t, c, follower, "w", 20)
	c.WaitEqual()
	for name, s := range by {
		c.Until("each has had an answer from both others", func() (ok bool) {
			s.do(func() { ok = len(s.trips) == 2 })
			return ok
		})
		s.do(func() {
			if s.applied != 20 || s.syncs == 0 || s.entries == 0 {
				t.Errorf("%s: %d commands applied, %d syncs of %d entries; want 20 and some", name, s.applied, s.syncs, s.entries)
			}
			if want := leader.Node.Status().ID; s.leader != want {
				t.Errorf("%s: leader = %x, want %x", name, s.leader, want)
			}
			if want := map[bool]int{true: 20}[name == follower.Name]; s.proposed != want {
				t.Errorf("%s: %d commands proposed, want %d", name, s.proposed, want)
			}
		})
	}
	c.Until("the leader knows round trips", func() bool {
		return leader.Node.Status().Progress[follower.Node.Status().ID].RoundTrip > 0
	})
	if s := leader.Node.Status(); s.LogBytes == 0 || !strings.HasSuffix(s.LogPath, "raft.db") || s.Waiting != 0 || s.WaitingBytes != 0 {
		t.Errorf("status = %+v, want the log's path and size, and nothing waiting", s)
	}
	ctx, cancel := c.timeout()
	defer cancel()
	if err := leader.Node.TransferLeader(ctx, follower.Node.Status().ID); err != nil {
		t.Fatal(err)
	}
	c.Leader(leader.Name)
	c.Until("both are told", func() (ok bool) {
		by[leader.Name].do(func() { ok = strings.HasSuffix(fmt.Sprint(by[leader.Name].led), "true false]") })
		by[follower.Name].do(func() { ok = ok && strings.HasSuffix(fmt.Sprint(by[follower.Name].led), "true]") })
		return ok
	})
}

func TestCommandsThatWaitAreCounted(t *testing.T) {
	t.Parallel()
	c := Start(t, 3, Options{})
	leader := c.Leader()
	c.Net.Isolate(leader.Addr, c.Addrs(leader.Name)...)
	failed := make(chan error, 1)
	go func() {
		_, err := leader.Node.Propose(t.Context(), []byte("waits"))
		failed <- err
	}()
	c.Until("it is counted", func() bool {
		s := leader.Node.Status()
		return s.Waiting == 1 && s.WaitingBytes > 0
	})
	if err := <-failed; err == nil {
		t.Error("a command was acknowledged without a majority")
	}
	if s := leader.Node.Status(); s.Waiting != 0 || s.WaitingBytes != 0 {
		t.Errorf("waiting = %d of %d bytes after the answer, want none", s.Waiting, s.WaitingBytes)
	}
}

func TestUnsafeRatiosOfTimesAreRefused(t *testing.T) {
	base := consensus.Config{Dir: t.TempDir(), Self: consensus.Member{Name: "h1", PeerAddr: "h1:1"}}
	for _, tc := range []struct {
		what string
		tune func(*consensus.Config)
	}{
		{"ElectionTicks (4)", func(c *consensus.Config) { c.ElectionTicks = 4 }},
		{"HeartbeatTicks (3)", func(c *consensus.Config) { c.HeartbeatTicks = 3 }},
		{"SlowTicks (9)", func(c *consensus.Config) { c.SlowTicks = 9 }},
		{"SlowTicks (101)", func(c *consensus.Config) { c.SlowTicks = 101 }},
		{"SnapshotRate 1000", func(c *consensus.Config) { c.SnapshotRate = 1000 }},
		{"SnapshotIdle (1s)", func(c *consensus.Config) { c.SnapshotIdle = time.Second }},
	} {
		cfg := base
		tc.tune(&cfg)
		if err := consensus.Bootstrap(cfg); !containsText(err, tc.what) {
			t.Errorf("config: %v, want it refused with %q", err, tc.what)
		}
	}
}

// TestACommitIndexAloneIsNotSynced: each write costs each member one sync, not another when it hears that the write is committed.
func TestACommitIndexAloneIsNotSynced(t *testing.T) {
	t.Parallel()
	by := map[string]*seen{}
	c := Start(t, 3, Options{Tune: func(cfg *consensus.Config) {
		s := &seen{trips: map[string]int{}, lost: map[string]int{}}
		by[cfg.Self.Name] = s
		cfg.Observer = s.observer()
	}})
	leader := c.Leader()
	c.WaitEqual()
	before := map[string]int{}
	for name, s := range by {
		s.do(func() { before[name] = s.syncs })
	}
	const writes = 100
	for i := range writes {
		ctx, cancel := c.timeout()
		if _, err := leader.Node.Propose(ctx, fmt.Appendf(nil, "one-%d", i)); err != nil {
			t.Fatal(err)
		}
		cancel()
		c.WaitEqual()
	}
	for name, s := range by {
		s.do(func() {
			if n := s.syncs - before[name]; n > writes*12/10 {
				t.Errorf("%s synced %d times for %d writes, one after another", name, n, writes)
			}
		})
	}
}
