package sim

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/drover-fleet/drover/consensus"
	"github.com/drover-fleet/drover/hub/replica"
	"github.com/drover-fleet/drover/store"
	"github.com/drover-fleet/drover/store/mvcc"
	"github.com/drover-fleet/drover/test/history"
)

const (
	tick     = 100 * time.Millisecond // twice the hub's: elections of one to two seconds
	diskTime = time.Millisecond       // of one commit
)

// member is one hub: its core, its log and its store.
type member struct {
	host
	dir string

	node  *consensus.Stepped
	store *mvcc.Store
	calls map[uint64]func(consensus.Answer)

	writing, applying bool
	slow              time.Duration // added to each commit

	crashIn int     // writes and applies until a crash in the middle of one; 0: none is planned
	watched bool    // the image is to be taken at the next commit of the store
	image   []byte  // the store's file as a crash in the middle of a checkpoint leaves it
	broken  bool    // writes fail
	written float64 // probability that what failed is on the disk all the same
	copies  []dirCopy
	log     *memoryLog // nil where the member has raft.db
	gateway *gate      // nil without devices
	office  *office    // nil while it does not lead
}

func (w *world) member(name string) *member {
	for _, m := range w.members {
		if m.name == name {
			return m
		}
	}
	return nil
}

// form makes the first member found the group and the others join it, as operators do.
func (w *world) form() error {
	for i := range w.cfg.Members {
		m := &member{host: host{w: w, name: fmt.Sprintf("h%d", i+1)}}
		m.dir = filepath.Join(w.cfg.Dir, m.name)
		if err := os.MkdirAll(m.dir, 0o700); err != nil {
			return err
		}
		w.members = append(w.members, m)
	}
	first := w.members[0]
	if err := consensus.Bootstrap(first.config()); err != nil {
		return err
	}
	if err := first.start(); err != nil {
		return err
	}
	w.every(tick, w.rng.Float64(), func() { w.tick(first) })
	var bad error
	for _, m := range w.members[1:] {
		var added consensus.Member
		w.runUntil(w.now+2*time.Second, w.broken)
		id, err := first.node.AddMember(m.self())
		if err != nil {
			return err
		}
		first.calls[id] = func(a consensus.Answer) { added, bad = a.Value.(consensus.Member), a.Err }
		w.runUntil(w.now+3*time.Second, w.broken)
		if bad != nil || added.ID == 0 {
			return fmt.Errorf("add %s: %+v: %w", m.name, added, bad)
		}
		if err := consensus.Join(m.config(), added.ID, first.node.Status().Members); err != nil {
			return err
		}
		if err := m.start(); err != nil {
			return err
		}
		w.every(tick, w.rng.Float64(), func() { w.tick(m) })
		w.runUntil(w.now+5*time.Second, w.broken)
	}
	return w.found()
}

// found gives the store its first epoch.
func (w *world) found() error {
	founded := false
	cmd := store.Command{Actor: "hub:h1", RequestID: "found", NewEpoch: &store.Epoch{Number: 1, ID: "epoch"}}
	w.members[0].propose(&cmd, func(r store.Result, err error) { founded = err == nil && r.Err == nil })
	w.runUntil(w.now+5*time.Second, w.broken)
	if !founded {
		return errors.New("the hub did not form")
	}
	return nil
}

func (m *member) self() consensus.Member {
	return consensus.Member{Name: m.name, PeerAddr: m.name + ":1", APIAddr: m.name + ":2"}
}

// config keeps few entries, so that members that were away are given snapshots.
func (m *member) config() consensus.Config {
	log := slog.DiscardHandler
	if m.w.cfg.Log != nil {
		log = slog.NewTextHandler(m.w.cfg.Log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Duration("at", m.w.now)
			}
			return a
		}})
	}
	return consensus.Config{
		Dir: m.dir, Self: m.self(), Transport: port{m}, Logger: slog.New(log).With("member", m.name),
		KeepEntries: 60, CompactInterval: 20, HeartbeatTicks: 2,
	}
}

func (m *member) start() error {
	var err error
	if m.store, err = mvcc.Open(m.statePath(), mvcc.Options{Inline: true, CheckpointBytes: 1 << 30, Committed: m.committed}); err != nil {
		return fmt.Errorf("start %s: %w", m.name, err)
	}
	cfg := m.config()
	cfg.Machine, cfg.Applied = machine{m, replica.Machine{Store: m.store}}, m.store.Applied()
	if m.node, err = m.openNode(cfg); err != nil {
		return errors.Join(fmt.Errorf("start %s: %w", m.name, err), m.store.Close())
	}
	m.life++
	m.up, m.writing, m.applying, m.calls = true, false, false, map[uint64]func(consensus.Answer){}
	m.w.logf("%s starts at entry %d", m.name, m.store.Applied())
	m.nextCheckpoint()
	if m.w.fleet != nil {
		return m.w.fleet.openGate(m)
	}
	return nil
}

func (w *world) tick(m *member) {
	if m.up && !m.stalled {
		m.step(1)
	}
}

// step lets the core take what has happened, and starts what it asks for.
func (m *member) step(ticks int) {
	if m.stalled {
		return
	}
	answers, orders, err := m.node.Step(ticks)
	if err != nil {
		m.w.fail(history.NoErrors, "%s: %v", m.name, err)
		return
	}
	m.touch()
	life := m.life
	for _, o := range orders {
		m.sendSnapshot(o)
	}
	m.write()
	m.apply()
	for _, a := range answers {
		if do := m.calls[a.ID]; do != nil {
			delete(m.calls, a.ID)
			do(a)
		}
		if m.life != life || !m.up {
			return
		}
	}
	m.attend()
}

// sendSnapshot carries a copy in one piece; it arrives late, or not at all.
func (m *member) sendSnapshot(o consensus.SnapshotOrder) {
	ended := func(err error) {
		m.later(0, func() {
			m.node.SnapshotSent(o, err)
			m.step(0)
		})
	}
	header, body, err := m.node.OpenSnapshot(o)
	if err != nil {
		ended(err)
		return
	}
	data, err := io.ReadAll(body)
	if err = errors.Join(err, body.Close()); err != nil {
		m.w.fail(history.NoErrors, "snapshot of %s: %v", m.name, err)
		return
	}
	m.w.logf("%s sends a snapshot of %d bytes to %s", m.name, len(data), o.To.Name)
	m.w.after(m.w.between(5*time.Millisecond, 500*time.Millisecond), func() {
		peer := m.w.member(o.To.Name)
		if !m.w.net.open(m.name, o.To.Name) || !m.w.net.open(o.To.Name, m.name) || !peer.up || m.w.chance(0.2) {
			ended(errors.New("the connection broke"))
			return
		}
		m.w.trace.note(m.w.now, o.To.Name, data)
		m.w.others["members given the state"]++
		ended(peer.node.ReceiveSnapshot(m.name, header, bytes.NewReader(data)))
		peer.step(0)
	})
}

// propose puts a command into the log, as hub/replica does.
func (m *member) propose(c *store.Command, done func(store.Result, error)) {
	cmd := *c
	cmd.Level = store.FormatLevel
	b, err := store.EncodeCommand(&cmd)
	if err != nil {
		done(store.Result{}, err)
		return
	}
	m.calls[m.node.Propose(b)] = func(a consensus.Answer) {
		r, _ := a.Value.(store.Result)
		done(r, a.Err)
	}
	m.later(0, func() { m.step(0) })
}

// barrier calls done once this member has applied all that was acknowledged before.
func (m *member) barrier(done func(error)) {
	m.calls[m.node.ReadIndex()] = func(a consensus.Answer) { done(a.Err) }
	m.later(0, func() { m.step(0) })
}
