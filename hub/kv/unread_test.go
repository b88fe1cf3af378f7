package kv_test

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/drover-fleet/drover/api/wire"
	"github.com/drover-fleet/drover/hub/kv"
	"github.com/drover-fleet/drover/store"
)

// counted counts the reads that the store is asked for.
type counted struct {
	kv.Backend
	ranges atomic.Int64
}

func (c *counted) Range(ctx context.Context, r store.RangeRequest) (*store.RangeResult, error) {
	c.ranges.Add(1)
	return c.Backend.Range(ctx, r)
}

// TestAnswersThatNobodyReadsAreNotMade: a connection asks for far more than it takes off. What it has in memory stays within a few large
// answers, however much it asks for; what it asked for comes once it reads.
func TestAnswersThatNobodyReadsAreNotMade(t *testing.T) {
	backend := &counted{}
	m := serve(t, func(b kv.Backend) kv.Backend { backend.Backend = b; return backend })
	for _, k := range []string{"big/1", "big/2", "big/3", "big/4"} {
		if res, err := m.local.Propose(t.Context(), put(k, strings.Repeat("x", 1<<20))); err != nil || res.Err != nil {
			t.Fatal(err, res.Err)
		}
	}
	config := m.config(wire.OrgHubs)
	config.NextProtos = []string{kv.Protocol}
	conn, err := (&tls.Dialer{Config: config}).DialContext(t.Context(), "tcp", m.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	body, err := cbor.Marshal([]any{"big/", []byte("big0"), 0, 0, true})
	if err != nil {
		t.Fatal(err)
	}
	const asked = 40 // answers of 4 MiB
	for i := range asked {
		rq := binary.BigEndian.AppendUint32(nil, uint32(len(body)+9))
		rq = append(binary.BigEndian.AppendUint64(rq, uint64(i+1)), 2)
		if _, err := conn.Write(append(rq, body...)); err != nil {
			t.Fatal(err)
		}
	}
	const most = 30 // lanes, what waits in the outbox and what the kernel holds
	steady, last := 0, int64(-1)
	for tick := time.NewTicker(50 * time.Millisecond); steady < 10; <-tick.C {
		now := backend.ranges.Load()
		if steady++; now != last {
			steady, last = 0, now
		}
		if now > most {
			t.Fatalf("the store was read %d times for answers that nobody takes, want %d at most", now, most)
		}
	}
	for i := range asked {
		if err := skipFrame(conn); err != nil {
			t.Fatalf("answer %d: %v", i+1, err)
		}
	}
	if n := backend.ranges.Load(); n != asked {
		t.Errorf("got %d reads in the end, want %d", n, asked)
	}
}

func skipFrame(r io.Reader) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	_, err := io.CopyN(io.Discard, r, int64(binary.BigEndian.Uint32(head[:])))
	return err
}
