package replicas

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/consensus"
	"github.com/drover-fleet/drover/hub/replica"
	"github.com/drover-fleet/drover/store"
	"github.com/drover-fleet/drover/store/mvcc"
	"github.com/drover-fleet/drover/test/cluster"
)

// house is a whole hub in a process that is meant to be killed: one or three members on real files, joined by a network in memory. It
// checkpoints and cuts its log all the time, so that a kill falls into everything.
type house struct {
	dir     string
	net     *cluster.Network
	members []*resident
	failed  chan error // of a member that ended
}

type resident struct {
	name string
	dir  string
	s    *mvcc.Store
	node *consensus.Node
	rep  *replica.Replica
}

const startPatience = 30 * time.Second

// live opens the house, says what it holds, and works until it is killed. An error is what must not happen.
func live(dir string, size int, in io.Reader, out io.Writer) error {
	h := &house{dir: dir, net: cluster.NewNetwork(), failed: make(chan error, size)}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	starting, late := context.WithTimeout(ctx, startPatience)
	defer late()
	for i := range size {
		if err := h.moveIn(starting, fmt.Sprintf("h%d", i+1)); err != nil {
			return err
		}
	}
	if err := h.settle(starting); err != nil {
		return err
	}
	said := &lines{w: out}
	begin, err := h.read(starting, said)
	if err != nil {
		return err
	}
	said.say("up")
	for i, n := range begin {
		go func() { h.failed <- h.write(ctx, i, n, said) }()
	}
	phases := make(chan string)
	go func() {
		for s := bufio.NewScanner(in); s.Scan(); {
			phases <- s.Text()
		}
		h.failed <- errors.New("nobody asks for more")
	}()
	for {
		select {
		case err := <-h.failed:
			return err
		case phase := <-phases:
			go func() { h.failed <- h.do(ctx, phase, said) }()
		}
	}
}

// lines are what is said to who will kill, whole.
type lines struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lines) say(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = fmt.Fprintf(l.w, format+"\n", args...) // nobody listens any more: then the kill is near
}

func (h *house) config(r *resident) consensus.Config {
	return consensus.Config{
		Dir: r.dir, Self: consensus.Member{Name: r.name, PeerAddr: r.name + ".peer:1", APIAddr: r.name + ".api:1"}, Tick: 10 * time.Millisecond,
		KeepEntries: 100, CompactInterval: 20, Transport: h.net.Port(r.name, r.name+".peer:1"),
	}
}

// moveIn opens a member, made first if it is new.
func (h *house) moveIn(ctx context.Context, name string) error {
	r := &resident{name: name, dir: filepath.Join(h.dir, name)}
	if _, err := os.Stat(filepath.Join(r.dir, "raft.db")); errors.Is(err, os.ErrNotExist) {
		if err := errors.Join(os.MkdirAll(r.dir, 0o700), h.prepare(ctx, r)); err != nil {
			return fmt.Errorf("make %s: %w", name, err)
		}
	}
	var err error
	if r.s, err = mvcc.Open(filepath.Join(r.dir, "state"), mvcc.Options{CheckpointBytes: 8 << 10}); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	cfg := h.config(r)
	cfg.Machine, cfg.Applied = replica.Machine{Store: r.s}, r.s.Applied()
	if r.node, err = consensus.Open(cfg); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	if r.rep, err = replica.New(r.node, r.s, replica.Options{Member: name, NoLeader: startPatience}); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	h.members = append(h.members, r)
	go func() { h.failed <- fmt.Errorf("%s ended: %w", name, r.node.Run(context.Background())) }()
	return nil
}

func (h *house) prepare(ctx context.Context, r *resident) error {
	cfg := h.config(r)
	if len(h.members) == 0 {
		return consensus.Bootstrap(cfg)
	}
	for ctx.Err() == nil {
		m, err := h.members[0].node.AddMember(ctx, cfg.Self)
		if err == nil {
			return consensus.Join(cfg, m.ID, h.members[0].node.Members())
		}
		if !errors.Is(err, consensus.ErrNoLeader) {
			return err
		}
	}
	return ctx.Err()
}

// settle waits until all members vote and hold the same, and looks at what each has in its file.
func (h *house) settle(ctx context.Context) error {
	poll := time.NewTicker(2 * time.Millisecond)
	defer poll.Stop()
	if err := persist(ctx, h.members[0].rep.Found); err != nil {
		return err
	}
	for !h.equal() {
		select {
		case <-poll.C:
		case err := <-h.failed:
			return err
		case <-ctx.Done():
			return fmt.Errorf("members do not come to the same: %s", h.state())
		}
	}
	for _, r := range h.members {
		if err := errors.Join(persist(ctx, r.rep.Barrier), r.s.Checkpoint(), r.s.Verify(ctx)); err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
	}
	if !h.equal() {
		return fmt.Errorf("members that nobody writes to differ: %s", h.state())
	}
	return nil
}

// persist asks until there is a leader: an election may take long on a machine that does much else.
func persist(ctx context.Context, ask func(context.Context) error) error {
	for {
		if err := ask(ctx); err == nil || ctx.Err() != nil || !fault.Retryable(err) {
			return err
		}
	}
}

func (h *house) equal() bool {
	first, sum := h.members[0].s.Hash()
	for _, r := range h.members {
		status := r.node.Status()
		voters := 0
		for _, m := range status.Members {
			if !m.Learner {
				voters++
			}
		}
		at, hash := r.s.Hash()
		if at != first || hash != sum || voters != len(h.members) || status.Fenced != "" || status.Leader == 0 || status.Committed != at {
			return false
		}
	}
	return true
}

func (h *house) state() string {
	out := ""
	for _, r := range h.members {
		at, hash := r.s.Hash()
		out += fmt.Sprintf("\n%s: entry %d, hash %x, %+v", r.name, at, hash[:6], r.node.Status())
	}
	return out
}

const houseWriters = 4

// read says what each writer's key holds, in the eyes of every member, and returns how far each writer had come.
func (h *house) read(ctx context.Context, said *lines) ([]int, error) {
	begin := make([]int, houseWriters)
	for _, r := range h.members {
		for i := range begin {
			res, err := r.rep.Range(ctx, store.RangeRequest{Start: writerKey(i)})
			if err != nil {
				return nil, err
			}
			n, version := 0, uint64(0)
			if len(res.KVs) > 0 {
				if n, err = strconv.Atoi(string(res.KVs[0].Value)); err != nil {
					return nil, err
				}
				version = res.KVs[0].Version
			}
			said.say("holds %d %d %d", i, n, version)
			begin[i] = n
		}
	}
	return begin, nil
}

func writerKey(i int) string { return fmt.Sprintf("w/%d", i) }

// write counts up in a writer's key and says each number once it is acknowledged. Beside it it writes what is soon overwritten.
func (h *house) write(ctx context.Context, i, n int, said *lines) error {
	r := h.members[i%len(h.members)]
	res, err := r.rep.Range(ctx, store.RangeRequest{Start: writerKey(i)})
	if err != nil {
		return err
	}
	last := store.Revision(0)
	if len(res.KVs) > 0 {
		last = res.KVs[0].ModRevision
	}
	rng := rand.New(rand.NewPCG(uint64(i), uint64(n))) //nolint:gosec // fill
	for n++; ; n++ {
		fill := store.Op{Type: store.OpDelete, Key: fmt.Sprintf("fill/%d/%d", i, rng.IntN(20))}
		if rng.IntN(4) > 0 {
			fill.Type, fill.Value = store.OpPut, fmt.Appendf(make([]byte, rng.IntN(2000)), "%d", n)
		}
		res, err := r.rep.Propose(ctx, &store.Command{
			Actor: "hub:" + r.name, If: []store.Precondition{{Key: writerKey(i), ModRevision: last}},
			Ops: []store.Op{{Type: store.OpPut, Key: writerKey(i), Value: strconv.AppendInt(nil, int64(n), 10)}, fill},
		})
		if err := errors.Join(err, res.Err); err != nil {
			return fmt.Errorf("writer %d at %d: %w", i, n, err)
		}
		last = res.Revisions[0]
		said.say("ack %d %d", i, n)
	}
}

// do goes on with what the kill is to fall into.
func (h *house) do(ctx context.Context, phase string, said *lines) error {
	said.say("begin")
	for n := 0; ; n++ {
		r := h.members[n%len(h.members)]
		var err error
		switch phase {
		case "apply":
			<-ctx.Done()
		case "compact":
			at := r.rep.Revision()
			var res store.Result
			res, err = r.rep.Propose(ctx, &store.Command{Actor: "hub:" + r.name, Compact: at - min(store.Revision(n%10), store.Revision(at.Counter()))}) //nolint:gosec // small
			err = errors.Join(err, res.Err)
		case "file":
			_, err = r.s.CompactFile(ctx)
		case "checkpoint":
			err = r.s.Checkpoint()
		default:
			err = fault.BadRequest.Errorf("phase %q", phase)
		}
		if err != nil {
			return fmt.Errorf("%s on %s: %w", phase, r.name, err)
		}
	}
}
