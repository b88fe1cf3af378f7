package agent

import (
	"sync"

	"github.com/drover-fleet/drover/api/wire"
)

// Bounds of what waits for the loop; beyond them the oldest is dropped, since the hub says it again.
const (
	maxBodiesWaiting   = 8
	maxCommandsWaiting = 64
)

// inbox is what waits for the loop: one slot for what has a latest value, short lists for the rest. OpDone is bounded by the
// ops under way. Safe for concurrent use.
type inbox struct {
	ready chan struct{} // one slot

	mu       sync.Mutex
	desired  *DesiredReceived
	bodies   []Event
	commands []Event
	acked    *JournalAcked
	facts    *FactsChanged
	hub      *HubChanged
	changed  bool
	done     []Event
}

func newInbox() *inbox { return &inbox{ready: make(chan struct{}, 1)} }

// put changes what waits and wakes the loop.
func (b *inbox) put(f func()) {
	b.mu.Lock()
	f()
	b.mu.Unlock()
	select {
	case b.ready <- struct{}{}:
	default:
	}
}

// drain takes everything: answers first, then what came from the hub in the order in which it depends on each other.
func (b *inbox) drain() []Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.done
	if b.changed {
		out = append(out, RuntimeChanged{})
	}
	if b.facts != nil {
		out = append(out, *b.facts)
	}
	if b.hub != nil {
		out = append(out, *b.hub)
	}
	if b.desired != nil {
		out = append(out, *b.desired)
	}
	out = append(out, b.bodies...)
	out = append(out, b.commands...)
	if b.acked != nil {
		out = append(out, *b.acked)
	}
	b.done, b.changed, b.facts, b.hub, b.desired, b.bodies, b.commands, b.acked = nil, false, nil, nil, nil, nil, nil, nil
	return out
}

func (b *inbox) putDone(d OpDone) { b.put(func() { b.done = append(b.done, d) }) }
func (b *inbox) putChanged()      { b.put(func() { b.changed = true }) }

func (b *inbox) putDesired(d DesiredReceived) { b.put(func() { b.desired = &d }) }

func (b *inbox) putBodies(r wire.BodiesReply) {
	b.put(func() { b.bodies = bounded(append(b.bodies, BodiesReceived{r}), maxBodiesWaiting) })
}

func (b *inbox) putCommand(c wire.Command) {
	b.put(func() { b.commands = bounded(append(b.commands, CommandReceived{c}), maxCommandsWaiting) })
}

func (b *inbox) putAcked(seq uint64) {
	b.put(func() {
		if b.acked == nil || b.acked.Sequence < seq {
			b.acked = &JournalAcked{seq}
		}
	})
}

func bounded(list []Event, limit int) []Event {
	if n := len(list) - limit; n > 0 {
		return list[n:]
	}
	return list
}
