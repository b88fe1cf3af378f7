package kv

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/wire"
	"github.com/drover-fleet/drover/store"
)

// Backend is the store that is served; hub/replica is the real one.
type Backend interface {
	store.Reader
	store.Watchable
	Barrier(ctx context.Context) error
	AtLeast(ctx context.Context, want store.Revision) error
	Propose(ctx context.Context, c *store.Command) (store.Result, error)
}

// Limits bound one connection. A zero field takes its default.
type Limits struct {
	UnderWay int           // proposals and reads at once; default 1024; more wait in the connection
	Watches  int           // default 4096; more are refused
	Request  time.Duration // of a proposal or a read; default 30 s
}

func (l Limits) withDefaults() Limits {
	if l.UnderWay <= 0 {
		l.UnderWay = 1024
	}
	if l.Watches <= 0 {
		l.Watches = 4096
	}
	if l.Request <= 0 {
		l.Request = 30 * time.Second
	}
	return l
}

// Server serves connections that were handed to it. It is safe for concurrent use.
type Server struct {
	Backend Backend
	Limits  Limits
	Logger  *slog.Logger
	// IsMember, when set, says whether a certificate is that of a member now: it outlives its owner's removal. It is asked as a
	// connection begins, and every second as long as it stands.
	IsMember func(cert *x509.Certificate) bool
	// Observe, when set, hears of each request that was answered: its verb, CodeOK or the name of its failure, and how long it
	// took; of a watch, when it began or failed. It must not block.
	Observe func(verb, code string, took time.Duration)

	sent    memo
	conns   atomic.Int64
	watches atomic.Int64
}

// Verbs and the code of what went well, for those who count. Other codes are the store's errors and api/fault's classes by name.
const (
	VerbPropose = "propose"
	VerbRange   = "range"
	VerbWatch   = "watch"

	CodeOK = "ok"
)

// Load is how many connections are open and how many watches on them.
func (s *Server) Load() (conns, watches int64) { return s.conns.Load(), s.watches.Load() }

func (s *Server) observe(verb string, began time.Time, err error) {
	if s.Observe != nil {
		s.Observe(verb, codeOf(err), time.Since(began))
	}
}

// Serve answers one verified connection until it or ctx ends. It closes the connection.
func (s *Server) Serve(ctx context.Context, conn *tls.Conn) error {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	defer cancel()
	cert, err := s.checkMember(conn.ConnectionState())
	if err != nil {
		s.Logger.Info("store connection refused", "from", conn.RemoteAddr().String(), "err", err)
		return err
	}
	s.conns.Add(1)
	defer s.conns.Add(-1)
	limits := s.Limits.withDefaults()
	c := &serverConn{
		s: s, cert: cert, limits: limits, out: newOutbox(conn), slots: make(chan struct{}, limits.UnderWay), lanes: make(chan struct{}, lanes), turn: make(chan struct{}, 1),
		watches: map[uint64]context.CancelFunc{},
	}
	var group sync.WaitGroup
	group.Go(func() {
		if err := c.out.run(ctx.Done()); err != nil {
			cancel()
		}
	})
	group.Go(func() { c.watchMembership(ctx, cancel) })
	err = c.read(ctx, bufio.NewReaderSize(conn, ioBuffer), &group)
	cancel()
	group.Wait()
	if errors.Is(err, io.EOF) || ctx.Err() != nil && !errors.Is(err, errFrame) {
		return nil
	}
	return err
}

// checkMember lets only members in, by the certificate that the connection has shown, and returns it.
func (s *Server) checkMember(state tls.ConnectionState) (*x509.Certificate, error) {
	if len(state.VerifiedChains) == 0 {
		return nil, errors.New("no client certificate")
	}
	leaf := state.VerifiedChains[0][0]
	if !slices.Equal(leaf.Subject.Organization, []string{wire.OrgHubs}) {
		return nil, fmt.Errorf("the certificate of %q is not a hub member's", leaf.Subject.CommonName)
	}
	return leaf, s.stillMember(leaf)
}

func (s *Server) stillMember(cert *x509.Certificate) error {
	if s.IsMember != nil && !s.IsMember(cert) {
		return fmt.Errorf("%s is no member of the hub any more, or not yet one as far as this member knows", cert.Subject.CommonName)
	}
	return nil
}

// memberEvery is how soon a removed member's connections end.
const memberEvery = time.Second

// watchMembership ends the connection once its owner is removed, also when it only watches.
func (c *serverConn) watchMembership(ctx context.Context, end context.CancelFunc) {
	tick := time.NewTicker(memberEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := c.s.stillMember(c.cert); err != nil {
				c.s.Logger.Info("store connection ended", "err", err)
				end()
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

type serverConn struct {
	s      *Server
	cert   *x509.Certificate // the member's at the other end
	limits Limits
	out    *outbox
	slots  chan struct{} // one a proposal or read under way
	lanes  chan struct{} // one a read of the store
	turn   chan struct{} // one slot: the watch that encodes

	mu      sync.Mutex // guards watches
	watches map[uint64]context.CancelFunc
}

// read takes requests until the connection ends. Waiting for a slot leaves further requests in the connection.
func (c *serverConn) read(ctx context.Context, r io.Reader, group *sync.WaitGroup) error {
	for {
		f, err := readFrame(r)
		if err != nil {
			return err
		}
		switch f.kind {
		case kindPropose, kindRange:
			select {
			case c.slots <- struct{}{}:
			case <-ctx.Done():
				return ctx.Err()
			}
			group.Go(func() {
				c.answer(ctx, f)
				<-c.slots
			})
		case kindWatch:
			c.startWatch(ctx, f, group)
		case kindCancel:
			c.endWatch(f.id)
		default:
			return fmt.Errorf("%w: kind %d", errFrame, f.kind)
		}
	}
}

// answer does one proposal or read.
func (c *serverConn) answer(ctx context.Context, f frame) {
	ctx, cancel := context.WithTimeout(ctx, c.limits.Request)
	defer cancel()
	began := time.Now()
	if f.kind == kindPropose {
		reply, refused, err := c.propose(ctx, f.body)
		c.reply(f.id, kindResult, reply, err)
		c.s.observe(VerbPropose, began, cmp.Or(err, refused))
		return
	}
	in := &lane{of: c.lanes}
	defer in.leave()
	reply, err := c.rangeOf(ctx, f.body, in)
	c.out.room() // who does not read gets no further answers made
	c.reply(f.id, kindRead, reply, err)
	c.s.observe(VerbRange, began, err)
}

func (c *serverConn) reply(id uint64, as kind, reply any, err error) {
	if err != nil {
		as, reply = kindFailed, failureOf(err)
	}
	body, err := encode(reply)
	if err != nil {
		c.s.Logger.Error("store answer cannot be encoded", "kind", int(as), "err", err)
		return
	}
	c.out.put(frame{id: id, kind: as, body: body})
}

func (c *serverConn) propose(ctx context.Context, body []byte) (reply *resultReply, refused, err error) {
	cmd, err := store.DecodeCommand(body)
	if err != nil {
		return nil, nil, err
	}
	res, err := c.s.Backend.Propose(ctx, cmd)
	if err != nil {
		return nil, nil, err
	}
	out := &resultReply{Revision: res.Revision, Revisions: res.Revisions, Repeat: res.Repeat}
	if res.Err != nil {
		out.Refused = failureOf(res.Err)
	}
	return out, res.Err, nil
}

const (
	rangePage = 128      // keys read at a time, so that few large values are in memory
	maxRead   = 4 << 20  // bytes of keys and values after which an answer ends with More
	smallRead = 64 << 10 // bytes that each answer under way may have in memory; larger ones hold their lane until they are on their way out
	lanes     = 8        // reads of one connection at a time
)

// lane is the right to read the store, and to keep what was read in memory.
type lane struct {
	of   chan struct{}
	held bool
}

func (l *lane) enter(ctx context.Context) error {
	select {
	case l.of <- struct{}{}:
		l.held = true
		return nil
	case <-ctx.Done():
		return fault.SlowDown(time.Second, "large answers to this connection wait to be taken: read them, or ask for less at a time")
	}
}

func (l *lane) leave() {
	if l.held {
		<-l.of
		l.held = false
	}
}

// fresh waits until the member can answer. What stands at a given revision does not change, so to have come there is enough.
func (c *serverConn) fresh(ctx context.Context, rq *rangeRequest) error {
	switch {
	case rq.Stale:
		return nil
	case rq.Revision != 0:
		return c.s.Backend.AtLeast(ctx, rq.Revision)
	}
	return c.s.Backend.Barrier(ctx)
}

func (c *serverConn) rangeOf(ctx context.Context, body []byte, in *lane) (*rangeReply, error) {
	var rq rangeRequest
	if err := decode(body, &rq); err != nil {
		return nil, fault.BadRequest.Wrap(err)
	}
	if rq.Limit < 0 || len(rq.Start) > store.MaxKeyBytes || len(rq.End) > store.MaxKeyBytes {
		return nil, fault.BadRequest.Errorf("range of keys up to %d bytes with a limit of %d: want keys of at most %d bytes and no negative limit",
			max(len(rq.Start), len(rq.End)), rq.Limit, store.MaxKeyBytes)
	}
	if err := c.fresh(ctx, &rq); err != nil {
		return nil, err
	}
	if err := in.enter(ctx); err != nil {
		return nil, err
	}
	out := &rangeReply{}
	next := store.RangeRequest{Start: rq.Start, End: string(rq.End), Revision: rq.Revision}
	for size := 0; ; {
		next.Limit = rangePage
		if rq.Limit > 0 {
			next.Limit = min(next.Limit, rq.Limit-len(out.KVs))
		}
		res, err := c.s.Backend.Range(ctx, next)
		if err != nil {
			return nil, c.s.orAhead(err, rq.Revision)
		}
		if out.Revision == 0 {
			out.Count, out.Revision = res.Count, res.Revision
		}
		for i := range res.KVs {
			out.KVs = append(out.KVs, pairOf(&res.KVs[i]))
			size += len(res.KVs[i].Key) + len(res.KVs[i].Value)
			if size >= maxRead {
				out.More = res.More || i+1 < len(res.KVs)
				return out, nil
			}
		}
		out.More = res.More
		if !res.More || rq.Limit > 0 && len(out.KVs) >= rq.Limit {
			if size <= smallRead {
				in.leave()
			}
			return out, nil
		}
		next.Start, next.Revision = res.KVs[len(res.KVs)-1].Key+"\x00", res.Revision
	}
}

// orAhead tells a revision of an epoch that this member has not reached from one of an epoch that is over: after a start its state
// is for a while that of its file, which may be of before the present epoch.
func (s *Server) orAhead(err error, asked store.Revision) error {
	if have := s.Backend.Revision(); errors.Is(err, store.ErrOtherEpoch) && asked.Epoch() > have.Epoch() {
		return fmt.Errorf("%w: revision %d is of epoch %d, this member has reached epoch %d", store.ErrAhead, asked, asked.Epoch(), have.Epoch())
	}
	return err
}

func (c *serverConn) startWatch(ctx context.Context, f frame, group *sync.WaitGroup) {
	var rq watchRequest
	if err := decode(f.body, &rq); err != nil {
		c.reply(f.id, kindFailed, nil, fault.BadRequest.Wrap(err))
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	if err := c.admitWatch(f.id, cancel); err != nil {
		cancel()
		c.reply(f.id, kindFailed, nil, err)
		return
	}
	group.Go(func() {
		defer c.endWatch(f.id)
		if err := c.watch(ctx, f.id, rq); ctx.Err() == nil {
			c.reply(f.id, kindFailed, nil, err)
		}
	})
}

func (c *serverConn) admitWatch(id uint64, cancel context.CancelFunc) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.watches) >= c.limits.Watches {
		return fault.SlowDown(time.Second, "this connection has %d watches already", len(c.watches))
	}
	if _, taken := c.watches[id]; taken {
		return fault.BadRequest.Errorf("request %d is under way already", id)
	}
	c.watches[id] = cancel
	return nil
}

func (c *serverConn) endWatch(id uint64) {
	c.mu.Lock()
	cancel := c.watches[id]
	delete(c.watches, id)
	c.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

func (c *serverConn) watch(ctx context.Context, id uint64, rq watchRequest) error {
	began := time.Now()
	w, err := c.s.Backend.Watch(ctx, store.WatchRequest{Start: rq.Start, End: string(rq.End), From: rq.From, Progress: rq.Progress})
	c.s.observe(VerbWatch, began, err)
	if err != nil {
		return c.s.orAhead(err, rq.From)
	}
	defer w.Close()
	c.s.watches.Add(1)
	defer c.s.watches.Add(-1)
	c.out.put(frame{id: id, kind: kindStarted})
	for {
		b, err := w.Next(ctx)
		if err != nil {
			return err
		}
		if err := c.send(ctx, id, &rq, &b); err != nil {
			return err
		}
	}
}

// send encodes a batch once there is room for it, one watch at a time: whoever has thousands of watches and reads none of them has one
// batch encoded ahead, not one for each.
func (c *serverConn) send(ctx context.Context, id uint64, rq *watchRequest, b *store.Batch) error {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	c.out.room()
	body, err := c.s.sent.encode(rq, b)
	if err != nil {
		return fault.Internal.Errorf("encode events at revision %d: %w", b.Revision, err)
	}
	c.out.put(frame{id: id, kind: kindBatch, body: body})
	return nil
}
