package sim

import (
	"cmp"
	crand "crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/drover-fleet/drover/store"
	"github.com/drover-fleet/drover/test/history"
)

// Config says what to run.
type Config struct {
	Seed    uint64
	Faults  time.Duration // simulated time under faults; default 10 min
	Every   time.Duration // mean between two faults of the hub, and between two of devices; default 8 s. The load goes with it
	Members int           // default 3
	Clients int           // of the store, each with one operation under way; default 5
	Devices int           // default 0: the store alone
	Dir     string        // parent of the members' files; default memory-backed where there is one
	Log     io.Writer     // what happens, for people; nil: nothing
}

// Report is what a run came to.
type Report struct {
	Seed       uint64
	Trace      string // equal for equal seeds and equal code
	Events     uint64
	Simulated  time.Duration
	Operations int
	Writes     int // changes in the ledger
	Crashes    int
	Faults     map[string]int // by kind
	Others     map[string]int // what else happened, by kind
	Violations []history.Violation
}

const (
	settle   = 90 * time.Second // quiet time after the last fault, by which all must be at rest
	patience = 30 * time.Second // real time for the search for an order of operations
)

// world is one run.
type world struct {
	queue
	cfg     Config
	rng     *rand.Rand
	trace   trace
	net     *network
	members []*member
	clients []*user
	ledger  *history.Ledger
	reads   []history.SetRead
	seen    []history.Sighting
	fleet   *fleet // nil without devices
	current *task  // the one that runs now, nil outside of tasks
	touched []*host
	applied uint64         // highest entry that any member has applied
	quiet   bool           // no more faults
	onFiles bool           // logs are raft.db; else they are in memory, which takes less time
	fragile bool           // an old copy of a member's directory is about
	faults  map[string]int // that happened, by kind
	others  map[string]int // what else happened, by kind
	undo    []func()
	crashes int

	offices, compactions int
	compacted            store.Revision // highest that any compaction asked for

	failed []history.Violation // what was found on the way
}

// oneRun: the random numbers of crypto/rand are the process's, and raft takes its time-outs from there.
var oneRun sync.Mutex

// Run runs one seed. One run at a time in a process; a second one waits.
func Run(cfg Config) (Report, error) {
	oneRun.Lock()
	defer oneRun.Unlock()
	if cfg.Faults <= 0 {
		cfg.Faults = 10 * time.Minute
	}
	if cfg.Every <= 0 {
		cfg.Every = faultEvery
	}
	if cfg.Members <= 0 {
		cfg.Members = 3
	}
	if cfg.Clients <= 0 {
		cfg.Clients = 5
	}
	if cfg.Dir == "" {
		if _, err := os.Stat("/dev/shm"); err == nil {
			cfg.Dir = "/dev/shm"
		}
	}
	dir, err := os.MkdirTemp(cfg.Dir, "drover-sim-")
	if err != nil {
		return Report{}, err
	}
	defer os.RemoveAll(dir)
	cfg.Dir = dir
	defer seedProcess(cfg.Seed)()

	w := &world{cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, 1)), ledger: history.NewLedger(), faults: map[string]int{}, others: map[string]int{}}
	w.settle = w.pumpTouched
	w.onFiles = w.chance(0.1)
	w.net = newNetwork(w)
	err = w.live()
	for _, m := range w.members {
		err = errors.Join(err, m.close())
	}
	if err != nil {
		return Report{}, fmt.Errorf("seed %d at %v: %w", cfg.Seed, w.now, err)
	}
	return w.report(), nil
}

// seedProcess makes the process's secure random numbers follow from the seed, and returns what undoes it.
func seedProcess(seed uint64) (undo func()) {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	before := crand.Reader
	crand.Reader = rand.NewChaCha8(key)
	uuid.SetRand(crand.Reader)
	return func() {
		crand.Reader = before
		uuid.SetRand(nil)
	}
}

// live is the run: the hub forms, everyone works under faults, the faults end, and all comes to rest.
func (w *world) live() error {
	if err := w.form(); err != nil {
		return err
	}
	for i := range w.cfg.Clients {
		w.clients = append(w.clients, newUser(w, i))
	}
	if w.cfg.Devices > 0 {
		if err := w.startFleet(); err != nil {
			return err
		}
	}
	w.startFaults()
	w.runUntil(w.now+w.cfg.Faults, w.broken)
	w.endFaults()
	w.runUntil(w.now+settle, w.broken)
	// Clients write on, so an entry may be under way just now; members are compared where they hold the same ones.
	w.runUntil(w.now+settle/10, func() bool { return w.broken() || w.inStep() })
	if !w.broken() {
		w.judgeRest()
	}
	return nil
}

// broken ends a run early: what comes after the first breach explains nothing.
func (w *world) broken() bool { return len(w.failed) > 0 }

func (w *world) fail(check, format string, args ...any) {
	v := history.Violation{Check: check, What: fmt.Sprintf(format, args...)}
	w.logf("VIOLATION %s", v)
	w.failed = append(w.failed, v)
}

func (w *world) logf(format string, args ...any) {
	if w.cfg.Log != nil {
		fmt.Fprintf(w.cfg.Log, "%12v "+format+"\n", append([]any{w.now}, args...)...)
	}
}

// inStep tells whether all members that are up have applied the same entries.
func (w *world) inStep() bool {
	for _, m := range w.members {
		if m.up && m.store.Applied() != w.members[0].store.Applied() {
			return false
		}
	}
	return true
}

// judgeRest looks at what must hold once everything had time to settle.
func (w *world) judgeRest() {
	var first *member
	for _, m := range w.members {
		if !m.up {
			w.fail(history.NoErrors, "%s is down after the last fault", m.name)
			return
		}
		if first == nil {
			first = m
			continue
		}
		ai, ah := first.store.Hash()
		bi, bh := m.store.Hash()
		if ai != bi || ah != bh {
			w.fail(history.EqualMembers, "at rest %s has applied %d with hash %x, %s %d with %x", first.name, ai, ah[:6], m.name, bi, bh[:6])
		}
	}
	for _, c := range w.clients {
		if !c.answered(w.now - settle/2) {
			w.fail(history.NoErrors, "client %d had no answer in the last %v of quiet", c.id, settle/2)
		}
	}
	if w.fleet != nil {
		w.fleet.judgeRest()
	}
}

func (w *world) report() Report {
	changes := w.ledger.Changes()
	var ops []history.Op
	var streams []history.Stream
	for _, c := range w.clients {
		ops = append(ops, c.ops...)
		streams = append(streams, c.streams()...)
	}
	out := w.failed
	out = append(out, w.ledger.Check()...)
	out = append(out, history.CheckOffice(changes)...)
	out = append(out, history.CheckSets(w.reads)...)
	out = append(out, history.CheckMonotonic(w.seen)...)
	out = append(out, history.CheckWatch(streams, changes)...)
	if w.fleet != nil {
		out = append(out, w.fleet.check()...)
	}
	if len(out) == 0 {
		out = history.CheckLinearizable(ops, changes, patience)
	}
	return Report{
		Seed: w.cfg.Seed, Trace: w.trace.String(), Events: w.done, Simulated: w.now, Operations: len(ops), Writes: len(changes),
		Crashes: w.crashes, Faults: w.faults, Others: w.others, Violations: out,
	}
}

// usual is a mean that goes with how often faults come: what is given is for the densest.
func (w *world) usual(mean time.Duration) time.Duration {
	return time.Duration(float64(mean) * float64(w.cfg.Every) / float64(faultEvery))
}

// chance is true with the probability given.
func (w *world) chance(p float64) bool { return w.rng.Float64() < p }

// between is a time in [lo, hi).
func (w *world) between(lo, hi time.Duration) time.Duration {
	return lo + time.Duration(w.rng.Int64N(int64(hi-lo)))
}

// about is a time with an exponential distribution and the mean given, at most ten times it.
func (w *world) about(mean time.Duration) time.Duration {
	return time.Duration(min(w.rng.ExpFloat64(), 10) * float64(mean))
}

// trace is a running hash of everything that happened.
type trace struct{ sum uint64 }

func (t *trace) note(at time.Duration, what string, data []byte) {
	h := t.sum ^ hashOf(nil) ^ uint64(at) //nolint:gosec // not negative
	for i := range len(what) {
		h = (h ^ uint64(what[i])) * prime
	}
	t.sum = mix(h, data)
}

const prime = 1099511628211

// hashOf is a quick hash.
func hashOf(data []byte) uint64 { return mix(14695981039346656037, data) }

func mix(h uint64, data []byte) uint64 {
	for len(data) >= 8 {
		h = (h ^ binary.LittleEndian.Uint64(data)) * prime
		h ^= h >> 29
		data = data[8:]
	}
	for _, b := range data {
		h = (h ^ uint64(b)) * prime
	}
	return h
}

func (t *trace) String() string { return fmt.Sprintf("%016x", t.sum) }

// Replay is the command that runs a seed again and prints what happens.
func Replay(cfg Config) string {
	return fmt.Sprintf("go run ./test/sim/run -seeds 1 -first %d -faults %v -every %v -devices %d -log", cfg.Seed, cfg.Faults, cmp.Or(cfg.Every, faultEvery), cfg.Devices)
}

// Judged are the guarantees that a run is judged by.
func Judged(cfg Config) []string {
	hub := []string{
		history.Linearizable, history.EqualMembers, history.Monotonic, history.AtomicSets, history.OneOffice,
		history.WatchOrdered, history.WatchUnique, history.WatchReliable, history.WatchAtomic, history.WatchResumable,
		history.WatchBookmark, history.WatchPrevKV, history.NoErrors,
	}
	if cfg.Devices == 0 {
		return hub
	}
	return append(hub, history.NeverStops, history.NeverBack, history.OneCopy, history.Converges, history.Reboots)
}
