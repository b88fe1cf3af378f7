package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/drover-fleet/drover/consensus"
)

// Machine is a state machine with what the cluster needs to open and close it.
type Machine interface {
	consensus.Machine
	Applied() uint64
	Close() error
}

// Factory opens the machine of a member in its directory.
type Factory func(dir string) (Machine, error)

// Options sets a cluster up. Zero values are fit for tests.
type Options struct {
	Machine Factory // default: OpenLedger
	Tune    func(*consensus.Config)
	// Transport replaces the in-memory network, and Addr the addresses on it, for tests of a real one.
	Transport func(*Member) (consensus.Transport, error)
	Addr      func(name string) string
	Logger    *slog.Logger  // default: the test's log, from warnings on
	Tick      time.Duration // default 10 ms: elections take 0.1 to 0.2 s
	Patience  time.Duration // default 20 s: the longest wait of a test
}

// Cluster is a set of members in one process.
type Cluster struct {
	t       testing.TB
	opts    Options
	Net     *Network
	Members map[string]*Member
	order   []string
}

// Member is one of them. Node and Machine are nil while it is down.
type Member struct {
	Name    string
	Addr    string
	Dir     string
	Node    *consensus.Node
	Machine Machine

	cancel context.CancelFunc
	done   chan error
}

// New makes an empty cluster; everything is stopped when the test ends.
func New(t testing.TB, opts Options) *Cluster {
	t.Helper()
	if opts.Machine == nil {
		opts.Machine = OpenLedger
	}
	if opts.Tick == 0 {
		opts.Tick = 10 * time.Millisecond
	}
	if opts.Patience == 0 {
		opts.Patience = patience
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelInfo}))
	}
	c := &Cluster{t: t, opts: opts, Net: NewNetwork(), Members: map[string]*Member{}}
	t.Cleanup(func() {
		for _, name := range c.order {
			c.Stop(name)
		}
	})
	return c
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(b []byte) (int, error) {
	w.t.Log(string(b[:max(len(b)-1, 0)]))
	return len(b), nil
}

// Start makes a cluster of members named h1, h2, ... that are all voters.
func Start(t testing.TB, size int, opts Options) *Cluster {
	t.Helper()
	c := New(t, opts)
	c.Bootstrap("h1")
	for i := 2; i <= size; i++ {
		c.Join(fmt.Sprintf("h%d", i))
	}
	c.WaitVoters(size)
	return c
}

// Bootstrap starts the first member.
func (c *Cluster) Bootstrap(name string) *Member {
	c.t.Helper()
	m := c.add(name)
	if err := consensus.Bootstrap(c.base(m)); err != nil {
		c.t.Fatalf("bootstrap %s: %v", name, err)
	}
	c.Up(name)
	return m
}

// Join adds a member through any that runs, and starts it.
func (c *Cluster) Join(name string) *Member {
	c.t.Helper()
	sponsor := c.Any()
	m := c.add(name)
	ctx, cancel := c.timeout()
	defer cancel()
	added, err := sponsor.Node.AddMember(ctx, consensus.Member{Name: name, PeerAddr: m.Addr, APIAddr: "api." + name + ":1"})
	if err != nil {
		c.t.Fatalf("add %s: %v", name, err)
	}
	if err := consensus.Join(c.base(m), added.ID, sponsor.Node.Members()); err != nil {
		c.t.Fatalf("join %s: %v", name, err)
	}
	c.Up(name)
	return m
}

func (c *Cluster) add(name string) *Member {
	m := &Member{Name: name, Addr: name + ".peer:1", Dir: filepath.Join(c.t.TempDir(), name)}
	if c.opts.Addr != nil {
		m.Addr = c.opts.Addr(name)
	}
	if err := os.MkdirAll(m.Dir, 0o700); err != nil {
		c.t.Fatal(err)
	}
	c.Members[name] = m
	c.order = append(c.order, name)
	return m
}

// base is a config that prepares a directory and cannot run.
func (c *Cluster) base(m *Member) consensus.Config {
	return consensus.Config{
		Dir: m.Dir, Self: consensus.Member{Name: m.Name, PeerAddr: m.Addr, APIAddr: "api." + m.Name + ":1"},
		Tick: c.opts.Tick, SlowTicks: 100, Logger: c.opts.Logger.With("member", m.Name),
	}
}

func (c *Cluster) config(m *Member) consensus.Config {
	cfg := c.base(m)
	cfg.Transport = c.Net.Port(m.Name, m.Addr)
	if c.opts.Transport != nil {
		transport, err := c.opts.Transport(m)
		if err != nil {
			c.t.Fatalf("transport of %s: %v", m.Name, err)
		}
		cfg.Transport = transport
	}
	if c.opts.Tune != nil {
		c.opts.Tune(&cfg)
	}
	return cfg
}

// Up opens a member's directory and runs it.
func (c *Cluster) Up(name string) *Member {
	c.t.Helper()
	m := c.Members[name]
	machine, err := c.opts.Machine(m.Dir)
	if err != nil {
		c.t.Fatalf("open machine of %s: %v", name, err)
	}
	cfg := c.config(m)
	cfg.Machine, cfg.Applied = machine, machine.Applied()
	node, err := consensus.Open(cfg)
	if err != nil {
		c.t.Fatalf("open %s: %v", name, errors.Join(err, machine.Close()))
	}
	ctx, cancel := context.WithCancel(context.Background())
	m.Node, m.Machine, m.cancel, m.done = node, machine, cancel, make(chan error, 1)
	go func() { m.done <- node.Run(ctx) }()
	return m
}

// Stop ends a member in order. Stopping one that is down does nothing.
func (c *Cluster) Stop(name string) {
	c.t.Helper()
	m := c.Members[name]
	if m.Node == nil {
		return
	}
	m.cancel()
	if err := <-m.done; err != nil {
		c.t.Errorf("%s ended with: %v", name, err)
	}
	if err := m.Machine.Close(); err != nil {
		c.t.Errorf("close machine of %s: %v", name, err)
	}
	m.Node, m.Machine = nil, nil
}

// Kill ends a member as SIGKILL does: its files are copied while it runs, and the copy, taken at a moment nobody
// prepared for, is what the next start finds. From the call on nothing it says is heard.
func (c *Cluster) Kill(name string) {
	c.t.Helper()
	m := c.Members[name]
	for _, o := range c.order {
		c.Net.Cut(m.Addr, c.Members[o].Addr)
	}
	dir := m.Dir + ".killed"
	c.copyDir(m.Dir, dir)
	c.Stop(name)
	for _, o := range c.order {
		c.Net.Mend(m.Addr, c.Members[o].Addr)
	}
	if err := errors.Join(os.RemoveAll(m.Dir), os.Rename(dir, m.Dir)); err != nil {
		c.t.Fatal(err)
	}
}

// CopyDir takes a copy of a stopped member's directory and returns where it is.
func (c *Cluster) CopyDir(name string) string {
	c.t.Helper()
	dir := filepath.Join(c.t.TempDir(), "copy")
	c.copyDir(c.Members[name].Dir, dir)
	return dir
}

// RestoreDir puts a copy in place of a stopped member's directory.
func (c *Cluster) RestoreDir(name, dir string) {
	c.t.Helper()
	m := c.Members[name]
	if m.Node != nil {
		c.t.Fatalf("%s is running", name)
	}
	if err := os.RemoveAll(m.Dir); err != nil {
		c.t.Fatal(err)
	}
	c.copyDir(dir, m.Dir)
}

// copyDir copies plain files. A file that vanishes on the way was temporary.
func (c *Cluster) copyDir(from, to string) {
	c.t.Helper()
	files, err := os.ReadDir(from)
	if err == nil {
		err = os.MkdirAll(to, 0o700)
	}
	for _, f := range files {
		if err == nil {
			err = copyFile(filepath.Join(from, f.Name()), filepath.Join(to, f.Name()))
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err != nil {
		c.t.Fatalf("copy %s: %v", from, err)
	}
}

// metaPages is what bbolt rewrites last in each commit, in bytes from the start of the file.
const metaPages = 2 * 4096

// copyFile copies a file that may be in use, as of one moment between two commits: if the meta pages are the same
// before and after, no commit ended meanwhile, and one in progress touches only pages that the copy does not refer to.
func copyFile(from, to string) error {
	for {
		data, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		in, err := os.Open(from)
		if err != nil {
			return err
		}
		head, err := io.ReadAll(io.LimitReader(in, metaPages))
		if err := errors.Join(err, in.Close()); err != nil {
			return err
		}
		if bytes.Equal(head, data[:min(len(data), metaPages)]) {
			return os.WriteFile(to, data, 0o600)
		}
	}
}
