package workload

import (
	"time"

	"github.com/drover-fleet/drover/api/retry"
	"github.com/drover-fleet/drover/api/wire"
)

// Times of the restart back-off.
const (
	BackoffBase = 10 * time.Second // ceiling of the first wait
	BackoffMax  = 5 * time.Minute  // ceiling of every wait
	StableAfter = 10 * time.Minute // a run this long forgets the failures before it
	retryMax    = 30 * time.Second // of stop and remove, which are never given up
)

// Memory is what the agent remembers of one assignment across its own restarts. It is written to disk when it changes.
type Memory struct {
	// Of what runs; during an update the old one until the new one took its place.
	SpecHash wire.Hash `cbor:"1,keyasint,omitempty"`
	Revision string    `cbor:"2,keyasint,omitempty"`
	RunHash  string    `cbor:"3,keyasint,omitempty"`
	// Containers by id in the runtime.
	Containers map[string]*ContainerMemory `cbor:"4,keyasint,omitempty"`
}

// ContainerMemory is what is remembered of one container.
type ContainerMemory struct {
	Began    uint32        `cbor:"1,keyasint,omitempty"`  // highest run seen running
	Counted  uint32        `cbor:"2,keyasint,omitempty"`  // highest run whose end was counted
	Earlier  uint32        `cbor:"3,keyasint,omitempty"`  // runs of the same container before it was removed by hand
	Failures uint32        `cbor:"4,keyasint,omitempty"`  // ends and failed starts in a row
	NextBoot string        `cbor:"5,keyasint,omitempty"`  // boot in which Next counts; another boot starts at once
	Next     time.Duration `cbor:"6,keyasint,omitempty"`  // since boot: not started before
	NextWall int64         `cbor:"7,keyasint,omitempty"`  // the same as a label
	Last     *Exit         `cbor:"8,keyasint,omitempty"`  // the last end
	Done     bool          `cbor:"9,keyasint,omitempty"`  // ended, and the policy does not start it again
	Message  string        `cbor:"10,keyasint,omitempty"` // why the last start failed
	Ready    bool          `cbor:"11,keyasint,omitempty"` // by the probe, of run ReadyRun
	ReadyRun uint32        `cbor:"12,keyasint,omitempty"`
	ReadyBy  string        `cbor:"13,keyasint,omitempty"` // the probe that said so
	// Leaving: the agent decided to stop or remove it. Noted before that is done, so that what then is gone is no drift, and
	// that what is wanted again later is made anew with a fresh memory.
	Leaving bool `cbor:"14,keyasint,omitempty"`

	tries   uint32        // of stop and remove in a row, in this life of the agent
	retryAt time.Duration // since boot
}

// Exit is how a container ended.
type Exit struct {
	Code   int32  `cbor:"1,keyasint"`
	Reason string `cbor:"2,keyasint"` // Completed, Error, OOMKilled
	At     int64  `cbor:"3,keyasint"` // device's clock; a label
}

// Now is a moment. Boot is the time since boot, which runs on while suspended and which nobody can set; all waits are
// counted on it. Wall is a label.
type Now struct {
	BootID string
	Boot   time.Duration
	Wall   int64 // Unix nanoseconds
}

// waiting tells until when the next start waits; false when it may start now. A wait of another boot is over.
func (m *ContainerMemory) waiting(now Now) (time.Duration, bool) {
	if m.NextBoot != now.BootID || m.Next <= now.Boot || m.Next > now.Boot+BackoffMax {
		return 0, false
	}
	return m.Next, true
}

// failed counts one end or failed start and sets the wait.
func (m *ContainerMemory) failed(now Now, random retry.Random) {
	m.Failures++
	p := retry.Policy{Base: BackoffBase, Max: BackoffMax}
	wait := p.Delay(int(m.Failures), random)
	m.NextBoot, m.Next, m.NextWall = now.BootID, now.Boot+wait, now.Wall+int64(wait)
}

// settle is how long a run must last before it counts as up again after so many failures: as long as the wait before it
// could be, so that a crash loop is shown as one and does not flap.
func (m *ContainerMemory) settle() time.Duration {
	if m.Failures == 0 {
		return 0
	}
	return retry.Policy{Base: BackoffBase, Max: BackoffMax}.Ceiling(int(m.Failures))
}

// restarts is how many starts there were after the first.
func (m *ContainerMemory) restarts(run uint32) uint32 {
	if n := m.Earlier + run; n > 0 {
		return n - 1
	}
	return 0
}

// ActionFailed records that an action failed, and returns when to try again (since boot). Only Create and Start count as
// failures of the container.
func (m *Memory) ActionFailed(a Action, err error, now Now, random retry.Random) time.Duration {
	c := m.of(a.ID)
	switch a.Kind {
	case Create, Start:
		c.Message = Plain(err.Error())
		c.failed(now, random)
		return c.Next
	default:
		c.tries++
		wait := retry.Policy{Base: time.Second, Max: retryMax}.Delay(int(c.tries), random)
		c.retryAt = now.Boot + wait
		return c.retryAt
	}
}

// ActionDone records that an action succeeded.
func (m *Memory) ActionDone(a Action) {
	c := m.of(a.ID)
	c.tries, c.retryAt = 0, 0
	if a.Kind == Start {
		c.Message = ""
	}
}

func (m *Memory) of(id string) *ContainerMemory {
	if m.Containers == nil {
		m.Containers = map[string]*ContainerMemory{}
	}
	c := m.Containers[id]
	if c == nil {
		c = &ContainerMemory{}
		m.Containers[id] = c
	}
	return c
}
