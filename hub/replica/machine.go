package replica

import (
	"io"

	"github.com/drover-fleet/drover/consensus"
	"github.com/drover-fleet/drover/store"
	"github.com/drover-fleet/drover/store/mvcc"
)

// Machine is the store as the log drives it.
type Machine struct{ Store *mvcc.Store }

var _ consensus.Machine = Machine{}

// Apply applies entries in order; the result of each command is a store.Result.
func (m Machine) Apply(entries []consensus.Entry) ([][]any, error) {
	in := make([]mvcc.Entry, len(entries))
	for i, e := range entries {
		in[i] = mvcc.Entry{Index: e.Index, Term: e.Term, Commands: e.Commands}
	}
	res, err := m.Store.Apply(in)
	if err != nil {
		return nil, err
	}
	out := make([][]any, len(res))
	for i, of := range res {
		out[i] = make([]any, len(of))
		for j, r := range of {
			out[i][j] = r
		}
	}
	return out, nil
}

// Synced is the index of the newest checkpoint.
func (m Machine) Synced() uint64 { return m.Store.Synced() }

// Snapshot opens a copy as of the last applied index.
func (m Machine) Snapshot() (uint64, io.ReadCloser, error) { return m.Store.Snapshot() }

// Restore replaces everything with the copy.
func (m Machine) Restore(index uint64, r io.Reader) error { return m.Store.Restore(index, r) }

var _ store.Snapshotter = (*mvcc.Store)(nil)
