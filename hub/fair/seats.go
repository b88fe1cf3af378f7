package fair

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/drover-fleet/drover/api/fault"
)

// Class is a kind of requests with seats of its own.
type Class string

// The classes.
const (
	Members    Class = "members"    // hub members among themselves
	Devices    Class = "devices"    // the device protocol, its long polls aside
	Operations Class = "operations" // what admins ask of the hub itself
	People     Class = "people"     // persons, admins too, on objects
	Automation Class = "automation" // service accounts
	Strangers  Class = "strangers"  // enrollment, joins, whoever shows no certificate or token
)

// Classes lists them.
func Classes() []Class { return []Class{Members, Devices, Operations, People, Automation, Strangers} }

// Reasons of refusals, for who counts.
const (
	ReasonQueueFull = "queue_full"
	ReasonQueueWait = "queue_wait"
	ReasonShare     = "lasting" // too many watches, logs or polls
)

// MaxCost is the most seats that one request takes.
const MaxCost = 16

// quantum is how many seats a queue may take at its turn.
const quantum = 4

// Config of Seats. A zero field takes its default.
type Config struct {
	Seats map[Class]int // default: see seatsOf
	Queue int           // requests of one flow that wait; default 256
	Line  int           // requests of one class that wait; default 20,000: a fleet that comes back at once
	Wait  time.Duration // longest wait; default 10 s
	// Refused, when set, hears of each refusal by its reason. It must not block.
	Refused func(reason string)
}

// seatsOf are for two cores: a request that waits for the disk needs no processor, and one that needs it costs many.
func seatsOf(c Class) int {
	switch c {
	case Devices:
		return 256
	case People:
		return 128
	case Members, Automation:
		return 64
	case Operations:
		return 32
	}
	return 16
}

// Seats divides a member's attention. It is safe for concurrent use.
type Seats struct {
	cfg     Config
	classes map[Class]*class // never changed
}

// New makes the seats, all free.
func New(cfg Config) *Seats {
	if cfg.Queue <= 0 {
		cfg.Queue = 256
	}
	if cfg.Line <= 0 {
		cfg.Line = 20_000
	}
	if cfg.Wait <= 0 {
		cfg.Wait = 10 * time.Second
	}
	if cfg.Refused == nil {
		cfg.Refused = func(string) {}
	}
	s := &Seats{cfg: cfg, classes: map[Class]*class{}}
	for _, c := range Classes() {
		n := cfg.Seats[c]
		if n <= 0 {
			n = seatsOf(c)
		}
		s.classes[c] = &class{name: c, seats: n, share: max(1, n/2), flows: map[string]*flow{}}
	}
	return s
}

// class has its seats and those who wait for them.
type class struct {
	name         Class
	seats, share int // share: the most that one flow holds

	mu      sync.Mutex // guards below
	used    int
	waiting int
	flows   map[string]*flow // with seats or waiters
	ring    []*flow          // with waiters; at is whose turn it is
	at      int
}

type flow struct {
	name    string
	used    int
	queue   []*waiter
	deficit int
	visited bool // its quantum for this turn was given
}

type waiter struct {
	cost    int
	granted chan struct{} // closed when it has its seats
	is      bool          // granted
}

// Enter waits for seats; leave gives them back, once. The error is fault.TooManyRequests, or Timeout when ctx ended first.
func (s *Seats) Enter(ctx context.Context, of Class, flowName string, cost int) (leave func(), err error) {
	c := s.classes[of]
	f, w, err := s.queue(c, flowName, min(max(cost, 1), MaxCost, c.share))
	if err != nil {
		return nil, err
	}
	leave = sync.OnceFunc(func() { c.leave(f, w) })
	select {
	case <-w.granted: // the usual case needs no timer
		return leave, nil
	default:
	}
	timer := time.NewTimer(s.cfg.Wait)
	defer timer.Stop()
	select {
	case <-w.granted:
		return leave, nil
	case <-timer.C:
		err = fault.SlowDown(retryAfter(), "this member is busy with %s: the request waited %s for its turn", of, s.cfg.Wait)
	case <-ctx.Done():
		err = fault.Timeout.Errorf("the request ended while it waited for its turn: %w", ctx.Err())
	}
	if c.withdraw(f, w) {
		leave() // its turn came in this very moment
	}
	s.cfg.Refused(ReasonQueueWait)
	return nil, err
}

func (s *Seats) queue(c *class, name string, cost int) (*flow, *waiter, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.flows[name]
	if f == nil {
		f = &flow{name: name}
	}
	if len(f.queue) >= s.cfg.Queue || c.waiting >= s.cfg.Line {
		s.cfg.Refused(ReasonQueueFull)
		return nil, nil, fault.SlowDown(retryAfter(), "this member is busy: %d requests of yours wait already, and %d %s in all", len(f.queue), c.waiting, c.name)
	}
	w := &waiter{cost: cost, granted: make(chan struct{})}
	c.flows[name] = f
	if len(f.queue) == 0 {
		c.ring = append(c.ring, f)
	}
	f.queue = append(f.queue, w)
	c.waiting++
	c.dispatchLocked()
	return f, w, nil
}

// dispatchLocked gives free seats to those whose turn it is. A flow at its share is passed over; one for whose request there is no room
// yet keeps its turn, so that a costly request is not overtaken for ever.
func (c *class) dispatchLocked() {
	for passed := 0; passed < len(c.ring); {
		c.at %= len(c.ring)
		f := c.ring[c.at]
		w := f.queue[0]
		if f.used+w.cost > c.share {
			passed++
			c.at++
			continue
		}
		passed = 0
		if !f.visited {
			f.deficit, f.visited = f.deficit+quantum, true
		}
		if f.deficit < w.cost {
			f.visited = false
			c.at++
			continue
		}
		if c.used+w.cost > c.seats {
			return
		}
		c.used, f.used, f.deficit = c.used+w.cost, f.used+w.cost, f.deficit-w.cost
		w.is = true
		close(w.granted)
		c.dropLocked(f, 0)
	}
}

// dropLocked takes a waiter out of its flow's queue.
func (c *class) dropLocked(f *flow, i int) {
	c.waiting--
	f.queue = append(f.queue[:i], f.queue[i+1:]...)
	if len(f.queue) > 0 {
		return
	}
	f.deficit, f.visited = 0, false
	for i, other := range c.ring {
		if other == f {
			c.ring = append(c.ring[:i], c.ring[i+1:]...)
			if i < c.at {
				c.at--
			}
			break
		}
	}
	c.forgetLocked(f)
}

func (c *class) forgetLocked(f *flow) {
	if f.used == 0 && len(f.queue) == 0 && c.flows[f.name] == f {
		delete(c.flows, f.name)
	}
}

// withdraw takes back a request that waits, or tells that it was granted.
func (c *class) withdraw(f *flow, w *waiter) (granted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.is {
		return true
	}
	for i, other := range f.queue {
		if other == w {
			c.dropLocked(f, i)
			break
		}
	}
	c.dispatchLocked() // it may have been what the others waited behind
	return false
}

func (c *class) leave(f *flow, w *waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used -= w.cost
	f.used -= w.cost
	c.forgetLocked(f)
	c.dispatchLocked()
}

// retryAfter is spread, so that those who were refused together do not come back together.
func retryAfter() time.Duration { return time.Second + rand.N(4*time.Second) }

// Load is how full a class is.
type Load struct {
	Class                Class
	Seats, Used, Waiting int
}

// Load returns how full each class is.
func (s *Seats) Load() []Load {
	out := make([]Load, 0, len(s.classes))
	for _, name := range Classes() {
		c := s.classes[name]
		c.mu.Lock()
		out = append(out, Load{name, c.seats, c.used, c.waiting})
		c.mu.Unlock()
	}
	return out
}
