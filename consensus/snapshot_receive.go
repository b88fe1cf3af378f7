package consensus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
)

// receiver lets one copy come in at a time, and keeps what there is of it between connections.
type receiver struct {
	mu      sync.Mutex // guards below
	current *incoming
	part    *partCopy // nil while a connection has it, or there is none
}

// incoming is a connection that brings a copy.
type incoming struct {
	name string
	term uint64
	stop func() // breaks the connection
	done chan struct{}
}

// enter makes a connection the one that brings a copy. One that the same member opened before is broken, and so is one of an
// earlier leader: they may be dead without anybody having noticed.
func (r *receiver) enter(ctx context.Context, in *incoming) error {
	for {
		r.mu.Lock()
		cur := r.current
		if cur == nil {
			r.current = in
			r.mu.Unlock()
			return nil
		}
		r.mu.Unlock()
		if cur.name != in.name && cur.term >= in.term {
			return errBusyReceiving
		}
		cur.stop()
		select {
		case <-cur.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (r *receiver) leave(in *incoming) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current == in {
		r.current = nil
	}
	close(in.done)
}

// take returns what there is of an offered copy, and nil and what has to be dropped if there is nothing of it.
func (r *receiver) take(o offer) (part, stale *partCopy) {
	r.mu.Lock()
	defer r.mu.Unlock()
	part, r.part = r.part, nil
	if part != nil && (part.offer.ID != o.ID || part.offer.Size != o.Size) {
		return nil, part
	}
	return part, nil
}

func (r *receiver) park(p *partCopy, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p.parked = now
	r.part = p
}

// expired takes out what nobody has gone on with for too long.
func (r *receiver) expired(now time.Time, after time.Duration) *partCopy {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.part
	if p == nil || now.Sub(p.parked) < after {
		return nil
	}
	r.part = nil
	return p
}

// expireParts frees the disk of a copy whose sender has given up: it tries for SnapshotIdle and no longer.
func (n *Node) expireParts() { n.dropPart(n.receiver.expired(time.Now(), 2*n.cfg.SnapshotIdle)) }

func (n *Node) dropPart(p *partCopy) {
	if p == nil {
		return
	}
	if err := p.drop(); err != nil {
		n.cfg.Logger.Warn("remove unfinished snapshot", "err", err)
	}
}

// ServeStream implements Handler: a leader brings a copy of its state.
func (h handler) ServeStream(ctx context.Context, name string, rw io.ReadWriteCloser) {
	s := newStream(ctx, rw, h.n.cfg.StreamIdle)
	defer func() { _ = s.Close() }()
	err := h.n.serve(ctx, name, s)
	if err != nil {
		h.n.cfg.Logger.Info("snapshot from member", "from", name, "err", err)
	}
	var broken *streamError
	if errors.As(err, &broken) {
		return
	}
	if s.sendCBOR(kindVerdict, verdictOn(err)) == nil && err != nil {
		_, _ = io.CopyN(io.Discard, s, maxWants*chunkBytes) // closing with unread bytes would reset the connection and lose the reason
	}
}

// streamError is a connection that cannot be used to say so.
type streamError struct{ err error }

func (e *streamError) Error() string { return e.err.Error() }
func (e *streamError) Unwrap() error { return e.err }

func (n *Node) serve(ctx context.Context, name string, s *stream) error {
	kind, body, err := s.receive(maxOffer, nil)
	if err != nil {
		return &streamError{err}
	}
	var o offer
	if err := decodeStrict(body, &o); err != nil || kind != kindOffer {
		return errors.Join(fmt.Errorf("%w: kind %d for an offer", errProtocol, kind), err)
	}
	msg, conf, err := decodeSnapshotHeader(o.Header)
	if err != nil {
		return err
	}
	if err := n.wants(o, msg); err != nil {
		return err
	}
	in := &incoming{name: name, term: msg.GetTerm(), stop: func() { _ = s.Close() }, done: make(chan struct{})}
	if err := n.receiver.enter(ctx, in); err != nil {
		return err
	}
	defer n.receiver.leave(in)
	if o.ID == (copyID{}) {
		return nil // it only asks
	}
	file, err := n.bring(name, o, msg, s)
	if err != nil {
		return err
	}
	return n.offerToRaft(ctx, inSnapshot{name: name, msg: msg, conf: conf, file: file})
}

// wants refuses what would be of no use here.
func (n *Node) wants(o offer, msg *pb.Message) error {
	if id := n.Status().ID; msg.GetTo() != id {
		return fmt.Errorf("meant for %x, this is %x", msg.GetTo(), id)
	}
	if o.Size < 0 || o.Size > n.cfg.MaxSnapshot {
		return fmt.Errorf("snapshot of %d bytes: the limit here is %d", o.Size, n.cfg.MaxSnapshot)
	}
	return nil
}

// bring completes the copy and returns its file. What came is kept when the connection breaks.
func (n *Node) bring(name string, o offer, msg *pb.Message, s *stream) (file string, err error) {
	part, stale := n.receiver.take(o)
	n.dropPart(stale)
	event := TransferEvent{Stage: TransferResumed, Member: name, Index: msg.GetSnapshot().GetMetadata().GetIndex(), Size: o.Size}
	if part == nil {
		if part, err = newPartCopy(n.cfg.Dir, o); err != nil {
			return "", err
		}
		event.Stage = TransferBegun
	}
	event.Offset = part.offset()
	n.observe.Transfer(event)
	err = part.fill(s)
	if err != nil && !errors.Is(err, errDamaged) && !errors.Is(err, errProtocol) && !errors.Is(err, errWriteCopy) {
		n.receiver.park(part, time.Now())
		return "", &streamError{err}
	}
	event.Stage, event.Moved, event.Took, event.Err = TransferEnded, part.moved, time.Since(part.began), err
	n.observe.Transfer(event)
	if err != nil {
		return "", errors.Join(err, part.drop())
	}
	return part.file.Name(), part.file.Close()
}

// offerToRaft returns nil once raft has been offered the copy, so that the sender never reports a copy as arrived that the
// receiver does not know of.
func (n *Node) offerToRaft(ctx context.Context, in inSnapshot) error {
	n.mu.Lock()
	n.nextID++
	in.waiter = n.nextID
	done := make(chan completion, 1)
	n.waiters[in.waiter] = done
	n.inbox.snapshots = append(n.inbox.snapshots, in)
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
