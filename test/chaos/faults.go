package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/drover-fleet/drover/store"
	"github.com/drover-fleet/drover/test/lab"
)

// Kind is a kind of fault.
type Kind string

// The kinds, in the order in which a set of all of them comes.
const (
	Kill       Kind = "kill -9"
	KillAll    Kind = "kill -9 of all"
	Pause      Kind = "process paused"
	Deaf       Kind = "hears nobody"
	Mute       Kind = "is heard by nobody"
	OneWay     Kind = "one direction between two"
	Isolate    Kind = "cut off"
	SlowOne    Kind = "slow syncs on one"
	SlowAll    Kind = "slow syncs on all"
	BrokenSync Kind = "failing syncs"
	Full       Kind = "disk full"
	ClockStep  Kind = "clock step"
	Away       Kind = "away while the log is cut"
)

// Kinds are all of them.
func Kinds() []Kind {
	return []Kind{
		Kill, Deaf, SlowOne, Pause, Full, Isolate, ClockStep, KillAll, Mute, BrokenSync, OneWay, SlowAll, Away,
	}
}

// deal draws the next kinds: each comes once before any comes again, in an order of the seed's.
func deal(rng *rand.Rand, hand []Kind) (Kind, []Kind) {
	if len(hand) == 0 {
		hand = Kinds()
		rng.Shuffle(len(hand), func(i, j int) { hand[i], hand[j] = hand[j], hand[i] })
	}
	return hand[0], hand[1:]
}

// chaos does the faults.
type chaos struct {
	h    *house
	r    *record
	rng  *rand.Rand
	down time.Duration // at least that long a member stays away, at most twice
}

func (c *chaos) any() *member { return c.h.members[c.rng.IntN(members)] }

func (c *chaos) about() time.Duration { return c.down + time.Duration(c.rng.Int64N(int64(c.down))) }

func (c *chaos) others(m *member) []*member {
	var out []*member
	for _, o := range c.h.members {
		if o != m {
			out = append(out, o)
		}
	}
	return out
}

// do begins a fault, leaves it for a while and ends it. What it returns says whom it met.
func (c *chaos) do(ctx context.Context, k Kind) (string, error) {
	m := c.any()
	switch k {
	case Kill:
		return m.name, c.kill(ctx, m)
	case KillAll:
		return "h1 h2 h3", c.kill(ctx, c.h.members...)
	case Pause:
		return m.name, c.pause(ctx, m)
	case Deaf, Mute, OneWay, Isolate:
		return c.partition(ctx, k, m), nil
	case SlowOne, SlowAll, BrokenSync, Full:
		return c.disk(ctx, k, m)
	case ClockStep:
		return c.clock(ctx, m)
	case Away:
		return m.name, c.away(ctx, m)
	}
	return "", fmt.Errorf("unknown fault %q", k)
}

func (c *chaos) kill(ctx context.Context, all ...*member) error {
	var errs []error
	for _, m := range all {
		errs = append(errs, m.kill(ctx))
	}
	if len(all) == 1 || c.rng.IntN(2) == 0 {
		wait(ctx, c.about())
	}
	for _, m := range all {
		errs = append(errs, m.start())
	}
	return errors.Join(errs...)
}

func (c *chaos) pause(ctx context.Context, m *member) error {
	err := m.signal(syscall.SIGSTOP)
	wait(ctx, c.about())
	return errors.Join(err, m.signal(syscall.SIGCONT))
}

func (c *chaos) partition(ctx context.Context, k Kind, m *member) string {
	met := m.name
	others := c.others(m)
	if k == OneWay {
		others = others[:1]
		met += " to " + others[0].name
	}
	for _, o := range others {
		c.h.net.lose(m.place, o.place, k != Deaf)
		c.h.net.lose(o.place, m.place, k == Deaf || k == Isolate)
	}
	if k == Isolate && c.rng.IntN(2) == 0 { // from its clients too
		c.h.net.lose(outside, m.place, true)
		met += " and clients"
	}
	wait(ctx, c.about())
	c.h.net.heal()
	return met
}

// disk makes disks misbehave. A member may end because its disk failed; it is started again once the disk is well.
func (c *chaos) disk(ctx context.Context, k Kind, m *member) (string, error) {
	all := []*member{m}
	if k == SlowAll {
		all = c.h.members
	}
	slow := time.Duration(0)
	if k == SlowOne || k == SlowAll {
		slow = time.Duration(50+c.rng.IntN(950)) * time.Millisecond
	}
	for _, o := range all {
		if k == BrokenSync || k == Full {
			o.excuse()
		}
		o.disk.set(slow, k == BrokenSync, k == Full)
	}
	if k == Full {
		c.fill(ctx, m, 2) // files grow a few MiB at a time: now they have to
	}
	wait(ctx, c.about())
	for _, o := range all {
		o.disk.heal()
	}
	if k == SlowOne || k == SlowAll {
		return fmt.Sprintf("%d members, %v", len(all), slow), nil
	}
	// One that has noticed is on its way out, and one that has not goes on.
	met := m.name + " went on"
	settle, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_ = lab.Until(settle, "the member notices", func() error {
		if ended, _ := m.ended(); !ended {
			return errors.New("it runs")
		}
		met = m.name + " ended and was started again"
		return nil
	})
	return met, m.start()
}

func (c *chaos) clock(ctx context.Context, m *member) (string, error) {
	steps := []int64{-3600, 3600, -86400, 86400, -30 * 86400, 30 * 86400, -2, 2}
	by := steps[c.rng.IntN(len(steps))]
	err := m.step(by)
	wait(ctx, c.about())
	if c.rng.IntN(2) == 0 {
		err = errors.Join(err, m.kill(ctx), m.start()) // it starts in the wrong time too
		wait(ctx, c.about())
	}
	return fmt.Sprintf("%s by %v", m.name, time.Duration(by)*time.Second), errors.Join(err, m.step(0))
}

const (
	bulkKeys   = 4
	bulkBytes  = 900 << 10
	bulkWrites = 5 // of all keys at once: 18 MB, as much as the log may ever keep of its 4 MiB
)

// away keeps a member down until the others' log has gone on without it, so that it is given a snapshot on return.
func (c *chaos) away(ctx context.Context, m *member) error {
	if err := m.kill(ctx); err != nil {
		return err
	}
	before := m.disk.snapshots()
	c.fill(ctx, m, bulkWrites)
	if err := m.start(); err != nil {
		return err
	}
	given, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	_ = lab.Until(given, m.name+" is given a snapshot", func() error { // if not, the table says so
		if m.disk.snapshots() == before {
			return errors.New("not yet")
		}
		return nil
	})
	return nil
}

// fill writes much through another member than the one given, and takes it away again.
func (c *chaos) fill(ctx context.Context, not *member, writes int) {
	l := links{}
	defer l.close()
	at := slices.Index(c.h.members, c.others(not)[0])
	value := make([]byte, bulkBytes)
	for n := 0; n < writes && ctx.Err() == nil; n++ {
		value[n]++
		var all, gone store.Command
		for k := range bulkKeys {
			key := bulkPrefix + strconv.Itoa(k)
			all.Ops = append(all.Ops, store.Op{Type: store.OpPut, Key: key, Value: value})
			gone.Ops = append(gone.Ops, store.Op{Type: store.OpDelete, Key: key})
		}
		c.bulk(ctx, l, at, &all)
		if n == writes-1 {
			c.bulk(ctx, l, at, &gone)
		}
	}
}

func (c *chaos) bulk(ctx context.Context, l links, at int, cmd *store.Command) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	cmd.Actor = "hub:chaos"
	link, err := l.to(ctx, c.h, at)
	if err == nil {
		_, err = link.Propose(ctx, cmd)
	}
	if err != nil {
		l.drop(at)
	}
}

// turnPrefix begins the records by which members take turns in compacting their files (hub/replica).
const turnPrefix = "~turn/"

// compactor drops the past now and then: never what the keeper of the ledger has yet to see, often what other watchers have. And it
// asks for members' turns to compact their files, as they do themselves when there is much room in them.
func (c *chaos) compactor(ctx context.Context, keeper *watching, rng *rand.Rand) {
	l := links{}
	defer l.close()
	for n := 0; ctx.Err() == nil; n++ {
		wait(ctx, time.Duration(500+rng.IntN(2000))*time.Millisecond)
		m := c.h.members[n%members]
		if n%3 == 0 {
			c.bulk(ctx, l, rng.IntN(members), &store.Command{
				If: []store.Precondition{{Key: turnPrefix + m.name}}, Ops: []store.Op{{Type: store.OpPut, Key: turnPrefix + m.name, Value: []byte(`{"state":"wanted"}`)}},
			})
		}
		seen := store.Revision(keeper.reached.Load())
		if seen.Counter() < 50 {
			continue
		}
		to := seen - store.Revision(rng.IntN(40)) //nolint:gosec // small
		c.r.compacting(to)
		c.bulk(ctx, l, rng.IntN(members), &store.Command{Compact: to})
	}
}
