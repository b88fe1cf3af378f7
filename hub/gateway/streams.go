package gateway

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/wire"
)

// ErrNotHere is wrapped by the error of Logs when the device has no link to this member: another one may have it.
var ErrNotHere = errors.New("the device has no link to this member")

// streams are the rendezvous between those who ask for a stream and the devices that open it.
type streams struct {
	mu      sync.Mutex
	waiting map[string]*rendezvous
}

type rendezvous struct {
	device string
	w      *io.PipeWriter
	opened chan struct{} // closed when the device came
	closed chan struct{} // closed when whoever asked went away
	taken  bool
}

func newStreams() *streams { return &streams{waiting: map[string]*rendezvous{}} }

func (s *streams) add(id, device string) (*rendezvous, *io.PipeReader) {
	r, w := io.Pipe()
	v := &rendezvous{device: device, w: w, opened: make(chan struct{}), closed: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting[id] = v
	return v, r
}

func (s *streams) remove(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waiting, id)
}

// take hands the rendezvous to the first that comes with the right name.
func (s *streams) take(id, device string) (*rendezvous, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.waiting[id]
	if !ok || v.device != device || v.taken {
		return nil, fault.NotFound.Errorf("no stream %s waits for device %s", id, device)
	}
	v.taken = true
	close(v.opened)
	return v, nil
}

// Logs tells the device to send a container's log and returns it as it comes; closing the reader ends it on the device, too. It
// returns once the device opened the stream. The error is Unavailable and wraps ErrNotHere when the device has no link here;
// Timeout when it does not answer.
func (g *Gateway) Logs(ctx context.Context, device string, q wire.Logs) (io.ReadCloser, error) {
	var raw [16]byte
	if _, err := rand.Read(raw[:]); err != nil {
		return nil, fault.Internal.Errorf("draw a stream id: %w", err)
	}
	id := hex.EncodeToString(raw[:])
	v, r := g.streams.add(id, device)
	err := g.command(device, wire.Command{
		ID: id, Device: device, TTLSecs: uint32(max(g.o.StreamDeadline/time.Second, 1)), Verb: wire.VerbOpenStream, Stream: &q,
	})
	if err == nil {
		err = await(ctx, v.opened, g.o.StreamDeadline, device)
	}
	if err != nil {
		g.streams.remove(id)
		_ = r.CloseWithError(err) // cannot fail: it only wakes the writer
		return nil, err
	}
	return &logStream{PipeReader: r, done: sync.OnceFunc(func() { g.streams.remove(id); close(v.closed) })}, nil
}

func await(ctx context.Context, opened <-chan struct{}, limit time.Duration, device string) error {
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-opened:
		return nil
	case <-t.C:
		return fault.Timeout.Errorf("device %s did not open the stream within %s; it may be offline", device, limit)
	case <-ctx.Done():
		return ctx.Err()
	}
}

type logStream struct {
	*io.PipeReader
	done func()
}

func (l *logStream) Close() error {
	l.done()
	return l.PipeReader.Close()
}

// Stream copies what the device sends to whoever asked for the stream. Nothing is buffered: a slow reader slows the device down.
// It returns when the device has sent all, when ctx ends, or when the reader went away; interrupt makes a blocked Read of body
// return and is called at most once.
func (g *Gateway) Stream(ctx context.Context, p Peer, id string, body io.Reader, interrupt func()) error {
	g.mu.Lock()
	_, err := g.authorize(p)
	g.mu.Unlock()
	if err != nil {
		return err
	}
	v, err := g.streams.take(id, p.Device)
	if err != nil {
		return err
	}
	defer g.streams.remove(id)
	copied := make(chan error, 1)
	go func() {
		_, err := io.Copy(v.w, body)
		_ = v.w.CloseWithError(err) // nil is io.EOF for the reader; it cannot fail
		copied <- err
	}()
	select {
	case err = <-copied:
	case <-v.closed:
		interrupt()
		if <-copied == nil {
			return nil // everything was sent before the reader left
		}
		return fault.Expired.Errorf("stream %s: whoever asked for it went away", id)
	case <-ctx.Done():
		interrupt()
		return errors.Join(ctx.Err(), <-copied)
	}
	if errors.Is(err, io.ErrClosedPipe) {
		return fault.Expired.Errorf("stream %s: whoever asked for it went away", id)
	}
	return err
}

// command signs a command and hands it to the device's poll.
func (g *Gateway) command(device string, c wire.Command) error {
	id, ok := g.o.Identity()
	if !ok {
		return starting()
	}
	c.ClusterID, c.IssuedAt = id.ClusterID, g.o.Now().UnixNano()
	payload, err := wire.Encode(c)
	if err != nil {
		return err
	}
	signed, err := g.o.Sign(wire.ContextCommand, payload)
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.sessions[device]
	if s == nil || !s.linked() {
		return fault.Unavailable.Errorf("device %s: %w", device, ErrNotHere)
	}
	now := time.Now()
	s.expire(now)
	if len(s.commands) == maxCommands {
		return fault.SlowDown(5*time.Second, "device %s has %d commands waiting already", device, maxCommands)
	}
	s.commands = append(s.commands, pendingCommand{signed, now.Add(time.Duration(c.TTLSecs) * time.Second)})
	s.wake()
	return nil
}

// betweenPolls is how long a device may take from one poll to the next and still count as linked.
const betweenPolls = 15 * time.Second

// linked reports whether the device polls this member.
func (s *session) linked() bool {
	return s.polls > 0 || time.Since(s.idle) < betweenPolls && !s.idle.IsZero()
}

// take returns the commands that have not expired. Each is handed out once: a command that is lost on the way expires.
func (s *session) take(now time.Time) []wire.Signed {
	s.expire(now)
	var out []wire.Signed
	for _, c := range s.commands {
		out = append(out, c.signed)
	}
	s.commands = nil
	return out
}

func (s *session) expire(now time.Time) {
	keep := s.commands[:0]
	for _, c := range s.commands {
		if now.Before(c.expires) {
			keep = append(keep, c)
		}
	}
	s.commands = keep
}
