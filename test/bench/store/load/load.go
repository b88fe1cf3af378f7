package load

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Session is one connection to one member. It is used by many clients at once.
type Session interface {
	// Put writes a key and returns the version that PutIf takes.
	Put(ctx context.Context, key string, value []byte) (version uint64, err error)
	// PutIf writes a key if it is still at the version; zero means that it must not exist.
	PutIf(ctx context.Context, key string, value []byte, version uint64) (uint64, error)
	// Batch writes all keys or none.
	Batch(ctx context.Context, keys []string, value []byte) error
	// Get reads one key, which must exist. A stale read may be behind what was acknowledged.
	Get(ctx context.Context, key string, stale bool) error
	// Watch calls event with each value written to the key, or to all keys under the prefix, after it called ready, until
	// ctx ends.
	Watch(ctx context.Context, key string, prefix bool, ready func(), event func(value []byte)) error
	Close() error
}

// Creator is a Session that tells a creation from a put.
type Creator interface {
	Create(ctx context.Context, key string, value []byte) error
}

// Applier is a Session with server-side apply.
type Applier interface {
	Apply(ctx context.Context, key string, value []byte) error
}

// Lister is a Session that reads all keys with a prefix in one answer, and tells how many they are.
type Lister interface {
	List(ctx context.Context, prefix string) (int, error)
}

// Dialer opens a session with the member at an endpoint.
type Dialer func(ctx context.Context, s *Spec, endpoint string) (Session, error)

// Kinds of load.
const (
	OpPut       = "put"
	OpPutIf     = "put-if"
	OpCreate    = "create" // of keys that are not there; a raw put where the store has no other way
	OpApply     = "apply"  // merges into what stands by who owns what; a raw put where the store knows no owners
	OpList      = "list"   // of all Spec.Keys keys
	OpBatch     = "batch"  // one operation writes Spec.Batch keys
	OpGet       = "get"
	OpGetStale  = "get-stale"
	OpWatchAll  = "watch-all"  // every watcher watches the prefix of all keys
	OpWatchKeys = "watch-keys" // every watcher watches a key of its own
	OpProbe     = "probe"      // puts one key until that succeeds on any endpoint, and tells how long it took
)

// Spec is one run.
type Spec struct {
	Op            string
	Endpoints     []string
	CA, Cert, Key string // PEM files for mutual TLS
	Conns         int    // sessions, spread over the endpoints
	Clients       int    // each with one operation under way; spread over the sessions
	ValueBytes    int    // at least 16
	Keys          int    // keys that clients draw from, in turn
	Batch         int    // keys of one OpBatch
	Warm, Measure time.Duration
	Watchers      int
	Rate          float64 // puts a second in watch runs; zero is as fast as the clients can
	Fill          bool    // write every key once and do nothing else
	Run           string  // sets the keys that OpCreate makes apart from those of other runs
}

// Result is what a run came to.
type Result struct {
	Ops      int     // operations, or events delivered
	Total    int     // operations with those of the warm-up
	Seconds  float64 // measured time
	P50, P99 float64 // milliseconds
	Errors   int
	Error    string  // the first one
	CPU      float64 // processor seconds of the load process in the measured time
}

// Rate is operations or events a second.
func (r Result) Rate() float64 { return float64(r.Ops) / r.Seconds }

const prefix = "bench-"

func keyOf(i int) string { return fmt.Sprintf("%s%06d", prefix, i) }

// Main reads a Spec from in, runs it and writes the Result to out.
func Main(ctx context.Context, dial Dialer, in io.Reader, out io.Writer) error {
	var s Spec
	if err := json.NewDecoder(in).Decode(&s); err != nil {
		return fmt.Errorf("read spec: %w", err)
	}
	r, err := Run(ctx, dial, &s)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(r)
}

// Run does what the spec says.
func Run(ctx context.Context, dial Dialer, s *Spec) (r Result, err error) {
	if s.Op == OpProbe {
		return probe(ctx, dial, s)
	}
	g := &generator{spec: s, began: time.Now()}
	defer func() { err = errors.Join(err, g.close()) }()
	if err := g.connect(ctx, dial); err != nil {
		return r, err
	}
	if s.Fill {
		return r, g.fill(ctx)
	}
	if s.Watchers > 0 {
		return g.watch(ctx)
	}
	return g.operate(ctx)
}

// generator is one run under way.
type generator struct {
	spec     *Spec
	began    time.Time
	sessions []Session
	measured atomic.Bool // the warm-up is over and the end not reached
}

func (g *generator) close() error {
	var errs []error
	for _, c := range g.sessions {
		if c != nil {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(errs...)
}

// value carries the time of its making, so that no two are alike and watchers can tell its age.
func (g *generator) value() []byte {
	head := fmt.Sprintf("%016x", time.Since(g.began).Nanoseconds())
	return []byte(head + strings.Repeat("x", max(0, g.spec.ValueBytes-len(head))))
}

func (g *generator) age(value []byte) (time.Duration, error) {
	if len(value) < 16 {
		return 0, fmt.Errorf("event carries %d bytes, want at least 16", len(value))
	}
	made, err := strconv.ParseInt(string(value[:16]), 16, 64)
	return time.Since(g.began) - time.Duration(made), err
}

// connect opens the sessions, all at once, and has each answer a read, so that no handshake falls into the measured time.
func (g *generator) connect(ctx context.Context, dial Dialer) error {
	g.sessions = make([]Session, g.spec.Conns)
	errs := make([]error, g.spec.Conns)
	var wg sync.WaitGroup
	for i := range g.sessions {
		endpoint := g.spec.Endpoints[i%len(g.spec.Endpoints)]
		wg.Go(func() {
			c, err := dial(ctx, g.spec, endpoint)
			g.sessions[i] = c
			if err == nil && !g.spec.Fill {
				err = c.Get(ctx, keyOf(0), true)
			}
			if err != nil {
				errs[i] = fmt.Errorf("connect to %s: %w", endpoint, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// fillChunk is how many keys are written at a time: within the default limit of a transaction of etcd.
const fillChunk = 64

func (g *generator) fill(ctx context.Context) error {
	keys := make([]string, 0, g.spec.Keys)
	for i := range g.spec.Keys {
		keys = append(keys, keyOf(i))
	}
	errs := make([]error, len(g.sessions))
	var wg sync.WaitGroup
	for i, c := range g.sessions {
		wg.Go(func() {
			n := 0
			for chunk := range slices.Chunk(keys, fillChunk) {
				if n++; n%len(g.sessions) == i && errs[i] == nil {
					errs[i] = c.Batch(ctx, chunk, g.value())
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// tally is what one client saw.
type tally struct {
	took   []time.Duration
	total  int // operations without an error, warm-up included
	errors int
	first  error
}

func (t *tally) note(measured bool, took time.Duration, err error) {
	if err == nil {
		t.total++
	}
	switch {
	case !measured:
	case err != nil:
		t.errors++
		if t.first == nil {
			t.first = err
		}
	default:
		t.took = append(t.took, took)
	}
}

// operate runs the clients through warm-up and measured time.
func (g *generator) operate(ctx context.Context) (Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	tallies := make([]tally, g.spec.Clients)
	var wg sync.WaitGroup
	for i := range tallies {
		wg.Go(func() { g.client(ctx, i, &tallies[i], nil) })
	}
	seconds, cpu := g.phases(ctx)
	cancel()
	wg.Wait()
	return summary(tallies, seconds, cpu), nil
}

// phases lets the warm-up pass and then the measured time, and tells how long that was and what it cost.
func (g *generator) phases(ctx context.Context) (seconds, cpu float64) {
	pause(ctx, g.spec.Warm)
	started, before := time.Now(), processorSeconds()
	g.measured.Store(true)
	pause(ctx, g.spec.Measure)
	g.measured.Store(false)
	return time.Since(started).Seconds(), processorSeconds() - before
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// client works until ctx ends. pace, when not nil, gives leave for each operation.
func (g *generator) client(ctx context.Context, n int, t *tally, pace <-chan struct{}) {
	c := g.sessions[n%len(g.sessions)]
	do := g.operation(c, n)
	for i := n; ; i += g.spec.Clients {
		if pace != nil {
			select {
			case <-pace:
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil {
			return
		}
		began := time.Now()
		err := do(ctx, i)
		if ctx.Err() != nil {
			return
		}
		t.note(g.measured.Load(), time.Since(began), err)
		if err != nil {
			pause(ctx, 10*time.Millisecond) // a side that refuses is not to be timed by how fast it does
		}
	}
}

// operation is one step of a client; i counts through the keys so that clients share none of them at a time.
func (g *generator) operation(c Session, n int) func(ctx context.Context, i int) error {
	s := g.spec
	switch s.Op {
	case OpGet, OpGetStale:
		return func(ctx context.Context, i int) error { return c.Get(ctx, keyOf(i%s.Keys), s.Op == OpGetStale) }
	case OpCreate:
		return func(ctx context.Context, i int) error {
			return create(ctx, c, fmt.Sprintf("%s%s-%d", created, strings.ToLower(s.Run), i), g.value())
		}
	case OpApply:
		return func(ctx context.Context, i int) error { return apply(ctx, c, keyOf(i%s.Keys), g.value()) }
	case OpList:
		return func(ctx context.Context, _ int) error { return list(ctx, c, s.Keys) }
	case OpBatch:
		return func(ctx context.Context, i int) error {
			keys := make([]string, s.Batch)
			for k := range keys {
				keys[k] = keyOf((i*s.Batch + k) % s.Keys)
			}
			return c.Batch(ctx, keys, g.value())
		}
	case OpPutIf:
		own, known, version := keyOf(n%s.Keys), false, uint64(0)
		return func(ctx context.Context, _ int) (err error) {
			if !known { // once, and again after an answer was lost
				version, err = c.Put(ctx, own, g.value())
			} else {
				version, err = c.PutIf(ctx, own, g.value(), version)
			}
			known = err == nil
			return err
		}
	}
	return func(ctx context.Context, i int) error {
		_, err := c.Put(ctx, keyOf(i%s.Keys), g.value())
		return err
	}
}

// created begins the keys that OpCreate makes, which no list of the others has.
const created = "made-"

func create(ctx context.Context, c Session, key string, value []byte) error {
	if m, ok := c.(Creator); ok {
		return m.Create(ctx, key, value)
	}
	_, err := c.Put(ctx, key, value)
	return err
}

func apply(ctx context.Context, c Session, key string, value []byte) error {
	if m, ok := c.(Applier); ok {
		return m.Apply(ctx, key, value)
	}
	_, err := c.Put(ctx, key, value)
	return err
}

func list(ctx context.Context, c Session, want int) error {
	l, ok := c.(Lister)
	if !ok {
		return errors.New("this store is not listed")
	}
	got, err := l.List(ctx, prefix)
	if err == nil && got != want {
		err = fmt.Errorf("the list has %d keys, want %d", got, want)
	}
	return err
}

func summary(tallies []tally, seconds, cpu float64) Result {
	r := Result{Seconds: seconds, CPU: cpu}
	var all []time.Duration
	for _, t := range tallies {
		all = append(all, t.took...)
		r.Errors += t.errors
		r.Total += t.total
		if t.first != nil && r.Error == "" {
			r.Error = t.first.Error()
		}
	}
	r.Ops = len(all)
	slices.SortFunc(all, cmp.Compare)
	r.P50, r.P99 = quantile(all, 0.50), quantile(all, 0.99)
	return r
}

// quantile is in milliseconds; the durations are sorted.
func quantile(sorted []time.Duration, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	at := min(len(sorted)-1, int(q*float64(len(sorted))))
	return float64(sorted[at]) / float64(time.Millisecond)
}

func processorSeconds() float64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

// attemptTime bounds one put of a probe.
const attemptTime = 500 * time.Millisecond

// probe asks all endpoints at once, again and again, until one of them has written.
func probe(ctx context.Context, dial Dialer, s *Spec) (Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g := &generator{spec: s, began: time.Now()}
	wrote := make(chan struct{}, len(s.Endpoints))
	var wg sync.WaitGroup
	for i, e := range s.Endpoints {
		wg.Go(func() {
			for ctx.Err() == nil {
				if g.attempt(ctx, dial, e, i) == nil {
					wrote <- struct{}{}
					return
				}
				pause(ctx, 5*time.Millisecond)
			}
		})
	}
	var err error
	select {
	case <-wrote:
	case <-ctx.Done():
		err = ctx.Err()
	}
	took := time.Since(g.began)
	cancel()
	wg.Wait()
	return Result{Ops: 1, Seconds: took.Seconds()}, err
}

func (g *generator) attempt(ctx context.Context, dial Dialer, endpoint string, n int) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	c, err := dial(ctx, g.spec, endpoint)
	if err != nil {
		return err
	}
	_, err = c.Put(ctx, keyOf(n), g.value())
	return errors.Join(err, c.Close())
}
