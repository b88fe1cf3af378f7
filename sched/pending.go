package sched

import (
	"slices"
	"sync"

	"github.com/drover-fleet/drover/client/cache"
)

// pending is which workloads wait for a pass, and which would only be refused again. Safe for concurrent use.
type pending struct {
	mu sync.Mutex
	// due maps each workload that waits to the newest revision that made it.
	due map[cache.Key]string
	// blocked have copies that found no device. They are not due until something relevant changes.
	blocked map[cache.Key]bool
	wake    chan struct{} // one slot
}

func newPending() *pending {
	return &pending{due: map[cache.Key]string{}, blocked: map[cache.Key]bool{}, wake: make(chan struct{}, 1)}
}

// add makes a workload due.
func (p *pending) add(key cache.Key, cause string) {
	p.mu.Lock()
	p.addLocked(key, cause)
	p.mu.Unlock()
	p.signal()
}

func (p *pending) addLocked(key cache.Key, cause string) {
	if old, ok := p.due[key]; !ok || cache.Newer(cause, old) {
		p.due[key] = cause
	}
}

// unblock makes due all that found no device: something changed that may let them.
func (p *pending) unblock(cause string) {
	p.mu.Lock()
	n := len(p.blocked)
	for key := range p.blocked {
		p.addLocked(key, cause)
	}
	clear(p.blocked)
	p.mu.Unlock()
	if n > 0 {
		p.signal()
	}
}

func (p *pending) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// job is one workload of a pass.
type job struct {
	key   cache.Key
	cause string
}

// take gives out all that is due, by name. They are taken to be blocked until settle says otherwise, so that what unblocks
// while the pass runs is not lost.
func (p *pending) take() []job {
	p.mu.Lock()
	defer p.mu.Unlock()
	jobs := make([]job, 0, len(p.due))
	for key, cause := range p.due {
		jobs = append(jobs, job{key, cause})
		p.blocked[key] = true
	}
	clear(p.due)
	slices.SortFunc(jobs, func(a, b job) int { return a.key.Compare(b.key) })
	return jobs
}

// settle records that nothing of the workload waits for a device.
func (p *pending) settle(key cache.Key) {
	p.mu.Lock()
	delete(p.blocked, key)
	p.mu.Unlock()
}
