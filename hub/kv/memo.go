package kv

import (
	"sync"

	"github.com/drover-fleet/drover/store"
)

const (
	memoEntries = 32
	memoBytes   = 16 << 10 // of one body: what is larger is encoded for each watcher
)

// memo keeps the newest encoded batches, so that many watchers of one range, on whatever connections, cost one encoding. They
// move in step, so few are enough.
type memo struct {
	mu   sync.Mutex // guards below
	ring [memoEntries]memoEntry
	next int
}

// memoKey is all that the bytes of a batch follow from: at one revision a range has one batch, or a mark without events.
type memoKey struct {
	start, end string
	previous   bool
	revision   store.Revision
	events     int
}

type memoEntry struct {
	key  memoKey
	body []byte // shared by all who send it: never changed
}

func (m *memo) encode(rq *watchRequest, b *store.Batch) ([]byte, error) {
	key := memoKey{rq.Start, string(rq.End), rq.Previous, b.Revision, len(b.Events)}
	if body := m.find(key); body != nil {
		return body, nil
	}
	body, err := encode(batchOf(b, rq.Previous))
	if err != nil || len(body) > memoBytes {
		return body, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ring[m.next] = memoEntry{key, body}
	m.next = (m.next + 1) % memoEntries
	return body, nil
}

func (m *memo) find(key memoKey) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.ring {
		if m.ring[i].key == key {
			return m.ring[i].body
		}
	}
	return nil
}
