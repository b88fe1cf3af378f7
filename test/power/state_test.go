package power

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/drover-fleet/drover/store"
	"github.com/drover-fleet/drover/store/mvcc"
)

// script is the log of one life of a member: the entries, and the hash after each, from a copy that never loses its power.
type script struct {
	t       *testing.T
	rng     *rand.Rand
	copy    *mvcc.Store
	entries []mvcc.Entry        // entry i+1 at i
	hashes  [][sha256.Size]byte // after entry i at i
}

func newScript(t *testing.T, dir string, rng *rand.Rand) *script {
	t.Helper()
	s, err := mvcc.Open(filepath.Join(dir, fmt.Sprint("copy-", rng.Uint64())), mvcc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := &script{t: t, rng: rng, copy: s}
	_, hash := s.Hash()
	w.hashes = append(w.hashes, hash)
	return w
}

func (w *script) entry(index uint64) mvcc.Entry {
	for uint64(len(w.entries)) < index {
		e := w.next()
		if _, err := w.copy.Apply([]mvcc.Entry{e}); err != nil {
			w.t.Fatal(err)
		}
		_, hash := w.copy.Hash()
		w.entries, w.hashes = append(w.entries, e), append(w.hashes, hash)
	}
	return w.entries[index-1]
}

func (w *script) next() mvcc.Entry {
	e := mvcc.Entry{Index: uint64(len(w.entries)) + 1, Term: 1}
	if e.Index == 1 {
		e.Commands = [][]byte{w.encode(&store.Command{NewEpoch: &store.Epoch{Number: 1, ID: "power"}}, e.Index)}
		return e
	}
	for range w.rng.IntN(4) {
		c := &store.Command{}
		newest, oldest := w.copy.Revision(), w.copy.Compacted()
		switch n := w.rng.IntN(24); {
		case n < 2 && newest > oldest:
			c.Compact = oldest + 1 + store.Revision(w.rng.Uint64N(uint64(newest-oldest)))
		case n == 2:
			c.Limits = &store.Limits{EventPrefix: fmt.Sprint("k/", w.rng.IntN(4))}
		case n == 3:
			c.Trim = w.trim()
		}
		if c.Compact == 0 && c.Limits == nil && c.Trim == nil {
			w.write(c)
		}
		e.Commands = append(e.Commands, w.encode(c, e.Index))
	}
	return e
}

// trim is whatever the journal may forget just now; nil when that is nothing.
func (w *script) trim() *store.Trim {
	trim, err := w.copy.PlanTrim(w.t.Context(), mvcc.TrimRule{MaxBytes: 1, Most: 20})
	if err != nil {
		w.t.Fatal(err)
	}
	return trim
}

func (w *script) write(c *store.Command) {
	if w.rng.IntN(2) == 0 {
		c.Writer, c.Sequence = fmt.Sprint("writer-", w.rng.IntN(5)), uint64(len(w.entries))+1
	}
	for range 1 + w.rng.IntN(4) {
		op := store.Op{Type: store.OpDelete, Key: fmt.Sprint("k/", w.rng.IntN(40))}
		if w.rng.IntN(4) > 0 {
			op.Type = store.OpPut
			op.Value = make([]byte, 1+w.rng.IntN(3000))
			if w.rng.IntN(40) == 0 {
				op.Value = make([]byte, 1+w.rng.IntN(200_000))
			}
			for i := range op.Value {
				op.Value[i] = byte(w.rng.Uint32())
			}
		}
		c.Ops = append(c.Ops, op)
	}
}

func (w *script) encode(c *store.Command, index uint64) []byte {
	c.Level, c.Actor, c.RequestID, c.Time = store.FormatLevel, "user:test", fmt.Sprint("request-", index), int64(index) //nolint:gosec // small
	raw, err := store.EncodeCommand(c)
	if err != nil {
		w.t.Fatal(err)
	}
	return raw
}

func (w *script) close() {
	if err := w.copy.Close(); err != nil {
		w.t.Fatal(err)
	}
}

// A life is a few cuts long, so that cuts fall into the making of the file too.
const cutsOfALife = 10

func TestStateSurvivesPowerCuts(t *testing.T) {
	seed := testSeed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	b, dir := newBoard(t), memDir(t)
	var w *script
	var synced, applied, entries uint64
	for cut := range *cuts {
		if cut%cutsOfALife == 0 {
			if w != nil {
				entries += synced
				w.close()
			}
			b.wipe()
			w, synced, applied = newScript(t, dir, rng), 0, 0
		}
		b.plugIn(1+rng.IntN(120), rng.Uint64())
		synced, applied = w.live(b, synced, applied)
		b.pull()
		if t.Failed() {
			t.Fatalf("after cut %d", cut)
		}
	}
	// The last life ends in peace.
	b.plugIn(1<<30, 0)
	w.start(b, synced, applied)
	b.pull()
	w.close()
	t.Logf("%d cuts, %d entries in checkpoints, all kept", *cuts, entries+synced)
}

// start opens the file and compares it with what it must hold: everything up to the newest checkpoint, nothing but what was applied. It
// returns nil if the power went.
func (w *script) start(b *board, synced, most uint64) *mvcc.Store {
	w.t.Helper()
	s, err := mvcc.Open(b.path("state"), mvcc.Options{Inline: true, CheckpointBytes: 32 << 10})
	if !b.must("start", err) {
		return nil
	}
	applied, hash := s.Hash()
	if applied < synced || applied > most {
		w.t.Errorf("got applied index %d, want %d to %d", applied, synced, most)
	} else if hash != w.hashes[applied] {
		w.t.Errorf("contents at index %d differ from those of the member that lost no power", applied)
	}
	if err := s.Verify(w.t.Context()); err != nil {
		w.t.Error(err)
	}
	return s
}

// live applies entries until the power goes, and says which was the last one that a checkpoint holds, and the last one applied.
func (w *script) live(b *board, synced, applied uint64) (_, _ uint64) {
	w.t.Helper()
	s := w.start(b, synced, applied)
	if s == nil {
		return synced, applied
	}
	for on := !w.t.Failed(); on; {
		var group []mvcc.Entry
		for i := range uint64(1 + w.rng.IntN(4)) {
			group = append(group, w.entry(s.Applied()+1+i))
		}
		_, err := s.Apply(group)
		on = b.must("apply", err)
		applied = max(applied, s.Applied())
		if !on {
			break
		}
		switch w.rng.IntN(16) {
		case 0:
			on = b.must("restore", copyOver(s))
		case 1:
			_, err := s.CompactFile(w.t.Context())
			on = b.must("compaction of the file", err)
		case 2, 3, 4:
			on = b.must("checkpoint", s.Checkpoint())
		}
		synced = max(synced, s.Synced())
	}
	synced = max(synced, s.Synced())
	if err := s.Close(); err != nil {
		w.t.Error(err)
	}
	return synced, applied
}

// copyOver restores the store's own snapshot.
func copyOver(s *mvcc.Store) error {
	index, r, err := s.Snapshot()
	if err != nil {
		return err
	}
	return errors.Join(s.Restore(index, r), r.Close())
}
