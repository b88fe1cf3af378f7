package sim

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/drover-fleet/drover/consensus"
	"github.com/drover-fleet/drover/hub/replica"
	"github.com/drover-fleet/drover/store"
	"github.com/drover-fleet/drover/test/history"
)

// machine is a member's state machine, with what it comes to written into the ledger.
type machine struct {
	m *member
	replica.Machine
}

// Apply applies entries and records what each came to.
func (a machine) Apply(entries []consensus.Entry) ([][]any, error) {
	before := a.Store.Revision()
	results, err := a.Machine.Apply(entries)
	if err != nil {
		return nil, err
	}
	w := a.m.w
	for i, e := range entries {
		first := e.Index > w.applied
		w.applied = max(w.applied, e.Index)
		var changes []history.Change
		var outcome strings.Builder
		for j, raw := range e.Commands {
			r := results[i][j].(store.Result)
			fmt.Fprintf(&outcome, "%d %v %v;", r.Revision, r.Revisions, r.Err)
			if first {
				changes = append(changes, w.changes(raw, r, e.Term)...)
			}
		}
		w.ledger.Applied(a.m.name, e.Index, outcome.String(), changes)
		w.trace.note(w.now, a.m.name, []byte(outcome.String()))
	}
	index, sum := a.Store.Hash()
	w.ledger.State(a.m.name, index, hex.EncodeToString(sum[:]))
	w.seen = append(w.seen, history.Sighting{Member: a.m.name, Life: a.m.life, Revision: before},
		history.Sighting{Member: a.m.name, Life: a.m.life, Revision: a.Store.Revision()})
	return results, nil
}

// changes are what a command changed. What stood before is found out from the ledger's own values.
func (w *world) changes(raw []byte, r store.Result, term uint64) []history.Change {
	if r.Err != nil || r.Repeat {
		return nil
	}
	c, err := store.DecodeCommand(raw)
	if err != nil {
		w.fail(history.NoErrors, "a command was applied that cannot be read: %v", err)
		return nil
	}
	var out []history.Change
	for i, rev := range r.Revisions {
		if rev == 0 {
			continue
		}
		if w.fleet != nil {
			w.fleet.orders.applied(c.Ops[i])
		}
		out = append(out, history.Change{
			Revision: rev, Key: c.Ops[i].Key, Value: brief(c.Ops[i].Value), Deleted: c.Ops[i].Type == store.OpDelete,
			Request: c.RequestID, Office: c.Term, Term: term, At: w.now,
		})
	}
	for i := range out {
		out[i].Set = out[len(out)-1].Revision
	}
	return out
}

// brief stands for a value in the history: the value itself, or what tells it from others where it is long.
func brief(value []byte) string {
	if len(value) <= 64 {
		return string(value)
	}
	return string(strconv.AppendUint(strconv.AppendInt([]byte("bytes "), int64(len(value)), 10), hashOf(value), 16))
}
