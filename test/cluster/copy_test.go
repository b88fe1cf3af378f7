package cluster

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drover-fleet/drover/consensus"
)

// counted counts the copies that are made of a machine.
type counted struct {
	Machine
	copies *atomic.Int64
}

func (m counted) Snapshot() (uint64, io.ReadCloser, error) {
	m.copies.Add(1)
	return m.Machine.Snapshot()
}

// behind is a group of three, one of which was stopped so long that it needs a copy of about 2 MB.
type behind struct {
	*Cluster
	leader, away *Member
	record       *transfers
	copies       *atomic.Int64
}

func startBehind(t *testing.T, tune ...func(*consensus.Config)) behind {
	t.Helper()
	b := behind{record: &transfers{}, copies: &atomic.Int64{}}
	b.Cluster = Start(t, 3, Options{
		Machine: func(dir string) (Machine, error) {
			m, err := OpenLedger(dir)
			return counted{m, b.copies}, err
		},
		Tune: func(cfg *consensus.Config) {
			small(cfg)
			b.record.observe(cfg)
			for _, f := range tune {
				f(cfg)
			}
		},
	})
	b.leader = b.Leader()
	b.away = b.Followers(b.leader)[0]
	left := b.away.Node.Status().Applied
	b.Stop(b.away.Name)
	for i := range 20 {
		write(t, b.Cluster, b.leader, fmt.Sprint(i, strings.Repeat("x", 100_000)))
	}
	for s := b.leader.Node.Status(); s.Last-s.Entries <= left; s = b.leader.Node.Status() {
		writeMany(t, b.Cluster, b.leader, "w", 20)
	}
	b.record.forget()
	b.copies.Store(0)
	return b
}

// gate lets each stream to the member pass after so many of its bytes only when it is opened.
func (b behind) gate(after int64) (reached <-chan struct{}, open func()) {
	there, opened := make(chan struct{}), make(chan struct{})
	once := sync.OnceFunc(func() { close(there) })
	var passed atomic.Int64
	b.Net.Spoil(func(_, to string, p []byte) {
		if to == b.away.Addr && passed.Add(int64(len(p))) > after {
			once()
			<-opened
		}
	})
	return there, sync.OnceFunc(func() {
		b.Net.Spoil(nil)
		close(opened)
	})
}

func (b behind) filesOfCopies(t *testing.T) (out []string) {
	t.Helper()
	for _, m := range b.Followers(nil) {
		list, err := os.ReadDir(m.Dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range list {
			if strings.HasPrefix(f.Name(), "incoming-") || strings.HasPrefix(f.Name(), "outgoing-") {
				out = append(out, m.Name+"/"+f.Name())
			}
		}
	}
	return out
}

func (b behind) mustCatchUp(t *testing.T) {
	t.Helper()
	b.WaitVoters(3)
	write(t, b.Cluster, b.Leader(), "last")
	target := b.Leader().Node.Status().Committed
	b.Until("the member has caught up", func() bool { return b.away.Node.Status().Applied >= target })
	b.Until("no file of a copy is left", func() bool { return len(b.filesOfCopies(t)) == 0 })
	if want, got := b.leader.Machine.(counted).Machine.(*Ledger).Lines(), b.away.Machine.(counted).Machine.(*Ledger).Lines(); len(got) != len(want) {
		t.Errorf("lines = %d, want the leader's %d", len(got), len(want))
	}
}

func TestF37NoCopyIsMadeForAMemberThatIsDown(t *testing.T) {
	t.Parallel()
	b := startBehind(t)
	writeMany(t, b.Cluster, b.leader, "while it is down", 50)
	if got := b.copies.Load(); got != 0 {
		t.Errorf("%d copies made for a member that is down", got)
	}
	b.Up(b.away.Name)
	b.mustCatchUp(t)
	if got := b.copies.Load(); got != 1 {
		t.Errorf("%d copies made for its return, want 1", got)
	}
}

func TestF37LogIsKeptWhileACopyIsOnItsWay(t *testing.T) {
	t.Parallel()
	b := startBehind(t)
	reached, open := b.gate(500_000)
	defer open()
	b.Up(b.away.Name)
	<-reached
	writeMany(t, b.Cluster, b.leader, "meanwhile", 60) // three times what is kept without
	open()
	b.mustCatchUp(t)
	if got := b.copies.Load(); got != 1 {
		t.Errorf("%d copies made, want 1: the log reached back to it when it had landed", got)
	}
}

func TestF37ReceiverThatDiesInTheMiddleIsGivenTheStateWhenItIsBack(t *testing.T) {
	t.Parallel()
	b := startBehind(t)
	reached, open := b.gate(500_000)
	defer open()
	b.Up(b.away.Name)
	<-reached
	for _, a := range b.Addrs(b.away.Name) {
		b.Net.Cut(b.away.Addr, a)
	}
	open()
	b.Kill(b.away.Name)
	b.Net.MendAll()
	b.Up(b.away.Name)
	b.mustCatchUp(t)
}

func TestF37NextLeaderSendsWhatTheLastOneBegan(t *testing.T) {
	t.Parallel()
	b := startBehind(t)
	reached, open := b.gate(500_000)
	defer open()
	b.Up(b.away.Name)
	<-reached
	ctx, cancel := b.timeout()
	defer cancel()
	var next *Member
	for _, m := range b.Followers(b.leader) {
		if m != b.away {
			next = m
		}
	}
	if err := b.leader.Node.TransferLeader(ctx, next.Node.Status().ID); err != nil {
		t.Fatal(err)
	}
	open()
	b.Until("the old leader's transfer ends", func() bool { return len(b.record.of(b.leader.Name, consensus.TransferEnded)) > 0 })
	b.mustCatchUp(t)
}

func TestF37DamageOnTheWayCostsOneChunk(t *testing.T) {
	t.Parallel()
	b := startBehind(t)
	var passed atomic.Int64
	b.Net.Spoil(func(_, to string, p []byte) {
		if to == b.away.Addr && len(p) > 10_000 && passed.Add(1) == 20 {
			p[len(p)-1] ^= 1
		}
	})
	b.Up(b.away.Name)
	b.mustCatchUp(t)
	ended := b.record.of(b.leader.Name, consensus.TransferEnded)
	if len(ended) != 1 || ended[0].Err != nil {
		t.Fatalf("transfers = %+v, want one without error", ended)
	}
	if more := ended[0].Moved - ended[0].Size; more <= 0 || more > 64<<10 {
		t.Errorf("%d bytes more than the copy were sent, want one chunk", more)
	}
}

func TestF37CutEndsInResumingNotInBeginningAgain(t *testing.T) {
	t.Parallel()
	b := startBehind(t)
	for cut := range 2 {
		reached, open := b.gate(500_000)
		if cut == 0 {
			b.Up(b.away.Name)
		}
		<-reached
		b.Net.Isolate(b.away.Addr, b.Addrs(b.away.Name)...)
		open()
		b.Net.MendAll()
	}
	b.mustCatchUp(t)
	ended, err := b.record.of(b.leader.Name, consensus.TransferEnded), error(nil)
	for _, e := range ended {
		err = errors.Join(err, e.Err)
	}
	if len(ended) != 1 || err != nil || ended[0].Moved*10 >= ended[0].Size*12 {
		t.Errorf("transfers = %+v, want one that moved less than 1.2 times its size", ended)
	}
	for _, e := range b.record.of(b.away.Name, consensus.TransferResumed) {
		if e.Offset == 0 {
			t.Errorf("resumed from the beginning: %+v", e)
		}
	}
	if got := b.copies.Load(); got != 1 {
		t.Errorf("%d copies made, want 1", got)
	}
}

func TestF37TransferThatMakesNoProgressEndsAndLeavesNoFile(t *testing.T) {
	t.Parallel()
	b := startBehind(t, func(cfg *consensus.Config) {
		cfg.SnapshotIdle, cfg.StreamIdle = 300*time.Millisecond, 300*time.Millisecond
	})
	b.Net.Spoil(func(from, to string, p []byte) {
		if to == b.away.Addr && len(p) > 10_000 {
			b.Net.Break(from, to)
		}
	})
	b.Up(b.away.Name)
	b.Until("a transfer is given up", func() bool { return len(b.record.of(b.leader.Name, consensus.TransferEnded)) > 0 })
	if e := b.record.of(b.leader.Name, consensus.TransferEnded)[0]; !containsText(e.Err, "no progress for 300ms") || e.Took < 300*time.Millisecond {
		t.Errorf("ended after %v with %v, want no progress for 300 ms", e.Took, e.Err)
	}
	b.Net.Spoil(nil)
	b.mustCatchUp(t)
}
