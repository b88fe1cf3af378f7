package consensus

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// Stepped is a Node that is never run: a simulator drives its core, its log and its machine by hand, in an order of its own and
// on one goroutine, and may stop between any two of them as a crash would. Frames go out by Config.Transport.Send; its other
// methods are not called. Everything that the loop and its workers decide is decided by the same code here.
//
// Not safe for concurrent use.
type Stepped struct {
	n    *Node
	have uint64 // the machine has applied up to here
	ride rider
}

// Answer is the outcome of a call by its id: the result of a command, or nil for reads and changes of membership.
type Answer struct {
	ID    uint64
	Value any
	Err   error
}

// LogWork is what is to be made durable, in the order in which it was taken.
type LogWork struct{ works []persistWork }

// ApplyWork is what is to be applied, in the order in which it was taken.
type ApplyWork struct{ works []applyWork }

// SnapshotOrder asks for a copy of the machine to be sent to a member.
type SnapshotOrder struct {
	To    Member
	order snapOrder
}

// OpenStepped opens the directory as Open does.
func OpenStepped(cfg Config) (*Stepped, error) { return stepped(Open(cfg)) }

// OpenSteppedOn is OpenStepped over a log of the caller's, which holds what Bootstrap or Join made in the directory and what was
// appended since. Close closes it.
func OpenSteppedOn(cfg Config, log StoredLog) (*Stepped, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("open consensus: %w", err)
	}
	return stepped(openOn(cfg, log))
}

func stepped(n *Node, err error) (*Stepped, error) {
	if err != nil {
		return nil, err
	}
	n.ran = true // it never does
	return &Stepped{n: n, have: n.cfg.Applied, ride: rider{n: n}}, nil
}

// Close lets go of raft.db. What was not written is lost, as in a crash.
func (s *Stepped) Close() error { return s.n.log.Close() }

// Status and Leadership are the Node's.
func (s *Stepped) Status() Status { return s.n.Status() }

// Leadership is the present term, and whether this member leads and has applied an entry of it.
func (s *Stepped) Leadership() (term uint64, leader bool) { return s.n.Leadership() }

// Receive takes a frame for the next step.
func (s *Stepped) Receive(name string, frame []byte) { handler{s.n}.Receive(name, frame) }

// ReceiveSnapshot takes a whole copy for the next step.
func (s *Stepped) ReceiveSnapshot(name string, header []byte, body io.Reader) error {
	msg, conf, err := decodeSnapshotHeader(header)
	if err != nil {
		return err
	}
	file, err := s.n.spool(body)
	if err != nil {
		return err
	}
	s.post(func(in *input, id uint64) {
		in.snapshots = append(in.snapshots, inSnapshot{name: name, msg: msg, conf: conf, file: file, waiter: id})
	})
	return nil
}

// Propose, ReadIndex and AddMember take a call for the next step and return the id under which it is answered.
func (s *Stepped) Propose(cmd []byte) uint64 {
	return s.post(func(in *input, id uint64) { in.proposals = append(in.proposals, proposal{id: id, data: cmd}) })
}

// ReadIndex is answered when this member has applied everything that was acknowledged before the call.
func (s *Stepped) ReadIndex() uint64 {
	return s.post(func(in *input, id uint64) { in.reads = append(in.reads, id) })
}

// AddMember is answered with the Member as it was added, under a new id.
func (s *Stepped) AddMember(m Member) (uint64, error) {
	var err error
	if m.ID, err = randomID(); err != nil {
		return 0, err
	}
	m.Learner = true
	return s.post(func(in *input, id uint64) {
		in.changes = append(in.changes, confWait{id: id, change: confChange{Op: opAdd, Member: m}})
	}), nil
}

// TransferLeader asks for another leader.
func (s *Stepped) TransferLeader(to uint64) uint64 {
	return s.post(func(in *input, id uint64) { in.changes = append(in.changes, confWait{id: id, transfer: to}) })
}

func (s *Stepped) post(add func(*input, uint64)) uint64 {
	s.n.nextID++
	id := s.n.nextID
	s.n.post(func(in *input) { add(in, id) })
	return id
}

// Step lets the core take everything that happened, and some ticks.
func (s *Stepped) Step(ticks int) ([]Answer, []SnapshotOrder, error) {
	in := s.n.takeInbox()
	in.ticks = ticks
	out, err := s.n.core.step(in)
	if err != nil {
		return nil, nil, err
	}
	s.n.publish(out)
	for _, m := range out.send {
		s.n.send(m)
	}
	s.n.appender.put(out.persist...)
	for i := range out.apply {
		s.n.applier.put(applyJob{apply: &out.apply[i]})
	}
	s.n.discard(out.discard)
	s.n.report(out)
	var answers []Answer
	for _, d := range out.done {
		answers = append(answers, Answer{ID: d.id, Value: d.value, Err: d.err})
	}
	var orders []SnapshotOrder
	for _, o := range out.snapshots {
		orders = append(orders, SnapshotOrder{To: o.to, order: o})
	}
	return answers, orders, nil
}

// TakeLog hands out all that waits for the log; false when nothing does.
func (s *Stepped) TakeLog() (LogWork, bool) {
	works := s.n.appender.take()
	return LogWork{works}, len(works) > 0
}

// TakeApply hands out all that waits for the machine; false when nothing does.
func (s *Stepped) TakeApply() (ApplyWork, bool) {
	var w ApplyWork
	for _, job := range s.n.applier.take() {
		w.works = append(w.works, *job.apply)
	}
	return w, len(w.works) > 0
}

// Write makes the work durable, and has the core told at its next step. between is called where a crash would find an
// installation half done; false from it ends the work there.
func (s *Stepped) Write(w LogWork, between func() bool) error {
	var acks []persistAck
	for _, one := range w.works {
		if one.install == nil && one.reset == nil {
			s.ride.add(one.batch)
			if len(one.acks) > 0 {
				acks = append(acks, persistAck{gen: one.gen, acks: one.acks})
			}
			continue
		}
		if err := s.append(true, acks); err != nil {
			return err
		}
		acks = nil
		ack := persistAck{gen: one.gen, acks: one.acks}
		if one.reset != nil {
			ack.reset = true
			if err := s.n.log.Reset(*one.reset, one.members); err != nil {
				return err
			}
		} else {
			done, err := s.install(one, between)
			if err != nil || !done {
				return err
			}
			ack.installed = one.install.seed.Begin.Index
		}
		s.n.post(func(in *input) { in.persisted = append(in.persisted, ack) })
	}
	return s.append(false, acks)
}

// append makes what rides durable if somebody waits for it, or all is set.
func (s *Stepped) append(all bool, acks []persistAck) error {
	if !all && len(acks) == 0 {
		return nil
	}
	if err := s.ride.settle(all); err != nil {
		return err
	}
	s.n.post(func(in *input) { in.persisted = append(in.persisted, acks...) })
	return nil
}

func (s *Stepped) install(w persistWork, between func() bool) (done bool, err error) {
	if err := s.n.log.BeginInstall(w.install.seed); err != nil || !between() {
		return false, err
	}
	index := w.install.seed.Begin.Index
	if err := s.n.restore(&restoreJob{index: index, file: w.install.file}); err != nil || !between() {
		return false, err
	}
	s.have = index
	return true, s.n.log.FinishInstall(w.batch.Hard)
}

// Apply gives the work to the machine, and has the core told at its next step.
func (s *Stepped) Apply(w ApplyWork) error {
	have, err := s.n.apply(w.works, s.have)
	s.have = have
	return err
}

// OpenSnapshot opens the copy that was ordered. The caller closes body.
func (s *Stepped) OpenSnapshot(o SnapshotOrder) (header []byte, body io.ReadCloser, err error) {
	snap := s.n.openSnapshot()
	if snap.err != nil {
		return nil, nil, fmt.Errorf("open snapshot: %w", snap.err)
	}
	if header, err = s.n.snapshotHeader(o.order.msg, snap.index); err != nil {
		return nil, nil, errors.Join(err, snap.r.Close())
	}
	return header, snap.r, nil
}

// SnapshotSent says how a transfer ended, for the next step.
func (s *Stepped) SnapshotSent(o SnapshotOrder, err error) {
	s.n.post(func(in *input) { in.sent = append(in.sent, snapResult{to: o.To.ID, err: err}) })
}

// spool writes the copy to a file of its own.
func (n *Node) spool(body io.Reader) (name string, err error) {
	f, err := os.CreateTemp(n.cfg.Dir, incomingPrefix)
	if err != nil {
		return "", fmt.Errorf("receive snapshot: %w", err)
	}
	_, err = io.Copy(f, body)
	if err := errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(fmt.Errorf("receive snapshot: %w", err), os.Remove(f.Name()))
	}
	return f.Name(), nil
}
