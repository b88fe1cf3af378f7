package cluster

import (
	"bytes"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drover-fleet/drover/consensus"
)

// slowDisks delays what members say of finished log syncs, as a slow disk does, and records what they log and observe.
type slowDisks struct {
	mu      sync.Mutex // guards below
	gates   map[string]chan struct{}
	delays  map[string]time.Duration
	changes []string // "member term leads"
	slow    map[string]int
	log     bytes.Buffer
}

func (d *slowDisks) Write(b []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.log.Write(b)
}

// lines are the log's lines that hold all of the words.
func (d *slowDisks) lines(words ...string) (out []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for line := range strings.Lines(d.log.String()) {
		has := true
		for _, w := range words {
			has = has && strings.Contains(line, w)
		}
		if has {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return out
}

func (d *slowDisks) synced(name string) {
	d.mu.Lock()
	gate, delay := d.gates[name], d.delays[name]
	d.mu.Unlock()
	if delay > 0 {
		<-time.After(delay)
	}
	if gate != nil {
		<-gate
	}
}

// stop lets no sync of a member end until the returned func is called.
func (d *slowDisks) stop(name string) (release func()) {
	gate := make(chan struct{})
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gates[name] = gate
	return sync.OnceFunc(func() {
		d.mu.Lock()
		delete(d.gates, name)
		d.mu.Unlock()
		close(gate)
	})
}

func (d *slowDisks) delay(by time.Duration, names ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, name := range names {
		d.delays[name] = by
	}
}

func (d *slowDisks) leaders() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string(nil), d.changes...)
}

const (
	slowTick  = 40 * time.Millisecond // so slow that load alone unseats nobody
	slowTicks = 10
	slowLimit = slowTicks * slowTick
	slowRest  = 10 * slowLimit
)

// startSlow starts three members, and waits until the leader has led for long enough to hand over.
func startSlow(t *testing.T) (*Cluster, *slowDisks) {
	t.Helper()
	d := &slowDisks{gates: map[string]chan struct{}{}, delays: map[string]time.Duration{}, slow: map[string]int{}}
	c := Start(t, 3, Options{Tick: slowTick, Logger: slog.New(slog.NewTextHandler(d, nil)), Tune: func(cfg *consensus.Config) {
		name := cfg.Self.Name
		cfg.SlowTicks = slowTicks
		cfg.Observer = &consensus.Observer{
			LogSynced: func(time.Duration, int, int64) { d.synced(name) },
			Led: func(term uint64, leads bool) {
				d.mu.Lock()
				defer d.mu.Unlock()
				d.changes = append(d.changes, fmt.Sprintf("%s term %d leads %v", name, term, leads))
			},
			SlowDisk: func(part consensus.DiskPart, slow bool) {
				d.mu.Lock()
				defer d.mu.Unlock()
				if slow {
					d.slow[name+" "+string(part)]++
				}
			},
		}
	}})
	write(t, c, c.Leader(), "before")
	rested := time.Now().Add(slowRest + 10*slowTick)
	c.Until("the leader has led for a while", func() bool { return time.Now().After(rested) })
	return c, d
}

// F28: while the leader's disk stands still another member takes over, once; the process goes on, and the log says which file.
func TestF28LeaderWithASlowDiskHandsOverOnceAndGoesOn(t *testing.T) {
	t.Parallel()
	c, d := startSlow(t)
	old := c.Leader()
	before := old.Node.Status().Term
	led := len(d.leaders())
	release := d.stop(old.Name)
	defer release()
	go func() { _, _ = old.Node.Propose(t.Context(), []byte("slow")) }()
	next := c.Leader(old.Name)
	began := time.Now()
	writeMany(t, c, next, "quick", 5)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("five writes took %v under the new leader, want them quick", took)
	}
	c.Until("the old leader follows", func() bool { return old.Node.Status().Leader == next.Node.Status().ID })
	release()
	writeMany(t, c, next, "after", 5)
	c.WaitEqual()
	if got := next.Node.Status().Term; got != before+1 {
		t.Errorf("term = %d, want %d: one change; %q", got, before+1, d.leaders()[led:])
	}
	if got := len(d.leaders()) - led; got != 2 {
		t.Errorf("changes = %q, want one that ends and one that begins", d.leaders()[led:])
	}
	file := filepath.Join(old.Dir, "raft.db")
	if got := d.lines("level=WARN", "disk is slow", "member="+old.Name, file, "took="); len(got) == 0 {
		t.Errorf("no warning names %s and how long it took", file)
	}
}

// F28: a follower's slow disk changes nothing for the others, who see it.
func TestF28FollowerWithASlowDiskDisturbsNobody(t *testing.T) {
	t.Parallel()
	c, d := startSlow(t)
	leader := c.Leader()
	slow := c.Followers(leader)[0]
	before, led := leader.Node.Status().Term, len(d.leaders())
	d.delay(3*slowLimit/2, slow.Name)
	began := time.Now()
	writeMany(t, c, leader, "w", 20)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("20 writes took %v, want them not to wait for one slow disk of three", took)
	}
	c.Until("the leader sees the follower's lag", func() bool {
		return leader.Node.Status().Progress[slow.Node.Status().ID].DiskLag >= slowLimit
	})
	d.delay(0, slow.Name)
	c.WaitEqual()
	if got := leader.Node.Status(); got.Leader != got.ID || got.Term != before || len(d.leaders()) != led {
		t.Errorf("leader = %x in term %d with changes %q, want still %x in term %d", got.Leader, got.Term, d.leaders()[led:], got.ID, before)
	}
}

// F28: when all disks are slow nobody is better, so the leader stays, and what is written is slow but done.
func TestF28WithAllDisksSlowTheLeaderStays(t *testing.T) {
	t.Parallel()
	c, d := startSlow(t)
	leader := c.Leader()
	before, led := leader.Node.Status().Term, len(d.leaders())
	d.delay(3*slowLimit/2, c.order...)
	for i := range 4 {
		write(t, c, leader, fmt.Sprintf("w-%d", i))
	}
	d.delay(0, c.order...)
	c.WaitEqual()
	if got := leader.Node.Status(); got.Leader != got.ID || got.Term != before || len(d.leaders()) != led {
		t.Errorf("leader = %x in term %d with changes %q, want still %x in term %d", got.Leader, got.Term, d.leaders()[led:], got.ID, before)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, name := range c.order {
		if d.slow[name+" log"] == 0 {
			t.Errorf("%s was not seen to be slow: %v", name, d.slow)
		}
	}
}
