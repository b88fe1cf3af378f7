package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drover-fleet/drover/consensus"
	"github.com/drover-fleet/drover/consensus/peer"
	"github.com/drover-fleet/drover/hub/replica"
	"github.com/drover-fleet/drover/store"
	"github.com/drover-fleet/drover/store/mvcc"
)

// catchupFull makes TestF37MemberReturnsOverASlowLinkWithTwoCuts take a million writes and 30 MiB of values, some minutes:
//
//	go test ./test/cluster -run TestF37MemberReturns -timeout 30m -v -catchup.full
var catchupFull = flag.Bool("catchup.full", false, "return after a million writes rather than a few thousand")

// storeMachine is the real store.
type storeMachine struct{ replica.Machine }

func (m storeMachine) Applied() uint64 { return m.Store.Applied() }
func (m storeMachine) Close() error    { return m.Store.Close() }

func openStore(dir string) (Machine, error) {
	s, err := mvcc.Open(filepath.Join(dir, "state"), mvcc.Options{CheckpointBytes: 512 << 10})
	if err != nil {
		return nil, err
	}
	return storeMachine{replica.Machine{Store: s}}, nil
}

// behindProxies is the options' part that puts members on the real transport, each behind a proxy.
func behindProxies(t *testing.T, names ...string) (Options, map[string]*Proxy) {
	t.Helper()
	conf := tlsFor(t, names...)
	proxies, ports := map[string]*Proxy{}, map[string]string{}
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		group.Wait()
	})
	for _, name := range names {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ports[name] = l.Addr().String()
		p, err := NewProxy(ports[name])
		if err := errors.Join(err, l.Close()); err != nil {
			t.Fatal(err)
		}
		proxies[name] = p
		group.Go(func() { _ = p.Run(ctx) })
	}
	return Options{
		Addr: func(name string) string { return proxies[name].Addr() },
		Transport: func(m *Member) (consensus.Transport, error) {
			l, err := net.Listen("tcp", ports[m.Name])
			if err != nil {
				return nil, err
			}
			get := func() (*tls.Config, error) { return conf(m.Name), nil }
			return peer.New(peer.Config{
				Name: m.Name, Listener: l, ServerTLS: get, ClientTLS: get,
				PeerName: func(s tls.ConnectionState) (string, error) { return s.PeerCertificates[0].Subject.CommonName, nil },
			})
		},
	}, proxies
}

// transfers records what members say of copies on their way.
type transfers struct {
	mu     sync.Mutex
	events map[string][]consensus.TransferEvent
}

func (r *transfers) observe(cfg *consensus.Config) {
	name := cfg.Self.Name
	cfg.Observer = &consensus.Observer{Transfer: func(e consensus.TransferEvent) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.events == nil {
			r.events = map[string][]consensus.TransferEvent{}
		}
		r.events[name] = append(r.events[name], e)
	}}
}

// of is what a member said of one stage, as sender or receiver.
func (r *transfers) of(name string, stage consensus.TransferStage) []consensus.TransferEvent {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []consensus.TransferEvent
	for _, e := range r.events[name] {
		if e.Stage == stage {
			out = append(out, e)
		}
	}
	return out
}

func (r *transfers) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.events)
}

// writer writes to a store through one member.
type writer struct {
	t    *testing.T
	rep  *replica.Replica
	keys int
}

// put writes to n keys from number i on, in one command.
func (w writer) put(ctx context.Context, i, n int) error {
	cmd := store.Command{Actor: "user:test"}
	for i := i; len(cmd.Ops) < n; i++ {
		value := make([]byte, 1024)
		_, _ = rand.NewChaCha8([32]byte{byte(i), byte(i >> 8), byte(i >> 16), byte(i >> 24)}).Read(value) // never fails
		cmd.Ops = append(cmd.Ops, store.Op{Type: store.OpPut, Key: fmt.Sprintf("objects/%06d", i%w.keys), Value: value})
	}
	res, err := w.rep.Propose(ctx, &cmd)
	return errors.Join(err, res.Err)
}

// many writes n times, ten to a command, 100 commands at a time.
func (w writer) many(n int) {
	w.t.Helper()
	const each = 10
	var group sync.WaitGroup
	next := make(chan int)
	for range 100 {
		group.Go(func() {
			for i := range next {
				if err := w.put(context.Background(), i, each); err != nil {
					w.t.Errorf("write %d: %v", i, err)
				}
			}
		})
	}
	for i := 0; i < n; i += each {
		next <- i
	}
	close(next)
	group.Wait()
}

// trickle writes until ctx ends and returns how many writes were acknowledged and how long the slowest took.
func (w writer) trickle(ctx context.Context, every time.Duration) (acked int, slowest time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return acked, slowest
		case <-tick.C:
		}
		began := time.Now()
		err := w.put(context.Background(), acked, 1)
		if err != nil {
			w.t.Errorf("write while the copy is on its way: %v", err)
			continue
		}
		acked++
		slowest = max(slowest, time.Since(began))
	}
}

// F37: a member that returns when the log no longer reaches back is given the state over a slow link, in spite of two cuts, by one
// copy that is sent once; writes go on meanwhile and the leader stays.
func TestF37MemberReturnsOverASlowLinkWithTwoCuts(t *testing.T) {
	t.Parallel()
	keys, writes, tick := 2000, 4000, 100*time.Millisecond // slow, so that load alone unseats nobody
	keep := func(cfg *consensus.Config) { cfg.KeepEntries, cfg.CompactInterval, cfg.KeepBytes = 500, 20, 1<<20 }
	if *catchupFull {
		keys, writes, tick, keep = 30<<10, 1_000_000, 50*time.Millisecond, func(*consensus.Config) {}
	}
	opts, proxies := behindProxies(t, "h1", "h2", "h3")
	var record transfers
	opts.Machine, opts.Tick = openStore, tick
	opts.Patience = time.Minute
	if *catchupFull {
		opts.Patience = 10 * time.Minute
	}
	opts.Tune = func(cfg *consensus.Config) {
		keep(cfg)
		record.observe(cfg)
	}
	c := Start(t, 3, opts)
	leader := c.Leader()
	away := c.Followers(leader)[0]
	rep, err := replica.New(leader.Node, leader.Machine.(storeMachine).Store, replica.Options{Member: leader.Name})
	if err != nil {
		t.Fatal(err)
	}
	if err := rep.Found(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.WaitEqual()
	left := away.Node.Status().Applied
	c.Stop(away.Name)
	stopUpkeep := keepSmall(t, c)
	defer stopUpkeep()
	w := writer{t, rep, keys}
	began := time.Now()
	w.many(writes)
	t.Logf("%d writes took %v", writes, time.Since(began).Round(time.Millisecond))
	for s := leader.Node.Status(); s.Last-s.Entries <= left; s = leader.Node.Status() {
		w.many(100) // until the log no longer reaches back
	}
	leader = c.Leader() // a starved machine may have changed it
	state := leader.Machine.(storeMachine).Store
	c.Until("superseded versions and records are dropped", func() bool {
		return state.Usage().Journal <= 2*smallJournal && state.Revision().Counter()-state.Compacted().Counter() <= 2*smallPast
	})
	record.forget()
	before := leader.Node.Status()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	type outcome struct {
		acked   int
		slowest time.Duration
	}
	trickled := make(chan outcome, 1)
	go func() {
		acked, slowest := w.trickle(ctx, 20*time.Millisecond)
		trickled <- outcome{acked, slowest}
	}()
	way := proxies[away.Name]
	way.Rate(1_000_000)
	c.Up(away.Name)
	began = time.Now()
	c.Until("a transfer begins", func() bool { return len(record.of(leader.Name, consensus.TransferBegun)) > 0 })
	t.Logf("a transfer begins after %v", time.Since(began))
	size, base := record.of(leader.Name, consensus.TransferBegun)[0].Size, way.Carried()
	for cut := range int64(2) {
		c.Until("a third of the copy has passed", func() bool { return way.Carried()-base >= (cut+1)*size/3 })
		way.Cut()
		mended := time.Now().Add(1500 * time.Millisecond)
		c.Until("the link is down for a while", func() bool { return time.Now().After(mended) })
		way.Mend()
	}
	c.Until("the copy is there", func() bool { return len(record.of(leader.Name, consensus.TransferEnded)) > 0 })
	t.Logf("the copy is there after %v, %d bytes carried", time.Since(began), way.Carried())
	target := leader.Node.Status().Committed
	c.Until("the member has caught up", func() bool { return away.Node.Status().Applied >= target })
	took := time.Since(began)
	cancel()
	writing := <-trickled
	stopUpkeep()
	waitSameHash(t, c)
	checkTransfer(t, &record, leader, away, size)
	after := leader.Node.Status()
	if after.Term != before.Term || after.Leader != before.Leader {
		t.Errorf("leader %x in term %d, want still %x in term %d", after.Leader, after.Term, before.Leader, before.Term)
	}
	if writing.acked < 50 {
		t.Errorf("%d writes acknowledged meanwhile, want them to go on", writing.acked)
	}
	t.Logf("copy of %.1f MiB: caught up in %v with two cuts of 1.5 s; %d writes acknowledged meanwhile, the slowest in %v",
		float64(size)/(1<<20), took.Round(100*time.Millisecond), writing.acked, writing.slowest.Round(time.Millisecond))
	if *catchupFull && size > 40<<20 {
		t.Errorf("the copy is %d bytes, want at most 40 MiB", size)
	}
}

// What keepSmall keeps: revisions, and bytes of the journal.
const (
	smallPast    = 200
	smallJournal = 4 << 20
)

// keepSmall has whichever running member leads drop superseded versions and records all the time.
func keepSmall(t *testing.T, c *Cluster) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for _, m := range c.Followers(nil) {
		rep, err := replica.New(m.Node, m.Machine.(storeMachine).Store, replica.Options{Member: m.Name})
		if err != nil {
			t.Fatal(err)
		}
		u, err := replica.NewUpkeep(rep, replica.Growth{KeepRevisions: smallPast, KeepFor: time.Millisecond, JournalBytes: smallJournal, JournalFor: time.Hour},
			replica.UpkeepOptions{Every: 100 * time.Millisecond, Pause: time.Millisecond, TrimEvery: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		group.Go(func() {
			for ctx.Err() == nil {
				changed := rep.LeadershipChanged()
				office, end := context.WithCancel(ctx)
				var led sync.WaitGroup
				if term, leads := rep.Leadership(); leads {
					led.Go(func() {
						if err := u.Lead(office, term); err != nil {
							t.Errorf("upkeep: %v", err)
						}
					})
				}
				select {
				case <-changed:
				case <-ctx.Done():
				}
				end()
				led.Wait()
			}
		})
	}
	return sync.OnceFunc(func() {
		cancel()
		group.Wait()
	})
}

// waitSameHash waits until all members have applied the same, and compares.
func waitSameHash(t *testing.T, c *Cluster) {
	t.Helper()
	c.Until("equal hashes at one entry", func() bool {
		seen := map[string]bool{}
		for _, m := range c.Followers(nil) {
			index, sum := m.Machine.(storeMachine).Store.Hash()
			seen[fmt.Sprintf("%d %x", index, sum)] = true
		}
		return len(seen) == 1
	})
}

// checkTransfer judges what the sender and the receiver said of the one copy that was sent.
func checkTransfer(t *testing.T, record *transfers, from, to *Member, size int64) {
	t.Helper()
	if n := len(record.of(from.Name, consensus.TransferBegun)); n != 1 {
		t.Errorf("%d transfers begun, want one that lands", n)
	}
	for _, name := range []string{from.Name, to.Name} {
		resumed := record.of(name, consensus.TransferResumed)
		last := int64(0)
		for _, e := range resumed {
			if e.Offset <= last {
				t.Errorf("%s resumed at %d of %d, want beyond %d", name, e.Offset, size, last)
			}
			last = e.Offset
		}
		if len(resumed) < 2 {
			t.Errorf("%s resumed %d times, want after each of two cuts", name, len(resumed))
		}
		ended := record.of(name, consensus.TransferEnded)
		if len(ended) != 1 || ended[0].Err != nil || ended[0].Moved*10 > size*12 {
			t.Errorf("%s: ended = %+v, want once, without error, with less than 1.2 times %d bytes moved", name, ended, size)
		}
	}
	for _, m := range []*Member{from, to} {
		list, err := os.ReadDir(m.Dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range list {
			if strings.HasPrefix(f.Name(), "incoming-") || strings.HasPrefix(f.Name(), "outgoing-") {
				t.Errorf("%s still has %s", m.Name, f.Name())
			}
		}
	}
}
