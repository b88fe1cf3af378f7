package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client/backup"
	"github.com/drover-fleet/drover/consensus"
	"github.com/drover-fleet/drover/hub/replica"
	"github.com/drover-fleet/drover/store"
)

// machine is the store as the log drives it. It lets a backup be taken between two steps of the log: whatever a backup says of the
// state is then of one moment.
type machine struct {
	replica.Machine
	mu sync.Mutex
}

func (m *machine) Apply(entries []consensus.Entry) ([][]any, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.Machine.Apply(entries)
}

func (m *machine) Snapshot() (uint64, io.ReadCloser, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.Machine.Snapshot()
}

func (m *machine) Restore(index uint64, r io.Reader) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.Machine.Restore(index, r)
}

// moment is a copy of the state with what belongs to the same moment.
type moment struct {
	io.ReadCloser
	index    uint64
	revision store.Revision
	epoch    store.Epoch
}

func (m *machine) moment() (moment, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	index, r, err := m.Machine.Snapshot()
	if err != nil {
		return moment{}, err
	}
	return moment{ReadCloser: r, index: index, revision: m.Store.Revision(), epoch: m.Store.Epoch()}, nil
}

// save writes a backup of what this member holds, which is everything acknowledged before the call where a majority can be asked.
func (h *Hub) save(ctx context.Context, w io.Writer) (err error) {
	if err := h.replica.Barrier(ctx); err != nil {
		// Without a majority what is here is all that can be had, and now it matters most.
		h.log.Warn("a backup is taken without asking a majority: it may lack what was written last", "err", err)
	}
	cluster := h.cluster.Load()
	if cluster == nil {
		return errNotYet
	}
	m, err := h.machine.moment()
	if err != nil {
		return fault.Internal.Errorf("take a backup: %w", err)
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	s := h.node.Status() // after the copy: its term is not below that of the copy's last entry
	head := backup.Header{
		ClusterID: *cluster, Epoch: m.epoch.Number, EpochID: m.epoch.ID, Revision: uint64(m.revision), Index: m.index, Term: s.Term,
		Member: h.id.Name, Version: h.cfg.Version, Time: time.Now().UTC().Truncate(time.Second),
	}
	for _, member := range s.Members {
		head.Members = append(head.Members, backup.Member{Name: member.Name, API: member.APIAddr, Peer: member.PeerAddr})
	}
	h.log.Info("a backup is taken", "revision", m.revision.String(), "index", m.index)
	if err := backup.Write(w, head, m); err != nil {
		return fmt.Errorf("take a backup: %w", err)
	}
	return nil
}
