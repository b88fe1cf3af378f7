package audit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client/auditlog"
)

// Log is a member's audit. It is safe for concurrent use.
type Log struct {
	cfg   Config
	w     writer // only whoever has set flushing touches it
	flood *flood

	mu       sync.Mutex // guards below
	cur      *batch     // what waits for the next write; nil when nothing does
	flushing bool
	idle     *sync.Cond // of mu: flushing became false
	closed   bool
	full     bool          // the room for outcomes is in use: nothing new is taken
	missed   auditlog.Gap  // what could not be written yet; Count 0: nothing
	failure  error         // of the last write; nil when it went well
	seq      uint64        // of the newest record written
	lost     uint64        // records lost since the start
	news     chan struct{} // closed and replaced at each write
}

// batch is what one write brings to the disk.
type batch struct {
	records []auditlog.Record
	bytes   int // about how many
	durable bool
	done    chan struct{} // closed when it was written, or failed
	err     error
}

// Receipt puts a write on record before it is tried, and returns when it is on disk. An error is fault.Unavailable: the write must not be
// tried.
func (l *Log) Receipt(ctx context.Context, r auditlog.Record) error {
	r.Stage = auditlog.Receipt
	err := l.append(ctx, r, true)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fault.Timeout.Errorf("not tried: the request could not be put on record in time: %w", ctx.Err())
	case l.cfg.OnFailure == RecordGap:
		return nil
	}
	return Unrecorded(err)
}

// Unrecorded is the answer to a write that cannot be put on record.
func Unrecorded(err error) error {
	e := fault.Unavailable.Errorf("audit: this member cannot put requests on record, so it takes no writes; another member may. Its disk may be full or failing (drover hub doctor): %w", err)
	e.RetryAfter = 5 * time.Second
	return e
}

// Outcome puts on record what became of a request. It does not wait for the disk.
func (l *Log) Outcome(r auditlog.Record) {
	r.Stage = auditlog.Outcome
	if r.Decision == auditlog.Deny && !r.Forced {
		var keep bool
		if r.Omitted, keep = l.flood.admit(r.Actor, l.cfg.Now()); !keep {
			return
		}
	}
	_ = l.append(context.Background(), r, false) // what cannot be written is counted, and the count is on record
}

// Event puts on record what is no request. It returns when it is on disk.
func (l *Log) Event(ctx context.Context, r auditlog.Record) error {
	r.Stage = auditlog.Event
	return l.append(ctx, r, true)
}

// append hands a record over to the next write. A durable one is waited for.
func (l *Log) append(ctx context.Context, r auditlog.Record, durable bool) error {
	if r.Time.IsZero() {
		r.Time = l.cfg.Now()
	}
	r.Time = r.Time.UTC()
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return errors.New("the audit is closed")
	}
	if l.cur == nil {
		l.cur = &batch{done: make(chan struct{})}
	}
	b := l.cur
	if err := l.refusesLocked(b, &r); err != nil {
		l.missLocked(1, r.Time, err)
		l.mu.Unlock()
		return err
	}
	b.records, b.durable = append(b.records, r), b.durable || durable
	b.bytes += recordBytes + len(r.Body)
	lead := !l.flushing
	l.flushing = true
	l.mu.Unlock()
	if lead {
		go l.flush() // ends when nothing waits; Close joins it
	}
	if !durable {
		return nil
	}
	select {
	case <-b.done:
		return b.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// refusesLocked says why a record is not taken.
func (l *Log) refusesLocked(b *batch, r *auditlog.Record) error {
	switch {
	case b.bytes > maxQueueBytes:
		return errStalled
	case l.full && l.cfg.OnFailure == Refuse && r.Stage == auditlog.Receipt:
		return errFull
	}
	return nil
}

var errFull = errors.New("the disk is full; what was reserved is for requests under way")

var errStalled = errors.New("the disk takes nothing, and too many records wait for it")

// flush writes what waits until nothing does. There is one at a time.
func (l *Log) flush() {
	for {
		l.mu.Lock()
		b, missed := l.cur, l.missed
		l.cur = nil
		if b == nil {
			l.flushing = false
			l.idle.Broadcast()
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		began := l.cfg.Now()
		lost, err := l.w.write(b, missed)
		if l.cfg.Observe != nil {
			l.cfg.Observe(len(b.records), b.durable, l.cfg.Now().Sub(began), err)
		}
		l.settle(b, missed, lost, err)
	}
}

// settle notes how a write went. lost is how many records are not on the disk for it, of before it too.
func (l *Log) settle(b *batch, told auditlog.Gap, lost uint64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.failure
	l.failure, l.seq, l.full = err, l.w.at.next-1, !l.w.reserved
	if err != nil {
		l.missLocked(lost, b.records[0].Time, err)
		if was == nil {
			l.cfg.Logger.Error("the audit cannot be written", "on_failure", string(l.cfg.OnFailure), "err", err)
		}
	} else {
		if told.Count > 0 { // what was missed while this was written is told by the next
			l.missed.Count -= told.Count
			l.missed.From = l.missed.To
		}
		if was != nil {
			l.cfg.Logger.Info("the audit can be written again", "missing", told.Count)
		}
	}
	b.err = err
	close(b.done)
	close(l.news)
	l.news = make(chan struct{})
}

func (l *Log) missLocked(n uint64, at time.Time, why error) {
	if l.missed.Count == 0 {
		l.missed.From = at
	}
	l.missed.Count += n
	l.missed.To, l.missed.Reason = l.cfg.Now().UTC(), why.Error()
	l.lost += n
}

// Health is what alarms and metrics ask.
type Health struct {
	Err  error  // why the last write failed; nil: it did not
	Seq  uint64 // number of the newest record
	Lost uint64 // records that could not be written since the start
}

// Health returns how the log is.
func (l *Log) Health() Health {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Health{l.failure, l.seq, l.lost}
}

// Newer returns a channel that is closed once there are records above seq, or the log was closed.
func (l *Log) Newer(seq uint64) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seq > seq || l.closed {
		now := make(chan struct{})
		close(now)
		return now
	}
	return l.news
}

// Policy is what the log was set up with.
func (l *Log) Policy() *Policy { return l.cfg.Policy }

// Dir is where its files are.
func (l *Log) Dir() string { return l.cfg.Dir }

// Run puts counts of floods on record while nobody asks anything, and looks whether a failing disk can be written again, until ctx ends.
func (l *Log) Run(ctx context.Context) error {
	tick := time.NewTicker(floodWindow)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			l.tellFloods(false)
			if l.Health().Err != nil {
				_ = l.append(ctx, auditlog.Record{Stage: auditlog.Event, Verb: "probe", Note: "looking whether the audit can be written again"}, true) // its failure is the state that stands
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (l *Log) tellFloods(all bool) {
	for actor, n := range l.flood.over(l.cfg.Now(), all) {
		_ = l.append(context.Background(), auditlog.Record{ // counted when it cannot be written
			Stage: auditlog.Outcome, Actor: actor, Decision: auditlog.Deny, Omitted: n, Note: "refusals that were not put on record one by one",
		}, false)
	}
}

// Close puts the end on record, syncs and closes. It is idempotent.
func (l *Log) Close() error {
	l.tellFloods(true)
	err := l.append(context.Background(), auditlog.Record{Stage: auditlog.Event, Verb: "stop"}, true)
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	close(l.news)
	l.news = make(chan struct{})
	for l.flushing {
		l.idle.Wait()
	}
	l.mu.Unlock()
	if cerr := l.w.close(); cerr != nil {
		return fmt.Errorf("close the audit: %w", errors.Join(err, cerr))
	}
	return nil // an end that could not be written was told by the log's failure
}
