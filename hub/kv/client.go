package kv

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/google/uuid"

	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/store"
)

// Client is a connection to one member. It is safe for concurrent use and does not reconnect.
type Client struct {
	conn  *tls.Conn
	out   *outbox
	stop  chan struct{} // closed by end: the outbox stops
	ended sync.WaitGroup

	mu    sync.Mutex // guards below
	last  uint64
	calls map[uint64]*call
	err   error // why the connection has ended
}

// call is one request under way.
type call struct {
	answer chan frame // has a slot; nil for a watch
	watch  *Watcher
}

// Dial connects to a member's API address. The config must show this side's certificate and check the other's; the
// protocol's name is set here.
func Dial(ctx context.Context, addr string, config *tls.Config) (*Client, error) {
	config = config.Clone()
	config.NextProtos = []string{Protocol}
	d := tls.Dialer{Config: config, NetDialer: &net.Dialer{}}
	raw, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fault.Unreachable.Errorf("member at %s: %w", addr, err)
	}
	conn := raw.(*tls.Conn) // what a tls.Dialer returns
	if got := conn.ConnectionState().NegotiatedProtocol; got != Protocol {
		return nil, errors.Join(fault.Unavailable.Errorf("member at %s does not speak %s: it is older", addr, Protocol), conn.Close())
	}
	c := &Client{conn: conn, out: newOutbox(conn), stop: make(chan struct{}), calls: map[uint64]*call{}}
	c.ended.Go(func() {
		if err := c.out.run(c.stop); err != nil {
			c.end(err)
		}
	})
	c.ended.Go(func() { c.end(c.read()) })
	return c, nil
}

// errClosedHere is the end that Close makes.
var errClosedHere = errors.New("the connection was closed here")

// Close ends the connection and what is under way on it.
func (c *Client) Close() error {
	c.end(errClosedHere)
	c.ended.Wait()
	return nil
}

// end fails everything under way, once.
func (c *Client) end(err error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = err
	calls := c.calls
	c.calls = nil
	c.mu.Unlock()
	close(c.stop)
	_ = c.conn.Close()
	for _, k := range calls {
		if k.watch != nil {
			k.watch.fail(c.lost())
		} else {
			close(k.answer)
		}
	}
}

func (c *Client) lost() error {
	return fault.Unavailable.Errorf("the connection to the member has ended: %w", c.err)
}

func (c *Client) read() error {
	r := bufio.NewReaderSize(c.conn, ioBuffer)
	for {
		f, err := readFrame(r)
		if err != nil {
			return err
		}
		c.mu.Lock()
		k := c.calls[f.id]
		if k != nil && k.watch == nil {
			delete(c.calls, f.id)
		}
		c.mu.Unlock()
		switch {
		case k == nil: // cancelled meanwhile
		case k.watch != nil:
			k.watch.take(f)
		default:
			k.answer <- f
		}
	}
}

// begin registers a request and sends it.
func (c *Client) begin(k *call, as kind, body []byte) (uint64, error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return 0, c.lost()
	}
	c.last++
	id := c.last
	c.calls[id] = k
	c.mu.Unlock()
	c.out.put(frame{id: id, kind: as, body: body})
	return id, nil
}

func (c *Client) forget(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.calls, id)
}

// ask waits for the one answer. unknown is the error when it does not come.
func (c *Client) ask(ctx context.Context, as kind, body []byte, unknown fault.Class, into any) error {
	k := &call{answer: make(chan frame, 1)}
	id, err := c.begin(k, as, body)
	if err != nil {
		return err
	}
	select {
	case f, ok := <-k.answer:
		if !ok {
			return unknown.Errorf("the connection ended before the answer: %w", c.err)
		}
		if f.kind == kindFailed {
			return readFailure(f.body)
		}
		return decode(f.body, into)
	case <-ctx.Done():
		c.forget(id)
		return unknown.Errorf("no answer in time: %w", ctx.Err())
	}
}

func readFailure(body []byte) error {
	var f failure
	if err := decode(body, &f); err != nil {
		return err
	}
	return f.error()
}

// Propose has the command ordered, and applied by the member. It fills Level, RequestID and Time where they are empty.
// fault.Timeout: the command may still take effect.
func (c *Client) Propose(ctx context.Context, command *store.Command) (store.Result, error) {
	cmd := *command
	if cmd.Level == 0 {
		cmd.Level = store.FormatLevel
	}
	if cmd.RequestID == "" {
		cmd.RequestID = uuid.NewString()
	}
	if cmd.Time == 0 {
		cmd.Time = time.Now().UnixNano()
	}
	body, err := store.EncodeCommand(&cmd)
	if err != nil {
		return store.Result{}, fault.BadRequest.Errorf("command: %w", err)
	}
	var r resultReply
	if err := c.ask(ctx, kindPropose, body, fault.Timeout, &r); err != nil {
		return store.Result{}, err
	}
	out := store.Result{Revision: r.Revision, Revisions: r.Revisions, Repeat: r.Repeat}
	if r.Refused != nil {
		out.Err = r.Refused.error()
	}
	return out, nil
}

// Range reads. A stale read shows what the member has; any other shows everything acknowledged before the call. An answer is
// cut short, with More, at a few MiB.
func (c *Client) Range(ctx context.Context, r store.RangeRequest, stale bool) (*store.RangeResult, error) {
	body, err := encode(rangeRequest{Start: r.Start, End: cbor.ByteString(r.End), Revision: r.Revision, Limit: r.Limit, Stale: stale})
	if err != nil {
		return nil, err
	}
	var got rangeReply
	if err := c.ask(ctx, kindRange, body, fault.Unavailable, &got); err != nil {
		return nil, err
	}
	out := &store.RangeResult{More: got.More, Count: got.Count, Revision: got.Revision, KVs: make([]store.KV, len(got.KVs))}
	for i := range got.KVs {
		out.KVs[i] = got.KVs[i].kv()
	}
	return out, nil
}

// Watch starts a watcher at the member; it has begun when Watch returns. previous asks for the versions before events.
func (c *Client) Watch(ctx context.Context, r store.WatchRequest, previous bool) (*Watcher, error) {
	body, err := encode(watchRequest{Start: r.Start, End: cbor.ByteString(r.End), From: r.From, Progress: r.Progress, Previous: previous})
	if err != nil {
		return nil, err
	}
	w := &Watcher{c: c, ready: make(chan struct{}, 1)}
	if w.id, err = c.begin(&call{watch: w}, kindWatch, body); err != nil {
		return nil, err
	}
	if err := w.begun(ctx); err != nil {
		w.Close()
		return nil, fmt.Errorf("watch: %w", err)
	}
	return w, nil
}
