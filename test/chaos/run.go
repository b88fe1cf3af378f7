package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/drover-fleet/drover/store"
	"github.com/drover-fleet/drover/test/history"
	"github.com/drover-fleet/drover/test/lab"
)

// Config says how to run. Dir and Binary are required.
type Config struct {
	Dir    string // empty and short; histories of a breach and logs stay there
	Binary string // a member, as Build makes it
	Seed   uint64
	// Time is for how long faults come; zero: each kind once.
	Time time.Duration
	Down time.Duration // how long a fault lasts, at least; twice that at most; default 1.5 s
	Out  io.Writer     // progress; nil: none
}

const (
	users       = 6
	startTime   = 60 * time.Second
	recoverTime = 3 * time.Minute // after the last fault, for every member to serve: it takes a second, and much more where others want the processors
	orderTime   = 2 * time.Minute // to find an order of operations
)

// Check is one guarantee and how it went.
type Check struct {
	Name   string
	Broken []history.Violation
}

// Verdict is what a run came to.
type Verdict struct {
	Seed                           uint64
	Faults                         map[Kind]int
	Snapshots                      int // that members were given
	Compactions, Files             int // of history, and of files while they were in use
	Done, Refused, Unknown, Failed int // operations
	Revisions                      int // in the ledger
	Streams, Sets                  int
	LongestWithoutWrite            time.Duration
	Recovered                      time.Duration // after the last fault until every member served
	Checks                         []Check
	History                        string // file, where something was broken
}

// OK tells whether everything held.
func (v *Verdict) OK() bool {
	for _, c := range v.Checks {
		if len(c.Broken) > 0 {
			return false
		}
	}
	return true
}

// Run founds a hub in Dir, lets faults come while clients work, and judges. An error is the bench's own.
func Run(ctx context.Context, cfg Config) (v *Verdict, err error) {
	if cfg.Down == 0 {
		cfg.Down = 1500 * time.Millisecond
	}
	if cfg.Out == nil {
		cfg.Out = io.Discard
	}
	h, err := newHouse(cfg.Dir, cfg.Binary)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	starting, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	if err := h.found(starting); err != nil {
		return nil, err
	}
	w := newWorld(cfg, h)
	w.work(ctx)
	v = w.verdict
	if err := w.settle(ctx); err != nil {
		return nil, err
	}
	w.judge(ctx)
	if !v.OK() {
		v.History, err = w.keepHistory(cfg.Dir)
	}
	return v, err
}

// world is one run.
type world struct {
	cfg      Config
	h        *house
	r        *record
	c        *chaos
	users    []*user
	watching []*watching // the first keeps the ledger
	verdict  *Verdict

	stopUsers, stopWatching context.CancelFunc
	using, looking          sync.WaitGroup
}

func newWorld(cfg Config, h *house) *world {
	w := &world{cfg: cfg, h: h, r: newRecord(), verdict: &Verdict{Seed: cfg.Seed, Faults: map[Kind]int{}}}
	w.c = &chaos{h: h, r: w.r, rng: rand.New(rand.NewPCG(cfg.Seed, 0)), down: cfg.Down} //nolint:gosec // a schedule
	for i := range users {
		w.users = append(w.users, newUser(i, h, w.r, cfg.Seed))
	}
	for i, prefix := range []string{"", "", "k/", "set/", "k/"} {
		w.watching = append(w.watching, newWatching(100+i, prefix, h, w.r, cfg.Seed))
	}
	w.watching[0].keeps()
	w.watching[4].slow = 300 * time.Millisecond // it falls behind, and is caught up or told to resume
	return w
}

// work runs clients, watchers and faults until the schedule is over.
func (w *world) work(ctx context.Context) {
	var userCtx, watchCtx context.Context
	userCtx, w.stopUsers = context.WithCancel(ctx)
	watchCtx, w.stopWatching = context.WithCancel(ctx)
	for i, x := range w.watching {
		w.looking.Go(func() { x.run(watchCtx) })
		for i == 0 && x.reached.Load() == 0 && ctx.Err() == nil { // the ledger begins before anybody sees anything
			wait(ctx, 10*time.Millisecond)
		}
	}
	for _, u := range w.users {
		w.using.Go(func() { u.run(userCtx) })
	}
	for i := range members {
		w.using.Go(func() { probe(userCtx, w.h, w.r, i) })
	}
	w.using.Go(func() {
		w.c.compactor(userCtx, w.watching[0], rand.New(rand.NewPCG(w.cfg.Seed, 2000))) //nolint:gosec // a schedule
	})
	w.using.Go(func() { w.attend(userCtx) })
	w.using.Go(func() { w.progress(userCtx) })
	wait(ctx, time.Second)
	w.schedule(ctx)
}

// schedule lets faults come until the time is over, or each kind has come.
func (w *world) schedule(ctx context.Context) {
	hand := Kinds()
	if w.cfg.Time > 0 {
		hand = nil
	}
	end := w.r.now() + w.cfg.Time
	for ctx.Err() == nil && (w.cfg.Time == 0 && len(hand) > 0 || w.r.now() < end) {
		var k Kind
		k, hand = deal(w.c.rng, hand)
		at := w.r.now()
		met, err := w.c.do(ctx, k)
		if err != nil {
			w.r.breach(history.NoErrors, "fault %q: %v", k, err)
		}
		w.verdict.Faults[k]++
		fmt.Fprintf(w.cfg.Out, "%7.1fs  %-28s %s\n", at.Seconds(), k, met)
		wait(ctx, time.Duration(w.c.rng.Int64N(int64(w.cfg.Down))))
	}
}

// attend starts members again that ended by themselves. Only one whose disk failed may.
func (w *world) attend(ctx context.Context) {
	for ctx.Err() == nil {
		for _, m := range w.h.members {
			ended, excused := m.ended()
			if !ended || excused {
				continue
			}
			w.r.breach(history.NoErrors, "%s ended by itself; the end of its log:\n%s", m.name, m.tail(8))
			if err := m.start(); err != nil {
				w.r.breach(history.NoErrors, "%s does not start again: %v", m.name, err)
			}
		}
		wait(ctx, 50*time.Millisecond)
	}
}

func (w *world) progress(ctx context.Context) {
	for {
		wait(ctx, 10*time.Second)
		if ctx.Err() != nil {
			return
		}
		done, refused, unknown, failed := w.r.tally()
		fmt.Fprintf(w.cfg.Out, "%7.1fs  operations: %d done, %d refused, %d unknown, %d not sent; ledger at %d\n", w.r.now().Seconds(), done, refused, unknown, failed,
			store.Revision(w.watching[0].reached.Load()).Counter())
	}
}

// settle ends the faults, waits until every member serves, and lets watchers come to the end.
func (w *world) settle(ctx context.Context) error {
	w.h.net.heal()
	for _, m := range w.h.members {
		m.disk.heal()
		if err := errors.Join(m.step(0), m.signal(contSignal), m.start()); err != nil {
			return err
		}
	}
	began := w.r.now()
	within, cancel := context.WithTimeout(ctx, recoverTime)
	defer cancel()
	for _, m := range w.h.members {
		if err := lab.Until(within, m.name+" serves", func() error { return w.h.serves(within, m) }); err != nil {
			w.r.breach(Serves, "%v\n%s", err, m.tail(8))
		}
	}
	w.verdict.Recovered = w.r.now() - began
	w.stopUsers()
	w.using.Wait()
	w.lastReads(ctx)
	newest := w.newest(ctx)
	for _, x := range w.watching {
		err := lab.Until(within, fmt.Sprintf("watcher %d sees revision %d", x.id, newest), func() error {
			// Without marks a watcher of some keys may have nothing to see at the end.
			if got := store.Revision(x.reached.Load()); got < newest && (x.prefix == "" || x.marks) {
				return fmt.Errorf("it has come to %d", got)
			}
			return nil
		})
		if err != nil && x.prefix == "" {
			w.r.breach(history.WatchReliable, "%v", err)
		}
	}
	w.stopWatching()
	w.looking.Wait()
	return nil
}

// lastReads reads every key once more on every member: what was acknowledged must still be there.
func (w *world) lastReads(ctx context.Context) {
	touched := map[string]bool{}
	for _, o := range w.r.ops {
		touched[o.Key] = true
	}
	for i := range members {
		u := newUser(users+i, w.h, w.r, w.cfg.Seed)
		for key := range touched {
			u.at = i
			u.read(ctx, history.Op{Client: u.id, Kind: history.Read, Key: key})
		}
		u.links.close()
	}
}

func (w *world) newest(ctx context.Context) store.Revision {
	l := links{}
	defer l.close()
	rev, err := l.revision(ctx, w.h, 0, false)
	if err != nil {
		w.r.breach(Serves, "the newest revision cannot be read: %v", err)
	}
	return rev
}
