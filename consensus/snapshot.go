package consensus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	pb "go.etcd.io/raft/v3/raftpb"
)

var errBusyReceiving = errors.New("another snapshot is being received")

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
	n.mu.Lock()
	busy := n.sending[o.to.ID]
	n.sending[o.to.ID] = true
	n.mu.Unlock()
	report := func(err error) {
		n.post(func(in *input) { in.sent = append(in.sent, snapResult{to: o.to.ID, err: err}) })
	}
	if busy {
		report(errBusyReceiving)
		return
	}
	transfers.Go(func() {
		err := n.transfer(ctx, o)
		if err != nil && ctx.Err() == nil {
			n.cfg.Logger.Warn("snapshot to member", "member", o.to.Name, "err", err)
		}
		n.mu.Lock()
		delete(n.sending, o.to.ID)
		n.mu.Unlock()
		report(err)
	})
}

func (n *Node) transfer(ctx context.Context, o snapOrder) error {
	opened := make(chan openedSnapshot, 1)
	n.applier.put(applyJob{snapshot: opened})
	var snap openedSnapshot
	select {
	case snap = <-opened:
	case <-ctx.Done():
		return errors.Join(ctx.Err(), n.closeLate(opened))
	}
	if snap.err != nil {
		return fmt.Errorf("open snapshot: %w", snap.err)
	}
	header, err := n.snapshotHeader(o.msg, snap.index)
	if err == nil {
		err = n.cfg.Transport.SendSnapshot(ctx, o.to, header, snap.r)
	}
	return errors.Join(err, snap.r.Close())
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

// ReceiveSnapshot stores a copy beside the log and offers it to raft. It returns nil once raft has been offered it, so
// that the sender never reports a copy as arrived that the receiver does not know of.
func (h handler) ReceiveSnapshot(ctx context.Context, name string, header []byte, body io.Reader) error {
	n := h.n
	msg, conf, err := decodeSnapshotHeader(header)
	if err != nil {
		return err
	}
	select {
	case n.incoming <- struct{}{}:
		defer func() { <-n.incoming }()
	default:
		return errBusyReceiving
	}
	file, err := n.spool(body)
	if err != nil {
		return err
	}
	n.mu.Lock()
	n.nextID++
	id := n.nextID
	done := make(chan completion, 1)
	n.waiters[id] = done
	n.inbox.snapshots = append(n.inbox.snapshots, inSnapshot{name: name, msg: msg, conf: conf, file: file, waiter: id})
	n.mu.Unlock()
	signal(n.wake)
	select {
	case d := <-done:
		return d.err
	case <-ctx.Done():
		return ctx.Err()
	case <-n.stopped:
		return ErrStopped
	}
}

// spool writes the copy to a file of its own. It need not be durable: until it is installed it can be sent again.
func (n *Node) spool(body io.Reader) (name string, err error) {
	f, err := os.CreateTemp(n.cfg.Dir, incomingPrefix)
	if err != nil {
		return "", fmt.Errorf("receive snapshot: %w", err)
	}
	limited := &io.LimitedReader{R: body, N: n.cfg.MaxSnapshot + 1}
	_, err = io.Copy(f, limited)
	if err == nil && limited.N == 0 {
		err = fmt.Errorf("larger than the limit of %d bytes", n.cfg.MaxSnapshot)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(fmt.Errorf("receive snapshot: %w", err), os.Remove(f.Name()))
	}
	return f.Name(), nil
}

func (n *Node) discard(files []string) {
	for _, f := range files {
		if err := os.Remove(f); err != nil {
			n.cfg.Logger.Warn("remove unused snapshot", "file", f, "err", err)
		}
	}
}
