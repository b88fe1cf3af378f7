package consensus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
)

type openedSnapshot struct {
	index uint64
	r     io.ReadCloser
	err   error
}

func (n *Node) openSnapshot() openedSnapshot {
	index, r, err := n.cfg.Machine.Snapshot()
	return openedSnapshot{index: index, r: r, err: err}
}

// startTransfer sends a copy of the machine to a member on a goroutine of its own, one at a time to each.
func (n *Node) startTransfer(ctx context.Context, o snapOrder, transfers *sync.WaitGroup) {
	ctx, cancel := context.WithCancel(ctx)
	n.mu.Lock()
	_, busy := n.sending[o.to.ID]
	if !busy {
		n.sending[o.to.ID] = sending{to: o.to, cancel: cancel}
	}
	n.mu.Unlock()
	report := func(err error) {
		n.post(func(in *input) { in.sent = append(in.sent, snapResult{to: o.to.ID, err: err}) })
	}
	if busy {
		cancel()
		report(errBusyReceiving)
		return
	}
	transfers.Go(func() {
		defer cancel()
		t := transfer{n: n, order: o, began: time.Now()}
		err := t.run(ctx)
		if err != nil && ctx.Err() == nil {
			n.cfg.Logger.Warn("snapshot to member", "to", o.to.Name, "err", err)
		}
		n.mu.Lock()
		delete(n.sending, o.to.ID)
		n.mu.Unlock()
		report(err)
	})
}

type sending struct {
	to     Member
	cancel context.CancelFunc
}

// endTransfers ends those that have become pointless: this member leads no more, or the receiver is not what it was.
func (n *Node) endTransfers() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for id, s := range n.sending {
		if to, ok := n.core.address(id); !ok || to.PeerAddr != s.to.PeerAddr || !n.core.isLead {
			s.cancel()
		}
	}
}

// transfer is one copy on its way to one member, over as many connections as it takes.
type transfer struct {
	n     *Node
	order snapOrder
	copy  *heldCopy
	began time.Time
	moved int64
	tries int // connections on which the copy was offered and the receiver said what it wants
}

// run makes the copy once it is sure that it would be taken, and keeps it until the receiver has it, refuses it, or has taken
// nothing for SnapshotIdle.
func (t *transfer) run(ctx context.Context) (err error) {
	if err := t.ask(ctx); err != nil {
		return err
	}
	if err := t.hold(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.copy.Close()) }()
	t.tell(TransferEvent{Stage: TransferBegun})
	defer func() {
		t.tell(TransferEvent{Stage: TransferEnded, Moved: t.moved, Took: time.Since(t.began), Err: err})
	}()
	progress, failures := time.Now(), 0
	for {
		before := t.moved
		err := t.attempt(ctx)
		switch {
		case err == nil || ctx.Err() != nil || errors.Is(err, errRefused) || errors.Is(err, errSource):
			return err
		case t.moved > before:
			progress, failures = time.Now(), 0
		case time.Since(progress) >= t.n.cfg.SnapshotIdle:
			return fmt.Errorf("no progress for %v: %w", t.n.cfg.SnapshotIdle, err)
		}
		if first, _ := t.n.log.FirstIndex(); first > t.copy.index+1 {
			return fmt.Errorf("the log begins at %d by now, after the copy's %d: %w", first, t.copy.index, err)
		}
		level := slog.LevelDebug // of attempts to connect again
		if failures == 0 {
			level = slog.LevelInfo
		}
		t.n.cfg.Logger.Log(ctx, level, "snapshot to member broke off, and goes on", "to", t.order.to.Name, "moved", t.moved,
			"size", t.copy.offer.Size, "err", err)
		if err := pause(ctx, rand.N(min(50*time.Millisecond<<failures, 2*time.Second))); err != nil {
			return err
		}
		failures = min(failures+1, 6)
	}
}

func (t *transfer) tell(e TransferEvent) {
	e.Sending, e.Member, e.Index, e.Size = true, t.order.to.Name, t.copy.index, t.copy.offer.Size
	t.n.observe.Transfer(e)
}

func (t *transfer) open(ctx context.Context) (*stream, error) {
	rw, err := t.n.cfg.Transport.Stream(ctx, t.order.to)
	if err != nil {
		return nil, err
	}
	return newStream(ctx, rw, t.n.cfg.StreamIdle), nil
}

// ask has the receiver say whether it would take a copy: none is made for who cannot be reached or is busy.
func (t *transfer) ask(ctx context.Context) error {
	header, err := t.n.snapshotHeader(t.order.msg, t.order.msg.GetSnapshot().GetMetadata().GetIndex())
	if err != nil {
		return err
	}
	s, err := t.open(ctx)
	if err != nil {
		return err
	}
	return errors.Join(ask(s, header), ignoreEnd(s.Close()))
}

// hold has the machine copied to a file.
func (t *transfer) hold(ctx context.Context) error {
	opened := make(chan openedSnapshot, 1)
	t.n.applier.put(applyJob{snapshot: opened})
	var snap openedSnapshot
	select {
	case snap = <-opened:
	case <-ctx.Done():
		return errors.Join(ctx.Err(), t.n.closeLate(opened))
	}
	if snap.err != nil {
		return fmt.Errorf("open snapshot: %w", snap.err)
	}
	header, err := t.n.snapshotHeader(t.order.msg, snap.index)
	if err == nil {
		t.copy, err = holdCopy(t.n.cfg.Dir, snap.index, header, snap.r, t.n.cfg.MaxSnapshot)
	}
	return errors.Join(err, snap.r.Close())
}

// attempt is one connection.
func (t *transfer) attempt(ctx context.Context) error {
	s, err := t.open(ctx)
	if err != nil {
		return err
	}
	said := false
	return sendCopy(ctx, s, t.copy, &t.n.pace, func(at sent) {
		if !said {
			said = true
			if t.tries++; t.tries > 1 {
				t.tell(TransferEvent{Stage: TransferResumed, Offset: at.offset})
			}
		}
		t.moved += at.moved
	})
}

// closeLate closes a copy that was opened just when the node stopped.
func (n *Node) closeLate(opened <-chan openedSnapshot) error {
	select {
	case snap := <-opened:
		if snap.r != nil {
			return snap.r.Close()
		}
	default:
	}
	return nil
}

// snapshotHeader completes the message with what the copy really holds. The membership is read after the copy was
// opened, so it is as of the copy's index or later.
func (n *Node) snapshotHeader(m *pb.Message, index uint64) ([]byte, error) {
	term, err := n.log.Term(index)
	if err != nil {
		return nil, fmt.Errorf("term of entry %d: %w", index, err)
	}
	n.mu.Lock()
	conf := n.conf
	n.mu.Unlock()
	out := &pb.Message{
		Type: pb.MsgSnap.Enum(), From: new(m.GetFrom()), To: new(m.GetTo()), Term: new(m.GetTerm()),
		Snapshot: &pb.Snapshot{Metadata: &pb.SnapshotMetadata{Index: new(index), Term: new(term), ConfState: conf.State}},
	}
	return encodeSnapshotHeader(out, conf.Index, conf.Members)
}

func (n *Node) discard(files []string) {
	for _, f := range files {
		if err := os.Remove(f); err != nil {
			n.cfg.Logger.Warn("remove unused snapshot", "file", f, "err", err)
		}
	}
}
