package fakedriver

import (
	"fmt"
	"slices"
	"sync"

	"github.com/drover-fleet/drover/agent/workload"
)

// Runtime is the simulated world of one device. Safe for concurrent use.
type Runtime struct {
	mu         sync.Mutex
	containers map[string]*workload.Container
	specs      map[string]workload.Spec
	images     map[string]bool
	registry   map[string]error // what a pull answers; absent: no such image
	down       error
	scripts    map[string][]int32 // exit codes by container name, one for each start that ends at once
	probes     map[string]int
	secrets    map[string][]workload.SecretEnv
	changed    map[int]func()
	watchers   int
	tokens     map[workload.TokenID]heldToken
	boot       int
	now        func() int64

	pulls      map[string]int
	starts     map[string]int // by container id
	violations []string
	calls      []string
}

// New makes an empty world. now gives the device's clock in Unix nanoseconds.
func New(now func() int64) *Runtime {
	return &Runtime{containers: map[string]*workload.Container{}, specs: map[string]workload.Spec{}, images: map[string]bool{},
		registry: map[string]error{}, scripts: map[string][]int32{}, probes: map[string]int{}, now: now, changed: map[int]func(){},
		tokens:  map[workload.TokenID]heldToken{},
		secrets: map[string][]workload.SecretEnv{}, pulls: map[string]int{}, starts: map[string]int{}, boot: 1}
}

// Publish makes the registry serve ref, or fail with err when err is not nil.
func (r *Runtime) Publish(ref string, err error) { r.do(func() { r.registry[ref] = err }) }

// Unpublish makes the registry unreachable for ref.
func (r *Runtime) Unpublish(ref string) { r.do(func() { delete(r.registry, ref) }) }

// AddImage puts an image on the device; DropImage takes it away.
func (r *Runtime) AddImage(ref string)  { r.do(func() { r.images[ref] = true }) }
func (r *Runtime) DropImage(ref string) { r.do(func() { delete(r.images, ref) }) }

// Script makes the next starts of the containers of this name end at once with these codes, one each.
func (r *Runtime) Script(container string, codes ...int32) {
	r.do(func() { r.scripts[container] = codes })
}

// Probe sets what an exec in containers of this name answers.
func (r *Runtime) Probe(container string, code int) { r.do(func() { r.probes[container] = code }) }

// Down makes every call fail with ErrUnavailable until Up.
func (r *Runtime) Down() { r.do(func() { r.down = workload.ErrUnavailable }); r.notify() }

// Up ends Down.
func (r *Runtime) Up() { r.do(func() { r.down = nil }); r.notify() }

// Empty drops every container, as a runtime that lost its metadata.
func (r *Runtime) Empty() { r.do(func() { clear(r.containers); clear(r.specs) }); r.notify() }

// Reboot ends every process without a trace. The records stay.
func (r *Runtime) Reboot() {
	r.do(func() {
		r.boot++
		clear(r.tokens)
		for _, c := range r.containers {
			c.State = workload.Made
		}
	})
}

// BootID is the present boot.
func (r *Runtime) BootID() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprintf("boot-%d", r.boot)
}

// Exit ends the processes of the containers of this name.
func (r *Runtime) Exit(container string, code int32) {
	r.do(func() {
		for _, c := range r.containers {
			if c.Name == container && c.State == workload.Running {
				r.exit(c, code)
			}
		}
	})
	r.notify()
}

// KillByHand ends processes without an exit record, RemoveByHand removes the containers too, PauseByHand pauses them.
func (r *Runtime) KillByHand(container string) {
	r.each(container, func(c *workload.Container) { c.State = workload.Made })
}

// RemoveByHand removes the containers of this name, as a person would with the runtime's own tool.
func (r *Runtime) RemoveByHand(container string) {
	r.each(container, func(c *workload.Container) { delete(r.containers, c.ID) })
}

// PauseByHand pauses the containers of this name.
func (r *Runtime) PauseByHand(container string) {
	r.each(container, func(c *workload.Container) { c.State = workload.Paused })
}

// Containers is a copy of what is there, ordered by id.
func (r *Runtime) Containers() []workload.Container {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.list()
}

// Running counts the running containers of this name.
func (r *Runtime) Running(container string) int {
	n := 0
	for _, c := range r.Containers() {
		if c.Name == container && c.State == workload.Running {
			n++
		}
	}
	return n
}

// Starts counts how often a container was started, over all ids of this name.
func (r *Runtime) Starts(container string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.starts[container]
}

// Pulls counts the pulls of ref.
func (r *Runtime) Pulls(ref string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pulls[ref]
}

// Secrets are what the containers of this name were handed at their last start.
func (r *Runtime) Secrets(container string) []workload.SecretEnv {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.secrets[container]
}

// Violations are the broken invariants so far.
func (r *Runtime) Violations() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.violations)
}

// Calls are the calls so far, as "create ID".
func (r *Runtime) Calls() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.calls)
}

func (r *Runtime) do(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

func (r *Runtime) each(container string, f func(*workload.Container)) {
	r.do(func() {
		for _, c := range r.containers {
			if c.Name == container {
				f(c)
			}
		}
	})
	r.notify()
}

// notify tells watchers, outside the lock.
func (r *Runtime) notify() {
	r.mu.Lock()
	fs := make([]func(), 0, len(r.changed))
	for _, f := range r.changed {
		fs = append(fs, f)
	}
	r.mu.Unlock()
	for _, f := range fs {
		f()
	}
}

func (r *Runtime) list() []workload.Container {
	out := make([]workload.Container, 0, len(r.containers))
	for _, c := range r.containers {
		out = append(out, *c)
	}
	slices.SortFunc(out, func(a, b workload.Container) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	return out
}

func (r *Runtime) exit(c *workload.Container, code int32) {
	c.State, c.ExitCode, c.ExitedAt = workload.Exited, code, r.now()
}

// check looks for two copies: running containers of one assignment must be of one RunHash and of different names.
func (r *Runtime) check(after string) {
	seen := map[string]string{}
	for _, c := range r.containers {
		if c.State != workload.Running {
			continue
		}
		if h, ok := seen[c.UID]; ok && h != c.RunHash {
			r.violations = append(r.violations, fmt.Sprintf("after %s: assignment %s runs as %s and %s at once", after, c.UID, h, c.RunHash))
		}
		seen[c.UID] = c.RunHash
		key := c.UID + "/" + c.Name
		if id, ok := seen[key]; ok {
			r.violations = append(r.violations, fmt.Sprintf("after %s: container %s runs twice, as %s and %s", after, key, id, c.ID))
		}
		seen[key] = c.ID
	}
}

func (r *Runtime) start(id string, run workload.Run, secrets []workload.SecretEnv) error {
	c := r.containers[id]
	if c == nil {
		return fmt.Errorf("start %s: no such container", id)
	}
	switch {
	case c.State == workload.Paused:
		c.State = workload.Running
		return nil
	case c.State == workload.Running && c.Run.Number == run.Number:
		return nil
	case c.State == workload.Running:
		return fmt.Errorf("start %s: runs already as run %d", id, c.Run.Number)
	}
	c.Run, c.State, c.OOM = run, workload.Running, false
	r.starts[c.Name]++
	r.secrets[c.Name] = secrets
	r.check("start " + id)
	if codes := r.scripts[c.Name]; len(codes) > 0 {
		r.scripts[c.Name] = codes[1:]
		r.exit(c, codes[0])
	}
	return nil
}
