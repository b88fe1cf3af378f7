package link

import (
	"context"
	"fmt"
	"sync"

	"github.com/drover-fleet/drover/api/await"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/wire"
)

// outbox holds the latest value of what is to be said: never a queue.
type outbox struct {
	reportReady, wantReady chan struct{} // one slot each

	mu     *sync.Mutex
	latest *wire.Report // the newest report, sent or not
	unsent bool
	want   *wire.BodiesRequest // nil once it was answered
}

func newOutbox() outbox {
	return outbox{reportReady: make(chan struct{}, 1), wantReady: make(chan struct{}, 1), mu: new(sync.Mutex)}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (o *outbox) putReport(r wire.Report) {
	o.mu.Lock()
	o.latest, o.unsent = &r, true
	o.mu.Unlock()
	signal(o.reportReady)
}

func (o *outbox) putWant(q wire.BodiesRequest) {
	o.mu.Lock()
	o.want = &q
	o.mu.Unlock()
	signal(o.wantReady)
}

// reconnected makes the latest report due again: the member may be of a hub that never got it. A report that tells nothing new
// writes nothing there.
func (o *outbox) reconnected() {
	o.mu.Lock()
	o.unsent = o.latest != nil
	o.mu.Unlock()
	signal(o.reportReady)
	signal(o.wantReady)
}

func (o *outbox) takeReport() *wire.Report {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.unsent {
		return nil
	}
	o.unsent = false
	return o.latest
}

// putBack makes r due again unless a newer report came.
func (o *outbox) putBack(r *wire.Report) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.latest == r {
		o.unsent = true
	}
}

func (o *outbox) wanted() *wire.BodiesRequest {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.want
}

func (o *outbox) answered(q *wire.BodiesRequest) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.want == q {
		o.want = nil
	}
}

// sendReports sends the latest report whenever there is one, until something fails.
func (s *Session) sendReports(ctx context.Context, c Conn) error {
	for {
		if s.c.Waiter.Wait(ctx, await.Forever, s.out.reportReady); ctx.Err() != nil {
			return ctx.Err()
		}
		for r := s.out.takeReport(); r != nil; r = s.out.takeReport() {
			if err := s.sendReport(ctx, c, r); err != nil {
				s.out.putBack(r)
				return fmt.Errorf("report: %w", err)
			}
		}
	}
}

func (s *Session) sendReport(ctx context.Context, c Conn, r *wire.Report) error {
	m := *r
	s.mu.Lock()
	s.sequence++
	m.Session, m.Sequence = s.number, s.sequence
	s.mu.Unlock()
	var reply wire.ReportReply
	err := s.within(ctx, s.c.Timeout, func(ctx context.Context) (err error) {
		reply, err = c.Report(ctx, m)
		return err
	})
	if fault.Is(err, fault.TooLarge, fault.BadRequest, fault.Invalid) {
		// Sending it again would fail again, here and everywhere; the next report may do better.
		s.c.Logger.Error("report refused by the hub", "err", err)
		return nil
	}
	if err != nil {
		return err
	}
	s.tellSink(func(k Sink) { k.Acked(reply.Acked) })
	return nil
}

// partOfBodies bounds one request, so that no answer is larger than its cap.
const partOfBodies = 64

// fetchBodies asks for what is wanted, until something fails.
func (s *Session) fetchBodies(ctx context.Context, c Conn) error {
	for {
		if s.c.Waiter.Wait(ctx, await.Forever, s.out.wantReady); ctx.Err() != nil {
			return ctx.Err()
		}
		q := s.out.wanted()
		if q == nil {
			continue
		}
		if err := s.fetch(ctx, c, *q); err != nil {
			return fmt.Errorf("bodies: %w", err)
		}
		s.out.answered(q)
	}
}

func (s *Session) fetch(ctx context.Context, c Conn, q wire.BodiesRequest) error {
	for len(q.Bodies) > 0 || len(q.Secrets) > 0 {
		b, n := min(len(q.Bodies), partOfBodies), min(len(q.Secrets), partOfBodies)
		part := wire.BodiesRequest{Bodies: q.Bodies[:b], Secrets: q.Secrets[:n]}
		q.Bodies, q.Secrets = q.Bodies[b:], q.Secrets[n:]
		var reply wire.BodiesReply
		err := s.within(ctx, s.c.Timeout, func(ctx context.Context) (err error) {
			reply, err = c.Bodies(ctx, part)
			return err
		})
		if err != nil {
			return err
		}
		s.tellSink(func(k Sink) { k.Bodies(reply) })
	}
	return nil
}
