package link

import (
	"context"
	"fmt"
	"time"

	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/wire"
)

const (
	defaultHold = 5 * time.Minute
	maxHold     = time.Hour
	// An empty answer that comes sooner than this was not held; what asks again at once would be a busy loop.
	tooSoon = time.Second
)

// told is what the agent was told in this connection and may not have stored yet.
type told struct {
	position wire.Position
	hash     wire.Hash
	at       time.Time
}

// polls asks for what is new until something fails.
func (s *Session) polls(ctx context.Context, c Conn, hold time.Duration) error {
	if hold <= 0 {
		hold = defaultHold
	}
	hold = min(hold, maxHold)
	var last told
	for ctx.Err() == nil {
		q, began := s.question(last), s.c.Waiter.Now()
		var reply wire.PollReply
		err := s.within(ctx, hold+s.c.PollMargin, func(ctx context.Context) (err error) {
			reply, err = c.Poll(ctx, q)
			return err
		})
		if err != nil {
			return fmt.Errorf("poll: %w", err)
		}
		s.mu.Lock()
		s.polled++
		s.mu.Unlock()
		for _, m := range reply.Commands {
			s.command(m)
		}
		if reply.Desired != nil {
			d, err := s.checkDesired(*reply.Desired)
			if err != nil {
				return fmt.Errorf("poll: %w", err)
			}
			last = told{d.Position, d.BundleHash, s.c.Waiter.Now()}
			s.tellSink(func(k Sink) { k.Desired(*reply.Desired) })
		}
		if reply.Desired == nil && len(reply.Commands) == 0 && s.c.Waiter.Now().Sub(began) < tooSoon {
			s.c.Waiter.Wait(ctx, tooSoon+time.Duration(s.c.Random(int64(tooSoon))), nil)
		}
	}
	return ctx.Err()
}

// question asks for what is newer than what the agent stored; or, while it may still be fetching bodies for it, newer than what it
// was told.
func (s *Session) question(last told) wire.Poll {
	s.mu.Lock()
	q := wire.Poll{Session: s.number}
	s.mu.Unlock()
	q.Held, q.BundleHash = s.c.Source.Held()
	if q.Held.Older(last.position) && s.c.Waiter.Now().Sub(last.at) < s.c.AskAgain {
		q.Held, q.BundleHash = last.position, last.hash
	}
	return q
}

// checkDesired refuses what is not signed by the device's own cluster, for this device, at a position not lower than held.
func (s *Session) checkDesired(m wire.Signed) (wire.Desired, error) {
	payload, err := wire.Verify(m, s.c.Roots(), wire.ContextDesired, SignatureTime(s.c.Now(), m))
	if err != nil {
		return wire.Desired{}, err
	}
	var d wire.Desired
	if err := wire.Decode(payload, wire.MaxDesired, &d); err != nil {
		return wire.Desired{}, err
	}
	if d.Device != s.c.Device || d.Position.ClusterID != s.c.ClusterID {
		return wire.Desired{}, fault.Forbidden.Errorf("desired state is for device %s of cluster %s, this is %s of %s",
			d.Device, d.Position.ClusterID, s.c.Device, s.c.ClusterID)
	}
	held, _ := s.c.Source.Held()
	return d, held.Accept(d.Position)
}

// command passes a command on; a bad one is dropped, since it says nothing about the link.
func (s *Session) command(m wire.Signed) {
	payload, err := wire.Verify(m, s.c.Roots(), wire.ContextCommand, SignatureTime(s.c.Now(), m))
	var c wire.Command
	if err == nil {
		err = wire.Decode(payload, wire.MaxCommand, &c)
	}
	if err == nil && (c.Device != s.c.Device || c.ClusterID != s.c.ClusterID) {
		err = fault.Forbidden.Errorf("command is for device %s of cluster %s", c.Device, c.ClusterID)
	}
	if err != nil {
		s.c.Logger.Warn("command refused", "err", err)
		return
	}
	s.tellSink(func(k Sink) { k.Command(m) })
}
