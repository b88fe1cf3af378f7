package consensus

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// someBytes are none that could begin a message: tests look at pieces of them.
func someBytes(n int) []byte {
	b := make([]byte, n)
	r := rand.New(rand.NewPCG(1, uint64(n)))
	for i := range b {
		b[i] = byte(r.Uint32()) | 0x80
	}
	return b
}

func held(t *testing.T, data []byte) *heldCopy {
	t.Helper()
	c, err := holdCopy(t.TempDir(), 7, []byte("header"), bytes.NewReader(data), 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// wire is one connection between a sender and a receiver. through sees, and may change, each of the sender's messages; false from
// it breaks the connection before the message is through.
type wire struct {
	net.Conn
	through func(b []byte) bool
}

func (w wire) Write(b []byte) (int, error) {
	b = bytes.Clone(b)
	if w.through != nil && !w.through(b) {
		_ = w.Close()
		return 0, io.ErrClosedPipe
	}
	return w.Conn.Write(b)
}

// carry runs one connection of a transfer and returns what both sides say of it and how many bytes of chunks were sent.
func carry(t *testing.T, c *heldCopy, p *partCopy, through func([]byte) bool) (at sent, sender, receiver error) {
	t.Helper()
	near, far := net.Pipe()
	done := make(chan error, 1)
	go func() {
		s := newStream(t.Context(), far, time.Minute)
		_, _, err := s.receive(maxOffer, nil)
		if err == nil {
			err = p.fill(s)
		}
		if err == nil || errors.Is(err, errDamaged) {
			_ = s.sendCBOR(kindVerdict, verdictOn(err))
		}
		_ = s.Close()
		done <- err
	}()
	s := newStream(t.Context(), wire{near, through}, time.Minute)
	at.offset = -1
	sender = sendCopy(t.Context(), s, c, &pacer{rate: 1 << 40}, func(one sent) {
		at.offset = one.offset
		at.moved += one.moved
	})
	return at, sender, <-done
}

func part(t *testing.T, o offer) *partCopy {
	t.Helper()
	p, err := newPartCopy(t.TempDir(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.file.Close() })
	return p
}

func contents(t *testing.T, p *partCopy) []byte {
	t.Helper()
	b, err := os.ReadFile(p.file.Name())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestF37CopyOfAnySizeArrivesWhole(t *testing.T) {
	for _, size := range []int{0, 1, chunkBytes - 1, chunkBytes, chunkBytes + 1, 40*chunkBytes + 17} {
		data := someBytes(size)
		c := held(t, data)
		p := part(t, c.offer)
		at, sender, receiver := carry(t, c, p, nil)
		if sender != nil || receiver != nil || !bytes.Equal(contents(t, p), data) || at.moved != int64(size) {
			t.Errorf("%d bytes: sender %v, receiver %v, moved %d; want the same bytes there, once", size, sender, receiver, at.moved)
		}
	}
}

// isChunk tells whether a write of the sender begins a chunk, and which.
func isChunk(b []byte) (number int, ok bool) {
	if len(b) < 9 || b[0] != kindChunk {
		return 0, false
	}
	return int(binary.BigEndian.Uint32(b[5:])), true
}

func TestF37BrokenTransferGoesOnWhereItEnded(t *testing.T) {
	const chunks = 30
	data := someBytes(chunks * chunkBytes)
	c := held(t, data)
	p := part(t, c.offer)
	total := int64(0)
	for round, upTo := range []int{10, 20, chunks} {
		before := p.offset()
		at, sender, receiver := carry(t, c, p, func(b []byte) bool {
			n, ok := isChunk(b)
			return !ok || n < upTo
		})
		total += at.moved
		if broke := upTo < chunks; (sender != nil) != broke || (receiver != nil) != broke {
			t.Fatalf("round %d: sender %v, receiver %v; want errors: %v", round, sender, receiver, broke)
		}
		if at.offset != before || p.offset() != int64(upTo)*chunkBytes {
			t.Errorf("round %d began at %d and came to %d, want %d to %d", round, at.offset, p.offset(), before, upTo*chunkBytes)
		}
	}
	if !bytes.Equal(contents(t, p), data) || total != int64(len(data)) {
		t.Errorf("sent %d bytes over three connections, want the copy's %d, and the same there", total, len(data))
	}
}

func TestF37DamagedChunkAloneIsFetchedAgain(t *testing.T) {
	data := someBytes(20 * chunkBytes)
	c := held(t, data)
	p := part(t, c.offer)
	damaged := false
	asked := map[int]int{}
	at, sender, receiver := carry(t, c, p, func(b []byte) bool {
		n, ok := isChunk(b)
		if ok {
			asked[n]++
		}
		if ok && n == 5 && !damaged {
			damaged = true
			b[len(b)-1] ^= 1
		}
		return true
	})
	if sender != nil || receiver != nil || !bytes.Equal(contents(t, p), data) {
		t.Fatalf("sender %v, receiver %v; want the copy whole in spite of one damaged chunk", sender, receiver)
	}
	if want := int64(21 * chunkBytes); at.moved != want || asked[5] != 2 {
		t.Errorf("sent %d bytes, chunk 5 %d times; want %d bytes and twice", at.moved, asked[5], want)
	}
}

func TestF37ChunkThatIsAlwaysDamagedEndsTheTransfer(t *testing.T) {
	c := held(t, someBytes(4*chunkBytes))
	c.sums[2][0] ^= 1 // as if the sender's file had been damaged since
	p := part(t, c.offer)
	at, sender, receiver := carry(t, c, p, nil)
	if !errors.Is(receiver, errDamaged) || !errors.Is(sender, errRefused) {
		t.Errorf("receiver %v, sender %v; want %v and %v", receiver, sender, errDamaged, errRefused)
	}
	if most := int64((4 + maxRepeat) * chunkBytes); at.moved > most {
		t.Errorf("sent %d bytes, want at most %d", at.moved, most)
	}
}

// The chunks fit their own checksums, and are not the copy that was offered.
func TestF37CopyUnderAnothersNameIsRefused(t *testing.T) {
	c, other := held(t, someBytes(2*chunkBytes)), held(t, someBytes(2*chunkBytes+1))
	other.offer.ID, other.offer.Size = c.offer.ID, c.offer.Size
	p := part(t, c.offer)
	other.sums = other.sums[:2]
	_, _, receiver := carry(t, other, p, nil)
	if !errors.Is(receiver, errDamaged) {
		t.Errorf("receiver: %v, want %v", receiver, errDamaged)
	}
}

func TestF37ReceiverRefusesWhatItDidNotAskFor(t *testing.T) {
	message := func(kind byte, size uint32, body ...byte) []byte {
		return append(binary.BigEndian.AppendUint32([]byte{kind}, size), body...)
	}
	for _, tc := range []struct {
		name string
		send []byte
	}{
		{"another kind", message(kindOffer, 40, make([]byte, 40)...)},
		{"a chunk without bytes", message(kindChunk, 36, make([]byte, 36)...)},
		{"a chunk beyond what is wanted", message(kindChunk, 37, append([]byte{0, 0, 0, 9}, make([]byte, 33)...)...)},
		{"a length beyond a chunk", message(kindChunk, 1<<31)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := held(t, someBytes(10*chunkBytes))
			p := part(t, c.offer)
			near, far := net.Pipe()
			defer near.Close()
			go func() { _, _ = io.Copy(io.Discard, near) }()
			go func() { _, _ = near.Write(tc.send) }()
			s := newStream(t.Context(), far, time.Minute)
			defer func() { _ = s.Close() }()
			if err := p.fill(s); !errors.Is(err, errProtocol) {
				t.Errorf("err = %v, want %v", err, errProtocol)
			}
		})
	}
}

func TestF37SenderRefusesAWantBeyondTheCopy(t *testing.T) {
	c := held(t, someBytes(chunkBytes))
	near, far := net.Pipe()
	go func() {
		s := newStream(t.Context(), far, time.Minute)
		_, _, _ = s.receive(maxOffer, nil)
		_ = s.send(kindWant, []byte{0, 0, 0, 1})
	}()
	err := sendCopy(t.Context(), newStream(t.Context(), near, time.Minute), c, &pacer{rate: 1 << 40}, func(sent) {})
	if !errors.Is(err, errProtocol) {
		t.Errorf("err = %v, want %v", err, errProtocol)
	}
}

func TestF37ConnectionOnWhichNothingMovesIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		began := time.Now()
		s := newStream(t.Context(), near, 10*time.Second)
		go func() { // a byte every 8 s is progress; then nothing
			for range 3 {
				<-time.After(8 * time.Second)
				_, _ = far.Write([]byte{0})
			}
		}()
		_, _, err := s.receive(1<<20, nil)
		if took := time.Since(began); err == nil || took != 34*time.Second {
			t.Errorf("closed after %v with %v, want 34 s: 10 s after the last byte", took, err)
		}
	})
}

func TestF37TransfersShareTheirRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pacer{rate: 1 << 20}
		began, done := time.Now(), make(chan error, 2)
		for range 2 {
			go func() {
				var err error
				for range 80 {
					err = errors.Join(err, p.wait(t.Context(), chunkBytes))
				}
				done <- err
			}()
		}
		if err := errors.Join(<-done, <-done); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began).Round(time.Second); took != 10*time.Second {
			t.Errorf("10 MiB took %v at 1 MiB/s, want 10 s", took)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := p.wait(ctx, 1); !errors.Is(err, context.Canceled) {
			t.Errorf("wait after the end = %v, want %v", err, context.Canceled)
		}
	})
}

func TestF37NewerConnectionTakesOverFromADeadOne(t *testing.T) {
	var r receiver
	conn := func(name string, term uint64) *incoming {
		in := &incoming{name: name, term: term, done: make(chan struct{})}
		in.stop = func() { go r.leave(in) }
		return in
	}
	first := conn("h1", 5)
	for _, next := range []*incoming{first, conn("h1", 5), conn("h2", 6)} {
		if err := r.enter(t.Context(), next); err != nil || r.current != next {
			t.Fatalf("%s in term %d: %v; want it let in", next.name, next.term, err)
		}
	}
	if err := r.enter(t.Context(), conn("h1", 5)); !errors.Is(err, errBusyReceiving) {
		t.Errorf("an earlier leader's connection: %v, want %v", err, errBusyReceiving)
	}
}

func TestF37PartOfAnotherCopyIsDroppedAndOneThatNobodyGoesOnWithExpires(t *testing.T) {
	dir := t.TempDir()
	var r receiver
	now := time.Now()
	files := func() int {
		list, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	a, b := offer{ID: copyID{1}, Size: 10}, offer{ID: copyID{2}, Size: 10}
	p, err := newPartCopy(dir, a)
	if err != nil {
		t.Fatal(err)
	}
	r.park(p, now)
	if got, stale := r.take(a); got != p || stale != nil {
		t.Errorf("the same copy: part %v, stale %v; want it back", got, stale)
	}
	r.park(p, now)
	if got := r.expired(now.Add(time.Minute-1), time.Minute); got != nil {
		t.Error("expired too soon")
	}
	if got := r.expired(now.Add(time.Minute), time.Minute); got != p {
		t.Errorf("expired = %v, want the part after a minute", got)
	}
	r.park(p, now)
	got, stale := r.take(b)
	if got != nil || stale != p {
		t.Fatalf("another copy: part %v, stale %v; want the old one to be dropped", got, stale)
	}
	if err := stale.drop(); err != nil || files() != 0 {
		t.Errorf("drop: %v, %d files left; want none", err, files())
	}
}

func TestF37CopyAboveTheLimitIsNotKept(t *testing.T) {
	dir := t.TempDir()
	if _, err := holdCopy(dir, 1, nil, bytes.NewReader(make([]byte, 1000)), 999); err == nil {
		t.Error("a copy above the limit was kept")
	}
	if _, err := holdCopy(dir, 1, nil, io.MultiReader(bytes.NewReader(make([]byte, 10)), brokenReader{}), 999); err == nil {
		t.Error("a copy that could not be read was kept")
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 0 {
		t.Errorf("files = %v, %v; want none: a copy has no name", list, err)
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, fmt.Errorf("input/output error") }

func TestF37TransfersThatFailAreSpacedAndNoneIsMadeForWhoIsDown(t *testing.T) {
	r := newRig(t, 3)
	lead := r.leader()
	c, to := r.cores[lead], lead%3+1
	order := func() int {
		c.out = output{}
		r.wantSnapshot(c, to)
		return len(c.out.snapshots)
	}
	c.heard[to] = c.tick
	if order() != 1 {
		t.Fatal("no transfer to a living member")
	}
	pauses := []uint64{}
	for range 9 {
		c.onTransferEnded(snapResult{to: to, err: errNotNow})
		ended := c.tick
		for c.heard[to] = c.tick; order() == 0; c.heard[to] = c.tick {
			c.tick++
		}
		pauses = append(pauses, c.tick-ended)
	}
	if first, last := pauses[0], pauses[8]; first != 10 || last != 1280 {
		t.Errorf("pauses = %v ticks, want 10 to 1280", pauses)
	}
	c.onTransferEnded(snapResult{to: to})
	c.tick += uint64(c.cfg.ElectionTicks) + 1
	if order() != 0 {
		t.Error("a transfer to a member that was not heard of for an election time-out")
	}
	c.heard[to] = c.tick
	if order() != 1 {
		t.Error("no transfer to a member that is heard of again")
	}
}
